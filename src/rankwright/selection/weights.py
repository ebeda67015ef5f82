"""Weights of an ensemble, learned on scores of held-out queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.metrics.evaluation import Evaluator
from rankwright.metrics.measure import Measure

N_RESAMPLES, N_STEPS = 25, 6
PRIOR_QUERIES = 10  # equal weights count as much as this many queries
MOST_ERRORS = 3.0  # of a standard error, below the best: such a candidate gets no equal share
MIN_WEIGHT = 0.02  # less changes no list, and costs time at every request


class EnsembleWeights(NamedTuple):
    """Weights that sum to 1, and scores of the ensemble that can be evaluated fairly.

    ``scores`` are computed for each query with the weights that were learned without it.
    """

    weights: FloatArray
    scores: FloatArray


def learn_weights(
    held_out: FloatArray, y: FloatArray, queries: IntArray, measure: Measure, seed: int
) -> EnsembleWeights:
    """Weights of several candidates, by greedy selection on resampled queries.

    In each of 25 bootstrap samples of the queries, six candidates are chosen one after the other
    (a candidate may be chosen again), each the one that makes the sum of the chosen scores best.
    How often a candidate was chosen over all samples is its weight. One greedy run overfits few
    queries; the mean over samples does not, and gives weight to every candidate that is as good as
    the best one as far as the queries can tell. With very few queries the weights are drawn toward
    equal ones.

    Parameters
    ----------
    held_out : (n_candidates, n_rows) scores, each candidate's on one scale
    y : (n_rows,) grades
    queries : (n_rows,) the query of each row, numbered from 0
    measure : what the sum should be best at
    seed : of the bootstrap samples
    """
    n_candidates, n_queries = len(held_out), int(queries.max()) + 1
    evaluator = Evaluator(y, Queries.from_ids(queries, len(y)), measure)
    known: dict[tuple[int, ...], FloatArray] = {}

    def value(counts: tuple[int, ...]) -> FloatArray:
        """The measure of each query for a sum of candidates; higher is better."""
        if counts not in known:
            values = evaluator.per_query(np.array(counts, np.float64) @ held_out)
            known[counts] = measure.sign * values
        return known[counts]

    single = np.array([value(_one(k, n_candidates)) for k in range(n_candidates)])
    defined = np.isfinite(single).all(axis=0)
    rng = np.random.default_rng(seed)
    chosen = np.zeros((N_RESAMPLES, n_candidates))
    unseen = np.zeros((N_RESAMPLES, n_queries))
    for sample in range(N_RESAMPLES):
        times = np.bincount(rng.integers(0, n_queries, n_queries), minlength=n_queries)
        unseen[sample] = times == 0
        drawn = np.flatnonzero(defined & (times > 0))
        counts = (0,) * n_candidates
        for _ in range(N_STEPS if len(drawn) else 0):
            options = [_plus_one(counts, k) for k in range(n_candidates)]
            means = [float(times[drawn] @ value(option)[drawn]) for option in options]
            counts = options[int(np.argmax(means))]
        chosen[sample] = np.array(counts) / N_STEPS
    equal = _equal_weights(single[:, defined])
    share = PRIOR_QUERIES / (PRIOR_QUERIES + int(defined.sum()))

    def blend(samples: FloatArray) -> FloatArray:
        """The weights from some of the samples, one row for each row of ``samples``."""
        found = samples @ chosen
        total = found.sum(axis=1, keepdims=True)
        found = np.where(total > 0, found / np.where(total > 0, total, 1.0), equal)
        return np.asarray((1 - share) * found + share * equal)

    weights = blend(np.ones((1, N_RESAMPLES)))[0]
    weights = np.where(weights >= min(MIN_WEIGHT, weights.max()), weights, 0.0)
    without = blend(unseen.T)  # (n_queries, n_candidates)
    scores = np.einsum("rc,cr->r", without[queries], held_out)
    return EnsembleWeights(weights / weights.sum(), scores)


def _one(k: int, n: int) -> tuple[int, ...]:
    return _plus_one((0,) * n, k)


def _plus_one(counts: tuple[int, ...], k: int) -> tuple[int, ...]:
    return (*counts[:k], counts[k] + 1, *counts[k + 1 :])


def _equal_weights(values: FloatArray) -> FloatArray:
    """Equal weights of the candidates that are not clearly worse than the best one.

    >>> _equal_weights(np.array([[0.9, 0.8, 0.9], [0.8, 0.9, 0.9], [0.0, 0.1, 0.0]]))
    array([0.5, 0.5, 0. ])
    """
    n_queries = values.shape[1]
    near = np.ones(len(values), bool)
    if n_queries > 1:
        behind = values[np.argmax(values.mean(axis=1))] - values
        error = behind.std(axis=1, ddof=1) / np.sqrt(n_queries)
        near = behind.mean(axis=1) <= MOST_ERRORS * error
    return np.asarray(near / near.sum(), np.float64)
