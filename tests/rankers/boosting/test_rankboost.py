"""What the paper proves or says of RankBoost, and what the estimator promises beside it."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from rankwright import EarlyStopping, ParameterError, RankBoost, TreeRanking
from rankwright.exceptions import DegenerateDataWarning
from rankwright.feedback.base import Grades
from rankwright.feedback.pair_weights import PairDistribution
from rankwright.feedback.pairs import Bipartite
from rankwright.rankers.boosting.rankboost import generalization_bound


def _problem(n: int = 300, d: int = 5, seed: int = 0, levels: int = 3) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    qid = rng.integers(0, max(1, n // 15), n)
    y = np.digitize(
        X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.normal(size=n), np.linspace(0, 2, levels - 1)
    )
    return X, y, qid


def _learned(model: RankBoost) -> list[Any]:
    return [model.feature_, model.threshold_, model.default_, model.alpha_, model.z_]


@pytest.mark.parametrize("criterion", ["r", "z"])
@pytest.mark.parametrize("cumulative", ["signed", True, False])
def test_the_ranking_loss_stays_below_the_product_of_z_after_every_round(
    criterion: str, cumulative: Any
) -> None:
    X, y, qid = _problem()
    model = RankBoost(n_estimators=60, criterion=criterion, cumulative=cumulative).fit(
        X, y, qid=qid
    )
    pairs = PairDistribution(Grades(y, qid), len(y))
    losses = [sum(pairs.disorder(s[pairs.rows])) for s in model.staged_decision_function(X)]
    assert (np.array(losses) <= np.cumprod(model.z_) + 1e-12).all()


def test_no_round_raises_the_bound() -> None:
    X, y, qid = _problem()
    for criterion in ("r", "z"):
        assert (RankBoost(criterion=criterion).fit(X, y, qid=qid).z_ <= 1.0).all()


def test_the_exact_criterion_trains_lower_than_the_fast_one() -> None:
    X, y, qid = _problem()
    fast, exact = (
        RankBoost(n_estimators=40, criterion=c, cumulative=False).fit(X, y, qid=qid) for c in "rz"
    )
    assert exact.training_bound_ < fast.training_bound_


@pytest.mark.parametrize("criterion", ["r", "z"])
def test_bipartite_feedback_equals_its_pairs(criterion: str) -> None:
    X, y, _ = _problem(60, levels=2)
    two = Bipartite(np.flatnonzero(y == 0), np.flatnonzero(y == 1))
    model = RankBoost(n_estimators=15, criterion=criterion, smoothing=1e-3)
    short = model.fit_feedback(X, two).decision_function(X)
    long = model.fit_feedback(X, two.to_pairs()).decision_function(X)
    np.testing.assert_allclose(short, long, atol=1e-9)


@pytest.mark.parametrize("criterion", ["r", "z"])
def test_magnitude_weights_equal_weighted_pairs(criterion: str) -> None:
    X, y, qid = _problem(80, levels=5)
    grades = Grades(y, qid, magnitude=True)
    model = RankBoost(n_estimators=15, criterion=criterion, smoothing=1e-3)
    short = model.fit_feedback(X, grades).decision_function(X)
    long = model.fit_feedback(X, grades.to_pairs()).decision_function(X)
    np.testing.assert_allclose(short, long, atol=1e-9)


@pytest.mark.parametrize("magnitude", [True, False])
def test_many_grades_in_one_list_equal_their_pairs(magnitude: bool) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    grades = Grades(rng.normal(size=90) + np.nan_to_num(X[:, 0]), magnitude=magnitude)
    model = RankBoost(n_estimators=12, criterion="z", smoothing=1e-3, max_bins=None)
    short = model.fit_feedback(X, grades).decision_function(X)
    long = model.fit_feedback(X, grades.to_pairs()).decision_function(X)
    np.testing.assert_allclose(short, long, atol=1e-9)


@pytest.mark.parametrize(("criterion", "n_estimators"), [("r", 5000), ("z", 1000)])
def test_very_many_rounds_on_separable_data_stay_finite(criterion: str, n_estimators: int) -> None:
    X = np.column_stack([np.arange(24.0), np.tile([0.0, 1.0], 12)])
    y, qid = np.arange(24) // 4 % 3, np.repeat([0, 1], 12)
    model = RankBoost(n_estimators=n_estimators, criterion=criterion, smoothing=1e-12)
    model.fit(X, y, qid=qid)
    scores = model.decision_function(X)
    assert len(model.alpha_) == n_estimators
    assert np.isfinite(scores).all()
    assert np.isfinite(model.alpha_).all()
    assert model.train_rloss_ == 0.0


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (3000, 67)),
        ({}, (101_000, 2)),  # many rows are summed part by part
        ({"max_bins": None}, (3000, 67)),
        ({"criterion": "z"}, (3000, 67)),
        ({"estimator": "value"}, (3000, 67)),
        ({"estimator": TreeRanking()}, (3000, 67)),
        ({"weighting": "NDCG"}, (3000, 67)),
        ({"weighting": "NDCG"}, (101_000, 2)),
    ],
    ids=str,
)
def test_the_number_of_threads_does_not_change_a_bit(
    options: dict[str, Any], shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, qid = _problem(*shape)
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    found = []
    for threads in "1", "2", "5":
        monkeypatch.setitem(os.environ, "RANKWRIGHT_THREADS", threads)
        model = RankBoost(n_estimators=5, **options).fit(X, y, qid=qid)
        found.append((model.alpha_, model.z_, model.decision_function(X)))
    for other in found[1:]:
        for one, another in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, another)


def test_with_fewer_values_than_bins_binned_and_exact_training_are_the_same() -> None:
    X, y, qid = _problem(400)
    X = X.round(1)
    binned, exact = (RankBoost(max_bins=bins).fit(X, y, qid=qid) for bins in (255, None))
    for one, another in zip(_learned(binned), _learned(exact), strict=True):
        np.testing.assert_allclose(one, another, rtol=1e-9)


def test_a_few_bins_lose_little() -> None:
    X, y, qid = _problem(2000)
    coarse, exact = (RankBoost(max_bins=bins).fit(X, y, qid=qid) for bins in (16, None))
    assert coarse.score(X, y, qid) > exact.score(X, y, qid) - 0.02


def test_sparse_rows_give_the_same_model_as_dense_ones_when_there_are_bins() -> None:
    X, y, qid = _problem(500)
    X[np.abs(X) < 0.7] = 0.0
    dense = RankBoost(max_bins=20).fit(X, y, qid=qid).decision_function(X)
    rows = sparse.csr_array(X)
    model = RankBoost(max_bins=20).fit(rows, y, qid=qid)
    np.testing.assert_allclose(model.decision_function(rows), dense, atol=1e-9)


@pytest.mark.parametrize("cumulative", [True, "signed"])
def test_contributions_are_monotone_when_cumulative(cumulative: Any) -> None:
    X, y, qid = _problem(600, levels=4)
    X[:, 2] = -X[:, 0] + 0.1 * X[:, 2]
    model = RankBoost(n_estimators=80, cumulative=cumulative).fit(X, y, qid=qid)
    for feature in range(X.shape[1]):
        steps = np.diff(model.contribution(feature).value)
        assert (steps >= -1e-12).all() or (cumulative == "signed" and (steps <= 1e-12).all())
    assert cumulative is True or (np.diff(model.contribution(2).value) < 0).any()


def test_scores_are_the_sum_of_the_contributions() -> None:
    X, y, qid = _problem()
    X[::7, 1] = np.nan
    model = RankBoost(n_estimators=30).fit(X, y, qid=qid)
    total = sum(model.contribution(f)(X[:, f]) for f in range(X.shape[1]))
    np.testing.assert_allclose(model.decision_function(X), total, atol=1e-12)


def test_an_explanation_adds_up_to_the_difference_of_the_scores() -> None:
    X, y, qid = _problem()
    for weak in "threshold", "value", TreeRanking():
        model = RankBoost(n_estimators=20, estimator=weak).fit(X, y, qid=qid)
        why = model.explain(X[0], X[1])
        scores = model.decision_function(X[:2])
        assert why.difference == pytest.approx(scores[0] - scores[1])
        assert sum(c.amount for c in why.contributions) == pytest.approx(why.difference)
        sizes = [abs(c.amount) for c in why.contributions]
        assert sizes == sorted(sizes, reverse=True)


def test_staged_scores_end_at_the_scores() -> None:
    X, y, qid = _problem()
    for weak in "threshold", "value", TreeRanking():
        model = RankBoost(n_estimators=12, estimator=weak).fit(X, y, qid=qid)
        *_, last = model.staged_decision_function(X)
        np.testing.assert_allclose(last, model.decision_function(X), atol=1e-10)


def test_importances_are_shares_and_find_the_feature_that_matters() -> None:
    X, y, qid = _problem()
    for weak in "threshold", "value", TreeRanking():
        shares = RankBoost(estimator=weak, n_estimators=30).fit(X, y, qid=qid).feature_importances_
        assert shares.sum() == pytest.approx(1.0)
        assert shares.argmax() == 0


def test_theorem_three_is_infinite_on_small_data_and_falls_with_the_rows() -> None:
    X, y, _ = _problem(200, levels=2)
    model = RankBoost(n_estimators=3).fit(X, y)
    assert model.generalization_bound(0.05) == np.inf
    model.n_lower_ = model.n_upper_ = 10**8
    near, far = model.generalization_bound(0.05), model.generalization_bound(0.05, d=50)
    assert model.train_rloss_ < near < far < 1.0
    with pytest.raises(ParameterError, match="delta must be a number > 0"):
        model.generalization_bound(0.0)


@pytest.mark.parametrize("n_rows", [10**5, 10**6, 10**7])
def test_theorem_three_never_falls_in_the_number_of_rounds(n_rows: int) -> None:
    bounds = [generalization_bound(0.1, n_rows, n_rows, T, 0.05, 9) for T in range(1, 4000)]
    assert bounds == sorted(bounds)
    assert bounds[-1] == np.inf


@pytest.mark.parametrize("criterion", ["r", "z", "newton"])
def test_rows_that_every_round_ties_have_equal_scores(criterion: str) -> None:
    """Training loss and ties are those of exact sums, also where values are missing."""
    for seed in range(120):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 6, (int(rng.integers(8, 30)), int(rng.integers(1, 4)))).astype(float)
        X[rng.random(X.shape) < 0.3] = np.nan
        y = rng.integers(0, 3, len(X))
        model = RankBoost(n_estimators=30, criterion=criterion, cumulative=False).fit(X, y)
        rounds = zip(model.feature_, model.threshold_, model.default_, strict=True)
        h = [np.where(np.isnan(X[:, f]), default, X[:, f] > t) for f, t, default in rounds]
        votes = np.array(h).reshape(-1, len(X)).T
        scores = model.decision_function(X)
        same = (votes[:, None] == votes).all(axis=2)
        assert (scores[:, None] == scores)[same].all()
        exact = np.array([sum(Fraction(a) for a in model.alpha_[v == 1]) for v in votes])
        pairs = y[:, None] > y
        if pairs.any():
            wrong = (exact[:, None] < exact)[pairs] + 0.5 * (exact[:, None] == exact)[pairs]
            assert model.train_rloss_ == pytest.approx(wrong.mean(), abs=1e-9)


def test_a_callback_sees_every_round_and_may_end_the_training() -> None:
    X, y, qid = _problem()
    seen: list[Any] = []

    def watch(report: Any) -> bool:
        seen.append(report)
        return bool(report.number == 7)

    model = RankBoost(n_estimators=50, callbacks=[watch]).fit(X, y, qid=qid)
    assert [report.number for report in seen] == list(range(1, 8))
    assert len(model.alpha_) == 7
    assert seen[-1].bound == pytest.approx(model.training_bound_)


def test_no_progress_bar_is_drawn_where_no_terminal_is(capfd: pytest.CaptureFixture[str]) -> None:
    X, y, qid = _problem()
    RankBoost(n_estimators=3, verbose=1).fit(X, y, qid=qid)
    assert capfd.readouterr() == ("", "")


def test_early_stopping_keeps_the_rounds_up_to_the_best_one() -> None:
    X, y, qid = _problem(600)
    rule = EarlyStopping(n_iter_no_change=15, measure="NDCG@5", smoothing=0.0)
    model = RankBoost(n_estimators=300, early_stopping=rule).fit(X, y, qid=qid)
    best = int(np.argmax(model.validation_)) + 1
    assert len(model.alpha_) == len(model.z_) == best
    assert len(model.validation_) == best + 15
    assert model.training_bound_ == pytest.approx(np.prod(model.z_))


@pytest.mark.parametrize("feature", [3, -1, 0.5, "price"])
def test_the_contribution_of_a_feature_that_does_not_exist_is_refused(feature: Any) -> None:
    X, y, qid = _problem(30)
    model = RankBoost(n_estimators=3).fit(X[:, :3], y, qid=qid)
    with pytest.raises(ParameterError, match=r"a number from 0 to 2, or a name: x0, x1, x2\."):
        model.contribution(feature)
    assert model.contribution("x1").value.tolist() == model.contribution(1).value.tolist()


@pytest.mark.filterwarnings("ignore:RankBoost gives every training row the same score")
def test_features_that_say_nothing_are_reported_and_score_zero() -> None:
    X = np.ones((6, 2))
    with pytest.warns(DegenerateDataWarning, match="no weak ranking"):
        model = RankBoost().fit(X, [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(model.decision_function(X), np.zeros(6))


@pytest.mark.filterwarnings("ignore:RankBoost. no weak ranking")
def test_the_warning_about_rows_without_a_value_does_not_call_them_zeros() -> None:
    with pytest.warns(DegenerateDataWarning, match="all values of X are 0 or NaN"):
        RankBoost().fit(np.full((6, 2), np.nan), [0, 1, 0, 1, 0, 1])


def test_having_a_value_at_all_can_be_what_counts() -> None:
    X = np.array([[3.0], [3.0], [np.nan], [np.nan]])
    model = RankBoost(n_estimators=1).fit(X, [1, 1, 0, 0])
    assert model.threshold_.tolist() == [-np.inf]
    assert model.rank(X).tolist() == [1, 2, 3, 4]


def test_trees_reach_an_interaction_that_thresholds_cannot() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    flat = RankBoost(n_estimators=60).fit(X, y).score(X, y)
    deep = RankBoost(n_estimators=60, estimator=TreeRanking(max_leaf_nodes=4)).fit(X, y).score(X, y)
    assert flat < 0.75 < 0.95 < deep


def test_trees_lower_the_bound_every_round() -> None:
    X, y, qid = _problem()
    model = RankBoost(n_estimators=40, estimator=TreeRanking(learning_rate=1.0)).fit(X, y, qid=qid)
    assert (model.z_ < 1.0).all()


def test_values_as_weak_rankings_make_a_linear_score() -> None:
    X, y, qid = _problem()
    for criterion in "r", "newton":
        model = RankBoost(estimator="value", criterion=criterion, n_estimators=15).fit(
            X, y, qid=qid
        )
        middle = model.decision_function((X[:1] + X[1:2]) / 2)
        assert middle == pytest.approx(model.decision_function(X[:2]).mean())
        assert (model.z_ <= 1.0).all()


def test_the_first_method_is_at_least_as_good_as_the_third_in_its_first_round() -> None:
    X, y, qid = _problem()
    exact, fast = (
        RankBoost(estimator="value", criterion=c, n_estimators=1, smoothing=1e-12).fit(
            X, y, qid=qid
        )
        for c in ("newton", "r")
    )
    assert exact.z_[0] <= fast.z_[0] + 1e-12
