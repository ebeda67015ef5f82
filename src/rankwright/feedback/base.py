"""Feedback, weighted sums of feedback, and grades: preferences within queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError, FeedbackError

if TYPE_CHECKING:
    from rankwright.data.behavior.ratings import Ratings
    from rankwright.data.runs import Run
    from rankwright.feedback.pairs import Pairs


class Feedback(ABC):
    """Base class of feedback: weighted preferences between rows.

    Feedback is immutable. It can be added (``a + b``) and scaled (``2.0 * a``). Contradictions and
    cycles are allowed: a learner weighs them against each other.
    """

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The highest row number in this feedback, plus one."""

    @property
    @abstractmethod
    def n_pairs(self) -> int:
        """The number of pairs (counted, not built)."""

    @property
    @abstractmethod
    def total_weight(self) -> float:
        """The sum of the weights of all pairs (computed without building them)."""

    @abstractmethod
    def to_pairs(self) -> Pairs:
        """All pairs as a list. Quadratic for grades: for tests and small data."""

    def terms(self) -> Iterator[tuple[float, Feedback]]:
        """The terms of the sum that this feedback is, each with its factor."""
        yield 1.0, self

    def concerns(self) -> Iterator[str]:
        """Reasons why a ranker that learns from this feedback alone may turn out worse."""
        yield from ()

    def check_rows(self, n_items: int) -> None:
        """Raise a FeedbackError if this feedback names rows that ``X`` does not have."""
        if self.n_rows > n_items:
            raise FeedbackError(
                f"{type(self).__name__} names row {self.n_rows - 1}, but X has {n_items} rows. "
                "Rows are counted from 0, in the order of X."
            )

    def __add__(self, other: Feedback) -> Mixture:
        if not isinstance(other, Feedback):
            return NotImplemented
        return Mixture((*self.terms(), *other.terms()))

    def __mul__(self, factor: float) -> Mixture:
        if not isinstance(factor, int | float | np.floating | np.integer):
            return NotImplemented
        if not (np.isfinite(factor) and factor >= 0):
            raise FeedbackError(
                f"feedback times {factor}: the factor must be a finite number >= 0. To reverse "
                "preferences, swap their lower and upper rows."
            )
        return Mixture(tuple((float(factor) * inner, term) for inner, term in self.terms()))

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False)
class Mixture(Feedback):
    """A weighted sum of feedback.

    Examples
    --------
    >>> from rankwright.feedback.base import Grades
    >>> from rankwright.feedback.pairs import Pairs
    >>> mixed = Grades([0, 1, 2]) + 0.5 * Pairs([2], [0])
    >>> mixed.n_pairs, mixed.total_weight
    (4, 3.5)
    """

    parts: tuple[tuple[float, Feedback], ...]

    @property
    def n_rows(self) -> int:
        return max((part.n_rows for _, part in self.parts), default=0)

    @property
    def n_pairs(self) -> int:
        return sum(part.n_pairs for _, part in self.parts)

    @property
    def total_weight(self) -> float:
        return sum(factor * part.total_weight for factor, part in self.parts)

    def to_pairs(self) -> Pairs:
        from rankwright.feedback.pairs import Pairs

        lists = [(factor, part.to_pairs()) for factor, part in self.parts]
        columns = ((p.lower, p.upper, factor * p.weight, p.confidence) for factor, p in lists)
        lower, upper, weight, confidence = map(np.concatenate, zip(*columns, strict=True))
        return Pairs(lower, upper, weight, confidence=confidence)

    def terms(self) -> Iterator[tuple[float, Feedback]]:
        yield from self.parts

    def concerns(self) -> Iterator[str]:
        for factor, part in self.parts:
            if 2 * factor * part.total_weight > self.total_weight:
                yield from part.concerns()


