"""RankNet: gradients by finite differences, the losses as printed, and steady training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from rankwright import RankNet
from rankwright.exceptions import DegenerateDataWarning
from rankwright.feedback.base import Grades
from rankwright.feedback.losses import LOSSES
from rankwright.feedback.pair_losses import QueryPairs, all_batches
from rankwright.feedback.pairs import Pairs
from rankwright.metrics.evaluation import evaluate
from rankwright.rankers.gradient import ranknet
from rankwright.rankers.gradient.ranknet import TanhNetwork
from rankwright.testing.inputs import make_problem

SMOOTH = ("logistic", "fidelity")
PROBLEM = make_problem(n_queries=3, n_items=7, n_features=3)


def grades(**options: Any) -> Grades:
    rng = np.random.default_rng(0)
    return Grades(PROBLEM.y, PROBLEM.qid, sample_weight=rng.integers(1, 4, 21), **options)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("spread", [3.0, 1000.0])
def test_sums_over_queries_equal_sums_over_written_out_pairs(
    loss: str, magnitude: bool, spread: float
) -> None:
    feedback = grades(magnitude=magnitude, query_weight=[1.0, 0.5, 2.0])
    pairs = feedback.to_pairs()
    scores = np.random.default_rng(1).normal(size=21) * spread
    own = QueryPairs.of(feedback)
    value, weight, slope = own.sums(scores[own.rows], loss)
    each, bend = LOSSES[loss].at(scores[pairs.upper] - scores[pairs.lower])
    wanted = np.bincount(pairs.upper, pairs.weight * bend, 21)
    wanted -= np.bincount(pairs.lower, pairs.weight * bend, 21)
    assert value == pytest.approx(pairs.weight @ each)
    assert weight == pytest.approx(feedback.total_weight)
    np.testing.assert_allclose(slope, wanted[own.rows], atol=1e-12)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize(("spread", "n_grades"), [(3.0, 4), (3.0, 0), (200.0, 3)])
def test_long_lists_are_summed_to_the_same_numbers(
    loss: str, magnitude: bool, spread: float, n_grades: int
) -> None:
    """Few grades, a grade for each row, and scores far apart."""
    rng, n = np.random.default_rng(1), 600 if spread < 100 else 3000
    y = rng.integers(0, n_grades, n).astype(float) if n_grades else rng.normal(size=n)
    weight, scores = rng.random(n) + 0.5, rng.random(n) * spread
    own = QueryPairs.of(Grades(y, sample_weight=weight, magnitude=magnitude))
    value, total, slope = own.sums(scores[own.rows], loss)
    gap = np.maximum(y[:, None] - y, 0.0)
    pairs = (gap if magnitude else gap > 0) * weight[:, None] * weight
    each, bend = LOSSES[loss].at(scores[:, None] - scores)
    bend *= pairs
    assert value == pytest.approx((pairs * each).sum(), rel=1e-12)
    assert total == pytest.approx(pairs.sum(), rel=1e-12)
    scale = np.abs(bend).sum(axis=1).max()
    wanted = bend.sum(axis=1) - bend.sum(axis=0)
    np.testing.assert_allclose(slope, wanted[own.rows], atol=1e-12 * scale)
    hit = rng.integers(0, 2, n).astype(np.uint8)
    right, wrong = -bend[hit == 1][:, hit == 0].sum(), -bend[hit == 0][:, hit == 1].sum()
    assert own.split(scores[own.rows], hit[own.rows], loss) == pytest.approx((right, wrong))


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("difference", [-800.0, -3.0, 0.0, 0.5, 40.0, 800.0])
def test_slopes_of_losses_are_finite_differences(loss: str, difference: float) -> None:
    function, step = LOSSES[loss].at, 1e-5
    values, slopes = function(np.array([difference - step, difference, difference + step]))
    assert slopes[1] == pytest.approx((values[2] - values[0]) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("target", [0.0, 0.3, 0.5, 1.0])
def test_slopes_with_a_target_are_finite_differences_and_vanish_there(
    loss: str, target: float
) -> None:
    function, step = LOSSES[loss].at, 1e-5
    at = np.array([-30.0, -1.0, 0.0, 2.0])
    higher, lower = function(at + step, target)[0], function(at - step, target)[0]
    np.testing.assert_allclose(function(at, target)[1], (higher - lower) / (2 * step), atol=1e-8)
    if 0 < target < 1:  # the loss is least where the chance is the target
        best = np.array([np.log(target / (1 - target))])
        assert function(best, target)[1][0] == pytest.approx(0, abs=1e-15)


def test_losses_with_a_target_are_as_printed() -> None:
    chance, target = 1 / (1 + np.exp(-0.7)), 0.2
    entropy = -target * np.log(chance) - (1 - target) * np.log(1 - chance)
    distance = 1 - np.sqrt(target * chance) - np.sqrt((1 - target) * (1 - chance))
    assert LOSSES["logistic"].at(np.array([0.7]), target)[0][0] == pytest.approx(entropy)
    assert LOSSES["fidelity"].at(np.array([0.7]), target)[0][0] == pytest.approx(distance)


@pytest.mark.parametrize("loss", SMOOTH)
def test_a_linear_network_learns_the_log_odds_of_the_confidence(loss: str) -> None:
    pairs = Pairs([0, 1], [1, 2], weight=[10, 10], confidence=[0.7, 0.5])
    model = RankNet(
        hidden_layer_sizes=(), loss=loss, alpha=0.0, max_iter=1500, random_state=0
    ).fit_feedback(np.eye(3), pairs)
    first, second, third = model.decision_function(np.eye(3))
    assert second - first == pytest.approx(np.log(0.7 / 0.3), abs=1e-3)
    assert third == pytest.approx(second, abs=1e-3)


@pytest.mark.parametrize("loss", SMOOTH)
def test_confidence_zero_is_the_opposite_preference(loss: str) -> None:
    lower, upper = np.arange(5), np.arange(5) + 6
    (doubted,) = all_batches(Pairs(lower, upper, confidence=np.zeros(5)), None, None)
    (swapped,) = all_batches(Pairs(upper, lower), None, None)
    scores = np.random.default_rng(4).normal(size=len(doubted.rows))
    hit = (scores > 0).astype(np.uint8)
    for first, second in zip(doubted.sums(scores, loss), swapped.sums(scores, loss), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-15)
    assert doubted.split(scores, hit, loss) == pytest.approx(swapped.split(scores, hit, loss))


def test_two_judges_who_disagree_are_one_pair_of_confidence_one_half() -> None:
    (both,) = all_batches(Pairs([0, 1], [1, 0]), None, None)
    (tie,) = all_batches(Pairs([0], [1], weight=[2], confidence=[0.5]), None, None)
    scores = np.array([0.3, -0.4])
    for first, second in zip(
        both.sums(scores, "logistic"), tie.sums(scores, "logistic"), strict=True
    ):
        np.testing.assert_allclose(first, second)


def test_one_single_grade_gives_equal_scores_and_a_warning() -> None:
    with pytest.warns(DegenerateDataWarning, match="no preference"):
        model = RankNet(random_state=0).fit(PROBLEM.X, np.ones(len(PROBLEM.X)), qid=PROBLEM.qid)
    assert np.unique(model.decision_function(PROBLEM.X)).tolist() == [0.0]


def test_losses_are_as_printed() -> None:
    chance = 1 / (1 + np.exp(-0.7))
    assert LOSSES["logistic"].at(np.array([0.7]))[0][0] == pytest.approx(-np.log(chance))
    assert LOSSES["fidelity"].at(np.array([0.7]))[0][0] == pytest.approx(1 - np.sqrt(chance))


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("hidden", [(), (4,), (5, 3)])
def test_the_gradient_is_that_of_finite_differences(loss: str, hidden: tuple[int, ...]) -> None:
    net = TanhNetwork([3, *hidden, 1], np.random.default_rng(2))
    (batch,) = all_batches(grades(), None, None)

    def value(weights: Any) -> float:
        net.weights = weights
        return batch.sums(net.forward(PROBLEM.X[batch.rows])[0], loss, None)[0]

    start = net.weights.copy()
    scores, values = net.forward(PROBLEM.X[batch.rows])
    found = net.gradient(values, batch.sums(scores, loss, None)[2])
    for i in range(len(start)):
        step = np.zeros(len(start))
        step[i] = 1e-5
        wanted = (value(start + step) - value(start - step)) / 2e-5
        assert found[i] == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def test_ndcg_weights_are_what_an_exchange_in_the_present_order_changes() -> None:
    rng = np.random.default_rng(3)
    y, scores = rng.integers(0, 4, 8).astype(float), rng.normal(size=8)
    own = QueryPairs.of(Grades(y))
    _, _, slope = own.sums(scores[own.rows], "logistic", "NDCG")
    wanted, ndcg = np.zeros(8), evaluate(scores, y, measures="NDCG")["NDCG"]
    for i in range(8):
        for j in range(8):
            if y[i] > y[j]:
                swapped = scores.copy()
                swapped[[i, j]] = scores[[j, i]]
                change = abs(evaluate(swapped, y, measures="NDCG")["NDCG"] - ndcg)
                bend = -1 / (1 + np.exp(scores[i] - scores[j]))
                wanted[i] += change * bend
                wanted[j] -= change * bend
    np.testing.assert_allclose(slope, wanted[own.rows], atol=1e-12)


@pytest.mark.parametrize("weighting", [None, "NDCG"])
def test_a_row_of_weight_two_weighs_as_two_rows(weighting: Any) -> None:
    rng = np.random.default_rng(5)
    y, scores = rng.integers(0, 3, 6).astype(float), rng.normal(size=6)
    weight = np.array([1, 2, 3, 1, 2, 1])
    copies = np.repeat(np.arange(6), weight)
    own, wide = QueryPairs.of(Grades(y, sample_weight=weight)), QueryPairs.of(Grades(y[copies]))
    found = own.sums(scores[own.rows], "fidelity", weighting)
    wanted = wide.sums(scores[copies][wide.rows], "fidelity", weighting)
    assert found[0] == pytest.approx(wanted[0])
    by_row = np.bincount(copies[wide.rows], wanted[2], 6)
    np.testing.assert_allclose(found[2], by_row[own.rows], atol=1e-12)


def test_pairs_as_grades_give_the_same_sums() -> None:
    (by_query,), (by_pair,) = (
        all_batches(grades(), None, None),
        all_batches(grades().to_pairs(), None, None),
    )
    scores = np.random.default_rng(1).normal(size=21)
    one = by_query.sums(scores[by_query.rows], "logistic", None)
    other = by_pair.sums(scores[by_pair.rows], "logistic", None)
    assert one[0] == pytest.approx(other[0])
    slopes = np.zeros((2, 21))
    slopes[0, by_query.rows], slopes[1, by_pair.rows] = one[2], other[2]
    np.testing.assert_allclose(slopes[0], slopes[1], atol=1e-12)


def test_a_linear_network_reaches_the_optimum_of_its_convex_problem() -> None:
    from scipy.optimize import minimize

    feedback = Grades(PROBLEM.y, PROBLEM.qid)
    X = (PROBLEM.X - PROBLEM.X.mean(0)) / PROBLEM.X.std(0)
    pairs = feedback.to_pairs()

    def objective(coef: Any) -> float:
        gap = (X[pairs.upper] - X[pairs.lower]) @ coef
        return float(np.logaddexp(0, -gap).mean() + 0.05 * coef @ coef)

    best = minimize(objective, np.zeros(3)).x
    model = RankNet(
        hidden_layer_sizes=(), alpha=0.1, max_iter=3000, learning_rate=0.005, random_state=0
    )
    coef = model.fit_feedback(PROBLEM.X, feedback).weights_ * PROBLEM.X.std(0)
    np.testing.assert_allclose(coef, best, atol=1e-3)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("weighting", [None, "NDCG"])
def test_it_learns_an_order_that_is_not_linear(loss: str, weighting: Any) -> None:
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(600, 2)), np.repeat(np.arange(30), 20)
    y = np.digitize(-np.abs(X[:, 0]), [-1.0, -0.4]).astype(float)
    model = RankNet(
        loss=loss, weighting=weighting, random_state=1, learning_rate=0.03, early_stopping=None
    )
    assert model.fit(X, y, qid=qid).score(X, y, qid=qid) > 0.9


def test_training_stops_when_held_out_queries_say_so() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 30)), rng.integers(0, 2, 300)  # nothing but noise
    model = RankNet(max_iter=500, random_state=0)
    model.fit(X, y, qid=np.repeat(np.arange(30), 10))
    assert len(model.train_losses_) == len(model.validation_) == model.n_iter_ < 500
    best = np.flatnonzero(model.validation_ == model.validation_.min())[-1]
    assert model.best_iteration_ == 1 + best == model.n_iter_ - 10


def test_few_queries_are_not_held_out() -> None:
    model = RankNet(max_iter=3, random_state=0).fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    assert model.validation_ is None
    assert len(model.train_losses_) == 3


def wide_problem(offset: float = 0.0) -> tuple[Any, Any, Any]:
    """Sparse rows, of which the first column is full and far from zero by ``offset``."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(120, 40)) * (rng.random((120, 40)) < 0.1)
    X[:, 0] = rng.normal(size=120) + offset
    y = np.digitize(X[:, 0] - offset + X[:, 1:9].sum(axis=1), [-0.5, 0.5]).astype(float)
    return X, y, np.repeat(np.arange(12), 10)


