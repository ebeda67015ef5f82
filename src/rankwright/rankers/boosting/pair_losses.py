"""Losses of pairs and of lists: what rows cost by their scores, how much they count, and sums.

The losses are listed in rankwright.feedback.losses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from rankwright._typing import FloatArray, IntArray, Matrix
from rankwright.data.vocabulary import Hashes, hash_ids, hash_rows, mix
from rankwright.exceptions import DataError, FeedbackError, ParameterError
from rankwright.feedback.base import Grades
from rankwright.feedback.losses import (
    GRADE_DIFFERENCE,
    LOGISTIC,
    LOSSES,
    NDCG,
    PLAIN,
    WEIGHTINGS,
)
from rankwright.feedback.pair_losses import MAX_GAIN_GRADE, QueryPairs, check_gains, copies_of
from rankwright.feedback.pair_weights import PairDistribution
from rankwright.rankers import schema
from rankwright.runtime import Team

LISTWISE = ("query_rmse", "xendcg")  # losses without pairs
MAX_SQUARED_GRADE = 1e100
NO_CUTOFF = 1 << 40
_MEASURES = "|".join(name for name, code in WEIGHTINGS.items() if code >= NDCG)
_BY_RANK = re.compile(rf"({_MEASURES})(?:@([1-9][0-9]{{0,8}}))?")


class Ranked(NamedTuple):
    """What the weight of a pair is computed from, for compiled code."""

    gain: FloatArray  # (n,) what the measure counts of each row
    discount: FloatArray  # by position in a list
    cutoff: int  # a pair counts if one of its rows is among so many first positions
    magnitude: bool  # whether a pair is also weighted by its difference of grades


@dataclass(frozen=True)
class PairWeights:
    """Weights of pairs by name.

    None: every pair the same. ``"grade_difference"``: by how much the grades differ. A measure,
    ``"NDCG"``, ``"AP"``, ``"ERR"`` or ``"RR"``: by how much the measure of the list changes if the
    two rows are swapped (LambdaRank). ``"NDCG@30"`` leaves out the pairs of which neither row is
    among the first 30, which takes time in proportion to 30 times the rows of a query. AP and RR
    take grades above the lowest one as relevant. Of equal scores the lower grade comes first, so
    a tie counts as an error and the order of the rows does not matter.

    As in LightGBM, the weight by a measure is divided by 0.01 plus the distance of the two scores,
    so that trees work on the pairs that are close; and if the slopes of all pairs of a query, both
    ways, add up to S, they are multiplied by log2(1 + S) / S, so that long lists do not
    dominate.

    >>> PairWeights.parse("NDCG@30")
    PairWeights(name='NDCG', cutoff=30, label_gain=None)
    """

    name: str | None
    cutoff: int = NO_CUTOFF
    label_gain: tuple[float, ...] | None = None  # of the grades 0, 1, 2, ...; None: 2^grade - 1

    @classmethod
    def parse(cls, text: str | None, label_gain: Iterable[float] | None = None) -> PairWeights:
        if label_gain is not None and not str(text).startswith("NDCG"):
            raise ParameterError(
                f"label_gain with weighting={text!r}: only NDCG counts gains. Leave it out, or "
                "set weighting='NDCG@30'."
            )
        if text is None or text == "grade_difference":
            return cls(text)
        match = _BY_RANK.fullmatch(str(text))
        if match is None:
            raise ParameterError(
                f"weighting={text!r}: use None, 'grade_difference', 'NDCG', 'AP', 'ERR' or 'RR', "
                "with a truncation level as in 'NDCG@30'."
            )
        gains = None if label_gain is None else tuple(map(float, label_gain))
        return cls(match[1], int(match[2]) if match[2] else NO_CUTOFF, gains)

    @property
    def code(self) -> int:
        return PLAIN if self.name is None else WEIGHTINGS[self.name]

    @property
    def by_rank(self) -> bool:
        """Whether weights depend on the current order."""
        return self.code >= NDCG

    def ranked(self, pairs: QueryPairs, span: tuple[float, float] | None = None) -> Ranked:
        """The gains of rows and the discounts of positions.

        ``span`` is the lowest and the highest grade of all rows, if ``pairs`` are some of them.
        """
        copies = copies_of(pairs.weight)
        lengths = np.add.reduceat(copies, pairs.ptr[:-1]) if len(copies) else np.zeros(1, np.int64)
        discount = 1.0 / np.log2(np.arange(int(lengths.max())) + 2.0)
        gain = self._gain(pairs, copies, discount, span)
        return Ranked(gain, discount, self.cutoff, pairs.magnitude)

    def _gain(
        self,
        pairs: QueryPairs,
        copies: IntArray,
        discount: FloatArray,
        span: tuple[float, float] | None,
    ) -> FloatArray:
        grade = pairs.grade
        if not self.by_rank or not len(grade):
            return np.zeros(len(grade))
        lowest, highest = span or (grade.min(), grade.max())
        if self.name in ("AP", "RR"):
            return np.asarray((grade > lowest).astype(np.float64))
        if self.label_gain is not None:
            gain = _looked_up(grade, self.label_gain)
        else:
            grade = np.minimum(grade - min(0.0, lowest), MAX_GAIN_GRADE)
            gain = np.exp2(grade) - 1.0
            check_gains(pairs.grade, gain)
        if self.name == "ERR":
            return np.asarray(gain / np.exp2(min(highest, MAX_GAIN_GRADE)))
        group = pairs.group
        # The ideal list, best grade first, down to the truncation level.
        order = np.repeat(np.lexsort((-gain, group)), copies[np.lexsort((-gain, group))])
        first = np.concatenate([[0], np.cumsum(np.bincount(group, copies))]).astype(np.int64)
        position = np.arange(len(order)) - first[group[order]]
        worth = np.where(position < self.cutoff, discount[position], 0.0) * gain[order]
        ideal = np.bincount(group[order], worth, pairs.n_units)
        return np.asarray(gain / np.where(ideal > 0, ideal, 1.0)[group])


def _looked_up(grade: FloatArray, label_gain: tuple[float, ...]) -> FloatArray:
    """The gain of each grade, a whole number that counts from 0."""
    bad = (grade != np.round(grade)) | (grade < 0) | (grade >= len(label_gain))
    if bad.any():
        raise FeedbackError(
            f"label_gain has the gains of the grades 0 to {len(label_gain) - 1}, and y has the "
            f"grade {grade[np.argmax(bad)]:g}. Give a gain for every grade, from 0 on."
        )
    return np.asarray(label_gain)[grade.astype(np.int64)]


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


class Gradients(Protocol):
    """What trees are grown on. Rows that are in no pair are left out."""

    rows: IntArray  # the rows of X that take part
    query: IntArray  # their queries
    count: IntArray  # how many rows each counts as

    def at(self, scores: FloatArray, seed: int) -> tuple[FloatArray, FloatArray]:
        """Minus the gradient of the loss by the scores of ``rows``, and its Hessian's diagonal.

        ``seed`` is that of the round, for losses that draw numbers.
        """


def gradients_of(
    grades: Grades, X: Matrix, loss: str, weights: PairWeights, pool: Team
) -> Gradients:
    """The gradients of a loss over graded rows."""
    if loss in LISTWISE:
        return ListGradients(grades, [X], loss, pool)
    if loss == "exponential" and not weights.by_rank:
        return ExponentialGradients(grades, X.shape[0], weights, pool)
    return PairGradients(grades, X, loss, weights, pool)


class PairGradients:
    """Sums over the pairs of each query; no list of pairs is made.

    Rows of equal score and grade have equal gradients, so the order in which rows are given does
    not matter. Weights by rank take O(rows times truncation level). Without them, the squared
    losses take O(rows log rows), and the others O(pairs), which are sampled in long queries.
    """

    def __init__(
        self,
        grades: Grades,
        X: Any,
        loss: str,
        weights: PairWeights,
        pool: Team,
        span: tuple[float, float] | None = None,
    ) -> None:
        from rankwright.feedback._kernels.pair_losses import GradedQueries

        pairs = QueryPairs.of(grades)
        if LOSSES[loss].samples and not weights.by_rank:
            pairs = pairs.sampled(X)
        self.rows, self.query = pairs.rows, grades.queries.codes[pairs.rows]
        weight = pairs.weight * grades.query_weight[self.query]
        self.count = np.rint(np.clip(weight, 1.0, 2.0**40)).astype(np.int64)
        self._codes = LOSSES[loss].code, weights.code
        self._ranked = weights.ranked(pairs, span)
        self._order = np.arange(len(self.rows), dtype=np.int32)
        self._queries = GradedQueries(pairs.ptr, pairs.grade, pairs.weight, pairs.query_weight)
        self._pool = pool
        self._blocks = _blocks(pairs.ptr, 1 if pool.threads == 1 else 4 * pool.threads)
        self._out = np.zeros((2, len(self.rows)))

    def copy(self) -> PairGradients:
        """A copy with separate work arrays, for another thread."""
        copied = copy(self)
        copied._order, copied._out = self._order.copy(), np.zeros_like(self._out)
        return copied

    def at(self, scores: FloatArray, seed: int = 0) -> tuple[FloatArray, FloatArray]:
        from rankwright.rankers.boosting._kernels import pair_gradients as _kernels

        loss, weights = self._codes
        queries, order, out = self._queries, self._order, self._out

        def block(bounds: tuple[int, int]) -> None:
            if loss == LOGISTIC and weights == NDCG and not self._ranked.magnitude:
                rows = scores, queries, self._ranked, order
                if not _kernels.logistic_ndcg_gradients(*rows, *bounds, out):
                    return
            _kernels.ranked_gradients(
                scores, queries, self._ranked, order, self._codes, *bounds, out
            )
            if weights <= GRADE_DIFFERENCE:
                gaps = weights == GRADE_DIFFERENCE or self._ranked.magnitude
                _kernels.summed_gradients(scores, queries, order, loss, gaps, *bounds, out)

        self._pool.map(block, self._blocks)
        return self._out[0], self._out[1]


class ListGradients:
    """Losses of the list of a query, in O(rows): ``"query_rmse"`` and ``"xendcg"``.

    Queries whose rows all have one grade are left out, as those without a pair are by pair losses.
    """

    def __init__(
        self,
        grades: Grades,
        parts: list[Any],
        loss: str,
        pool: Team,
        span: tuple[float, float] | None = None,
    ) -> None:
        """``parts`` are the rows of the grades in one or more matrices."""
        from rankwright.feedback._kernels.pair_losses import GradedQueries

        pairs = QueryPairs.of(grades)
        self.rows, self.query = pairs.rows, grades.queries.codes[pairs.rows]
        weight = pairs.weight * grades.query_weight[self.query]
        self.count = np.rint(np.clip(weight, 1.0, 2.0**40)).astype(np.int64)
        self._queries = GradedQueries(pairs.ptr, pairs.grade, pairs.weight, pairs.query_weight)
        self._pool, self._out = pool, np.zeros((2, len(self.rows)))
        self._blocks = _blocks(pairs.ptr, 1 if pool.threads == 1 else 4 * pool.threads)
        self._gain: FloatArray | None = None
        highest = float(np.abs(pairs.grade).max(initial=0.0))
        if loss == "query_rmse" and highest > MAX_SQUARED_GRADE:
            raise DataError(
                f"LambdaMART(loss='query_rmse'): a grade of {highest:.3g}, and squares of grades "
                f"above {MAX_SQUARED_GRADE:g} overflow. Scale the grades, or choose a loss of "
                "pairs, as weighting='NDCG@30' does."
            )
        if loss == "xendcg":
            lowest = span[0] if span else pairs.grade.min(initial=0.0)
            grade = np.minimum(pairs.grade - min(0.0, lowest), MAX_GAIN_GRADE)
            self._gain = np.exp2(grade)
            check_gains(pairs.grade, self._gain)
            content = np.concatenate([np.zeros(0, np.uint64), *map(hash_rows, parts)])[self.rows]
            self._keys = mix(row_keys(content, pairs))

    def at(self, scores: FloatArray, seed: int = 0) -> tuple[FloatArray, FloatArray]:
        from rankwright.rankers.boosting._kernels import list_gradients as _kernels

        queries, out = self._queries, self._out
        if self._gain is None:
            self._pool.map(
                lambda bounds: _kernels.query_rmse_gradients(scores, queries, *bounds, out),
                self._blocks,
            )
            return out[0], out[1]
        gain, keys, salt = self._gain, self._keys, mix(seed)[0]

        def block(bounds: tuple[int, int]) -> None:
            with np.errstate(over="ignore"):  # without the JIT, NumPy warns where draws wrap around
                _kernels.xendcg_gradients(scores, queries, gain, keys, salt, *bounds, out)

        self._pool.map(block, self._blocks)
        return out[0], out[1]


def row_keys(content: Hashes, pairs: QueryPairs) -> Hashes:
    """A key of each row by its content, its grade and the content of its query.

    So neither the order of rows, nor where they are, nor their ids change what is drawn for them,
    and copies of a row have the same key.
    """
    keys = mix(content) ^ hash_rows(pairs.grade[:, None])
    if not len(keys):
        return keys
    largest = np.maximum.reduceat(keys, pairs.ptr[:-1])
    return mix(keys + mix(largest)[pairs.group])


def query_keys(grades: Grades, rows: IntArray) -> Hashes:
    """A hash of the query of each row."""
    return hash_ids(grades.queries.ids)[grades.queries.codes[rows]]


class ExponentialGradients:
    """The exponential loss by RankBoost's potentials, in O(rows).

    They are divided by the weight of all pairs at the scores of the call before, which is the sum
    of the loss there (in the first call, the pairs' own weight): a factor changes no tree.
    """

    def __init__(self, grades: Grades, n_items: int, weights: PairWeights, pool: Team) -> None:
        if weights.name == "grade_difference":
            grades = Grades(
                grades.y,
                grades.queries,
                sample_weight=grades.sample_weight,
                query_weight=grades.query_weight,
                magnitude=True,
            )
        self._pairs = PairDistribution(grades, n_items, pool)
        self.rows, self.query = self._pairs.rows, grades.queries.codes[self._pairs.rows]
        self.count = np.rint(self._pairs.count).astype(np.int64)

    def at(self, scores: FloatArray, seed: int = 0) -> tuple[FloatArray, FloatArray]:
        self._pairs.move_to(scores)
        return self._pairs.potential, self._pairs.mass

    def bound(self, scores: FloatArray) -> float:
        """Theorem 1: the mean exponential loss, which the share of misordered pairs is below."""
        if not len(self.rows):
            return 1.0
        self._pairs.move_to(scores)
        return float(np.exp(self._pairs.log_weight))


def _blocks(ptr: IntArray, n_blocks: int) -> list[tuple[int, int]]:
    """Ranges of queries with about as many rows each."""
    cuts = np.searchsorted(ptr, np.linspace(0, ptr[-1], n_blocks + 1))
    return list(pairwise(np.unique(cuts).tolist())) if len(ptr) > 1 else []
