"""FRank against a plain twin that tries every threshold with every pair written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankwright import FRank
from rankwright.feedback.base import Grades
from rankwright.feedback.pair_losses import all_batches
from rankwright.feedback.pairs import Pairs
from rankwright.rankers.boosting.frank import FidelityLoss
from rankwright.testing.inputs import make_problem

PROBLEM = make_problem(n_queries=4, n_items=8, n_features=3)
FEEDBACK = Grades(PROBLEM.y, PROBLEM.qid)


def pair_weights(feedback: Grades) -> Any:
    """Every query counts the same, every pair of a query the same."""
    pairs = feedback.to_pairs()
    _, code, count = np.unique(pairs.query, return_inverse=True, return_counts=True)
    return pairs, 1.0 / (len(count) * count[code])


def mean_loss(scores: Any, pairs: Any, weight: Any) -> float:
    gap = scores[pairs.upper] - scores[pairs.lower]
    return float(weight @ (1 - np.sqrt(1 / (1 + np.exp(-gap)))))


def twin(X: Any, feedback: Grades, n_estimators: int) -> tuple[Any, list[float]]:
    """As printed: pairs one by one, every threshold of every feature."""
    pairs, weight = pair_weights(feedback)
    scores, losses = np.zeros(len(X)), []
    smoothing = 0.5 / feedback.n_pairs
    for _ in range(n_estimators):
        gap = scores[pairs.upper] - scores[pairs.lower]
        chance = 1 / (1 + np.exp(-gap))
        slope = weight * 0.5 * np.sqrt(chance) * (1 - chance)
        best, found = 1e-15, None
        for feature in range(X.shape[1]):
            for threshold in np.unique(X[:, feature])[:-1]:
                h = (X[:, feature] > threshold).astype(float)
                gain = slope @ (h[pairs.upper] - h[pairs.lower])
                if abs(gain) > best * (1 + 1e-9):
                    best, found = abs(gain), h
        assert found is not None
        order = found[pairs.upper] - found[pairs.lower]
        # What the scans call total: half the sum of |potential|.
        potential = np.bincount(pairs.upper, slope, len(X)) - np.bincount(
            pairs.lower, slope, len(X)
        )
        dust = smoothing * np.abs(potential).sum() / 2
        alpha = 0.5 * np.log((slope[order > 0].sum() + dust) / (slope[order < 0].sum() + dust))
        while mean_loss(scores + alpha * found, pairs, weight) >= mean_loss(scores, pairs, weight):
            alpha /= 2
        scores = scores + alpha * found
        losses.append(mean_loss(scores, pairs, weight))
    return scores, losses


@pytest.mark.parametrize("max_bins", [255, None])
def test_it_equals_the_algorithm_with_every_pair_written_out(max_bins: int | None) -> None:
    model = FRank(n_estimators=25, max_bins=max_bins).fit_feedback(PROBLEM.X, FEEDBACK)
    scores, losses = twin(PROBLEM.X, FEEDBACK, 25)
    np.testing.assert_allclose(model.losses_[1:], losses, rtol=1e-9)
    np.testing.assert_allclose(model.decision_function(PROBLEM.X), scores, atol=1e-9)


def test_the_first_loss_is_that_of_guessing() -> None:
    model = FRank(n_estimators=1).fit_feedback(PROBLEM.X, FEEDBACK)
    assert model.losses_[0] == pytest.approx(1 - np.sqrt(0.5))


def test_potentials_are_minus_the_finite_differences_of_the_loss() -> None:
    loss = FidelityLoss(all_batches(FEEDBACK, None, None, by_query=True), FEEDBACK)
    scores = np.random.default_rng(0).normal(size=len(loss.rows))
    loss._move(scores)
    potential, step = loss.potential, 1e-5
    for i in range(len(scores)):
        one = step * (np.arange(len(scores)) == i)
        change = loss._sums(scores + one)[0] - loss._sums(scores - one)[0]
        slope = 4 * change / (2 * step)  # four queries of weight one: a mean
        assert -potential[i] == pytest.approx(slope, abs=1e-7)


def test_a_split_adds_up_the_slopes_of_pairs_by_which_row_is_hit() -> None:
    by_query = all_batches(FEEDBACK, None, None)[0]
    by_pair = all_batches(FEEDBACK.to_pairs(), None, None)[0]
    rng = np.random.default_rng(0)
    scores, hit = rng.normal(size=32), rng.integers(0, 2, 32).astype(np.uint8)
    one = by_query.split(scores[by_query.rows], hit[by_query.rows], "fidelity")
    other = by_pair.split(scores[by_pair.rows], hit[by_pair.rows], "fidelity")
    assert one == pytest.approx(other)


def test_the_loss_falls_in_every_round() -> None:
    model = FRank(n_estimators=60).fit_feedback(PROBLEM.X, FEEDBACK)
    assert (np.diff(model.losses_) < 0).all()


def test_queries_count_the_same_whatever_their_number_of_pairs() -> None:
    """Ten copies of every row of a query make a hundred times the pairs, and the same model."""
    weight = np.where(PROBLEM.qid == 2, 10.0, 1.0)
    plain = FRank(n_estimators=5, max_bins=None, smoothing=1e-9).fit_feedback(PROBLEM.X, FEEDBACK)
    heavy = FRank(n_estimators=5, max_bins=None, smoothing=1e-9).fit(
        PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid, sample_weight=weight
    )
    np.testing.assert_allclose(heavy.alpha_, plain.alpha_, rtol=1e-9)


def test_it_learns_from_pairs() -> None:
    model = FRank(n_estimators=10).fit_feedback([[0.0], [1.0], [2.0]], Pairs([0, 1], [1, 2]))
    assert model.rank([[0.0], [1.0], [2.0]]).tolist() == [3, 2, 1]


def test_choice_by_loss_leaves_no_more_loss_than_by_descent() -> None:
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(80, 4)), 1)
    X[rng.random((80, 4)) < 0.1] = np.nan
    y = np.digitize(np.nan_to_num(X[:, 0]) + rng.normal(size=80), [0.0, 1.0]).astype(float)
    qid = np.repeat(np.arange(8), 10)
    descent, least = (
        FRank(n_estimators=1, choice=choice).fit(X, y, qid=qid) for choice in ("descent", "loss")
    )
    assert least.losses_[1] <= descent.losses_[1]
    longer = FRank(n_estimators=10, choice="loss", cumulative="signed").fit(X, y, qid=qid)
    assert (np.diff(longer.losses_) < 0).all()


def full_twin(X: Any, feedback: Grades, n_estimators: int) -> list[float]:
    """As printed: the lowest loss over all weak rankings, each with the published weight."""
    pairs, weight = pair_weights(feedback)
    scores, losses = np.zeros(len(X)), []
    for _ in range(n_estimators):
        chance = 1 / (1 + np.exp(-(scores[pairs.upper] - scores[pairs.lower])))
        slope = weight * 0.5 * np.sqrt(chance) * (1 - chance)
        potential = np.bincount(pairs.upper, slope, len(X)) - np.bincount(
            pairs.lower, slope, len(X)
        )
        dust = 0.5 / feedback.n_pairs * np.abs(potential).sum() / 2
        least, best = np.inf, scores
        for column in X.T:
            missing = np.isnan(column)
            cuts = [(t, q) for t in np.unique(column[~missing])[:-1] for q in (0, 1)]
            for threshold, default in [(-np.inf, 0), *cuts] if missing.any() else cuts:
                h = np.where(missing, default, column > threshold)
                order = h[pairs.upper] - h[pairs.lower]
                right, wrong = slope[order > 0].sum(), slope[order < 0].sum()
                after = scores + 0.5 * np.log((right + dust) / (wrong + dust)) * h
                if (loss := mean_loss(after, pairs, weight)) < least - 1e-12:
                    least, best = loss, after
        scores = best
        losses.append(least)
    return losses


@pytest.mark.parametrize("max_bins", [None, 255])
def test_a_full_search_takes_the_lowest_loss_of_all_weak_rankings(max_bins: Any) -> None:
    rng = np.random.default_rng(4)
    X = np.round(rng.normal(size=(40, 3)), 1)
    X[rng.random(40) < 0.2, 0] = np.nan
    y = np.digitize(np.nan_to_num(X[:, 0]) + X[:, 1] + rng.normal(size=40), [0.0, 1.0])
    feedback = Grades(y, np.repeat(np.arange(5), 8))
    model = FRank(n_estimators=6, choice="full", max_bins=max_bins).fit_feedback(X, feedback)
    np.testing.assert_allclose(model.losses_[1:], full_twin(X, feedback, 6), rtol=1e-9)
    one = FRank(n_estimators=1, choice="loss", max_bins=max_bins).fit_feedback(X, feedback)
    assert model.losses_[1] <= one.losses_[1]
    np.testing.assert_array_equal(
        FRank(n_estimators=6, choice="full", max_bins=max_bins).fit_feedback(X, feedback).alpha_,
        model.alpha_,
    )


def test_pairs_of_confidence_one_half_are_drawn_together() -> None:
    X = np.array([[0.0], [1.0], [2.0]])
    certain = Pairs([0, 1], [1, 2])
    doubtful = Pairs([0, 1], [1, 2], confidence=[1.0, 0.5])
    gaps = [
        np.diff(FRank(n_estimators=20).fit_feedback(X, pairs).decision_function(X))
        for pairs in (certain, doubtful)
    ]
    assert gaps[0][1] > gaps[1][1] + 0.5
    assert gaps[1][0] > gaps[1][1]
