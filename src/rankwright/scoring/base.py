"""What scorers and transforms have in common: checked arrays, and rows scored in blocks.

Sums over trees or features are computed by NumPy, or compiled where that pays. The two give the
same bits.
"""

from __future__ import annotations

import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache, wraps
from importlib.util import find_spec
from threading import get_ident
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.inputs import checked_rows
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.runtime import map_blocks, n_threads, ranges

Matrix = Any  # (n_items, n_features) float64 array, or a SciPy CSR matrix of the same
# Units of work are (row, tree) or (row, feature) pairs; NumPy does about 20 million in a second.
PAIRS_PER_BLOCK = 1 << 16  # temporary arrays of NumPy that stay in the cache
PAIRS_PER_THREAD = 1 << 20  # less is not worth a second thread
# After so many pairs in a process the kernels are started. NumPy takes 0.1 s for 2 million. Loading
# the kernels takes 0.01 s after a fit, 0.3 s in a process that has only imported numba (0.3 s more
# to import it), and 3 s once, to compile them. Compiled, 2 million pairs take 0.003 s.
PAIRS_TO_LOAD, PAIRS_TO_IMPORT = 2_000_000, 10_000_000
ROWS_PER_BLOCK, VALUES_PER_BLOCK = 65536, 1 << 20
# OpenBLAS divides a product of more multiplications among its threads, which wait for each other
# actively: on a machine with other work, 100 rows times 128 took 30 ms instead of 0.1.
ONE_THREAD = 1 << 18
REQUEST_ROWS = 256  # more rows are a batch, for which threads pay


class State(ABC):
    """A frozen dataclass whose fields are arrays, numbers, text, or other states.

    ``__post_init__`` checks every value, so any state that exists is safe to use. The methods
    ``_check_*`` raise a DataError that names the kind and the field.
    """

    kind: ClassVar[str]
    _width: ClassVar[str] = "coef"  # the field that says how many columns X must have

    @property
    def n_features(self) -> int:
        """How many columns X must have: a number, the last axis of an array, or a state's own."""
        value = getattr(self, self._width)
        if isinstance(value, State):
            return value.n_features
        return int(value.shape[-1] if isinstance(value, np.ndarray) else value)

    def values(self) -> dict[str, Any]:
        """The fields by name: what a model file keeps."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def _check(self, condition: object, fault: str) -> None:
        if not bool(condition):
            raise DataError(f"{self.kind}: {fault}.")

    def _check_arrays(self, **shapes: tuple[int | str, ...]) -> None:
        """Check shapes (an axis is a size, or a name for one) and that all numbers are finite."""
        sizes: dict[int | str, int] = {}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if len(shape) != array.ndim or any(
                sizes.setdefault(axis, size if isinstance(axis, str) else axis) != size
                for axis, size in zip(shape, array.shape, strict=True)
            ):
                needed = tuple(sizes.get(axis, axis) for axis in shape)
                self._check(False, f"{name} has shape {array.shape}; it needs {needed}")
        for name, value in vars(self).items():
            finite = math.isfinite(value) if isinstance(value, float) else True
            if not finite or (name in shapes and not np.isfinite(value).all()):
                self._check(False, f"{name}: {not_finite(value)}")

    def _check_name(self, field: str, *known: str) -> None:
        name, listed = getattr(self, field), f"{', '.join(known[:-1])} or {known[-1]}"
        self._check(name in known, f"{field} {name!r} is not {listed}")

    def _check_range(self, name: str, low: float, high: float) -> None:
        value = np.asarray(getattr(self, name))
        inside = (value >= low) & (value <= high)
        if not inside.all():
            first = int(np.argmin(inside))
            shown = f"value {first} is {value.flat[first]:g}" if value.ndim else f"{value:g}"
            bounds = f">= {low:g}" if high == np.inf else f"from {low:g} to {high:g}"
            self._check(False, f"{name}: {shown}; it must be {bounds}")

    def _check_ascending(self, name: str, *, strictly: bool = False) -> None:
        value = getattr(self, name)
        right = value[1:] > value[:-1] if strictly else value[1:] >= value[:-1]
        if not right.all():
            first = int(np.argmin(right))
            pair = f"{value[first]:g} is followed by {value[first + 1]:g}"
            self._check(False, f"{name}: {pair}; the values must ascend")


def _of_checked_rows(method: Callable[[Any, Matrix], FloatArray]) -> Any:
    @wraps(method)
    def checked(self: Any, X: Matrix) -> FloatArray:
        return method(self, X if isinstance(X, np.ndarray) else checked_rows(X))

    return checked


def not_finite(values: object) -> str:
    """What is wrong with values that must be finite.

    >>> not_finite(np.array([1.0, np.nan, np.nan]))
    '2 of 3 values are NaN; a model holds finite values only'
    """
    array = np.asarray(values)
    n_nan, n_bad = int(np.isnan(array).sum()), int((~np.isfinite(array)).sum())
    fault = "NaN" if n_nan == n_bad else "NaN or infinite" if n_nan else "infinite"
    verb = "is" if n_bad == 1 else "are"
    count = f"{n_bad} of {array.size} values {verb}" if array.ndim else "it is"
    return f"{count} {fault}; a model holds finite values only"


class Scorer(State):
    """Base class of scorers: maps rows to scores; higher ranks first.

    A sparse matrix is checked before any method of a subclass follows its indices.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("decision_function", "predict", "expected"):
            if name in vars(cls):
                setattr(cls, name, _of_checked_rows(vars(cls)[name]))

    @abstractmethod
    def decision_function(self, X: Matrix) -> FloatArray:
        """The score of each row."""

    def predict(self, X: Matrix) -> FloatArray:
        """A value on the scale of y: the score itself, unless the model predicts grades."""
        return self.decision_function(X)

    def split_values(self, feature: int) -> FloatArray | None:
        """The ascending values after which the score may jump; None if it is no step function."""
        return None

    def expected(self, X: Matrix) -> FloatArray:
        """The expected grade, where the model has one; otherwise the prediction."""
        return self.predict(X)


