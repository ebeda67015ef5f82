"""Members of any kind, as copies of one ranker whose knowledge is a row of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from math import exp, factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.parallel import map_blocks, n_threads, ranges
from rankwright.rankers.online.base import Rows, RuleRanker

STRETCH = 8192  # rows between two meetings of the threads
MOST_LANES = 32  # dense features up to which serving all members at once is faster


@cache
def kernels() -> Any:
    """The compiled passes, loaded when the first row is shown."""
    from rankwright.rankers.online._kernels import ensembles as _kernels

    return _kernels


def cutoffs(sampling: str, tau: float) -> NDArray[np.uint64]:
    """53 random bits below the q-th of these: the member sees the example q times or more.

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


@dataclass(frozen=True)
class Moves:
    """What a stretch left behind, in whole numbers.

    Attributes
    ----------
    weights : (n_visits,) how often each row was added to the members' weights, in all
    thresholds : (n_visits, n_grades - 1) by how much their thresholds went down, in all
    votes : (n_visits, 3, n_grades), or none: members that predicted each grade before the visit,
        counted once, by their right answers so far, and by what their rules have survived
    mistakes : wrong answers about rows shown
    """

    weights: IntArray
    thresholds: IntArray
    votes: IntArray
    mistakes: int = 0

    @classmethod
    def none(cls, n_visits: int, n_grades: int, voting: bool) -> Moves:
        return cls(
            np.zeros(n_visits, np.int64),
            np.zeros((n_visits, n_grades - 1), np.int64),
            np.zeros((n_visits if voting else 0, 3, n_grades), np.int64),
        )

    def __add__(self, other: Moves) -> Moves:
        return Moves(
            self.weights + other.weights,
            self.thresholds + other.thresholds,
            self.votes + other.votes,
            self.mistakes + other.mistakes,
        )


@dataclass(frozen=True)
class Members:
    """The rules of all PRanks of an ensemble; arrays are changed in place.

    Attributes
    ----------
    coef : (n_estimators, n_features)
    thresholds : (n_estimators, n_grades - 1)
    n_correct : (n_estimators,) how often each was right about a row it was shown
    n_survived : (n_estimators,) the same since its last change, and one
    """

    coef: FloatArray
    thresholds: FloatArray
    n_correct: IntArray
    n_survived: IntArray

    def show(
        self, rows: Rows, grade: IntArray, order: IntArray, first: int, draws: Any, voting: bool
    ) -> Moves:
        """Show each member the rows that it draws; ``draws`` is (seed, cutoffs)."""
        seed, cuts = draws
        n_grades = self.thresholds.shape[1] + 1
        lanes = rows[0] is None or self.coef.shape[1] <= MOST_LANES

        def run(block: tuple[int, int]) -> Moves:
            moves = Moves.none(len(order), n_grades, voting)
            members = (self.coef, self.thresholds, self.n_correct, self.n_survived)
            state = (*members, *block, seed, first, cuts)
            left = (moves.weights, moves.thresholds, moves.votes)
            if lanes:
                mistakes = kernels().oap_lanes(*rows, grade, order, *state, *left)
            else:
                mistakes = kernels().oap_rows(rows[0], grade, order, *state, *left)
            return replace(moves, mistakes=int(mistakes))

        # One row is not worth a thread.
        blocks = ranges(len(self.coef), n_threads() if len(order) > 64 else 1)
        total, *others = map_blocks(run, blocks)
        for other in others:
            total = total + other
        return total


class Clones:
    """Copies of a ranker that has just begun; ``states`` holds what each has learned since."""

    def __init__(self, begun: RuleRanker) -> None:
        self._begun = begun
        own = sorted(set(begun._learned) - {"classes_"})
        self._names = [name for name in own if vars(begun).get(name) is not None]

    def pack(self, member: RuleRanker) -> FloatArray:
        """All that a member has learned, as one row of numbers."""
        values = [np.ravel(vars(member)[name]).astype(np.float64) for name in self._names]
        return np.concatenate(values)

    def unpack(self, state: FloatArray) -> RuleRanker:
        """The member with this knowledge."""
        member, at = copy(self._begun), 0
        for name in self._names:
            like = np.asarray(vars(self._begun)[name])
            part = state[at : at + like.size].reshape(like.shape).astype(like.dtype)
            setattr(member, name, part if like.ndim else part.item())
            at += like.size
        return member

    def show(
        self,
        states: FloatArray,
        counts: Sequence[IntArray],
        rows: Rows,
        grade: IntArray,
        order: IntArray,
        first: int,
        draws: Any,
    ) -> int:
        """Show each member the rows that it draws; the number of wrong answers.

        ``counts`` are the members' right answers, and those since the last wrong one, and one.
        """
        (seed, cuts), (correct, survived) = draws, counts

        def run(block: tuple[int, int]) -> int:
            wrong = 0
            for index in range(*block):
                times = kernels().showings_of_member(seed, index, first, len(order), cuts)
                if not times.any():
                    continue
                member, shown = self.unpack(states[index]), np.repeat(order, times)
                before = member.n_mistakes_
                answers = member._show_some(rows, grade, shown, asked=False)
                states[index] = self.pack(member)
                mistakes = member.n_mistakes_ - before
                correct[index] += len(shown) - mistakes
                missed = np.flatnonzero(answers != grade[shown])
                survived[index] = (
                    len(shown) - missed[-1] if len(missed) else survived[index] + len(shown)
                )
                wrong += mistakes
            return wrong

        blocks = ranges(len(states), n_threads() if len(order) > 64 else 1)
        return sum(map_blocks(run, blocks))
