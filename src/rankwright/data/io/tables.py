"""Tables of items: features, grade and query as columns of a CSV or Parquet file or a frame."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankwright.data.frames import Columns, columns_of, read_parquet
from rankwright.data.io.fields import Fields, is_number, likely_separator, parse_csv, split_fields
from rankwright.data.io.files import Text, read_text
from rankwright.data.items import Items
from rankwright.data.vocabulary import as_column, as_ids, encode
from rankwright.exceptions import DataError, ParameterError


def read_jsonl(path: str | os.PathLike[str]) -> Columns:
    """The columns of a file of JSON objects, one a line, gzipped or not.

    Every object has the same fields, and a field is a number, a text or null (which becomes NaN).
    ``"features": [0.1, 0.2]`` is taken apart into columns ``1``, ``2``, ...; an object of named
    features into a column for each name.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.jsonl"
    >>> _ = path.write_text('{"qid": 7, "grade": 2, "features": [0.5, null]}\\n')
    >>> read_jsonl(path)
    {'qid': array([7]), 'grade': array([2]), '1': array([0.5]), '2': array([nan])}
    """
    text = read_text(path)
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, line in enumerate(text.decode().split("\n"), start=1):
        if line.strip():
            rows.append(_flat(text, number, _parse_json(text, number, line)))
            numbers.append(number)
    names = list(rows[0])
    for number, row in zip(numbers, rows, strict=True):
        if row.keys() != rows[0].keys():
            odd = sorted(row.keys() ^ rows[0].keys())[0]
            where = "is missing" if odd in rows[0] else "is new"
            text.refuse(number, 1, f'field "{odd}" {where} here', "give every line the same fields")
    return {name: _column([row[name] for row in rows]) for name in names}


def _parse_json(text: Text, number: int, line: str) -> dict[str, Any]:
    def refuse_constant(word: str) -> NoReturn:
        text.refuse(number, line.find(word) + 1, f"{word} is no JSON", "write null for a gap")

    try:
        row = json.loads(line, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        text.refuse(number, error.colno, f"not JSON ({error.msg})", "write one object a line")
    except RecursionError:
        text.refuse(number, 1, "nested too deep", "write one flat object a line")
    if not isinstance(row, dict):
        text.refuse(number, 1, "this is no JSON object", 'write {"name": value, ...} a line')
    return row


def _flat(text: Text, number: int, row: dict[str, Any]) -> dict[str, Any]:
    features = row.pop("features", {})
    if isinstance(features, list):
        features = {str(place): value for place, value in enumerate(features, start=1)}
    if not isinstance(features, dict) or features.keys() & row.keys():
        reason = '"features" must be a list, or an object with names that are not used already'
        text.refuse(number, 1, reason, "rename the features")
    for name, value in features.items():
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            text.refuse(number, 1, f'feature "{name}" is no number', "write a number or null")
    row |= features
    for name, value in row.items():
        if isinstance(value, list | dict):
            text.refuse(number, 1, f'field "{name}" is nested', "write numbers and texts only")
    return row


def _column(values: list[Any]) -> Any:
    if any(isinstance(value, str) for value in values):
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column
    return np.array([np.nan if value is None else value for value in values])


Column = str | int

_NO_NAMES = frozenset(["", "NA", "NaN", "nan", "NULL", "?"])
# Unknown values; some of them may well be the name of a column (na is sodium).
_GAPS = _NO_NAMES | {"N/A", "n/a", "#N/A", "null", "None", "na"}


def read_table(
    path: str | os.PathLike[str],
    *,
    y: Column | None,
    qid: Column | None = None,
    docid: Column | None = None,
    features: Sequence[Column] | None = None,
    one_hot: Sequence[Column] = (),
    drop: Sequence[Column] = (),
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
) -> Items:
    """Read items from a CSV file (gzipped or not, any separator) or a Parquet file.

    Parameters
    ----------
    path : path
    y, qid, docid : str or int
        The columns of grade, query and id, by name or by place (from 0; -1 is the last). With
        ``y=None`` nothing is known yet about how good the items are: ``y`` is 0 in every row.
    features : sequence of str or int, or None
        The columns of ``X``; None takes all the others.
    one_hot : sequence of str or int
        Feature columns that hold words: each word becomes a column of 0 and 1.
    drop : sequence of str or int
        Columns to leave out of ``X``.
    separator : str or None
        None tells it by the first line: comma, semicolon, tab or bar, else blanks.
    header : bool or None
        Whether the first line holds the names; None says yes where it holds no number.
    encoding : str, default="utf-8"

    Returns
    -------
    items : Items
        Among the features, an empty cell, ``?``, ``NA``, ``na``, ``N/A``, ``n/a``, ``#N/A``,
        ``NaN``, ``nan``, ``NULL``, ``null`` and ``None`` are NaN; so is the null of Parquet.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "wine.csv"
    >>> _ = path.write_text("color,alcohol,quality\\nred,9.4,5\\nwhite,,7\\n")
    >>> items = read_table(path, y="quality", one_hot=["color"])
    >>> items.feature_names, items.X.tolist(), items.y.tolist()
    (('color=red', 'color=white', 'alcohol'), [[1.0, 0.0, 9.4], [0.0, 1.0, nan]], [5.0, 7.0])
    """
    wanted = _Wanted(y, qid, docid, features, one_hot, drop)
    with open(path, "rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    if is_parquet:
        table = read_parquet(path)
        return _items(table, wanted.among(list(table), os.fspath(path)))
    fields, names = _rows(read_text(path, encoding), separator, header)
    places = names or _places(fields)
    chosen = wanted.among(places, os.fspath(path))
    items = _items(_parse(fields, places, chosen), chosen)
    return items if names else replace(items, feature_names=None)


def items_from_frame(
    frame: Any,
    *,
    y: Column | None,
    qid: Column | None = None,
    docid: Column | None = None,
    features: Sequence[Column] | None = None,
    one_hot: Sequence[Column] = (),
    drop: Sequence[Column] = (),
) -> Items:
    """Items from a pandas, polars, pyarrow or other data frame; parameters as in `read_table`.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"query": ["a", "a"], "bm25": [1.5, 0.5], "grade": [1, 0]})
    >>> items_from_frame(frame, y="grade", qid="query")
    Items(2 items, 1 features, 1 queries, grades 0 to 1)
    """
    table = columns_of(frame)
    wanted = _Wanted(y, qid, docid, features, one_hot, drop)
    return _items(table, wanted.among(list(table), "the frame"))


class Words(NamedTuple):
    """A column of words where numbers are needed: most of its known cells are no numbers."""

    column: str
    row: int  # of the first of them, from 0
    line: int | None  # the same in a text file
    word: str
    n_words: int
    n_known: int
    is_grade: bool


def find_words(
    source: str | os.PathLike[str] | Columns, *, separator: str | None = None, **roles: Any
) -> list[Words]:
    """The columns of words among grade and features, of a text file or of columns.

    ``roles`` say which column plays which part, as for :func:`read_table`.

    >>> find_words({"title": ["Heat", "Alien"], "year": [1995, None], "grade": [1, 0]}, y="grade")
    [Words(column='title', row=0, line=None, word='Heat', n_words=2, n_known=2,
    is_grade=False)]
    """
    wanted = _Wanted(**roles)
    if isinstance(source, dict):
        names, lines = list(source), None
        columns = [list(map(_text, cells)) for cells in source.values()]
    else:
        fields, header = _rows(read_text(source), separator, None)
        names, lines = header or _places(fields), fields.lines
        columns = [fields.column(place) for place in range(fields.n_fields)]
    chosen = wanted.among(names, "the table")
    found = (
        _words(name, cells, name == chosen.y)
        for name, cells in zip(names, columns, strict=True)
        if name == chosen.y or (name in chosen.features and name not in chosen.one_hot)
    )
    return [
        words if lines is None else words._replace(line=int(lines[words.row]))
        for words in found
        if words is not None
    ]


def _text(cell: Any) -> str:
    if isinstance(cell, bool | np.bool_):
        return str(int(cell))  # true and false are numbers
    return "" if cell is None or cell != cell else str(cell)


def _words(name: str, cells: list[str], is_grade: bool) -> Words | None:
    counts = Counter(cells)
    known = {cell: n for cell, n in counts.items() if cell not in _GAPS}
    words = {cell: n for cell, n in known.items() if not is_number(cell)}
    n_words, n_known = sum(words.values()), sum(known.values())
    if 2 * n_words <= n_known:
        return None
    row = next(row for row, cell in enumerate(cells) if cell in words)
    return Words(name, row, None, cells[row], n_words, n_known, is_grade)


@dataclass(frozen=True)
class _Wanted:
    """Which column plays which part, by name or by place."""

    y: Column | None
    qid: Column | None = None
    docid: Column | None = None
    features: Sequence[Column] | None = None
    one_hot: Sequence[Column] = ()
    drop: Sequence[Column] = ()

    def among(self, names: list[str], where: str) -> _Chosen:
        """The same by name only, once the names are known."""
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"{where}: two columns are called {twice!r}. Rename one.")

        def name_of(column: Column) -> str:
            if isinstance(column, str) and column in names:
                return column
            if isinstance(column, int) and -len(names) <= column < len(names):
                return names[column]
            raise DataError(f"{where}: no column {column!r} among {', '.join(names)}.")

        y = None if self.y is None else name_of(self.y)
        qid = None if self.qid is None else name_of(self.qid)
        docid = None if self.docid is None else name_of(self.docid)
        others = [name for name in names if name not in (y, qid, docid)]
        dropped = [name_of(column) for column in self.drop]
        features = others if self.features is None else [name_of(f) for f in self.features]
        features = [name for name in features if name not in dropped]
        words = [name_of(column) for column in self.one_hot]
        strange = set(words) - set(features)
        if strange:
            raise ParameterError(
                f"one_hot names {sorted(strange)}, which are not among the features."
            )
        return _Chosen(y, qid, docid, features, words)


@dataclass(frozen=True)
class _Chosen:
    """Names of columns and the parts they play."""

    y: str | None
    qid: str | None
    docid: str | None
    features: list[str]
    one_hot: list[str]


def _items(table: Columns, chosen: _Chosen) -> Items:
    blocks: list[NDArray[Any]] = []
    names: list[str] = []
    for name in chosen.features:
        if name in chosen.one_hot:
            number, words = encode(as_ids(table[name], name), name)
            order = sorted(range(len(words)), key=lambda k: str(words[k]))
            blocks += [(number == k).astype(np.float64) for k in order]
            names += [f"{name}={words[k]}" for k in order]
        else:
            column = _with_gaps(table[name])
            blocks.append(as_column(column, name, len(column), finite=False))
            names.append(name)
    n_rows = len(next(iter(table.values()), ()))
    grade = np.zeros(n_rows) if chosen.y is None else as_column(table[chosen.y], chosen.y, n_rows)
    return Items(
        np.column_stack(blocks) if blocks else np.zeros((n_rows, 0)),
        grade,
        None if chosen.qid is None else table[chosen.qid],
        None if chosen.docid is None else table[chosen.docid],
        tuple(names),
    )


def _with_gaps(column: NDArray[Any]) -> NDArray[Any]:
    """A column of a frame or of JSON in which a text may stand for an unknown value."""
    if column.dtype.kind not in "OU":
        return column
    cells = column.tolist()
    return np.array([np.nan if isinstance(c, str) and c in _GAPS else c for c in cells], object)


def _rows(
    text: Text, separator: str | None, header: bool | None
) -> tuple[Fields, list[str] | None]:
    """The cells below the header, and the names in it."""
    fields = _fields(text, separator)
    names = _header(fields, header)
    if names is not None:
        fields = fields.after_header()
    if fields.n_rows == 0:
        text.refuse(2, 1, "no line after the header", "give a file with at least one item")
    return fields, names


def _places(fields: Fields) -> list[str]:
    return [f"column {place}" for place in range(fields.n_fields)]


def _fields(text: Text, separator: str | None) -> Fields:
    """Cut the lines; without any of the usual separators, at blanks."""
    words = "the same columns as line 1"
    separator = separator or likely_separator(text)
    if separator is not None and separator.strip(" "):
        return parse_csv(text, separator, words)
    first = text.data.lstrip().split(b"\n", 1)[0]
    return split_fields(text, None, len(first.split()), words)


def _header(fields: Fields, header: bool | None) -> list[str] | None:
    first = fields.tokens[: fields.n_fields]
    if header is None:
        header = not any(is_number(token) or token in _NO_NAMES for token in first)
    return [token.strip() for token in first] if header else None


def _parse(fields: Fields, names: list[str], chosen: _Chosen) -> Columns:
    """The chosen columns, so that a cell which is no number is refused by its line."""
    table: Columns = {}
    for name in (chosen.y, chosen.qid, chosen.docid, *chosen.features):
        if name is None:
            continue
        place = names.index(name)
        if name in (chosen.qid, chosen.docid, *chosen.one_hot):
            number, distinct = fields.encode(place, name)
            table[name] = distinct[number]
        elif name == chosen.y:
            table[name] = fields.numbers(place, name)
        else:
            fix = f"write a plain number, or read the words with one_hot=[{name!r}]"
            table[name] = fields.numbers(place, name, missing=_GAPS, fix=fix)
    return table
