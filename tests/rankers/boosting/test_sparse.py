"""Features that most rows lack: only present values are read, and features are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from rankwright.feedback.base import Grades
from rankwright.rankers.boosting.adaboost import AdaBoostRanker
from rankwright.rankers.boosting.frank import FRank
from rankwright.rankers.boosting.rankboost import RankBoost
from rankwright.rankers.boosting.weak_learners import features, query_splitting, splitting

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.DegenerateDataWarning")


def ratings(seed: int, n_rows: int = 60, n_features: int = 25) -> tuple[Any, Any, Any]:
    """Films, each rated by some of the viewers; the last feature has a value of its own per row."""
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 6, (n_rows, n_features)).astype(float)
    X[rng.random(X.shape) < 0.85] = np.nan
    X[:, 3] = np.nan
    X[:, -1] = rng.permutation(n_rows)
    return X, rng.integers(1, 6, n_rows), rng.integers(0, 2, n_rows)


def assert_equal(one: RankBoost, other: RankBoost) -> None:
    for name in ("feature_", "threshold_", "default_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.alpha_, other.alpha_, rtol=1e-11)
    np.testing.assert_allclose(one.z_, other.z_, rtol=1e-12)
    # Weights that differ in the last bit may make a tie of a pair or break it.
    assert one.train_rloss_ == pytest.approx(other.train_rloss_, abs=2e-3)


@pytest.fixture
def entries_only(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that returns the fits of a ranker with and without ``EntryScan``."""

    def both(model: Any, *rows: Any, **queries: Any) -> tuple[Any, Any]:
        taken = []
        scan_entries = splitting.EntryScan.scan
        with monkeypatch.context() as patch:
            patch.setattr(
                splitting.EntryScan, "scan", lambda *given: taken.append(1) or scan_entries(*given)
            )
            one = clone(model).fit(*rows, **queries)
            assert taken
            taken.clear()
            patch.setattr(splitting, "FEW_ENTRIES", 0)
            other = clone(model).fit(*rows, **queries)
            assert not taken
        return one, other

    return both


@pytest.mark.parametrize("cumulative", ["signed", True, False])
@pytest.mark.parametrize("default", ["learned", 0, 1, 0.25])
@pytest.mark.parametrize("max_bins", [255, 8, None])
def test_reading_present_values_only_learns_the_same_model(
    entries_only: Any, cumulative: Any, default: Any, max_bins: Any
) -> None:
    X, y, qid = ratings(0)
    model = RankBoost(cumulative=cumulative, default=default, max_bins=max_bins, n_estimators=120)
    assert_equal(*entries_only(model, X, y, qid=qid))


def test_other_boosted_rankers_learn_the_same_model_from_present_values(entries_only: Any) -> None:
    X, y, qid = ratings(4)
    one, other = entries_only(AdaBoostRanker(n_estimators=10), X, y > 3, qid=qid)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), rtol=1e-9)
    one, other = entries_only(FRank(n_estimators=5), X, y, qid=qid)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), rtol=1e-9)


def test_rows_without_an_entry_that_abstain_are_the_same_as_nan() -> None:
    X, y, qid = ratings(1)
    where = np.nonzero(~np.isnan(X))
    rows = sparse.csr_array((X[where], where), shape=X.shape)
    model = RankBoost(absent="abstain").fit(rows, y, qid=qid)
    assert_equal(model, RankBoost().fit(X, y, qid=qid))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cumulative": True},
        {"absent": "abstain"},
        {"absent": "abstain", "default": "real"},
        {"absent": "abstain", "cumulative": "signed"},
    ],
)
@pytest.mark.parametrize("pairs", [False, True])
def test_features_that_cannot_be_best_are_left_out(
    monkeypatch: pytest.MonkeyPatch, options: Any, pairs: bool
) -> None:
    rng = np.random.default_rng(3)
    where = (np.repeat(np.arange(60), 4), rng.integers(0, 150, 240))
    X = sparse.csr_array((rng.normal(size=240), where), shape=(60, 150))
    X.data[::17] = np.nan
    feedback: Any = Grades(rng.integers(0, 3, 60), np.arange(60) // 6)
    feedback = feedback.to_pairs() if pairs else feedback
    model = RankBoost(estimator="value", criterion="newton", n_estimators=8, **options)
    expected = clone(model).fit_feedback(X, feedback)
    monkeypatch.setattr(features, "MANY_FEATURES", 0)
    monkeypatch.setattr(query_splitting, "SCANNED", 4)
    scanned = []
    gain_of = features.ValueScan._gain
    monkeypatch.setattr(
        features.ValueScan, "_gain", lambda *given: scanned.append(given[1]) or gain_of(*given)
    )
    model.fit_feedback(X, feedback)
    for name in ("feature_", "alpha_", "default_", "z_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(expected, name))
    n_defaults = 2 if options.get("absent") else 1
    assert len(scanned) < 0.7 * 8 * 150 * n_defaults or pairs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cumulative": True, "max_bins": None},
        {"absent": "abstain"},
        {"absent": "abstain", "default": "real", "criterion": "newton"},
        {"absent": "abstain", "cumulative": "signed"},
    ],
)
@pytest.mark.parametrize("kind", ["grades", "pairs", "many grades"])
def test_cuts_of_features_that_cannot_be_best_are_left_out(
    monkeypatch: pytest.MonkeyPatch, options: Any, kind: str
) -> None:
    rng = np.random.default_rng(3)
    where = (np.repeat(np.arange(60), 4), rng.integers(0, 150, 240))
    X = sparse.csr_array((rng.normal(size=240).round(1), where), shape=(60, 150))
    X.data[::17] = np.nan
    n_grades = 50 if kind == "many grades" else 3
    feedback: Any = Grades(rng.integers(0, n_grades, 60), np.arange(60) // 20)
    feedback = feedback.to_pairs() if kind == "pairs" else feedback
    model = RankBoost(**{"criterion": "z", "n_estimators": 8, **options})
    expected = clone(model).fit_feedback(X, feedback)
    monkeypatch.setattr(query_splitting, "MANY_FEATURES", 0)
    monkeypatch.setattr(query_splitting, "SCANNED", 4)
    scanned = []
    add_changes = query_splitting.PerQueryScan._add_changes
    monkeypatch.setattr(
        query_splitting.PerQueryScan,
        "_add_changes",
        lambda *given: scanned.extend(given[1].feature) or add_changes(*given),
    )
    model.fit_feedback(X, feedback)
    for name in ("feature_", "threshold_", "alpha_", "default_", "z_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(expected, name))
    assert len(scanned) < 0.5 * 8 * 150
