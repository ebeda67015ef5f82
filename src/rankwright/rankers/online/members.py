"""Members of an ensemble: tables of PRanks, or copies of any ranker as rows of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import reduce
from math import exp, factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.rankers.online.base import Examples, ThresholdRanker, kernels
from rankwright.runtime import map_blocks, n_threads, ranges

Span = tuple[int, int]
MOST_LANES = 32  # dense features up to which ``oap_lanes`` is faster


class Draws(NamedTuple):
    """Who learns from what: 53 random bits of (seed, member, example) below the q-th cutoff mean
    that the member draws the example q times or more; ``first`` examples came before."""

    seed: int
    first: int
    cutoffs: NDArray[np.uint64]


def cutoffs(sampling: str, tau: float) -> NDArray[np.uint64]:
    """The cutoffs of ``Draws``, descending.

    >>> (cutoffs("bernoulli", 0.25) / 2.0**53).tolist()
    [0.25]
    >>> (cutoffs("poisson", 1.0) / 2.0**53)[:3].round(4).tolist()
    [0.6321, 0.2642, 0.0803]
    """
    if sampling == "bernoulli":
        shares = [float(tau)]
    else:
        exactly = [exp(-1.0) / factorial(times) for times in range(24)]
        shares = [sum(exactly[times:]) for times in range(1, 20)]
    return np.array([round(share * 2**53) for share in shares], dtype=np.uint64)


class Moves(NamedTuple):
    """How far the members moved, in whole numbers.

    Attributes
    ----------
    weights : (n_examples,) how often each row was added to the weights, summed over members
    thresholds : (n_examples, n_grades - 1) by how much thresholds decreased, summed over members
    votes : (n_examples, 3, n_grades), or no rows: members that predicted each grade before the
        example; each counts one, its correct predictions so far, and the examples it has survived
    """

    weights: IntArray
    thresholds: IntArray
    votes: IntArray


class Members(NamedTuple):
    """All PRanks of an ensemble; the arrays are changed in place.

    Attributes
    ----------
    coef : (n_estimators, n_features)
    thresholds : (n_estimators, n_grades - 1)
    n_correct : (n_estimators,) correct predictions of examples that the member drew
    n_survived : (n_estimators,) the same since its last change, plus one
    """

    coef: FloatArray
    thresholds: FloatArray
    n_correct: IntArray
    n_survived: IntArray

    def learn(
        self, examples: Examples, draws: Draws, voting: bool, span: Span | None = None
    ) -> tuple[Moves, int]:
        """Every member learns from the examples that it draws; all moves, wrong predictions.

        ``span`` is (first, last + 1) of the members that learn here; None is all.
        """
        rows, n, n_thresholds = tuple(examples), len(examples.order), self.thresholds.shape[1]
        by_lanes = examples.X is None or self.coef.shape[1] <= MOST_LANES

        def run(block: tuple[int, int]) -> tuple[Moves, int]:
            moves = Moves(
                np.zeros(n, np.int64),
                np.zeros((n, n_thresholds), np.int64),
                np.zeros((n if voting else 0, 3, n_thresholds + 1), np.int64),
            )
            arguments = rows, tuple(self), *block, tuple(draws), tuple(moves)
            if by_lanes:
                tables = _tables(block[1] - block[0], self.coef.shape[1], n_thresholds)
                return moves, int(kernels("ensembles").oap_lanes(*arguments, tables))
            return moves, int(kernels("ensembles").oap_rows(*arguments))

        moves, mistakes = zip(
            *map_blocks(run, _blocks(span or (0, len(self.coef)), n)), strict=True
        )
        total = (reduce(np.add, arrays) for arrays in zip(*moves, strict=True))
        return Moves(*total), sum(mistakes)


def _tables(n_members: int, n_features: int, n_thresholds: int) -> tuple[NDArray[Any], ...]:
    """Zeros that ``oap_lanes`` keeps members in, a column each, in whole vectors of 8."""
    lanes = (n_members + 7) // 8 * 8
    floats = (np.zeros((rows, lanes)) for rows in (n_features, n_thresholds, 7))
    return *floats, np.zeros((2, lanes), np.uint64)


def _blocks(span: Span, n_examples: int) -> list[Span]:
    """One block of members for each thread; a few examples are not worth a second thread."""
    first, stop = span
    blocks = ranges(stop - first, n_threads() if n_examples > 64 else 1)
    return [(first + low, first + high) for low, high in blocks]


class Clones:
    """Copies of a ranker that has not learned yet; a state holds what one has learned since."""

    def __init__(self, template: ThresholdRanker) -> None:
        self._template = template
        own = sorted(set(template._learned) - {"classes_"})
        self._names = [name for name in own if vars(template).get(name) is not None]

    def pack(self, member: ThresholdRanker) -> FloatArray:
        """All that a member has learned, as one row of numbers."""
        values = [np.ravel(vars(member)[name]).astype(np.float64) for name in self._names]
        return np.concatenate(values)

    def unpack(self, state: FloatArray) -> ThresholdRanker:
        """The member in this state."""
        member, at = copy(self._template), 0
        for name in self._names:
            like = np.asarray(vars(self._template)[name])
            values = state[at : at + like.size].reshape(like.shape).astype(like.dtype)
            member.__dict__[name] = values if like.ndim else values.item()
            at += like.size
        return member

    def learn(
        self,
        states: FloatArray,
        counts: Sequence[IntArray],
        examples: Examples,
        draws: Draws,
        span: Span | None = None,
    ) -> int:
        """Every member learns from the examples that it draws; the number of wrong predictions.

        states : (n_estimators, n_state), changed in place
        counts : ``n_correct`` and ``n_survived`` of ``Members``, changed in place
        """
        n_correct, n_survived = counts
        n = len(examples.order)

        def run(block: tuple[int, int]) -> int:
            wrong = 0
            for m in range(*block):
                times = kernels("ensembles").draw_counts(
                    draws.seed, m, draws.first, n, draws.cutoffs
                )
                if not times.any():
                    continue
                member, drawn = self.unpack(states[m]), np.repeat(examples.order, times)
                before = member.n_mistakes_
                predictions = member._learn_examples(examples._replace(order=drawn), predict=False)
                states[m] = self.pack(member)
                mistakes = member.n_mistakes_ - before
                wrong += mistakes
                n_correct[m] += len(drawn) - mistakes
                missed = np.flatnonzero(predictions != examples.grade[drawn])
                n_survived[m] = (
                    len(drawn) - missed[-1] if len(missed) else n_survived[m] + len(drawn)
                )
            return wrong

        return sum(map_blocks(run, _blocks(span or (0, len(states)), n)))
