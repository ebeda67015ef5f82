"""Tables of items: features, grade and query as columns of a CSV, Parquet or JSONL file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import DataFrame
from rankwright.data.columns import WORD_SHARE, Encoding, Read, Rules, fit_encoding
from rankwright.data.inputs import (
    MISSING,
    NOT_NAMES,
    Columns,
    check_columns,
    columns_of,
    ordered_categories,
    read_parquet,
)
from rankwright.data.io.fields import Fields, is_number, likely_separator, parse_csv, split_fields
from rankwright.data.io.files import Text, bounded, is_parquet, read_text
from rankwright.data.io.json_lines import json_rows
from rankwright.data.items import Items
from rankwright.data.vocabulary import as_column
from rankwright.exceptions import (
    CellError,
    DataError,
    FileFormatError,
    Message,
    ParameterError,
    Setting,
)


def is_index(name: str) -> bool:
    """Whether a column holds the row numbers that pandas or Dask write along with the columns.

    >>> [name for name in ("", "__index_level_0__", "__null_dask_index__", "id") if is_index(name)]
    ['', '__index_level_0__', '__null_dask_index__']
    """
    return re.fullmatch(r"|__index_level_\d+__|__null_dask_index__", name) is not None


def read_jsonl(path: str | os.PathLike[str]) -> Columns:
    """The columns of a file with one JSON object per line, gzipped or not.

    Fields are numbers, texts, true, false or null (which is missing); a field that a line leaves
    out is null there. A list ``"features": [0.1, 0.2]`` becomes the columns ``1``, ``2``, ..., as
    many in every line; an object, a column per name.

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
    width = None
    for number, content in json_rows(text):
        features = content.get("features")
        if isinstance(features, list):
            width = len(features) if width is None else width
            if len(features) != width:
                reason = f'"features" has {len(features)} numbers here and {width} before'
                text.refuse(number, 1, reason, "give every line the same features")
        rows.append(_flatten(text, number, content))
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: column_of_values([row.get(name) for row in rows]) for name in names}


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
        if isinstance(value, list | dict):
            text.refuse(number, 1, f'feature "{name}" is nested', "write one value, or null")
    for name, value in row.items():
        if isinstance(value, list | dict):
            text.refuse(number, 1, f'field "{name}" is nested', "write numbers and texts only")
    return row | features


def column_of_values(values: list[Any]) -> NDArray[Any]:
    """An array of numbers, with NaN for None; of objects if a value is not a number."""
    kinds = set(map(type, values))
    if not kinds <= {int, float, type(None)} and kinds != {bool}:
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column
    return np.array([np.nan if value is None else value for value in values])


NO_GRADE = "remove the items that nobody graded, or grade them"
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
    kinds: Mapping[str, str] | None = None,
    weight: Column | None = None,
    grades: Meaning = None,
    encode_as: Encoding | None = None,
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
        Columns to read as text, whatever they hold: each level becomes a feature of 0 and 1.
    drop : sequence of str or int
        Columns to exclude from ``X``.
    kinds : dict of str to str, or None
        What a column is: ``"number"``, ``"boolean"``, ``"date"``, ``"text"``, ``"codes"`` (the
        number of the level) or ``"drop"``. Others are found out: see :ref:`the rules <columns>`.
    weight : str or int, or None
        The column of the weight of each row.
    grades : dict of str to number, str or None
        The grades of text labels: ``{"Exact": 3, "Substitute": 2}``, or
        ``"Exact=3,Substitute=2"``.
    encode_as : Encoding or None
        Encode the columns in this way, as ``items.encoding`` of other items has it.
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
    chosen = {"features": features, "one_hot": one_hot, "drop": drop, "kinds": kinds}
    columns = {"y": y, "qid": qid, "docid": docid, "weight": weight, **chosen}
    meaning = parse_meaning(grades)
    if decimal not in (".", ","):
        raise ParameterError(Setting("decimal", decimal), ": it must be '.' or ','.")
    if not hasattr(path, "read") and is_parquet(path):
        table = read_parquet(path)
        roles = _resolve(list(table), os.fspath(path), columns, encode_as)
        try:
            return _items(table, roles, meaning, encode_as, os.fspath(path))
        except DataError as error:
            raise error.in_file(path) from None
    text = read_text(path, encoding)
    fields, names, is_named = text_rows(text, separator, header)
    roles = _resolve(names, text.path, columns, encode_as)
    try:
        table = _parse(fields, names, roles, meaning, decimal)
        items = _items(table, roles, meaning, encode_as, str(text.path))
    except CellError as error:
        index, what = names.index(error.name), f'{error.name} "{error.value}" is not {error.needed}'
        fields.refuse(error.row, index, what, cell_advice(error), error.kind)
    except DataError as error:
        raise error.in_file(text.path) from None
    return items if is_named or items.encoding else replace(items, feature_names=None)