@pytest.mark.parametrize("hidden", [(), (4,), (5, 3)])
def test_sparse_rows_of_many_columns_are_learned_as_dense_ones(
    monkeypatch: pytest.MonkeyPatch, hidden: tuple[int, ...]
) -> None:
    X, y, qid = wide_problem(offset=3.0)
    weight = np.random.default_rng(8).random(120) + 0.5
    table = csr_array(X)
    ranker = RankNet(hidden_layer_sizes=hidden, max_iter=20, random_state=0)
    dense = clone(ranker).fit(table, y, qid=qid, sample_weight=weight)
    monkeypatch.setattr(ranknet, "MANY_COLUMNS", 10)
    monkeypatch.setattr(ranknet, "dense", None)  # nothing is made dense
    sparse = clone(ranker).fit(table, y, qid=qid, sample_weight=weight)
    np.testing.assert_allclose(sparse.weights_, dense.weights_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(sparse.validation_, dense.validation_, rtol=1e-9)


def test_a_wide_sparse_matrix_with_a_column_far_from_zero_is_made_dense_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y, qid = wide_problem(offset=1e8)
    ranker = RankNet(max_iter=3, random_state=0)
    dense = clone(ranker).fit(csr_array(X), y, qid=qid)
    monkeypatch.setattr(ranknet, "MANY_COLUMNS", 10)
    with pytest.warns(DegenerateDataWarning, match="the mean 1e\\+08 of a column"):
        wide = clone(ranker).fit(csr_array(X), y, qid=qid)
    np.testing.assert_array_equal(wide.weights_, dense.weights_)


def test_a_sparse_column_that_is_constant_but_for_rows_of_weight_zero_stays_sparse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y, qid = wide_problem()
    weight = np.random.default_rng(2).random(120)
    weight[::5] = 0.0
    X[:, 3] = np.where(weight > 0, 7.3, 0.0)
    ranker = RankNet(max_iter=3, random_state=0)
    dense = clone(ranker).fit(csr_array(X), y, qid=qid, sample_weight=weight)
    monkeypatch.setattr(ranknet, "MANY_COLUMNS", 10)
    monkeypatch.setattr(ranknet, "dense", None)
    sparse = clone(ranker).fit(csr_array(X), y, qid=qid, sample_weight=weight)
    np.testing.assert_allclose(sparse.weights_, dense.weights_, rtol=1e-8, atol=1e-10)


def test_many_pairs_weighted_by_ndcg_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranknet, "MANY_PAIRS", 3)
    with pytest.warns(DegenerateDataWarning, match="do not factorize"):
        RankNet(weighting="NDCG", max_iter=1).fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
