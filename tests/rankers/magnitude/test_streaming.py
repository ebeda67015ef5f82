"""MPRank.partial_fit: a stream is learned exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import rankwright as rw
from rankwright.exceptions import DataError, ParameterError


def in_chunks(model: Any, rows: Any, cuts: list[int], X: Any = None) -> Any:
    X = rows.X if X is None else X
    for start, stop in zip([0, *cuts], [*cuts, len(rows.y)], strict=True):
        part = slice(start, stop)
        some = rows.take(part).fit_arguments
        model.partial_fit(X[part], rows.y[part], **some)
    return model


@pytest.mark.parametrize("cuts", [[1, 2, 3], [7, 20, 33], []])
def test_chunks_that_cut_queries_give_the_model_of_one_fit(rows: Any, cuts: list[int]) -> None:
    whole = rw.MPRank(C=5.0).fit(rows.X, rows.y, **rows.fit_arguments)
    stream = in_chunks(rw.MPRank(C=5.0), rows, cuts)
    np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-11)
    assert stream.intercept_ == pytest.approx(whole.intercept_, rel=1e-10)
    assert stream.cost_ == pytest.approx(whole.cost_, rel=1e-9)
    assert stream.n_queries_in_ == whole.n_queries_in_


def test_sparse_chunks_are_learned_too(rows: Any) -> None:
    whole = rw.MPRank().fit(rows.X, rows.y, **rows.fit_arguments)
    stream = in_chunks(rw.MPRank(), rows, [11, 30], sparse.csr_array(rows.X))
    np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-8)


def test_a_saved_stream_goes_on_where_it_stopped(rows: Any, tmp_path: Path) -> None:
    first = rows.take(slice(0, 25))
    half = rw.MPRank().partial_fit(first.X, first.y, **first.fit_arguments)
    rw.save(half, tmp_path / "half.rw")
    rest = rows.take(slice(25, None))
    model = rw.load(tmp_path / "half.rw").partial_fit(rest.X, rest.y, **rest.fit_arguments)
    whole = rw.MPRank().fit(rows.X, rows.y, **rows.fit_arguments)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-11)


def test_partial_fit_after_fit_adds_to_it(rows: Any) -> None:
    first, rest = rows.take(slice(0, 25)), rows.take(slice(25, None))
    model = rw.MPRank().fit(first.X, first.y, **first.fit_arguments)
    model.partial_fit(rest.X, rest.y, **rest.fit_arguments)
    whole = rw.MPRank().fit(rows.X, rows.y, **rows.fit_arguments)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-11)


def test_a_fit_that_was_saved_cannot_go_on(rows: Any, tmp_path: Path) -> None:
    rw.save(rw.MPRank().fit(rows.X, rows.y), tmp_path / "m.rw")
    with pytest.raises(ParameterError, match="Start with partial_fit"):
        rw.load(tmp_path / "m.rw").partial_fit(rows.X, rows.y)


def test_a_query_keeps_its_weight() -> None:
    model = rw.MPRank().partial_fit([[1.0], [2.0]], [1, 2], qid=["a", "a"], query_weight=[2.0])
    with pytest.raises(DataError, match="came with 2 before"):
        model.partial_fit([[1.0]], [1.0], qid=["a"], query_weight=[3.0])


def test_only_the_linear_primal_streams() -> None:
    assert hasattr(rw.MPRank(), "partial_fit")
    for options in ({"kernel": "rbf"}, {"loss": "absolute"}, {"solver": "online"}):
        assert not hasattr(rw.MPRank(**options), "partial_fit")