def items_from_frame(
    frame: DataFrame,
    *,
    y: Column | None,
    qid: Column | None = None,
    docid: Column | None = None,
    features: Sequence[Column] | None = None,
    one_hot: Sequence[Column] = (),
    drop: Sequence[Column] = (),
    kinds: Mapping[str, str] | None = None,
    weight: Column | None = None,
    grades: Meaning = None,
    encode_as: Encoding | None = None,
) -> Items:
    """Convert a pandas, polars, pyarrow or other data frame to items; see `read_table`.

    An ordered categorical column of grades (a polars Enum) becomes 0, 1, 2, ... in its order.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"query": ["a", "a"], "bm25": [1.5, 0.5], "grade": [1, 0]})
    >>> items_from_frame(frame, y="grade", qid="query")
    Items(2 items, 1 features, 1 queries, grades 0 to 1)
    """
    chosen = {"features": features, "one_hot": one_hot, "drop": drop, "kinds": kinds}
    columns = {"y": y, "qid": qid, "docid": docid, "weight": weight, **chosen}
    try:
        return items_of_columns(frame, columns, grades, encode_as)
    except CellError as error:
        settings = Setting("kinds", {error.name: "text"}), Setting("drop", [error.name])
        fix = Message("If it is text, give ", settings[0], "; to leave it out, ", settings[1], ".")
        raise error.replaced(fix=fix) from None


def items_of_columns(
    frame: DataFrame,
    columns: Mapping[str, Any],
    grades: Meaning = None,
    encode_as: Encoding | None = None,
    path: str = "X",
) -> Items:
    """Convert a frame that was given, or read from the file ``path``."""
    table = columns_of(frame)
    roles = _resolve(list(table), None, columns, encode_as)
    meaning = parse_meaning(grades)
    if meaning is None and roles.y is not None:
        ordered = ordered_categories(frame, roles.y)
        meaning = None if ordered is None else {word: k for k, word in enumerate(ordered)}
    return _items(table, roles, meaning, encode_as, path)


class _Roles(NamedTuple):
    y: str | None
    qid: str | None
    docid: str | None
    weight: str | None
    features: list[str]
    rules: Rules


def _resolve(
    names: list[str],
    where: str | None,
    columns: Mapping[str, Any],
    encode_as: Encoding | None = None,
) -> _Roles:
    """The names of the columns that a caller gave by name or by index."""
    check_columns(names, where)

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
    given_features = columns.get("features")
    if encode_as is not None:
        given_features = [name for name in encode_as.sources if name in names]
    if given_features is not None:
        features = [name_of(column) for column in given_features]
    features = [name for name in features if name not in dropped]
    kinds = dict(columns.get("kinds") or {})
    for name in kinds:
        name_of(name)
    for name in map(name_of, columns.get("one_hot", ())):
        if name not in features:
            raise ParameterError(
                Setting("one_hot"), f" names {name!r}, which is not among the features."
            )
        kinds[name] = "text"
    keep = frozenset() if given_features is None else frozenset(features)
    return _Roles(y, qid, docid, weight, features, Rules(kinds, keep))


