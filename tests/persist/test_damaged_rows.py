"""A scorer read from a model file follows no index that points outside of a sparse matrix."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import MaxAbsScaler

import rankwright as rw
from persist.make_museum import FORMAT, MUSEUM, NEW_ROWS, models
from rankwright.exceptions import DataError
from rankwright.scoring import Linear
from rankwright.selection import progressive
from rankwright.testing.ranker import damaged_matrices


@pytest.mark.parametrize("name", dict(models()))
def test_a_damaged_matrix_is_refused_by_every_saved_scorer(name: str) -> None:
    scorer = rw.load_scorer(MUSEUM / f"format-{FORMAT}" / f"{name}.rw")
    for _, X in damaged_matrices(NEW_ROWS):
        for method in (scorer.decision_function, scorer.predict, scorer.rank):
            with pytest.raises(DataError, match="X"):
                method(X)


def test_a_scorer_without_a_file_refuses_it_too() -> None:
    for _, X in damaged_matrices(NEW_ROWS):
        with pytest.raises(DataError, match="X"):
            Linear(np.ones(NEW_ROWS.shape[1])).decision_function(X)


def test_containers_refuse_it() -> None:
    n = len(NEW_ROWS)
    y = np.arange(n)
    for _, X in damaged_matrices(NEW_ROWS):
        for make in (
            lambda X: rw.Items(X, np.zeros(n), np.zeros(n)),
            lambda X: rw.Attributes(np.arange(n), X),
            lambda X: rw.Interactions.from_csr(X),
            lambda X: list(progressive(rw.PRank(), X, np.arange(n))),
            lambda X: rw.rankers.PolynomialMap().fit(X),
            lambda X: rw.RankPipeline([("scale", MaxAbsScaler()), ("rank", rw.PRank())]).fit(X, y),
        ):
            with pytest.raises(DataError):
                make(X)
