"""Weights of an ensemble: greedy selection on resampled queries, shrunk."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.selection.weights import learn_weights

NDCG = rw.Measure.parse("NDCG@10")


def problem(n_queries: int, noise: list[float], seed: int = 0):
    """Grades, and candidates that know them up to so much noise."""
    rng = np.random.default_rng(seed)
    queries = np.repeat(np.arange(n_queries), 12)
    signal = rng.normal(size=len(queries))
    y = np.digitize(signal, [0.3, 1.2]).astype(float)
    scores = np.array([signal + size * rng.normal(size=len(y)) for size in noise])
    return scores / scores.std(axis=1, keepdims=True), y, queries


def test_good_candidates_get_the_weight_and_bad_ones_none():
    scores, y, queries = problem(300, [0.5, 0.5, 50.0, 50.0])
    weights = learn_weights(scores, y, queries, NDCG, seed=0).weights
    assert weights.sum() == pytest.approx(1.0)
    assert weights[:2].min() > 0.3
    assert (weights[2:] == 0).all()


def test_the_ensemble_beats_each_of_several_independent_candidates():
    scores, y, queries = problem(300, [1.0, 1.0, 1.0])
    learned = learn_weights(scores, y, queries, NDCG, seed=0)
    mean = rw.evaluate(learned.scores, y, queries, [NDCG])[NDCG]
    assert all(mean > rw.evaluate(one, y, queries, [NDCG])[NDCG] + 0.01 for one in scores)


def test_with_few_queries_the_weights_are_nearly_equal():
    scores, y, queries = problem(3, [1.0, 1.2, 1.1])
    weights = learn_weights(scores, y, queries, NDCG, seed=0).weights
    assert 0.2 < weights.min() <= weights.max() < 0.6


def test_each_query_is_scored_without_weights_that_it_chose():
    """The estimate is fair: pure noise, of which a choice would find the luckiest, stays noise."""
    rng = np.random.default_rng(7)
    _, y, queries = problem(40, [1.0])
    noise = rng.normal(size=(30, len(y)))
    lucky = max(rw.evaluate(one, y, queries, [NDCG])[NDCG] for one in noise)
    random = np.mean([rw.evaluate(one, y, queries, [NDCG])[NDCG] for one in noise])
    learned = learn_weights(noise, y, queries, NDCG, seed=0)
    fair = rw.evaluate(learned.scores, y, queries, [NDCG])[NDCG]
    weighted = rw.evaluate(learned.weights @ noise, y, queries, [NDCG])[NDCG]
    assert weighted > lucky
    assert fair < random + (lucky - random) / 2


def test_losses_are_minimized():
    scores, y, queries = problem(100, [0.3, 30.0])
    weights = learn_weights(scores, y, queries, rw.Measure.parse("Disagreement"), 0).weights
    assert weights[0] > 0.8


def test_one_candidate_has_the_whole_weight():
    scores, y, queries = problem(5, [1.0])
    assert learn_weights(scores, y, queries, NDCG, seed=0).weights.tolist() == [1.0]