def _items(
    table: Columns,
    roles: _Roles,
    grades: Mapping[str, float] | None = None,
    encode_as: Encoding | None = None,
    path: str = "X",
) -> Items:
    n_rows = len(next(iter(table.values()), ()))
    if n_rows == 0:
        raise DataError("the table has no rows.", kind="no rows", fix="Give at least one row.")
    read: list[Read] = []
    for role, name in (("grade", roles.y), ("query", roles.qid), ("id", roles.docid)):
        read += [] if name is None else [Read(name, role, "as given")]
    read += [] if roles.weight is None else [Read(roles.weight, "weight", "as given")]
    features = {name: table[name] for name in roles.features}
    if encode_as is None:
        encoding, columns = fit_encoding(features, roles.rules, roles.features)
        read += columns
    else:
        encoding = encode_as
        encoding.warn_of_unknown(features, path)
    y = np.zeros(n_rows) if roles.y is None else _grades(table[roles.y], roles.y, grades)
    return Items(
        encoding.encode(features) if features else np.zeros((n_rows, 0)),
        y,
        None if roles.qid is None else table[roles.qid],
        None if roles.docid is None else table[roles.docid],
        encoding.feature_names,
        weight=None if roles.weight is None else as_weights(table[roles.weight], roles.weight),
        encoding=None if encoding.is_plain else encoding,
        read=tuple(read),
    )


def _grades(
    column: ArrayLike, name: str, grades: Mapping[str, float] | None
) -> NDArray[np.float64]:
    """A column of grades as numbers; words by their meaning, or refused with all of them."""
    cells = np.asarray(column).tolist()
    words = list(dict.fromkeys(cell for cell in cells if isinstance(cell, str)))
    if grades is None and not all(map(is_number, words)):
        fix = grade_advice(words)
        row = next(k for k, c in enumerate(cells) if isinstance(c, str) and not is_number(c))
        fault = f"{name} is {cells[row]!r}, not a number:"
        raise DataError(fault, kind="text grades", line=row + 1, fix=fix)
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


def cell_advice(error: CellError) -> Message:
    """What to do about a cell that is not of the kind of its column.

    >>> print(cell_advice(CellError("price", 3, "cheap", "a finite number")))
    leave the cell empty if the value is unknown; if the column is text, give
    kinds={'price': 'text'}; to leave it out, drop=['price']
    """
    return Message(
        "leave the cell empty if the value is unknown; if the column is text, give ",
        Setting("kinds", {error.name: "text"}),
        "; to leave it out, ",
        Setting("drop", [error.name]),
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


def as_weights(column: NDArray[Any], name: str) -> NDArray[np.float64]:
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
        if not header and "" in first and has_names([name for name in first if name]):
            fault = "the header has a column without a name"
            fields.refuse(0, first.index(""), fault, "give every column a name")
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
        kind = roles.rules.kinds.get(name, "number")
        if name in (roles.qid, roles.docid):
            number, distinct = fields.encode(index, name)
            table[name] = distinct[number]
        elif name == roles.y:
            table[name] = _parse_grades(fields, index, name, grades, decimal)
        elif name == roles.weight:
            table[name] = fields.numbers(index, name, decimal=decimal)
        elif kind != "number":
            table[name] = _tokens(fields.column(index))
        else:
            try:
                table[name] = fields.numbers(index, name, missing=MISSING, decimal=decimal)
            except FileFormatError as error:
                if error.kind != "not a number":
                    raise
                cells = fields.column(index)
                if decimal == ",":
                    if any("." in cell and is_number(cell) for cell in cells):
                        raise  # a point is no decimal point there
                    points = ((cell, cell.replace(",", ".")) for cell in cells)
                    cells = [point if is_number(point) else cell for cell, point in points]
                table[name] = _tokens(cells)
    return table


def _tokens(cells: list[str]) -> NDArray[Any]:
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


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
            if MISSING.issuperset(words):
                raise error.replaced(fix=NO_GRADE) from None
            n_words = sum(cell in words for cell in cells)
            kind = "text grades" if n_words > WORD_SHARE * len(cells) else "bad grade"
            raise error.replaced(kind=kind, fix=grade_advice(words)) from None
    row = next((row for row, cell in enumerate(cells) if cell.strip() not in grades), None)
    if row is not None:
        fix = Message(Setting("grades"), f" has {', '.join(map(str, grades))}; add it")
        fields.refuse(row, index, f'{name} "{cells[row]}" is unknown', fix)
    return np.array([cell.strip() for cell in cells], dtype=object)
