"""Tables of items: features, grade and query as columns of a CSV, Parquet or JSONL file."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.inputs import (
    MISSING,
    NOT_NAMES,
    Columns,
    columns_of,
    ordered_categories,
    read_parquet,
)
from rankwright.data.io.fields import Fields, is_number, likely_separator, parse_csv, split_fields
from rankwright.data.io.files import Text, bounded, is_parquet, read_text
from rankwright.data.io.json_lines import json_rows
from rankwright.data.items import Items
from rankwright.data.vocabulary import as_column, as_ids, encode
from rankwright.exceptions import DataError, FileFormatError, Message, ParameterError, Setting


def is_index(name: str) -> bool:
    """Whether a column holds the row numbers that pandas or Dask write along with the columns.

    >>> [name for name in ("", "__index_level_0__", "__null_dask_index__", "id") if is_index(name)]
    ['', '__index_level_0__', '__null_dask_index__']
    """
    return re.fullmatch(r"|__index_level_\d+__|__null_dask_index__", name) is not None


def read_jsonl(path: str | os.PathLike[str]) -> Columns:
    """The columns of a file with one JSON object per line, gzipped or not.

    Every object has the same fields: numbers, texts or null (which becomes NaN). A list
    ``"features": [0.1, 0.2]`` becomes the columns ``1``, ``2``, ...; an object, a column per name.

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
    for number, content in json_rows(text):
        row = _flatten(text, number, content)
        if rows and row.keys() != rows[0].keys():
            name = sorted(row.keys() ^ rows[0].keys())[0]
            problem = "is missing" if name in rows[0] else "is new"
            reason = f'field "{name}" {problem} here'
            text.refuse(number, 1, reason, "give every line the same fields")
        rows.append(row)
    return {name: column_of_values([row[name] for row in rows]) for name in rows[0]}