class Transform(State):
    """Base class of transforms: maps rows to rows, possibly using other rows of the same query."""

    @property
    def n_outputs(self) -> int:
        """How many columns the result has."""
        return self.n_features

    @abstractmethod
    def transform(self, X: Matrix, queries: Queries) -> Matrix:
        """The transformed rows, in the same order."""


class RowMap(Transform):
    """Base class of transforms that handle each row separately, without queries."""

    @abstractmethod
    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        """The mapped rows, in the same order."""


def in_blocks(function: Callable[[Matrix], FloatArray], X: Matrix, width: int) -> FloatArray:
    """One value per row, computed in blocks of rows that need (rows, width) numbers each."""
    values = np.empty(X.shape[0])
    for rows in row_blocks(X.shape[0], width):
        values[rows] = function(X[rows])
    return values


def row_blocks(n_rows: int, width: int, values: int = 1 << 22) -> list[slice]:
    """Slices of rows; a block of (rows, width) holds at most ``values`` numbers (default 32 MB)."""
    step = max(1, values // max(width, 1))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def product(A: Matrix, B: Matrix) -> Any:
    """``A @ B``, with the rows of one request in blocks so small that BLAS uses one thread."""
    step = ONE_THREAD // max(B.shape[0] * B.shape[1], 1)
    if not isinstance(A, np.ndarray) or step < 4 or not step < len(A) <= REQUEST_ROWS:
        return A @ B
    values = np.empty((len(A), B.shape[1]))
    for start in range(0, len(A), step):
        np.matmul(A[start : start + step], B, out=values[start : start + step])
    return values


def columns_of(
    X: Matrix, features: IntArray, absent_abstains: bool
) -> Iterator[tuple[slice, int, FloatArray]]:
    """Some columns of a matrix, in blocks of rows: (rows, index in ``features``, column).

    A CSR matrix is never made dense as a whole; what it does not store is 0, or NaN.
    """
    for rows in row_blocks(X.shape[0], 1, ROWS_PER_BLOCK):
        block = X[rows]
        if hasattr(block, "tocsc"):
            block = block.tocsc()
            block.sum_duplicates()
        for index, feature in enumerate(features):
            if isinstance(block, np.ndarray):
                yield rows, index, block[:, feature]
                continue
            column = np.full(rows.stop - rows.start, np.nan if absent_abstains else 0.0)
            entries = slice(*block.indptr[feature : feature + 2])
            column[block.indices[entries]] = block.data[entries]
            yield rows, index, column


def by_dense_blocks(
    X: Matrix, features: IntArray, absent_abstains: bool, score: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Scores of a CSR matrix: ``score`` gets some columns of some rows at a time."""
    scores = np.zeros(X.shape[0])
    for block in row_blocks(X.shape[0], len(features), VALUES_PER_BLOCK):
        rows = np.empty((block.stop - block.start, len(features)))
        for part, i, column in columns_of(X[block], features, absent_abstains):
            rows[part, i] = column
        scores[block] = score(rows)
    return scores


_warming: set[int] = set()  # threads that compile, in a block of warming_up


@cache
def can_compile() -> bool:
    """Whether there is a numba whose compiler is not switched off."""
    switched_off = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
    return not switched_off and find_spec("numba") is not None


class _Work:
    """What this process has scored so far, since it is the process that starts numba.

    Without it, a server of small requests would stay with NumPy (3 ms for 100 rows of the default
    ensemble of AutoRanker) where kernels take a tenth of that, or every short script would wait for
    numba.
    """

    n_pairs = 0


def kernels(n_pairs: int) -> Any:
    """The module of compiled kernels, or None as long as NumPy costs less than starting them."""
    if _warming:
        return compile_kernels() if get_ident() in _warming else None
    if "rankwright.scoring._kernels" not in sys.modules:
        _Work.n_pairs += n_pairs
        limit = PAIRS_TO_LOAD if "numba" in sys.modules else PAIRS_TO_IMPORT
        if _Work.n_pairs < limit or not can_compile():
            return None
    return compile_kernels()


def compile_kernels() -> Any:
    """Import the compiled kernels now; see also :func:`warming_up`."""
    from rankwright.scoring import _kernels

    return _kernels


@contextmanager
def warming_up() -> Iterator[None]:
    """Compile in this thread what a ``with`` block scores; others score with NumPy meanwhile."""
    _warming.add(get_ident())
    try:
        yield
    finally:
        _warming.discard(get_ident())


def score_rows(
    X: FloatArray,
    n_terms: int,
    width: int,
    compiled: Callable[[Any, FloatArray, FloatArray], None],
    plain: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """Scores that are sums of ``n_terms`` each: compiled if that pays, on threads if that pays.

    ``compiled(module, rows, scores)`` adds to the scores with a kernel. ``plain(rows)`` computes
    them with NumPy, for blocks of rows that need (rows, width) numbers. Both add up the terms of a
    row in the same order, so they give the same bits.
    """
    n_rows, n_pairs = X.shape[0], X.shape[0] * max(n_terms, 1)
    module, scores = kernels(n_pairs), np.zeros(X.shape[0])

    def score(rows: slice) -> None:
        if module is not None:
            compiled(module, read_only(X[rows]), scores[rows])
            return
        for block in row_blocks(rows.stop - rows.start, width, PAIRS_PER_BLOCK):
            scores[rows][block] = plain(X[rows][block])

    threads = n_pairs // PAIRS_PER_THREAD + 1
    if threads == 1 and n_rows:
        score(slice(0, n_rows))
        return scores
    threads = min(n_threads(), threads)
    parts = [slice(*part) for part in ranges(n_rows, threads)] if n_rows else []
    map_blocks(score, parts, threads)
    return scores


def read_only(X: FloatArray) -> FloatArray:
    view = np.ascontiguousarray(X).view()
    view.flags.writeable = False
    return view


def running_sum(parts: FloatArray) -> FloatArray:
    """The sum over the first axis from first to last (``sum`` adds up in pairs)."""
    if not len(parts):
        return np.zeros(parts.shape[1])
    return np.asarray(np.add.accumulate(parts, axis=0)[-1] + 0.0)  # 0.0 where all are -0.0
