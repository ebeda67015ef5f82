"""RankBoost against its plain twin, over random problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.pairs import Bipartite, Pairs
from rankwright.rankers.boosting.rankboost import RankBoost

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.DegenerateDataWarning")

WEIGHTS = [0.0, 0.3, 0.5, 1.0, 1.7, 2.0]


def _feedback(draw: Any, rng: np.random.Generator, n: int) -> Feedback:
    y, qid = rng.integers(0, 4, n), rng.integers(0, 3, n)
    rows = rng.permutation(n)
    low, up = rows[: n // 2], rows[n // 2 :]
    weight = rng.choice(WEIGHTS, n)
    pairs = Pairs(rng.choice(low, 6), rng.choice(up, 6), rng.random(6) + 0.1)
    grades = Grades(y, qid, sample_weight=weight, query_weight=rng.random(len(np.unique(qid))))
    bipartite = Bipartite(low, up, rng.random(len(low)), rng.random(len(up)))
    kinds: dict[str, Feedback] = {
        "grades": Grades(y, qid),
        "weighted": grades,
        "magnitude": Grades(y, qid, sample_weight=weight, magnitude=True),
        "continuous": Grades(rng.random(n), magnitude=True),
        "bipartite": bipartite,
        "sum": bipartite + 0.5 * Bipartite(up[:2], low[:2]),
        "pairs": pairs,
        "mixed": grades + 0.3 * bipartite + pairs,
    }
    return kinds[draw(st.sampled_from(sorted(kinds)))]


@st.composite
def problems(draw: Any) -> tuple[Any, Feedback]:
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, d = draw(st.integers(4, 16)), draw(st.integers(1, 3))
    X = rng.normal(size=(n, d)) if draw(st.booleans()) else rng.integers(-2, 3, (n, d)) * 1.0
    if draw(st.booleans()):
        X[rng.random((n, d)) < 0.3] = np.nan
    return X, _feedback(draw, rng, n)


options = st.fixed_dictionaries(
    {
        "criterion": st.sampled_from(["r", "z", "newton"]),
        "cumulative": st.sampled_from(["signed", True, False]),
        "default": st.sampled_from(["learned", 0, 1]),
        "max_bins": st.sampled_from([None, 255]),
        "smoothing": st.sampled_from([1e-12, 1e-3, 0.05]),
        # A callback makes training return to Python after each round.
        "callbacks": st.sampled_from([None, [lambda _: False]]),
    }
)


@settings(max_examples=120)
@given(problems(), options)
def test_every_round_takes_the_best_weak_ranking_there_is(
    follow: Any, problem: Any, options: dict[str, Any]
) -> None:
    X, feedback = problem
    if feedback.total_weight == 0:
        return
    model = RankBoost(n_estimators=12, **options).fit_feedback(X, feedback)
    twin = follow(model, X, feedback)
    assert model.decision_function(X) == pytest.approx(twin.H, abs=1e-8)


@settings(max_examples=60)
@given(problems(), options, st.sampled_from(["zero", "abstain"]))
def test_sparse_rows_are_dense_rows_with_zeros_or_nan(
    follow: Any, problem: Any, options: dict[str, Any], absent: str
) -> None:
    X, feedback = problem
    if feedback.total_weight == 0:
        return
    stored = np.random.default_rng(len(X)).random(X.shape) < 0.6
    dense = np.where(stored, X, 0.0 if absent == "zero" else np.nan)
    coordinates = np.nonzero(stored)
    csr = sparse.csr_array((X[coordinates], coordinates), shape=X.shape)
    model = RankBoost(n_estimators=8, absent=absent, **options).fit_feedback(csr, feedback)
    follow(model, dense, feedback)
    np.testing.assert_array_equal(
        model.decision_function(csr),
        RankBoost.decision_function(model, dense),
    )