def read_jsonl_rows(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The objects of a JSONL file, gzipped or not, whose fields may differ; features as fields."""
    text = read_text(path)
    return [_flatten(text, number, content) for number, content in json_rows(text)]


def _flatten(text: Text, number: int, row: dict[str, Any]) -> dict[str, Any]:
    features = row.pop("features", {})
    if isinstance(features, list):
        features = {str(k): value for k, value in enumerate(features, start=1)}
    if not isinstance(features, dict):
        text.refuse(number, 1, '"features" is not a list or an object', "write a list of numbers")
    for name, value in features.items():
        if name in row:
            text.refuse(number, 1, f'feature "{name}" is also a field', "rename one of them")
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            text.refuse(number, 1, f'feature "{name}" is not a number', "write a number or null")
    for name, value in row.items():
        if isinstance(value, list | dict):
            text.refuse(number, 1, f'field "{name}" is nested', "write numbers and texts only")
    return row | features


def column_of_values(values: list[Any]) -> NDArray[Any]:
    """An array of numbers, with NaN for None; of objects if a value is not a number."""
    if not all(isinstance(value, int | float | None) for value in values):
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column
    return np.array([np.nan if value is None else value for value in values])


Column = str | int
Meaning = Mapping[str, float] | str | None  # of words in the column of the grades


@bounded
def read_table(
    path: str | os.PathLike[str],
    *,
    y: Column | None,
    qid: Column | None = None,
    docid: Column | None = None,
    features: Sequence[Column] | None = None,
    one_hot: Sequence[Column] = (),
    drop: Sequence[Column] = (),
    weight: Column | None = None,
    grades: Meaning = None,
    separator: str | None = None,
    decimal: str = ".",
    header: bool | None = None,
    encoding: str = "utf-8",
    max_bytes: int | None = None,
) -> Items:
    """Read items from a CSV file (gzipped or not, any separator) or a Parquet file.

    Parameters
    ----------
    path : path
    y, qid, docid : str or int
        The columns of grade, query and id, by name or index (from 0; -1 is the last). With
        ``y=None`` the grades are unknown, and ``y`` is 0 in every row.
    features : sequence of str or int, or None
        The columns of ``X``; None uses all others, except for an unnamed index that pandas or Dask
        wrote to the file.
    one_hot : sequence of str or int
        Categorical feature columns: each distinct text becomes a column of 0 and 1.
    drop : sequence of str or int
        Columns to exclude from ``X``.
    weight : str or int, or None
        The column of the weight of each row.
    grades : dict of str to number, str or None
        The grades of text labels: ``{"Exact": 3, "Substitute": 2}``, or
        ``"Exact=3,Substitute=2"``.
    decimal : {".", ","}
        The decimal point of a CSV file.
    separator : str or None
        None detects it from the first line: comma, semicolon, tab or bar, else white space.
    header : bool or None
        Whether the first line has the column names; None: if it has no number.
    encoding : str, default="utf-8"
    max_bytes : int or None
        Maximum number of bytes of text to read; None as in :func:`read_letor`.

    Returns
    -------
    items : Items
        Features that are empty, ``?``, ``NA``, ``na``, ``N/A``, ``n/a``, ``#N/A``, ``NaN``,
        ``nan``, ``NULL``, ``null`` or ``None`` are NaN, and so are nulls in Parquet.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "wine.csv"
    >>> _ = path.write_text("color,alcohol,quality\\nred,9.4,5\\nwhite,,7\\n")
    >>> items = read_table(path, y="quality", one_hot=["color"])
    >>> items.feature_names, items.X.tolist(), items.y.tolist()
    (('color=red', 'color=white', 'alcohol'), [[1.0, 0.0, 9.4], [0.0, 1.0, nan]], [5.0, 7.0])
    """
    chosen = {"features": features, "one_hot": one_hot, "drop": drop}
    columns = {"y": y, "qid": qid, "docid": docid, "weight": weight, **chosen}
    meaning = parse_meaning(grades)
    if decimal not in (".", ","):
        raise ParameterError(Setting("decimal", decimal), ": it must be '.' or ','.")
    if not hasattr(path, "read") and is_parquet(path):
        table = read_parquet(path)
        roles = _resolve(list(table), os.fspath(path), columns)
        try:
            return _items(table, roles, meaning)
        except DataError as error:
            raise error.in_file(path) from None
    text = read_text(path, encoding)
    fields, names, is_named = text_rows(text, separator, header)
    roles = _resolve(names, text.path, columns)
    items = _items(_parse(fields, names, roles, meaning, decimal), roles, meaning)
    return items if is_named else replace(items, feature_names=None)


def items_from_frame(
    frame: Any,
    *,
    y: Column | None,
    qid: Column | None = None,
    docid: Column | None = None,
    features: Sequence[Column] | None = None,
    one_hot: Sequence[Column] = (),
    drop: Sequence[Column] = (),
    weight: Column | None = None,
    grades: Meaning = None,
) -> Items:
    """Convert a pandas, polars, pyarrow or other data frame to items; see `read_table`.

    An ordered categorical column of grades (a polars Enum) becomes 0, 1, 2, ... in its order.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"query": ["a", "a"], "bm25": [1.5, 0.5], "grade": [1, 0]})
    >>> items_from_frame(frame, y="grade", qid="query")
    Items(2 items, 1 features, 1 queries, grades 0 to 1)
    """
    table = columns_of(frame)
    chosen = {"features": features, "one_hot": one_hot, "drop": drop}
    columns = {"y": y, "qid": qid, "docid": docid, "weight": weight, **chosen}
    roles = _resolve(list(table), None, columns)
    meaning = parse_meaning(grades)
    if meaning is None and roles.y is not None:
        ordered = ordered_categories(frame, roles.y)
        meaning = None if ordered is None else {word: k for k, word in enumerate(ordered)}
    return _items(table, roles, meaning)


class Words(NamedTuple):
    """A column of texts where numbers are needed."""

    column: str
    row: int  # of the first text, from 0
    line: int | None  # its line in a text file
    word: str
    n_words: int
    n_known: int
    is_grade: bool


def find_words(
    source: str | os.PathLike[str] | Columns,
    *,
    separator: str | None = None,
    decimal: str = ".",
    share: float = 0.5,
    **roles: Any,
) -> list[Words]:
    """The columns of texts among grade and features; ``roles`` as in :func:`read_table`.

    A column holds texts if more than this ``share`` of its known cells are not numbers.

    >>> find_words({"title": ["Heat", "Alien"], "year": [1995, None], "grade": [1, 0]}, y="grade")
    [Words(column='title', row=0, line=None, word='Heat', n_words=2, n_known=2,
    is_grade=False)]
    """
    if isinstance(source, dict):
        names, lines = list(source), None
        columns = [list(map(_text, cells)) for cells in source.values()]
    else:
        fields, names, _ = text_rows(read_text(source), separator, None)
        lines = fields.lines
        columns = [fields.column(index) for index in range(fields.n_fields)]
    texts = dict(zip(names, columns, strict=True))
    return _text_columns(texts, _resolve(names, None, roles), decimal, lines, share)


def _text_columns(
    texts: Mapping[str, list[str]],
    roles: _Roles,
    decimal: str,
    lines: Any = None,
    share: float = 0.5,
) -> list[Words]:
    numeric = {roles.y, *roles.features} - set(roles.one_hot)
    text_columns = []
    for name, cells in texts.items():
        if name not in numeric:
            continue
        known = {cell: n for cell, n in Counter(cells).items() if cell not in MISSING}
        words = {cell: n for cell, n in known.items() if not is_number(cell.replace(decimal, "."))}
        n_words, n_known = sum(words.values()), sum(known.values())
        if n_words > share * n_known:
            row = next(row for row, cell in enumerate(cells) if cell in words)
            line = None if lines is None else int(lines[row])
            is_grade = name == roles.y
            text_columns.append(Words(name, row, line, cells[row], n_words, n_known, is_grade))
    return text_columns


def _text(cell: Any) -> str:
    if isinstance(cell, bool | np.bool_):
        return str(int(cell))  # true and false count as numbers
    return "" if cell is None or cell != cell else str(cell)


class _Roles(NamedTuple):
    y: str | None
    qid: str | None
    docid: str | None
    weight: str | None
    features: list[str]
    one_hot: list[str]


def _resolve(names: list[str], where: str | None, columns: Mapping[str, Any]) -> _Roles:
    """The names of the columns that a caller gave by name or by index."""
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise DataError(f"two columns are called {repeated!r}. Rename one.", file=where)

    def name_of(column: Column) -> str:
        if isinstance(column, str) and column in names:
            return column
        if isinstance(column, int) and -len(names) <= column < len(names):
            return names[column]
        raise DataError(f"no column {column!r} among {', '.join(names)}.", file=where)

    given = [columns.get(role) for role in ("y", "qid", "docid", "weight")]
    y, qid, docid, weight = (None if column is None else name_of(column) for column in given)
    dropped = [name_of(column) for column in columns.get("drop", ())]
    others = (name for name in names if name not in (y, qid, docid, weight))
    features = [name for name in others if not is_index(name)]
    if columns.get("features") is not None:
        features = [name_of(column) for column in columns["features"]]
    features = [name for name in features if name not in dropped]
    one_hot = [name_of(column) for column in columns.get("one_hot", ())]
    for name in one_hot:
        if name not in features:
            raise ParameterError(
                Setting("one_hot"), f" names {name!r}, which is not among the features."
            )
    return _Roles(y, qid, docid, weight, features, one_hot)


def _items(table: Columns, roles: _Roles, grades: Mapping[str, float] | None = None) -> Items:
    blocks: list[NDArray[Any]] = []
    names: list[str] = []
    for name in roles.features:
        if name in roles.one_hot:
            number, texts = encode(as_ids(table[name], name), name)
            order = sorted(range(len(texts)), key=lambda k: str(texts[k]))
            blocks += [(number == k).astype(np.float64) for k in order]
            names += [f"{name}={texts[k]}" for k in order]
        else:
            column = table[name]
            if column.dtype.kind in "OU":  # texts may mean a missing value
                cells = [
                    np.nan if isinstance(c, str) and c in MISSING else c for c in column.tolist()
                ]
                column = np.array(cells, object)
            blocks.append(as_column(column, name, len(column), finite=False))
            names.append(name)
    n_rows = len(next(iter(table.values()), ()))
    y = np.zeros(n_rows) if roles.y is None else _grades(table[roles.y], roles.y, grades)
    return Items(
        np.column_stack(blocks) if blocks else np.zeros((n_rows, 0)),
        y,
        None if roles.qid is None else table[roles.qid],
        None if roles.docid is None else table[roles.docid],
        tuple(names),
        weight=None if roles.weight is None else as_weights(table[roles.weight], roles.weight),
    )


def _grades(column: Any, name: str, grades: Mapping[str, float] | None) -> NDArray[np.float64]:
    """A column of grades as numbers; words by their meaning, or refused with all of them."""
    cells = np.asarray(column).tolist()
    words = list(dict.fromkeys(cell for cell in cells if isinstance(cell, str)))
    if grades is None and not all(map(is_number, words)):
        fix = grade_advice(words)
        raise DataError(f"{name} holds words:", kind="text grades", fix=fix)
    if grades is not None:
        number_of = {str(word): float(number) for word, number in grades.items()}
        unknown = [cell for cell in map(str, cells) if cell not in number_of]
        if unknown:
            known = f" has {', '.join(number_of)}."
            raise DataError(f"{name} holds {unknown[0]!r}, and ", Setting("grades"), known)
        cells = [number_of[str(cell)] for cell in cells]
    return as_column(np.array(cells), name, len(cells))


def grade_advice(words: Sequence[str]) -> Message:
    """What to do about words in the column of the grades.

    >>> print(grade_advice(["Exact", "Irrelevant"]))
    say what they mean, with a higher number for a better item: grades='Exact=...,Irrelevant=...'
    """
    shown = ",".join(f"{word}=..." for word in words[:8])
    more = ",..." if len(words) > 8 else ""
    meaning = Setting("grades", shown + more)
    return Message("say what they mean, with a higher number for a better item: ", meaning)


def words_advice(column: str, words: Sequence[Words] = ()) -> Message:
    """What to do about columns of words where numbers are needed; ``column`` comes first.

    >>> print(words_advice("title"))
    if title names the query or the item, give qid='title' or docid='title'; if its words are
    values, one_hot=['title']; to leave it out, drop=['title']
    """
    columns = dict.fromkeys([column, *(w.column for w in words if not w.is_grade)])
    start, subject = "", column
    if len(columns) > 1:
        start = f"{len(columns)} columns hold words: {', '.join(columns)}. For each: "
        subject = "it"
    return Message(
        f"{start}if {subject} names the query or the item, give ",
        Setting("qid", column),
        " or ",
        Setting("docid", column),
        "; if its words are values, ",
        Setting("one_hot", [column]),
        "; to leave it out, ",
        Setting("drop", [column]),
    )


def parse_meaning(grades: Meaning) -> Mapping[str, float] | None:
    """The number of each word, also from text.

    >>> parse_meaning("Exact=3, Not at all=0")
    {'Exact': 3.0, 'Not at all': 0.0}
    """
    if not isinstance(grades, str):
        return grades
    pairs = [part.rpartition("=") for part in grades.split(",") if part.strip()]
    try:
        meaning = {word.strip(): float(number) for word, _, number in pairs}
    except ValueError:
        meaning = {}
    if not meaning or "" in meaning or len(meaning) < len(pairs):
        raise ParameterError(
            Setting("grades", grades),
            ": write word=number, each word once, separated by commas, such as "
            "'Exact=3,Substitute=2'.",
        )
    return meaning


def as_weights(column: Any, name: str) -> NDArray[np.float64]:
    weights = as_column(column, name, len(column))
    if weights.min(initial=0.0) < 0:
        row = int(np.argmin(weights))
        raise DataError(f"{name} is {weights[row]:g} in row {row}: a weight is >= 0.")
    return weights


def has_names(fields: Sequence[str]) -> bool:
    """Whether the first line of a table has the names of its columns.

    The first name may be empty: it is that of an index that pandas wrote.

    >>> has_names(["", "price", "grade"]), has_names(["", "9.5", "1"]), has_names(["id", "", "a"])
    (True, False, False)
    """
    names = fields[1:] if len(fields) > 1 and fields[0] == "" else fields
    return not any(is_number(name) or name in NOT_NAMES for name in names)


def text_rows(
    text: Text, separator: str | None, header: bool | None
) -> tuple[Fields, list[str], bool]:
    """The cells below the header, the names of the columns, and whether the header has them."""
    layout = "the same columns as line 1"
    separator = separator or likely_separator(text)
    if separator is not None and separator.strip(" "):
        fields = parse_csv(text, separator, layout)
    else:
        fields = split_fields(text, None, len(text.first_line.split()), layout)
    first = fields.tokens[: fields.n_fields]
    if header is None:
        header = has_names(first)
    if not header:
        return fields, [f"column {index}" for index in range(fields.n_fields)], False
    if fields.n_rows == 1:
        text.refuse(2, 1, "no line after the header", "give a file with at least one row")
    return fields.after_header(), [token.strip() for token in first], True


def _parse(
    fields: Fields,
    names: list[str],
    roles: _Roles,
    grades: Mapping[str, float] | None = None,
    decimal: str = ".",
) -> Columns:
    """The columns with a role; a cell that is not a number is refused with its line."""
    table: Columns = {}
    for name in (roles.y, roles.qid, roles.docid, roles.weight, *roles.features):
        if name is None:
            continue
        index = names.index(name)
        if name in (roles.qid, roles.docid, *roles.one_hot):
            number, distinct = fields.encode(index, name)
            table[name] = distinct[number]
        elif name == roles.y:
            table[name] = _parse_grades(fields, index, name, grades, decimal)
        elif name == roles.weight:
            table[name] = fields.numbers(index, name, decimal=decimal)
        else:
            try:
                table[name] = fields.numbers(index, name, missing=MISSING, decimal=decimal)
            except FileFormatError as error:
                if error.kind != "not a number":
                    raise
                texts = {other: fields.column(names.index(other)) for other in roles.features}
                fix = words_advice(name, _text_columns(texts, roles, decimal, fields.lines))
                fix = Message("leave the cell empty if the value is unknown; ", fix)
                raise error.replaced(fix=fix) from None
    return table


def _parse_grades(
    fields: Fields, index: int, name: str, grades: Mapping[str, float] | None, decimal: str
) -> NDArray[Any]:
    """Grades as numbers, or as the words that ``grades`` explains; refused with their line."""
    cells = fields.column(index)
    if grades is None:
        numeric = (cell for cell in cells if not is_number(cell.replace(decimal, ".")))
        words = [word for word in dict.fromkeys(numeric) if word.strip()]
        try:
            return fields.numbers(index, name, decimal=decimal)
        except FileFormatError as error:
            if error.kind != "not a number" or not words:
                raise
            raise error.replaced(kind="text grades", fix=grade_advice(words)) from None
    row = next((row for row, cell in enumerate(cells) if cell.strip() not in grades), None)
    if row is not None:
        fix = Message(Setting("grades"), f" has {', '.join(map(str, grades))}; add it")
        fields.refuse(row, index, f'{name} "{cells[row]}" is unknown', fix)
    return np.array([cell.strip() for cell in cells], dtype=object)