@dataclass(frozen=True, eq=False)
class Grades(Feedback):
    """One grade per row: within a query, each row belongs above the rows with lower grades.

    The weight of a pair is the product of the weights of its rows and its query, so a row of weight
    2 counts as two copies; with ``magnitude``, also times the difference of the grades. Memory
    and time grow with the number of rows, not with the number of pairs.

    Parameters
    ----------
    y : (n_items,) numbers
    qid : (n_items,) ids of any type in any order, or Queries; None is one query
    sample_weight : (n_items,) numbers >= 0
    query_weight : numbers >= 0, one per query (in order of first appearance), one per row, or
        {id: number}
    magnitude : bool, default False
        Rankers that do not weight pairs, such as RidgeRanker, MPRank and KeepRank, ignore it.

    Examples
    --------
    >>> grades = Grades([2, 0, 1, 1, 0], qid=["a", "a", "a", "b", "b"])
    >>> grades.n_pairs, grades.total_weight
    (4, 4.0)
    >>> pairs = grades.to_pairs()
    >>> list(zip(pairs.lower.tolist(), pairs.upper.tolist()))
    [(1, 0), (1, 2), (2, 0), (4, 3)]
    """

    y: FloatArray
    queries: Queries
    sample_weight: FloatArray
    query_weight: FloatArray
    magnitude: bool

    def __init__(
        self,
        y: ArrayLike,
        qid: ArrayLike | Queries | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        magnitude: bool = False,
    ) -> None:
        grades = np.array(y, dtype=np.float64)
        if grades.ndim != 1:
            raise FeedbackError(f"y has shape {grades.shape}; it must hold one grade per row.")
        if len(bad := np.flatnonzero(~np.isfinite(grades))):
            raise FeedbackError(f"y[{bad[0]}] is {grades[bad[0]]}; grades must be finite numbers.")
        grades.setflags(write=False)
        queries = qid if isinstance(qid, Queries) else Queries.from_ids(qid, len(grades))
        if queries.n_items != len(grades):
            raise FeedbackError(
                f"qid has {queries.n_items} entries, y has {len(grades)}. Give one id per row."
            )
        self.__dict__.update(
            y=grades,
            queries=queries,
            sample_weight=frozen_weights(sample_weight, len(grades), "sample_weight"),
            query_weight=_per_query(query_weight, queries),
            magnitude=bool(magnitude),
        )

    @classmethod
    def from_ratings(cls, ratings: Ratings, **options: Any) -> Grades:
        """One row per rating, one query per user."""
        return cls(ratings.value, ratings.user, **options)

    @classmethod
    def from_run(cls, run: Run, **options: Any) -> Grades:
        """One row per line of a run, its score as the grade."""
        return cls(run.score, run.query, **options)

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @cached_property
    def row_weight(self) -> FloatArray:
        """The weight of each row: its sample weight times the weight of its query."""
        weight = self.sample_weight * self.query_weight[self.queries.codes]
        weight.setflags(write=False)
        return weight

    @cached_property
    def levels(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Distinct (query, grade) levels: per row its level, per level its query and grade.

        Levels are numbered query by query, grades ascending, for sums in O(rows + levels).
        """
        order = np.lexsort((self.y, self.queries.codes))
        query, grade = self.queries.codes[order], self.y[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (query[1:] != query[:-1]) | (grade[1:] != grade[:-1])
        level = np.empty(len(order), np.int64)
        level[order] = np.cumsum(new) - 1
        return level, query[new].astype(np.int64), grade[new]

    @property
    def n_pairs(self) -> int:
        level, query, grade = self.levels
        return round(level_pair_sum(np.bincount(level, minlength=len(query)), query, grade))

    @property
    def total_weight(self) -> float:
        level, query, grade = self.levels
        mass = np.bincount(level, self.sample_weight, len(query)).astype(np.float64)
        return level_pair_sum(mass, query, grade, self.query_weight, self.magnitude)

    def to_pairs(self) -> Pairs:
        from rankwright.feedback.pairs import Pairs

        lower, upper = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for rows in np.split(self.queries.order, self.queries.ptr[1:-1]):
            below, above = np.nonzero(self.y[rows][:, None] < self.y[rows][None, :])
            lower.append(rows[below])
            upper.append(rows[above])
        low, up = np.concatenate(lower), np.concatenate(upper)
        query = self.queries.codes[low]
        weight = self.sample_weight[low] * self.sample_weight[up] * self.query_weight[query]
        if self.magnitude:
            weight = weight * (self.y[up] - self.y[low])
        return Pairs(low, up, weight, query=query)


def level_pair_sum(
    mass: FloatArray | IntArray,
    query: IntArray,
    grade: FloatArray,
    query_weight: FloatArray | None = None,
    magnitude: bool | BoolArray = False,
) -> float:
    """Sum over pairs of levels of a query of mass * mass * query weight * gap.

    mass, query, grade : (n_levels,), sorted by query, grades ascending
    magnitude : for all or for each level; the gap is the difference of the grades, otherwise 1
    """
    first = np.searchsorted(query, query)  # the lowest level of the query of each level
    mass, y = mass.astype(np.float64), grade - grade[first]

    def below(values: FloatArray) -> FloatArray:
        running: FloatArray = np.concatenate([[0.0], np.cumsum(values)])
        return running[:-1] - running[first]

    gapped = np.where(magnitude, y * below(mass) - below(mass * y), below(mass))
    return float(np.sum(mass * gapped * (1.0 if query_weight is None else query_weight[query])))


def _per_query(query_weight: Any, queries: Queries) -> FloatArray:
    """One weight per query, given as {id: weight}, one per query, or one per row."""
    n, ids = queries.n_queries, queries.ids.tolist()
    if isinstance(query_weight, dict):
        if missing := [i for i in ids if i not in query_weight]:
            raise FeedbackError(f"query_weight has no weight for query {missing[0]!r}.")
        query_weight = [query_weight[i] for i in ids]
    if query_weight is None or np.ndim(query_weight) == 0 or len(query_weight) == n:
        return frozen_weights(query_weight, n, "query_weight")
    if len(query_weight) != queries.n_items:
        raise FeedbackError(
            f"query_weight has {len(query_weight)} entries. Give one for each of the {n} queries "
            f"(in order of first appearance), one for each of the {queries.n_items} rows, "
            "or a dictionary {query id: weight}."
        )
    rows = frozen_weights(query_weight, queries.n_items, "query_weight")
    weights = rows[queries.order[queries.ptr[:-1]]]
    if len(differ := np.flatnonzero(rows != weights[queries.codes])):
        row = differ[0]
        raise FeedbackError(
            f"query_weight has two values for query {ids[queries.codes[row]]!r} (row {row}). Give "
            "each query one weight; use sample_weight for rows."
        )
    weights.setflags(write=False)
    return weights


def frozen_rows(rows: ArrayLike | slice, name: str) -> IntArray:
    """Row numbers as a read-only int64 copy."""
    array = np.asarray(rows)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise FeedbackError(
            f"{name} must be a list of row numbers, found {array.dtype} of shape {array.shape}."
        )
    array = array.astype(np.int64)
    if array.size and array.min() < 0:
        raise FeedbackError(f"{name} has row {array.min()}: rows are counted from 0.")
    array.setflags(write=False)
    return array


def frozen_weights(weights: ArrayLike | None, n: int, name: str) -> FloatArray:
    """Weights >= 0 as a read-only float64 copy; ``None`` is all ones."""
    array = np.array(1.0 if weights is None else weights, dtype=np.float64)
    array = np.full(n, float(array)) if array.ndim == 0 else array
    if array.shape != (n,):
        raise FeedbackError(f"{name} has shape {array.shape}; its shape must be ({n},).")
    if len(bad := np.flatnonzero(~(np.isfinite(array) & (array >= 0)))):
        raise FeedbackError(f"{name}[{bad[0]}] is {array[bad[0]]}: it must be finite and >= 0.")
    array.setflags(write=False)
    return array


def as_grades(values: object, name: str) -> FloatArray:
    """The values as float64; a DataError shows the first one that is not a number.

    >>> as_grades([2, "1", 0.5], "y")
    array([2. , 1. , 0.5])
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    bad_value = "rows of different length"
    for value in np.asarray(values, dtype=object).ravel().tolist():
        try:
            float(value)
        except (TypeError, ValueError):
            bad_value = repr(value)
            break
    raise DataError(
        f"{name} holds {bad_value}: grades are numbers; higher is better. Map each label to a "
        "number, for example with {'bad': 0, 'good': 1}."
    )


def as_classes(classes: Any) -> FloatArray:
    """Declared grades, checked and sorted, without duplicates."""
    values = as_grades(list(classes), "classes")
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise DataError(f"classes={classes!r}: give a list of finite numbers, all possible grades.")
    return np.unique(values)


def stream_classes(
    values: FloatArray, classes: ArrayLike | None, known: FloatArray | None
) -> FloatArray:
    """The grades of a stream: ``known``, or at the first call those declared, or those of the rows.

    Raises a DataError for a grade that is not among them, or for classes that differ from them.
    """
    if known is None:
        known = np.unique(values) if classes is None else as_classes(classes)
    elif classes is not None and not np.array_equal(np.unique(classes), known):
        raise DataError(
            f"classes={np.unique(classes).tolist()} differ from those of the first call, "
            f"{known.tolist()}. Declare the grades once, or call fit() to start over."
        )
    codes_of(known, values)
    return known


def codes_of(classes: FloatArray, values: FloatArray) -> IntArray:
    """The index of each grade among the declared ones."""
    codes = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
    if len(undeclared := np.flatnonzero(classes[codes] != values)):
        refuse_grade(classes, values[undeclared[0]])
    return codes.astype(np.int64)


def refuse_grade(classes: FloatArray, value: float) -> NoReturn:
    """Raise a DataError for a grade that was not declared."""
    raise DataError(
        f"grade {value:g} was not declared; declared are {classes.tolist()}. Declare all possible "
        "grades at the first call: partial_fit(X, y, classes=[...])."
    )
