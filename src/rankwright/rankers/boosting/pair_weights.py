"""Pair weights: constant, or by the change of a measure if the rows were swapped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exceptions import ParameterError
from rankwright.feedback.levels import MAX_GAIN_GRADE, check_gains, copies_of
from rankwright.feedback.pair_losses import QueryPairs
from rankwright.rankers import schema

CODES = {None: 0, "grade_difference": 1, "NDCG": 2, "AP": 3, "ERR": 4, "RR": 5}
NO_CUTOFF = 1 << 40


class Ranked(NamedTuple):
    """What the weight of a pair is computed from, for compiled code."""

    gain: FloatArray  # (n,) what the measure counts of each row
    discount: FloatArray  # by place in a list
    cutoff: int  # a pair counts if one of its rows is among so many first places
    magnitude: bool  # whether a pair is also weighted by its difference of grades


@dataclass(frozen=True)
class PairWeights:
    """Weights of pairs by name.

    None: every pair the same. ``"grade_difference"``: by how much the grades differ. A measure,
    ``"NDCG"``, ``"AP"``, ``"ERR"`` or ``"RR"``: by how much the measure of the list changes if the
    two rows change places (LambdaRank). ``"NDCG@30"`` leaves out the pairs of which neither row is
    among the first 30, which takes time in proportion to 30 times the rows of a query. AP and RR
    take grades above the lowest one as relevant. Of equal scores the lower grade comes first, so
    a tie counts as an error and the order of the rows does not matter.

    As in LightGBM, the weight by a measure is divided by 0.01 plus the distance of the two scores,
    so that trees work on the pairs that are close; and if the slopes of all pairs of a query, both
    ways, add up to S, they are multiplied by log2(1 + S) / S, so that long lists do not rule.

    >>> PairWeights.parse("NDCG@30")
    PairWeights(name='NDCG', cutoff=30)
    """

    name: str | None
    cutoff: int = NO_CUTOFF

    @classmethod
    def parse(cls, text: str | None) -> PairWeights:
        if text is None or text == "grade_difference":
            return cls(text)
        match = re.fullmatch(r"(NDCG|AP|ERR|RR)(?:@([1-9][0-9]{0,8}))?", str(text))
        if match is None:
            raise ParameterError(
                f"weighting={text!r}: use None, 'grade_difference', 'NDCG', 'AP', 'ERR' or 'RR', "
                "with a truncation level as in 'NDCG@30'."
            )
        return cls(match[1], int(match[2]) if match[2] else NO_CUTOFF)

    @property
    def code(self) -> int:
        return CODES[self.name]

    @property
    def by_rank(self) -> bool:
        """Whether weights depend on the order of the moment."""
        return self.code >= CODES["NDCG"]

    def ranked(self, pairs: QueryPairs, span: tuple[float, float] | None = None) -> Ranked:
        """The gains of rows and the discounts of places.

        ``span`` is the lowest and the highest grade of all rows, if ``pairs`` are some of them.
        """
        copies = copies_of(pairs.weight)
        places = np.add.reduceat(copies, pairs.ptr[:-1]) if len(copies) else np.zeros(1, np.int64)
        discount = 1.0 / np.log2(np.arange(int(places.max())) + 2.0)
        gain = self._gain(pairs, copies, discount, span)
        return Ranked(gain, discount, self.cutoff, pairs.magnitude)

    def _gain(self, pairs: QueryPairs, copies: Any, discount: FloatArray, span: Any) -> FloatArray:
        grade = pairs.grade
        if not self.by_rank or not len(grade):
            return np.zeros(len(grade))
        lowest, highest = span or (grade.min(), grade.max())
        if self.name in ("AP", "RR"):
            return np.asarray((grade > lowest).astype(np.float64))
        grade = np.minimum(grade - min(0.0, lowest), MAX_GAIN_GRADE)
        check_gains(pairs.grade, np.exp2(grade) - 1.0)
        if self.name == "ERR":
            return np.asarray((np.exp2(grade) - 1.0) / np.exp2(min(highest, MAX_GAIN_GRADE)))
        gain, group = np.exp2(grade) - 1.0, pairs.group
        # The ideal list, best grade first, down to the truncation level.
        order = np.repeat(np.lexsort((-gain, group)), copies[np.lexsort((-gain, group))])
        first = np.concatenate([[0], np.cumsum(np.bincount(group, copies))]).astype(np.int64)
        place = np.arange(len(order)) - first[group[order]]
        worth = np.where(place < self.cutoff, discount[place], 0.0) * gain[order]
        ideal = np.bincount(group[order], worth, pairs.n_units)
        return np.asarray(gain / np.where(ideal > 0, ideal, 1.0)[group])


def _is_weighting(value: Any) -> bool:
    try:
        PairWeights.parse(value)
    except ParameterError:
        return False
    return value is None or isinstance(value, str)


WEIGHTING = schema.Constraint(
    "None, 'grade_difference', 'NDCG', 'AP', 'ERR' or 'RR', with a truncation level as in "
    "'NDCG@30'",
    _is_weighting,
)
