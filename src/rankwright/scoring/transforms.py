"""Transforms of rows before they are scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from math import comb, factorial, prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.scoring.base import Matrix, RowMap, Scorer, Transform, in_blocks

Column = NDArray[np.floating[Any]]  # one value per feature
_STEPS = {"shift": np.subtract, "divisor": np.divide, "factor": np.multiply, "offset": np.add}


@dataclass(frozen=True, eq=False)
class Affine(RowMap):
    """Shift, divide, multiply and offset each column, then clip it.

    A step that is None is skipped. There is a divisor besides the factor because x / 3 and
    x * (1 / 3) differ in the last bit, and a saved pipeline has to score as it did before.

    >>> affine = Affine(shift=np.array([1.0, 0.0]), divisor=np.array([2.0, 0.5]))
    >>> affine.transform(np.array([[3.0, 4.0]]), Queries.from_ids(None, 1))
    array([[1., 8.]])
    """

    kind: ClassVar[str] = "affine"
    shift: Column | None = None
    divisor: Column | None = None
    factor: Column | None = None
    offset: Column | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        columns = self._columns()
        self._check(columns, "it has no shift, divisor, factor or offset")
        self._check_arrays(**dict.fromkeys(columns, ("n_features",)))
        zeros = 0 if self.divisor is None else int((self.divisor == 0).sum())
        self._check(not zeros, f"divisor: {zeros} of its values are 0")

    def _columns(self) -> dict[str, Column]:
        """The steps that are not skipped, in the order in which they apply."""
        steps = {name: getattr(self, name) for name in _STEPS}
        return {name: column for name, column in steps.items() if column is not None}

    @property
    def n_features(self) -> int:
        return len(next(iter(self._columns().values())))

    def transform(self, X: Matrix, queries: Queries | None = None) -> Any:
        rows = X.copy()
        if isinstance(X, np.ndarray):
            values = rows
            for name, column in self._columns().items():
                _STEPS[name](values, column, out=values)
        elif self.shift is not None or self.offset is not None:
            raise DataError("a shift makes sparse rows dense: call X.toarray() first.")
        else:
            values = rows.data
            if self.divisor is not None:
                values *= (1.0 / self.divisor)[rows.indices]
            if self.factor is not None:
                values *= self.factor[rows.indices]
        if self.low is not None or self.high is not None:
            np.clip(values, self.low, self.high, out=values)
        return rows


def folded(steps: Iterable[Transform], n_columns: int) -> tuple[FloatArray, FloatArray] | None:
    """The factor and the offset of each column after these steps; None if they do more than that.

    >>> folded([Affine(shift=np.array([3.0]), divisor=np.array([2.0]))], 1)
    (array([0.5]), array([-1.5]))
    """
    factor, offset = np.ones(n_columns), np.zeros(n_columns)
    for step in steps:
        if not isinstance(step, Affine) or step.low is not None or step.high is not None:
            return None
        for part, column in step._columns().items():
            value = np.asarray(column, dtype=np.float64)
            if part in ("divisor", "factor"):
                scale = 1.0 / value if part == "divisor" else value
                factor, offset = factor * scale, offset * scale
            else:
                offset = offset + (-value if part == "shift" else value)
    return factor, offset


@dataclass(frozen=True, eq=False)
class QueryScale(Transform):
    """Each column scaled within the row's query; NaN stays NaN.

    ``minmax`` maps the query's range to 0 .. 1 (LETOR's QueryLevelNorm), ``standard`` gives mean 0
    and deviation 1, ``max`` divides by the largest absolute value. A column that is constant within
    a query becomes 0 there.

    >>> queries = Queries.from_ids(["a", "b", "a"])
    >>> QueryScale(1, "minmax").transform(np.array([[5.0], [7.0], [3.0]]), queries)
    array([[1.],
           [0.],
           [0.]])
    """

    kind: ClassVar[str] = "query_scale"
    n_columns: int
    method: str
    _width: ClassVar[str] = "n_columns"

    def __post_init__(self) -> None:
        self._check_name("method", "minmax", "standard", "max")
        self._check_range("n_columns", 1, np.inf)

    def transform(self, X: Matrix, queries: Queries) -> Matrix:
        if not isinstance(X, np.ndarray):
            raise DataError("scaling by query makes sparse rows dense: call X.toarray() first.")
        if queries.n_items == 0:
            return X.copy()
        rows, starts, code = X[queries.order], queries.ptr[:-1], np.sort(queries.codes)
        low, spread = getattr(self, f"_{self.method}")(rows, starts, code)
        still = spread == 0
        scaled = (rows - low[code]) / np.where(still, 1.0, spread)[code]
        scaled[still[code] & ~np.isnan(rows)] = 0.0
        result = np.empty_like(scaled)
        result[queries.order] = scaled
        return result

    @staticmethod
    def _minmax(rows: FloatArray, starts: IntArray, code: IntArray) -> tuple[FloatArray, ...]:
        low = np.fmin.reduceat(rows, starts)
        return np.nan_to_num(low), np.nan_to_num(np.fmax.reduceat(rows, starts) - low)

    @staticmethod
    def _standard(rows: FloatArray, starts: IntArray, code: IntArray) -> tuple[FloatArray, ...]:
        known = ~np.isnan(rows)
        count = np.maximum(np.add.reduceat(known, starts, dtype=np.float64), 1.0)
        mean = np.add.reduceat(np.where(known, rows, 0.0), starts) / count
        moved = np.where(known, rows - mean[code], 0.0)
        spread = np.sqrt(np.add.reduceat(moved * moved, starts) / count)
        # Rounding leaves a constant column with a tiny spread, which must not be scaled up.
        return mean, np.where(spread <= 1e-12 * np.maximum(np.abs(mean), 1e-300), 0.0, spread)

    @staticmethod
    def _max(rows: FloatArray, starts: IntArray, code: IntArray) -> tuple[FloatArray, ...]:
        top = np.nan_to_num(np.fmax.reduceat(np.abs(rows), starts))
        return np.zeros_like(top), top


MOST_COLUMNS = 1 << 20


@lru_cache(maxsize=16)
def _products(n_columns: int, degree: int) -> list[tuple[IntArray, IntArray]]:
    """For each size 1 .. degree: which smaller product each product extends, and by which column.

    Products are numbered by size, then as ``combinations_with_replacement`` gives them.
    """
    steps, first = [], 0
    number: dict[tuple[int, ...], int] = {(): 0}
    for size in range(1, degree + 1):
        chosen = list(combinations_with_replacement(range(n_columns), size))
        parent = np.array([first + number[key[:-1]] for key in chosen], dtype=np.int64)
        steps.append((parent, np.array([key[-1] for key in chosen], dtype=np.int64)))
        first += len(number)
        number = {key: i for i, key in enumerate(chosen)}
    return steps


@lru_cache(maxsize=16)
def kernel_coefficients(n_columns: int, degree: int, gamma: float, coef0: float) -> FloatArray:
    """The coefficient of each monomial in (gamma a . b + coef0) ** degree, read-only.

    >>> kernel_coefficients(2, 2, 1.0, 1.0)  # 1, a, b, a^2, a b, b^2
    array([1., 2., 2., 1., 2., 1.])
    """
    values = []
    for size in range(degree + 1):
        scale = comb(degree, size) * coef0 ** (degree - size) * gamma**size
        for chosen in combinations_with_replacement(range(n_columns), size):
            repeats = prod(factorial(times) for times in Counter(chosen).values())
            values.append(scale * (factorial(size) // repeats))
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Monomials(RowMap):
    """Map rows to all products of at most ``degree`` columns, starting with the constant 1.

    >>> Monomials(2, degree=2).transform(np.array([[2.0, 3.0]]))
    array([[1., 2., 3., 4., 6., 9.]])
    """

    kind: ClassVar[str] = "monomials"
    n_columns: int
    degree: int = 2
    _width: ClassVar[str] = "n_columns"

    def __post_init__(self) -> None:
        for name, high in (("n_columns", np.inf), ("degree", 100)):
            value = getattr(self, name)
            self._check(isinstance(value, int), f"{name} {value!r} is not an integer")
            self._check_range(name, 1, high)
        fault = f"{self.n_outputs} columns; the limit is {MOST_COLUMNS}. Lower the degree"
        self._check(self.n_outputs <= MOST_COLUMNS, fault)

    @property
    def n_outputs(self) -> int:
        return self.width(self.n_columns, self.degree)

    @staticmethod
    def width(n_columns: int, degree: int) -> int:
        """How many products of at most ``degree`` columns there are."""
        return comb(n_columns + degree, degree)

    @property
    def factors(self) -> FloatArray:
        """What each product is multiplied by."""
        return np.ones(self.n_outputs)

    def products(self) -> Iterator[tuple[int, ...]]:
        """The columns of each product, in the order of the outputs."""
        for size in range(self.degree + 1):
            yield from combinations_with_replacement(range(self.n_columns), size)

    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        rows = X if isinstance(X, np.ndarray) else X.toarray()
        mapped = np.ones((rows.shape[0], self.n_outputs))
        start = 1
        for parent, column in _products(self.n_columns, self.degree):
            np.multiply(
                mapped[:, parent], rows[:, column], out=mapped[:, start : start + len(parent)]
            )
            start += len(parent)
        return mapped


@dataclass(frozen=True, eq=False)
class Polynomial(Monomials):
    """Map rows so that their dot product is (gamma a . b + coef0) ** degree.

    One column per product of at most ``degree`` features, the constant first.

    >>> rows = Polynomial(2, degree=2).transform(np.array([[1.0, 2.0], [3.0, -1.0]]))
    >>> rows.shape
    (2, 6)
    >>> round(float(rows[0] @ rows[1]), 9)  # (1 * 3 - 2 * 1 + 1) ** 2
    4.0
    """

    kind: ClassVar[str] = "polynomial"
    n_columns: int
    degree: int = 2
    gamma: float = 1.0
    coef0: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_arrays()
        self._check(self.gamma > 0, f"gamma is {self.gamma:g}; it must be > 0")
        self._check_range("coef0", 0, np.inf)
        # The coefficients of all monomials add up to this power.
        total = self.degree * np.log(self.gamma * self.n_columns + self.coef0)
        self._check(total < 700, "gamma and coef0 are too large for this degree")

    @property
    def factors(self) -> FloatArray:
        scale = kernel_coefficients(self.n_columns, self.degree, self.gamma, self.coef0)
        return np.asarray(np.sqrt(scale))

    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        return super().transform(X) * self.factors


@dataclass(frozen=True, eq=False)
class LevelNumbers(RowMap):
    """Map the columns of 0 and 1 of each category to one column: the number of the level.

    The category ``i`` has the columns from ``first[i]`` up to, not including, ``stop[i]``. Its
    number is 1 for the first of them, 2 for the second; 0 if none is 1. The other columns come
    first, in their order, then the categories.

    >>> numbers = LevelNumbers(4, np.array([1]), np.array([4]))
    >>> numbers.transform(np.array([[9.0, 0.0, 1.0, 0.0], [7.0, 0.0, 0.0, 0.0]]))
    array([[9., 2.],
           [7., 0.]])
    """

    kind: ClassVar[str] = "level_numbers"
    n_columns: int
    first: IntArray
    stop: IntArray
    _width: ClassVar[str] = "n_columns"

    def __post_init__(self) -> None:
        self._check_range("n_columns", 1, np.inf)
        self._check(len(self.first), "it has no category")
        self._check_arrays(first=("n_categories",), stop=("n_categories",))
        kinds = {self.first.dtype.kind, self.stop.dtype.kind}
        self._check(kinds == {"i"}, "first, stop: the columns are not whole numbers")
        self._check((self.first < self.stop).all(), "first, stop: a category has no columns")
        ends = np.column_stack([self.first, self.stop]).ravel()
        right = ends[0] >= 0 and ends[-1] <= self.n_columns and (np.diff(ends) >= 0).all()
        self._check(right, "first, stop: the columns of a category overlap others, or are not in X")

    @property
    def n_outputs(self) -> int:
        return self.n_columns - int((self.stop - self.first).sum()) + len(self.first)

    @cached_property
    def others(self) -> IntArray:
        """The columns that belong to no category."""
        inside = np.zeros(self.n_columns + 1, np.int64)
        np.add.at(inside, self.first, 1)
        np.add.at(inside, self.stop, -1)
        return np.flatnonzero(np.cumsum(inside)[:-1] == 0)

    @cached_property
    def categories(self) -> list[slice]:
        """The columns of each category."""
        return [slice(*ends) for ends in zip(self.first.tolist(), self.stop.tolist(), strict=True)]

    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        rows = X if isinstance(X, np.ndarray) else X.toarray()
        numbers = np.empty((rows.shape[0], self.n_outputs))
        n_others = len(self.others)
        numbers[:, :n_others] = rows[:, self.others]
        for number, columns in enumerate(self.categories, n_others):
            level, found = self._level(rows, columns)
            numbers[:, number] = np.where(found, level + 1.0, 0.0)
        return numbers

    @staticmethod
    def _level(rows: FloatArray, columns: slice) -> tuple[IntArray, BoolArray]:
        """The first of these columns that is 1 in each row, and whether there is one."""
        is_level = rows[:, columns] == 1.0
        level = is_level.argmax(axis=1)
        return level, is_level[np.arange(len(level)), level]

    def spread(self, values: FloatArray, X: FloatArray | None = None) -> FloatArray:
        """What belongs to an output, given to its columns: to the level of a row, or evenly.

        >>> numbers = LevelNumbers(3, np.array([0]), np.array([3]))
        >>> numbers.spread(np.array([[6.0]]), np.array([[0.0, 1.0, 0.0]]))
        array([[0., 6., 0.]])
        >>> numbers.spread(np.array([[6.0]]))
        array([[2., 2., 2.]])
        """
        spread = np.zeros((len(values), self.n_columns))
        n_others = len(self.others)
        spread[:, self.others] = values[:, :n_others]
        for number, columns in enumerate(self.categories, n_others):
            share = np.ones((len(values), columns.stop - columns.start))
            if X is not None:
                level, found = self._level(X, columns)
                share[found] = 0.0
                share[found, level[found]] = 1.0
            spread[:, columns] = values[:, [number]] * share / share.sum(axis=1, keepdims=True)
        return spread


@dataclass(frozen=True, eq=False)
class Mapped(Scorer):
    """A scorer of mapped rows."""

    kind: ClassVar[str] = "mapped"
    map: RowMap
    score: Scorer
    _width: ClassVar[str] = "map"

    def __post_init__(self) -> None:
        given, needed = self.map.n_outputs, self.score.n_features
        self._check(given == needed, f"map gives {given} columns, score needs {needed}")

    def decision_function(self, X: Matrix) -> FloatArray:
        return self._mapped(self.score.decision_function, X)

    def predict(self, X: Matrix) -> FloatArray:
        return self._mapped(self.score.predict, X)

    def expected(self, X: Matrix) -> FloatArray:
        return self._mapped(self.score.expected, X)

    def _mapped(self, function: Callable[[Matrix], FloatArray], X: Matrix) -> FloatArray:
        return in_blocks(lambda rows: function(self.map.transform(rows)), X, self.map.n_outputs)
