"""What the columns of a table are, and how they become features: one set of rules for all sources.

A column holds numbers, booleans, dates or text; :func:`kind_of` finds out which. An
:class:`Encoding` says how each column becomes features. It is learned from training rows, stored in
the model file, and encodes new rows in the same way with NumPy alone.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import Column, FloatArray, Matrix
from rankwright.data.inputs import MISSING
from rankwright.data.vocabulary import is_missing
from rankwright.exceptions import (
    CellError,
    DataError,
    Message,
    ParameterError,
    Setting,
    UnknownLevelWarning,
)

Kind = Literal["number", "boolean", "date", "text", "codes"]
KINDS = ("number", "boolean", "date", "text", "codes", "drop")
PARTS = ("age", "weekday", "month")

MANY_ROWS = 50  # with fewer, a constant or unique column may be chance
MAX_LEVELS = 300  # each is a feature
NEARLY_ALL = 0.9  # the share of different texts from which a column identifies its rows
MANY_WORDS = 4.0  # the mean number of words in a cell of free text
WORD_SHARE = 0.5  # up to this share of words among numbers, the words are mistakes

_TRUTH = {"true": 1.0, "false": 0.0}
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?\s?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)
_LOCAL_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86400.0


class ColumnEncoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one column becomes features.

    ``number`` and ``boolean`` are one feature each, in which NaN is a missing value. ``date``
    becomes its age in days before ``newest`` (in days since 1970) or before the date in the column
    ``reference``, its weekday (Monday is 0) and its month. ``text`` is a feature of 0 and 1 for
    each level and, if training had missing cells, one for these; ``codes`` is the number of the
    level. ``fill`` replaces missing values of a number, a boolean or the parts of a date.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    has_missing: bool = False
    parts: tuple[str, ...] = ()
    newest: float | None = None
    reference: str | None = None
    fill: tuple[float, ...] = ()

    def feature_names(self) -> list[str]:
        """The names of its features, in order.

        >>> ColumnEncoding("color", "text", ("blue", "red"), has_missing=True).feature_names()
        ['color=blue', 'color=red', 'color=(missing)']
        """
        names = [self.name]
        if self.kind == "date":
            names = [f"{self.name}.{part}" for part in self.parts]
        elif self.kind == "text":
            names = [f"{self.name}={level}" for level in self.levels]
        return names + [f"{self.name}=(missing)"] * self.has_missing

    def check(self) -> None:
        """Raise a DataError unless training could have made this."""
        distinct = len(set(self.levels)) == len(self.levels)
        parts = all(part in PARTS for part in self.parts)
        newest = self.newest is None or np.isfinite(self.newest)
        dated = self.kind != "date" or (self.newest is None) != (self.reference is None)
        n_values = len(self.feature_names()) - self.has_missing
        fill = len(self.fill) in (0, n_values) and bool(np.isfinite(self.fill).all())
        if not (distinct and parts and newest and dated and fill):
            raise DataError(f"the encoding of the column {self.name[:40]!r} is not valid.")


class TableEncoding(Protocol):
    """What turns a table into a matrix: an :class:`Encoding`, or the features of a feature set."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns that it reads."""

    @property
    def columns(self) -> tuple[ColumnEncoding, ...]:
        """The columns that become features by themselves."""

    def encode(
        self, table: Mapping[str, Any], *, strict: bool = False, qid: ArrayLike | None = None
    ) -> FloatArray:
        """The features of a table, given as {name: cells}."""

    def warn_of_unknown(self, table: Mapping[str, Any], where: str = "X") -> None:
        """Warn of levels that training did not have."""


class Encoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a table becomes a matrix: an encoding for each column that is used.

    >>> color = ColumnEncoding("color", "text", ("blue", "red"))
    >>> encoding = Encoding((ColumnEncoding("price", "number"), color))
    >>> encoding.encode({"color": ["red", "teal"], "price": [9.5, None], "id": [1, 2]})
    array([[9.5, 0. , 1. ],
           [nan, 0. , 0. ]])
    >>> encoding.unknown_levels({"color": ["red", "teal"]})
    {'color': {'teal': 1}}
    """

    columns: tuple[ColumnEncoding, ...]

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.feature_names())

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns that it reads."""
        references = [column.reference for column in self.columns if column.reference is not None]
        return tuple(dict.fromkeys([*(column.name for column in self.columns), *references]))

    @property
    def parts(self) -> dict[str, slice]:
        """The features of each column."""
        ends = np.cumsum([len(column.feature_names()) for column in self.columns]).tolist()
        starts = [0, *ends[:-1]]
        names = [column.name for column in self.columns]
        return {n: slice(a, b) for n, a, b in zip(names, starts, ends, strict=True)}

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column."""
        return {column.name: column.kind for column in self.columns}

    @property
    def is_plain(self) -> bool:
        """Whether every column is a number, so that there is nothing to encode."""
        return all(column.kind == "number" for column in self.columns)

    def check(self) -> None:
        """Raise a DataError unless training could have made this."""
        for column in self.columns:
            column.check()
        check_names(self.feature_names)

    def absent(self, names: Iterable[str]) -> list[str]:
        """The columns that are not among these."""
        given = set(names)
        return [name for name in self.sources if name not in given]

    def encode(
        self, table: Mapping[str, Any], *, strict: bool = False, qid: ArrayLike | None = None
    ) -> FloatArray:
        """The features of a table, given as {name: cells}; other columns are ignored.

        A level that training did not have counts as missing. A cell that is not of the column's
        kind raises a :class:`~rankwright.exceptions.CellError`; with ``strict``, so does a number
        that is written as text. ``qid`` is ignored: every row is encoded by itself.
        """
        if absent := self.absent(table):
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            raise DataError(
                f"X lacks the column {absent[0]!r}{more}. This model was trained on: "
                f"{', '.join(self.sources[:20])}."
            )
        n_rows = len(next(iter(table.values()), ()))
        matrix = np.empty((n_rows, self.n_features))
        dates: dict[str, FloatArray] = {}
        at = 0
        for column in self.columns:
            width = len(column.feature_names())
            block, cells = matrix[:, at : at + width], table[column.name]
            at += width
            if column.kind in ("text", "codes"):
                _encode_text(column, cells, block)
            elif column.kind == "date":
                for name in filter(None, (column.name, column.reference)):
                    if name not in dates:
                        dates[name] = values_of(name, table[name], "date")
                _encode_date(column, dates, block)
            else:
                block[:, 0] = values_of(column.name, cells, column.kind, strict=strict)
            if column.fill:
                _fill(column, block)
        return matrix

    def unknown_levels(self, table: Mapping[str, Any]) -> dict[str, dict[str, int]]:
        """The levels of a table that training did not have, by column, with their cells."""
        unknown = {}
        for column in self.columns:
            if column.kind in ("text", "codes") and column.name in table:
                known = set(column.levels)
                counts = Counter(map(level_of, _cells(table[column.name])))
                new = {level: n for level, n in counts.items() if level is not None}
                new = {level: n for level, n in new.items() if level not in known}
                if new:
                    unknown[column.name] = new
        return unknown

    def warn_of_unknown(self, table: Mapping[str, Any], where: str = "X") -> None:
        """Warn of levels that training did not have, with the number of their cells."""
        for name, levels in self.unknown_levels(table).items():
            shown = ", ".join(list(levels)[:3]) + (", ..." if len(levels) > 3 else "")
            warnings.warn(
                f"{where}: {sum(levels.values()):,} cells of {name} hold levels that training did "
                f"not have ({shown}); they count as missing.",
                UnknownLevelWarning,
                stacklevel=3,
            )


def check_names(names: Sequence[str]) -> None:
    """Raise a DataError if two features have the same name."""
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise DataError(f"two features are called {twice!r}. Rename a column.")


def _encode_text(column: ColumnEncoding, cells: Column, block: FloatArray) -> None:
    number = {level: k for k, level in enumerate(column.levels)}
    missing = len(column.levels)
    distinct: dict[Any, int] = {}
    codes = np.empty(len(block), dtype=np.int64)
    for row, cell in enumerate(_cells(cells)):
        _refuse_container(column.name, row, cell)
        key = cell if isinstance(cell, str) else (type(cell), cell)  # True and 1 are equal keys
        code = distinct.get(key)
        if code is None:
            code = distinct[key] = number.get(level_of(cell), missing)  # type: ignore[arg-type]
        codes[row] = code
    if column.kind == "codes":
        block[:, 0] = np.where(codes == missing, np.nan, codes)
        return
    block[:] = 0.0
    rows = np.flatnonzero(codes < block.shape[1])
    block[rows, codes[rows]] = 1.0


def _encode_date(
    column: ColumnEncoding, dates: Mapping[str, FloatArray], block: FloatArray
) -> None:
    days = dates[column.name]
    whole = np.floor(days)
    for k, part in enumerate(column.parts):
        if part == "age":
            newest: Any = column.newest if column.reference is None else dates[column.reference]
            block[:, k] = newest - days
        elif part == "weekday":
            block[:, k] = (whole + 3) % 7  # 1970-01-01 was a Thursday
        else:
            months = np.where(np.isnan(whole), 0, whole).astype("datetime64[D]")
            number = months.astype("datetime64[M]").astype(np.int64) % 12 + 1
            block[:, k] = np.where(np.isnan(whole), np.nan, number)


def _fill(column: ColumnEncoding, block: FloatArray) -> None:
    gaps = np.isnan(block[:, 0])
    block[gaps, : len(column.fill)] = column.fill
    if column.has_missing:
        block[:, -1] = gaps


def _cells(cells: Column) -> list[Any]:
    """The cells of a column as Python objects."""
    if isinstance(cells, list):
        return cells
    array = np.asarray(cells)
    if array.dtype.kind in "mM":
        return list(array.astype(f"{array.dtype.kind}8[us]").astype(object))
    return list(array.tolist())


def level_of(cell: object) -> str | None:
    """A cell of text as a level: 7.0 of a data frame is 7, as the file had it; None if missing.

    >>> [level_of(cell) for cell in ("red", 7.0, True, "", "NA", None)]
    ['red', '7', 'True', None, None, None]
    """
    if isinstance(cell, str):
        return None if cell.strip() in MISSING else cell
    if is_missing(cell):
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def is_empty(cell: object) -> bool:
    """Whether a cell is missing."""
    return cell.strip() in MISSING if isinstance(cell, str) else is_missing(cell)


def _number(cell: object) -> float | None:
    """A number, or text that is a plain finite number; None for anything else."""
    if isinstance(cell, str):
        text = cell.strip(" \t")
        value = float(text) if _NUMBER.fullmatch(text) else np.inf
    elif isinstance(cell, Real | Decimal):
        value = float(cell)
    else:
        return None
    return value if np.isfinite(value) else None


def _truth(cell: object) -> float | None:
    if isinstance(cell, str):
        word = cell.strip().lower()
        return _TRUTH.get(word, 1.0 if word == "1" else 0.0 if word == "0" else None)
    if isinstance(cell, bool | np.bool_):
        return float(cell)
    return float(cell) if isinstance(cell, Real) and cell in (0, 1) else None


def _days(cell: object) -> float | None:
    """Days since 1970-01-01 in UTC; a time without a zone is taken as UTC."""
    if isinstance(cell, str):
        text = cell.strip()
        if not _DATE.fullmatch(text):
            return None
        try:
            cell = datetime.fromisoformat(text.replace(",", "."))
        except ValueError:  # 2024-02-30
            return None
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").astype(object)
    if isinstance(cell, datetime):
        moment = cell if cell.tzinfo is not None else cell.replace(tzinfo=UTC)
        try:
            return float((moment - _EPOCH).total_seconds() / _DAY)
        except OverflowError:
            return None
    return float((cell - _EPOCH.date()).days) if isinstance(cell, date) else None


_READ = {"number": _number, "boolean": _truth, "date": _days}
_NEEDED = {
    "number": "a finite number",
    "boolean": "true or false",
    "date": "a date such as 2024-05-31 or 2024-05-31T18:30:00Z",
}


def values_of(name: str, cells: Any, kind: str, *, strict: bool = False) -> FloatArray:
    """The cells of a column of numbers, booleans or dates as numbers; NaN for missing ones.

    >>> values_of("sold", ["true", "", False], "boolean")
    array([ 1., nan,  0.])
    """
    array = None if isinstance(cells, list) else np.asarray(cells)
    if array is not None and kind == "date" and array.dtype.kind == "M":
        moments = array.astype("datetime64[us]")
        days = moments.astype(np.int64) / (_DAY * 1e6)
        return np.where(np.isnat(moments), np.nan, days)
    if array is not None and kind == "number" and array.ndim == 1 and array.dtype.kind in "fiub":
        numbers = array.astype(np.float64)
        if np.isinf(numbers).any():
            row = int(np.argmax(np.isinf(numbers)))
            raise CellError(name, row, float(numbers[row]), _NEEDED[kind])
        return numbers
    read, known = _READ[kind], dict[Any, float]()
    values = np.empty(len(cells))
    for row, cell in enumerate(_cells(cells)):
        _refuse_container(name, row, cell)
        key = cell if isinstance(cell, str) else (type(cell), cell)
        value = known.get(key)
        if value is None:
            empty = is_empty(cell)
            found = np.nan if empty else read(cell)
            if found is None or (strict and not empty and _is_text_number(cell, kind)):
                raise CellError(name, row, cell, _NEEDED[kind])
            value = known[key] = found
        values[row] = value
    return values


def _is_text_number(cell: object, kind: str) -> bool:
    return kind == "number" and isinstance(cell, str | bool)


_NOT_CELLS = (list, tuple, dict, set, np.ndarray, timedelta, complex, bytes, bytearray)


def _refuse_container(name: str, row: int, cell: object) -> None:
    if isinstance(cell, list | tuple | dict | set | np.ndarray):
        raise CellError(name, row, cell, "one value; a column of lists has no order")
    if isinstance(cell, timedelta):
        raise CellError(name, row, cell, "a number of days or seconds; a duration has no unit")
    if isinstance(cell, complex | bytes | bytearray):
        raise CellError(name, row, cell, "a number or text")


class Read(NamedTuple):
    """How a column was read, and why."""

    name: str
    kind: str  # of KINDS, or a role: grade, query, id, weight
    why: str


def kind_of(name: str, cells: Column) -> tuple[str, str]:
    """The kind of a column, and why.

    Raises a CellError for words in a column of numbers: at most half of its cells, so that they
    look like mistakes.

    >>> kind_of("launched", ["2024-05-31", "", "1969-07-20T20:17:40Z"])
    ('date', 'every cell is a date')
    >>> kind_of("color", ["red", None, "7", "blue"])
    ('text', 'words')
    """
    kind = "" if isinstance(cells, list) else np.asarray(cells).dtype.kind
    if kind in "fiu" and kind:
        return "number", ""
    if kind in "bM" and kind:
        return ("boolean", "true or false") if kind == "b" else ("date", "every cell is a date")
    counts: Counter[Any] = Counter()
    listed = _cells(cells)
    try:
        counts.update(listed)
    except TypeError:
        for row, cell in enumerate(listed):
            _refuse_container(name, row, cell)
        raise
    if any(isinstance(cell, _NOT_CELLS) for cell in counts):
        for row, cell in enumerate(listed):
            _refuse_container(name, row, cell)
    known = {cell: n for cell, n in counts.items() if not is_empty(cell)}
    if not known:
        return "number", "every cell is missing"
    if all(isinstance(cell, bool | np.bool_) or _is_truth_word(cell) for cell in known):
        return "boolean", "true or false"
    words = {cell: n for cell, n in known.items() if _number(cell) is None}
    if not words:
        return "number", ""
    if len(words) == len(known) and all(_days(cell) is not None for cell in known):
        return "date", "every cell is a date"
    commas = {cell for cell in words if _is_comma_number(cell)}
    if len(commas) == len(words):
        row = next(row for row, cell in enumerate(listed) if cell in commas)
        needed = "a number with a decimal point and without separators of thousands"
        raise CellError(name, row, listed[row], needed, n_words=sum(words.values()))
    if sum(words.values()) <= WORD_SHARE * sum(known.values()):
        row = next(row for row, cell in enumerate(listed) if cell in words)
        raise CellError(name, row, listed[row], "a finite number", n_words=sum(words.values()))
    if all(isinstance(cell, str) and _LOCAL_DATE.fullmatch(cell.strip()) for cell in known):
        return "text", "words: day and month cannot be told apart; write 2024-05-31"
    return "text", "words"


def _is_comma_number(cell: object) -> bool:
    return isinstance(cell, str) and "," in cell and _number(cell.replace(",", "")) is not None


def _is_truth_word(cell: object) -> bool:
    return isinstance(cell, str) and cell.strip().lower() in _TRUTH


def left_out(name: str, cells: Sequence[Any] | NDArray[Any], kind: str) -> str | None:
    """Why a column says nothing about new rows, or None: constant, an id, or free text."""
    n_rows = len(cells)
    if n_rows < MANY_ROWS:
        return None
    if kind == "number":
        values = values_of(name, cells, "number")
        known = values[~np.isnan(values)]
        if len(known) == 0 or (len(known) == n_rows and known.min() == known.max()):
            return "the same value in every row" if len(known) else "every cell is missing"
        return "a different whole number in every row, like an id" if _are_ids(values) else None
    if kind == "text":
        counts = Counter(map(level_of, _cells(cells)))
        n_missing = counts.pop(None, 0)
        if len(counts) == 1 and not n_missing:
            return "the same value in every row"
        n_known, n_levels = n_rows - n_missing, len(counts)
        words = sum(n * len(level.split()) for level, n in counts.items() if level) / n_known
        if n_levels > MAX_LEVELS and words >= MANY_WORDS:
            return f"free text ({n_levels:,} different texts of {words:.0f} words)"
        if n_levels > NEARLY_ALL * n_known and n_known >= MANY_ROWS:
            if words >= MANY_WORDS:
                return f"free text ({n_levels:,} different texts of {words:.0f} words)"
            return f"{n_levels:,} different values in {n_known:,} rows, like an id"
        return None
    values = values_of(name, cells, kind)
    gaps = np.isnan(values)
    constant = not gaps.any() and values.min() == values.max()
    return "the same value in every row" if constant else None


def _are_ids(values: FloatArray) -> bool:
    """Whether whole numbers number the rows: all different, and dense or in order."""
    if np.isnan(values).any() or (values != np.floor(values)).any():
        return False
    steps = np.diff(values)
    distinct = np.unique(values)
    is_dense = distinct[-1] - distinct[0] < 2 * len(values)
    return len(distinct) == len(values) and bool(is_dense or (steps > 0).all())


@dataclass(frozen=True)
class Rules:
    """How to encode a table; what is not given is found out.

    Parameters
    ----------
    kinds : {column: kind}
        The kind of a column: number, boolean, date, text (a feature for each level), codes (the
        number of the level), or drop. It always wins.
    keep : columns that are never left out
    max_levels : the most levels of a column of text; rarer ones count as missing
    reference : a column of dates from which ages are counted, instead of the newest date
    fill : whether to replace missing values by the median
    """

    kinds: Mapping[str, str] = ()  # type: ignore[assignment]
    keep: frozenset[str] = frozenset()
    max_levels: int = MAX_LEVELS
    reference: str | None = None
    fill: bool = False


def fit_encoding(
    table: Mapping[str, Any], rules: Rules | None = None, names: Sequence[str] | None = None
) -> tuple[Encoding, list[Read]]:
    """The encoding of a table, and how each of its columns was read.

    ``names`` are the columns that may be features, by default all. A CellError says which cell
    contradicts the kind of its column.

    >>> table = {"price": [9.5, 3.0], "color": ["red", ""], "sold": [True, None]}
    >>> encoding, _ = fit_encoding(table)
    >>> encoding.feature_names
    ('price', 'color=red', 'color=(missing)', 'sold')
    """
    rules = rules or Rules()
    kinds = dict(rules.kinds or {})
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise ParameterError(
                Setting("kinds", {name: kind}), f": use one of {', '.join(KINDS)}."
            )
        if name not in table:
            raise ParameterError(
                Setting("kinds", {name: kind}), f": no column {name!r} among {', '.join(table)}."
            )
    if rules.reference is not None and rules.reference not in table:
        raise ParameterError(
            Setting("reference", rules.reference), f": no such column among {', '.join(table)}."
        )
    encodings, read = [], []
    for name in table if names is None else names:
        cells, given = table[name], kinds.get(name)
        if name == rules.reference:
            values_of(name, cells, "date")
            read.append(Read(name, "reference", "ages are counted from it"))
            continue
        kind, why = (given, "as given") if given else kind_of(name, cells)
        if not given and kind != "drop" and name not in rules.keep:
            reason = left_out(name, cells, kind)
            kind, why = ("drop", reason) if reason else (kind, why)
        if kind != "drop":
            column, more = _fit_column(name, cells, kind, rules)
            if rules.fill and kind not in ("text", "codes"):
                column = _with_medians(column, table)
            encodings.append(column)
            why = ", ".join(filter(None, (why, more)))
        read.append(Read(name, kind, why))
    whole = Encoding(tuple(encodings))
    check_names(whole.feature_names)
    return whole, read


def _fit_column(name: str, cells: ArrayLike, kind: str, rules: Rules) -> tuple[ColumnEncoding, str]:
    if kind in ("text", "codes"):
        return _fit_levels(name, cells, kind, rules.max_levels)
    values = values_of(name, cells, kind)
    n_missing = int(np.isnan(values).sum())
    gaps = f"{n_missing:,} missing" if n_missing else ""
    if kind != "date":
        return ColumnEncoding(name, kind), gaps  # type: ignore[arg-type]
    known = values[~np.isnan(values)]
    span = float(known.max() - known.min()) if len(known) else 0.0
    # A weekday needs some weeks to repeat, a month some years.
    parts = ("age", *["weekday"] * (span >= 28), *["month"] * (span >= 730))
    newest = float(known.max()) if len(known) else 0.0
    if rules.reference is not None:
        return ColumnEncoding(name, "date", parts=parts, reference=rules.reference), gaps
    since = str(np.datetime64(int(np.floor(newest)), "D"))
    about = ", ".join(filter(None, (f"age in days before {since}", *parts[1:], gaps)))
    return ColumnEncoding(name, "date", parts=parts, newest=newest), about


def _with_medians(column: ColumnEncoding, table: Mapping[str, Any]) -> ColumnEncoding:
    values = Encoding((column,)).encode(table)
    gaps = np.isnan(values).any(axis=0)
    known = [part[~np.isnan(part)] for part in values.T]
    medians = tuple(float(np.median(part)) if len(part) else 0.0 for part in known)
    return msgspec.structs.replace(column, fill=medians, has_missing=bool(gaps.any()))


def _fit_levels(name: str, cells: Column, kind: str, max_levels: int) -> tuple[ColumnEncoding, str]:
    for row, cell in enumerate(listed := _cells(cells)):
        _refuse_container(name, row, cell)
    counts = Counter(map(level_of, listed))
    n_missing = counts.pop(None, 0)
    frequent = sorted(counts, key=lambda level: (-counts[level], level))[:max_levels]
    n_rare = len(counts) - len(frequent)
    levels = tuple(sorted(level for level in frequent if level is not None))
    has_missing = kind == "text" and bool(n_missing or n_rare)
    parts = [f"{len(levels):,} levels"]
    if n_missing:
        parts.append(f"{n_missing:,} missing")
    if n_rare:
        parts.append(f"{n_rare:,} rare levels count as missing")
    if same := _alike(levels):
        parts.append(f"{same[0]!r} and {same[1]!r} are different levels")
    return ColumnEncoding(name, kind, levels, has_missing), ", ".join(parts)  # type: ignore[arg-type]


def _alike(levels: Iterable[str]) -> tuple[str, str] | None:
    """Two levels that differ only in case, accents or blanks, if there are any.

    >>> _alike(["Café", "cafe ", "red"])
    ('Café', 'cafe ')
    """
    seen: dict[str, str] = {}
    for level in levels:
        letters = unicodedata.normalize("NFKD", level.strip().casefold())
        key = "".join(c for c in letters if not unicodedata.combining(c))
        if key in seen:
            return seen[key], level
        seen[key] = level
    return None


def reading_table(read: Sequence[Read]) -> Message:
    """The table "column, read as, why", and how to change it.

    >>> print(reading_table([Read("grade", "grade", "its name"), Read("row", "drop", "an id")]))
    column  read as   why
    grade   grade     its name
    row     left out  an id
    to change it: kinds={'row': 'number'}
    """
    rows = [
        ("column", "read as", "why"),
        *((r.name, _SHOWN.get(r.kind, r.kind), r.why) for r in read),
    ]
    widths = [max(len(row[k]) for row in rows) for k in (0, 1)]
    lines = ["  ".join((a.ljust(widths[0]), b.ljust(widths[1]), c)).rstrip() for a, b, c in rows]
    kinds = [r for r in read if r.kind in KINDS]
    parts: list[Any] = ["\n".join(lines)]
    if kinds:
        # Left-out columns first, then those with a reason to look at.
        example = min(kinds, key=lambda r: (r.kind != "drop", not r.why, r.kind == "number"))
        other = "number" if example.kind == "drop" else "drop"
        parts += ["\nto change it: ", Setting("kinds", {example.name: other})]
    return Message(*parts)


_SHOWN = {"drop": "left out"}


def parse_kinds(texts: Iterable[str]) -> dict[str, str]:
    """Kinds from ``column=kind``, as the command line has them.

    >>> parse_kinds(["a=b=text"])
    {'a=b': 'text'}
    """
    pairs = [text.rpartition("=") for text in texts]
    for (name, _, kind), text in zip(pairs, texts, strict=True):
        if not name or kind not in KINDS:
            raise ParameterError(
                Setting("kinds", text), f": write column=kind, with one of {', '.join(KINDS)}."
            )
    return {name: kind for name, _, kind in pairs}


def column_statistics(X: Matrix, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Mean, deviation, quartiles and missing share of each feature, for model files and drift."""
    facts = {}
    for k, name in enumerate(names):
        column = X[:, k] if isinstance(X, np.ndarray) else X[:, [k]].toarray()[:, 0]
        known: NDArray[Any] = column[~np.isnan(column)]
        entry = {"missing": round(1.0 - len(known) / max(len(column), 1), 6)}
        if len(known):
            low, first, median, third, high = np.quantile(known, [0, 0.25, 0.5, 0.75, 1]).tolist()
            entry |= {"mean": float(known.mean()), "std": float(known.std()), "min": low}
            entry |= {"q25": first, "median": median, "q75": third, "max": high}
        facts[name] = entry
    return facts
