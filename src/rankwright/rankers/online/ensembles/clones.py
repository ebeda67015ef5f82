"""Members of any kind, as copies of one ranker whose knowledge is a row of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from rankwright.parallel import map_blocks, n_threads, ranges
from rankwright.rankers.base import FloatArray
from rankwright.rankers.online.ensembles.members import kernels
from rankwright.rankers.online.rows import IntArray, Rows
from rankwright.rankers.online.rule import RuleRanker

__all__ = ["Clones"]


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
