"""Every public ranker with its default parameters, on everyday data that are easy to separate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import datasets
from sklearn.base import clone

import rankwright as rw
from rankwright.rankers.base import rankers

# Online rankers rightly warn about rows in the order of their grades, or features of other scales.
pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.RankwrightWarning")

# What a ranker cannot do without.
NEEDED = {"RankEnsemble": {"members": [rw.RankSVM(), rw.LambdaMART()]}}
RANKERS = [ranker(**NEEDED.get(name, {})) for name, ranker in rankers().items()]


@pytest.mark.parametrize("queries", [1, 7])
@pytest.mark.parametrize("data", ["iris", "wine", "breast_cancer", "digits"])
@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: type(ranker).__name__)
def test_it_learns_finite_scores_with_its_defaults(ranker: Any, data: str, queries: int) -> None:
    X, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    qid = np.arange(len(y)) % queries
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        model = clone(ranker).fit(X, y, qid=qid)
        scores, predictions = model.decision_function(X), model.predict(X)
    assert np.isfinite(scores).all()
    assert np.isfinite(predictions).all()
    assert np.isfinite(model.score(X, y, qid=qid))
