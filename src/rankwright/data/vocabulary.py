"""Ids as given, as dense numbers and as hashes; hashes of rows.

Each container converts between ids and dense numbers in one place. Hashes are the same on every
machine, in every process and order: 7, 7.0 and ``np.int8(7)`` are one id, text hashes as UTF-8 and
bytes as they are, other ids by their ``repr``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from hashlib import blake2b
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import Column, FloatArray, Id, IntArray, Matrix
from rankwright.exceptions import DataError, ParameterError


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view; the caller's own array stays writable."""
    view = array.view()
    view.setflags(write=False)
    return view


def as_column(
    values: Column, name: str, n_rows: int, *, finite: bool = True
) -> NDArray[np.float64]:
    """One float64 per row, from a list, an array or a column of a data frame.

    >>> as_column(["a"], "value", 1)
    Traceback (most recent call last):
    ...
    rankwright.exceptions.DataError: value contains a value that is not a number (could not ...
    """
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} contains a value that is not a number ({error}).") from None
    if column.shape != (n_rows,):
        fix = f"give one number for each of {n_rows} rows"
        raise DataError(f"{name} has the shape {column.shape}: {fix}.")
    bad = ~np.isfinite(column)
    if finite and bad.any():
        row = int(np.argmax(bad))
        fix = "give a finite number, or drop the row"
        raise DataError(f"{name} is {column[row]} in row {row}: {fix}.")
    return column


def check_probabilities(
    values: FloatArray,
    name: str,
    *,
    unit: str = "position",
    zero: bool = True,
    one: bool = True,
    error: type[Exception] = DataError,
) -> None:
    """Refuse the first entry outside 0 .. 1, and 0 or 1 where they are not allowed.

    >>> check_probabilities(np.array([1.0, 0.0]), "propensity", zero=False)
    Traceback (most recent call last):
    ...
    rankwright.exceptions.DataError: propensity is 0 at position 2: give probabilities, 0 < p <= 1.
    """
    bad = ~((values >= 0) & (values <= 1)) | (values == 0) & (not zero) | (values == 1) & (not one)
    if bad.any():
        entry = int(np.argmax(bad))
        location = f"{unit} {entry + 1 if unit == 'position' else entry}"
        bounds = f"0 {'<=' if zero else '<'} p {'<=' if one else '<'} 1"
        raise error(f"{name} is {values[entry]:g} at {location}: give probabilities, {bounds}.")


def entries(n: int) -> str:
    """A number of entries, for messages.

    >>> entries(1), entries(2)
    ('1 entry', '2 entries')
    """
    return "1 entry" if n == 1 else f"{n} entries"


def row_numbers(rows: ArrayLike | slice, n_rows: int) -> IntArray:
    """Row numbers from a mask, row numbers in any order, or a slice."""
    numbers = np.arange(n_rows, dtype=np.int64)
    if isinstance(rows, slice):
        return np.asarray(numbers[rows])
    index = np.asarray(rows)
    if index.size == 0 and index.dtype.kind == "f":  # an empty list
        index = index.astype(np.int64)
    if index.ndim != 1 or index.dtype.kind not in "biu":
        raise DataError(
            f"rows is an array of {index.dtype} with shape {index.shape}: give a mask, row numbers "
            "or a slice."
        )
    if index.dtype.kind == "b" and len(index) != n_rows:
        raise DataError(f"the mask has {entries(len(index))} for {n_rows} rows: give one per row.")
    outside = index.dtype.kind != "b" and ((index < -n_rows) | (index >= n_rows))
    if np.any(outside):
        row = index[np.argmax(outside)]
        raise DataError(f"row number {row} is out of range: give numbers in 0 .. {n_rows - 1}.")
    return np.asarray(numbers[index])


def pair_keys(left: IntArray, right: IntArray) -> IntArray:
    """One number for each pair of numbers >= 0; different pairs get different numbers."""
    return left * np.int64(right.max(initial=0) + 1) + right


def first_repeat(left: IntArray, right: IntArray) -> tuple[int, int] | None:
    """The first row whose pair of numbers an earlier row had already, with that earlier row.

    >>> first_repeat(np.array([5, 7, 5, 7]), np.array([0, 0, 0, 0]))
    (2, 0)
    """
    in_order = pair_keys(left, right)
    in_order.sort()
    if not (in_order[1:] == in_order[:-1]).any():
        return None
    keys = pair_keys(left, right)
    order = np.argsort(keys, kind="stable")
    row = int(order[1:][keys[order[1:]] == keys[order[:-1]]].min())
    return row, int(np.flatnonzero(keys[:row] == keys[row])[0])


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Distinct ids of any hashable type, numbered from 0 in the order given.

    Parameters
    ----------
    ids : (n_ids,) array
        The distinct ids, such as :func:`encode` returns.
    name : str
        What the ids are, for error messages.

    Examples
    --------
    >>> films = Vocabulary(np.array(["Heat", "Alien"]), name="film")
    >>> films.numbers(["Alien", "Heat", "Alien"])
    array([1, 0, 1])
    >>> films.numbers(["Alien", "Solaris"], unknown=-1)
    array([ 1, -1])
    >>> "Heat" in films, len(films)
    (True, 2)
    """

    ids: NDArray[Any]
    name: str = "id"

    def __post_init__(self) -> None:
        self.ids.setflags(write=False)
        if len(self._table) != len(self.ids):
            raise DataError(
                f"{self.name}: {len(self.ids)} ids, but only {len(self._table)} are distinct. Give "
                "each id once."
            )

    @cached_property
    def _table(self) -> dict[Any, int]:
        return {key: number for number, key in enumerate(self.ids.tolist())}

    def numbers(self, ids: Column, unknown: int | None = None) -> IntArray:
        """The number of each id; ``unknown`` for an unknown id, or an error if that is None."""
        keys = as_ids(ids, self.name).tolist()
        numbers = np.array([self._table.get(key, -1) for key in keys], dtype=np.int64)
        missing = numbers < 0
        if missing.any():
            if unknown is None:
                key = f"{self.name} {keys[np.argmax(missing)]!r}"
                raise DataError(f"{key} is not one of the {len(self)} known ids.")
            numbers[missing] = unknown
        return numbers

    def __contains__(self, key: object) -> bool:
        return _as_text(key) in self._table

    def __len__(self) -> int:
        return len(self.ids)


def as_ids(values: Any, name: str = "qid") -> NDArray[Any]:
    """A one-dimensional array of ids from an array, a list or a column of any data frame.

    A UUID is its text: model files hold integers and texts.

    >>> as_ids([1, "1"]).tolist()  # two ids, not one
    [1, '1']
    """
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if not isinstance(values, np.ndarray):
        values = _array_of(values, name)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(f"{name} has {values.ndim} axes {values.shape}: give one id per row.")
    if values.dtype.kind == "f" or values.dtype == object:
        is_text = values.dtype == object
        missing = np.fromiter(map(is_missing, values), bool) if is_text else np.isnan(values)
        if missing.any():
            row = int(np.argmax(missing))
            raise DataError(f"{name} is {values[row]} in row {row}: every row needs an id.")
        if is_text and any(isinstance(key, UUID) for key in values):
            values = _array_of([_as_text(key) for key in values], name)
    return np.asarray(values)


def _as_text(key: Id) -> Any:
    return str(key) if isinstance(key, UUID) else key


def _array_of(values: Column, name: str) -> NDArray[Any]:
    items = list(values) if isinstance(values, Iterable) else None
    if items is None or isinstance(values, str | bytes):
        raise DataError(f"{name} is {values!r}: give one id per row, as a list, array or column.")
    # np.asarray would turn [1, "1"] into two equal strings, and tuples into a second axis.
    kinds = {type(item) for item in items}
    if len(kinds) > 1:  # the integers and texts of NumPy beside Python's are no second type
        items = [item.item() if isinstance(item, np.integer | np.str_) else item for item in items]
        kinds = {type(item) for item in items}
    # NumPy's text arrays drop a NUL at the end, which would merge the ids "a" and "a\\0".
    nul = kinds == {str} and any(str(item).endswith("\0") for item in items)
    if len(kinds) == 1 and not kinds & {tuple, list, set, dict, frozenset, bytes} and not nul:
        return np.asarray(items)
    ids = np.empty(len(items), dtype=object)
    ids[:] = items
    return ids


def is_missing(key: object) -> bool:
    try:
        return key is None or bool(key != key)
    except TypeError:  # pandas.NA cannot be compared
        return True


def encode(ids: NDArray[Any], name: str = "qid") -> tuple[IntArray, NDArray[Any]]:
    """Dense numbers in order of first appearance, and the distinct ids.

    >>> encode(np.array([30, 10, 30]))
    (array([0, 1, 0]), array([30, 10]))
    """
    if len(ids) == 0:
        return np.zeros(0, np.int64), ids.copy()
    if ids.dtype == object:
        return _encode_by_dict(ids, name)
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    runs = ids[starts]  # often the rows are grouped already: far fewer runs than rows
    if ids.dtype.kind in "iu" and int(runs.max()) - int(runs.min()) < 4 * len(runs) + 1024:
        numbers, distinct = _encode_by_table(runs)
    else:
        numbers, distinct = _encode_by_dict(runs, name)
    if len(runs) == len(ids):
        return numbers, distinct
    return np.repeat(numbers, np.diff(np.concatenate([starts, [len(ids)]]))), distinct


def encode_texts(texts: list[str]) -> tuple[IntArray, NDArray[Any]]:
    """As :func:`encode`, for a list of texts.

    >>> encode_texts(["b", "a", "b"])
    (array([0, 1, 0]), array(['b', 'a'], dtype=object))
    """
    table = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    numbers = np.fromiter(map(table.__getitem__, texts), np.int64, len(texts))
    return numbers, np.array(list(table), dtype=object)


def _encode_by_table(ids: NDArray[Any]) -> tuple[IntArray, NDArray[Any]]:
    """Whole numbers in a narrow range: one table indexed by the id itself, no sorting."""
    wide = ids.astype(np.int64) if ids.dtype.kind == "i" else ids
    offset = (wide - wide.min()).astype(np.int64)
    first = _first_rows(offset, int(offset.max()) + 1)
    heads = np.sort(first[first >= 0])
    number = np.empty(len(first), dtype=np.int64)
    number[offset[heads]] = np.arange(len(heads))
    return number[offset], ids[heads]


def _encode_by_dict(ids: NDArray[Any], name: str) -> tuple[IntArray, NDArray[Any]]:
    keys = ids.tolist()
    try:
        table = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    except TypeError as error:
        raise DataError(f"{name} holds an id that cannot be hashed ({error}).") from None
    numbers = np.fromiter(map(table.__getitem__, keys), np.int64, len(keys))
    return numbers, ids[_first_rows(numbers, len(table))]


def _first_rows(numbers: IntArray, n_numbers: int) -> IntArray:
    """The first row of each number, -1 where it has none."""
    first = np.full(n_numbers, -1, dtype=np.int64)
    # Of repeated indices the last assignment counts: in reverse order, that is the first row.
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first


class UsersAndItems:
    """What containers of users and items share: their ids, counted and looked up."""

    users: NDArray[Any]
    items: NDArray[Any]

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @cached_property
    def user_vocabulary(self) -> Vocabulary:
        return Vocabulary(self.users, "user")

    @cached_property
    def item_vocabulary(self) -> Vocabulary:
        return Vocabulary(self.items, "item")


Hashes = NDArray[np.uint64]


def mix(keys: ArrayLike) -> Hashes:
    """Spread 64 bits (the finalizer of splitmix64).

    >>> mix(np.array([1, 2])).tolist()
    [10451216379200822465, 10905525725756348110]
    """
    bits = np.atleast_1d(keys).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def find_id(word: str, known: NDArray[Any], what: str = "id") -> Any:
    """An id that was typed, as the data have it: a number or a text.

    >>> find_id("7", np.array([5, 7])), find_id("ann", np.array(["ann"]))
    (7, 'ann')
    >>> find_id("anne", np.array(["ann"]), "user")
    Traceback (most recent call last):
    rankwright.exceptions.DataError: user 'anne' is not one of the 1 known. Did you mean ann?
    >>> find_id("77", np.array([5, 6]), "user")
    Traceback (most recent call last):
    rankwright.exceptions.DataError: user '77' is not one of the 2 known. One of them is 5.
    """
    is_number = known.dtype.kind in "iu" and word.removeprefix("-").isdigit()
    key: Any = int(word) if is_number else word
    if not (known == key).any():
        names = known.tolist()
        near = get_close_matches(word, [str(name) for name in names], 3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"One of them is {names[0]!r}."
        raise DataError(f"{what} {word!r} is not one of the {len(known):,} known. {hint}")
    return key


def parse_ratings(
    words: Iterable[str], items: NDArray[Any], default: float | None = None
) -> dict[Any, float]:
    """Ratings that were typed as ``ITEM=RATING``; ``default`` is that of ``ITEM`` alone.

    >>> parse_ratings(["Alien=5", "Heat=2.5"], np.array(["Alien", "Heat"]))
    {'Alien': 5.0, 'Heat': 2.5}
    """
    ratings = {}
    for word in words:
        item, equals, text = word.rpartition("=")
        if not equals and default is not None:
            item, text = word, str(default)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not item or math.isnan(value):
            raise ParameterError(f"{word}: write ITEM=RATING, such as 1193=5.")
        ratings[find_id(item, items, "item")] = value
    return ratings


def hash_ids(ids: Column) -> Hashes:
    """A stable hash of ids of any type, the same on every machine and in every process.

    >>> a, b = hash_ids([7, 8]), hash_ids(np.array([7.0, 8.0]))
    >>> bool((a == b).all())
    True
    >>> bool(hash_ids(["x"])[0] == hash_ids([b"x"])[0])
    True
    """
    ids = as_ids(ids)
    if ids.dtype.kind in "iub":
        return mix(ids.astype(np.int64).view(np.uint64) if ids.dtype.kind != "u" else ids)
    if (
        ids.dtype.kind == "f"
        and bool((ids == np.rint(ids)).all())
        and np.abs(ids).max(initial=0) < 2**53
    ):
        return mix(ids.astype(np.int64).view(np.uint64))
    codes, distinct = encode(ids)
    return np.array([_hash_id(i) for i in distinct.tolist()], np.uint64)[codes]


def _hash_id(value: Id) -> int:
    if isinstance(value, bool | int | float) and value == value // 1:
        return int(mix(np.array([int(value) & (2**64 - 1)], np.uint64))[0])
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    data = value if isinstance(value, bytes) else repr(value).encode()
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def hash_rows(X: Matrix, *columns: FloatArray) -> Hashes:
    """A hash of the content of each row, which is an array, CSR, or both with more columns.

    Zeros count nothing, so CSR and dense rows agree.
    """
    factors = mix(np.arange(1, X.shape[1] + len(columns) + 1)) | np.uint64(1)
    if hasattr(X, "tocsr"):
        table, total = X.tocsr(), np.zeros(X.shape[0], np.uint64)
        row = np.repeat(np.arange(X.shape[0]), np.diff(table.indptr))
        np.add.at(total, row, _bits(table.data) * factors[table.indices])
    else:
        total = _bits(X) @ factors[: X.shape[1]]
    for number, column in enumerate(columns, start=X.shape[1]):
        total = total + _bits(column) * factors[number]
    return mix(total)


def _bits(values: NDArray[Any]) -> Hashes:
    return np.ascontiguousarray(values, np.float64).view(np.uint64)
