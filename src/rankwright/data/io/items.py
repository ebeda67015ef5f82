"""Read items in any format: detect the format, and columns by their usual names."""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn

import numpy as np

from rankwright._typing import DataFrame
from rankwright.data.behavior.ratings import usual_place
from rankwright.data.columns import Encoding
from rankwright.data.inputs import parquet_names, read_parquet
from rankwright.data.io import tables
from rankwright.data.io.fields import first_fields, first_line, plain_name, usual_columns
from rankwright.data.io.files import bounded, is_parquet, open_binary, open_text, read_text
from rankwright.data.io.json_lines import json_rows
from rankwright.data.io.letor.reader import read_letor
from rankwright.data.io.logs.features import is_feature_log, read_feature_log
from rankwright.data.io.logs.impressions import SQLITE, is_log
from rankwright.data.io.logs.preferences import is_preferences
from rankwright.data.items import Items, first_missing
from rankwright.exceptions import (
    CellError,
    DataError,
    DegenerateDataWarning,
    FileFormatError,
    Message,
    ParameterError,
    Setting,
)

Column = str | int

TABLES = ("csv", "tsv", "jsonl", "parquet")
ITEM_FORMATS = ("letor", *TABLES, "ltrlog")
FORMATS = (*ITEM_FORMATS, "run", "qrels", "ratings", "scores", "model", "store")
EXTENSIONS = {
    ".letor": "letor", ".svm": "letor", ".svmlight": "letor", ".libsvm": "letor",
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".parquet": "parquet", ".pq": "parquet",
    ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".run": "run", ".trec": "run", ".qrels": "qrels", ".qrel": "qrels",
    ".rw": "model", ".onnx": "model", ".cbm": "model", ".ubj": "model",
}  # fmt: skip

_NUMBER = rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_FIRST_LINES = {
    "model": re.compile(rb"## [A-Z][A-Za-z ]+$|tree$|\s*\{\s*\"learner\""),  # of other libraries
    "jsonl": re.compile(rb"\s*\{"),
    "scores": re.compile(rb"\s*(" + _NUMBER + rb"|[+-]?inf)\s*$"),
    "run": re.compile(rb"\s*\S+\s+Q0\s+\S+\s+\S+\s+\S+\s+\S+\s*$", re.IGNORECASE),
    "ratings": re.compile(rb"\s*\d+::\d+::[\d.]+(::\d+)?\s*$"),
    "letor": re.compile(rb"\s*(#|" + _NUMBER + rb"\s+(qid:\S|\d+:\S))"),
    "qrels": re.compile(rb"\s*\S+\s+(\S+\s+)?\S+\s+[+-]?\d+\s*$"),
    "tsv": re.compile(rb"[^\t,;]+\t"),
    "csv": re.compile(rb".*[,;|]"),
}

# Usual names of the columns of grades, queries and ids; case, blanks, _ and - are ignored. A rating
# is not among them: it may be the grade of a judge, or the stars of a product.
COLUMN_NAMES = {
    "y": ("grade", "label", "y", "relevance", "rel", "target", "judgment", "judgement"),
    "qid": ("qid", "query", "queryid", "session", "sessionid", "searchid"),
    "docid": (
        "docid", "doc", "document", "documentid", "id", "itemid", "item", "productid", "product",
        "url",
    ),
}  # fmt: skip

_MAYBE_GRADES = ("rating", "ratings", "score", "stars", "clicks")
MANY_ITEMS = 50  # with fewer, the last features may well be 0 in all of them


def format_of_name(path: str | os.PathLike[str]) -> str | None:
    """The format that a file's extension implies; ``.txt`` implies none.

    >>> format_of_name("train.svm.gz"), format_of_name("q.txt")
    ('letor', None)
    """
    name = os.fspath(path).lower().removesuffix(".gz")
    return EXTENSIONS.get(os.path.splitext(name)[1])


def detect_format(path: str | os.PathLike[str]) -> str | None:
    """One of ``FORMATS``, from the extension or else the first line; None if neither is known."""
    format = format_of_name(path)
    if format is not None and format != "jsonl":
        return format
    with open_binary(path) as file:
        head = file.read(1 << 20)
    if head[:2] == b"\x1f\x8b":
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, 1 << 20)
        except zlib.error:
            head = b""
    if head[:4] == b"PAR1":
        return "parquet"
    if head.startswith(SQLITE):
        return "store"
    if head.lstrip()[:1] == b"{" and is_feature_log(head):
        return "ltrlog"
    if format is not None:
        return format
    if head[8:9] == b"{" and head[:1] != b"{":
        return "model"
    line = next((line for line in head.splitlines() if line.strip()), b"")
    return next((kind for kind, first in _FIRST_LINES.items() if first.match(line)), None)


def detect_kind(
    path: str | os.PathLike[str], format: str | None = None, *, by_columns: bool = True
) -> str:
    """What a file holds: ``"items"``, ``"ratings"``, ``"run"``, ``"qrels"``, ``"model"``, ...

    ``by_columns=False`` takes every table as items, whatever its columns are called.
    """
    name = os.fspath(path)
    format = format or detect_format(name) or "letor"
    if not by_columns:
        return "items" if format in ITEM_FORMATS else format
    if format in ("csv", "tsv"):
        try:
            columns = first_fields(name, "\t" if format == "tsv" else None)
        except DataError:  # a damaged file: its reader says so
            return "items"
        if is_log(columns) or is_preferences(columns):
            return "log" if is_log(columns) else "pairs"
        # Ratings have the columns user, item, rating and perhaps time, and no others.
        positions = [usual_place(role, columns) for role in ("user", "item", "value", "time")]
        known = set(positions) - {None}
        is_rating = None not in positions[:3] and len(known) == len(columns)
        return "ratings" if is_rating else "items"
    if format in ("jsonl", "parquet"):
        columns = _first_names(name, format)
        if is_log(columns) or {"kind", "event"} <= set(columns):
            return "log"
        if is_preferences(columns):
            return "pairs"
    return "items" if format in ITEM_FORMATS else format


def _first_names(path: str, format: str) -> list[str]:
    """The names of the columns of a Parquet file, or of the first object of a JSONL file."""
    try:
        if format == "parquet":
            return parquet_names(path)
        return [*json.loads(first_line(path)).keys()]
    except Exception:  # damaged in one of many ways: the reader of the file says how
        return []


@bounded
def read_items(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    y: Column | None = None,
    qid: Column | None = None,
    docid: Column | None = None,
    features: Sequence[Column] | None = None,
    drop: Sequence[Column] = (),
    one_hot: Sequence[Column] = (),
    kinds: Mapping[str, str] | None = None,
    weight: Column | None = None,
    grades: tables.Meaning = None,
    separator: str | None = None,
    decimal: str = ".",
    on_bad_line: Literal["error", "skip"] = "error",
    graded: bool = True,
    like: Any = None,
    group: str | os.PathLike[str] | Sequence[int] | None = None,
    max_bytes: int | None = None,
    verbose: bool = True,
) -> Items:
    """Read items from a LETOR, CSV, TSV, JSONL or Parquet file, gzipped or not.

    Columns of a table are read as they come: numbers, booleans, dates and text, each with missing
    cells; constant columns, ids and free text are left out. See :ref:`the rules <columns>`.

    Parameters
    ----------
    path : path
    format : {"letor", "csv", "tsv", "jsonl", "parquet", "ltrlog"} or None
        None detects it from the extension or the first line. ``ltrlog`` is a file of responses with
        logged features of Elasticsearch, OpenSearch or Solr, one per line.
    y, qid, docid : str or int, or None
        Columns of grade, query and id in a table, by name or position (from 0). None looks for a
        usual name (``grade``, ``label``, ``relevance``; ``qid``, ``query``; ``docid``, ``id`` ...).
    features, drop : sequence of str or int
        Columns of a table that are features (by default all others), and columns that are not.
    one_hot : sequence of str or int
        Columns to read as text, whatever they hold: each level becomes a feature of 0 and 1.
    kinds : dict of str to str, or None
        What a column is: ``"number"``, ``"boolean"``, ``"date"``, ``"text"``, ``"codes"`` (the
        number of the level) or ``"drop"``. It always wins.
    weight : str or int, or None
        The column of a table with the weight of each item.
    grades : dict of str to number, str or None
        The grades of text labels: ``{"Exact": 3}``, or ``"Exact=3,Substitute=2"``.
    separator, decimal : str
        The separator of a CSV file (by default detected), and its decimal point: "." or ",".
    on_bad_line : {"error", "skip"}
        Raise an error at a line of a LETOR file that cannot be parsed, or skip it.
    graded : bool, default=True
        Whether a table must have a column of grades. With False, ``y`` is 0 if it has none.
    like : Items, model opened by :func:`rankwright.load_scorer`, or None
        Use the same features in the same order, by name if they have names, encoded in the same
        way; levels of text that it does not know count as missing, with a warning. ``features``,
        ``drop``, ``kinds`` and ``one_hot`` then have no effect. Missing values are refused if the
        model does not support them.
    group : path or sequence of int or None
        For LETOR files without qid: the number of lines of each query, or LightGBM's file of them;
        ``"auto"`` looks for it at ``path`` + ``.query`` or ``.group``.
    max_bytes : int or None
        Maximum number of bytes of text to read; None as in :func:`read_letor`.
    verbose : bool, default=True
        Print ``items.reading`` to standard error: how each column was read, and why. Tables with
        nothing but numbers are not worth it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "shop.csv"
    >>> _ = path.write_text("query,id,price,color,grade\\n7,a,9.5,red,1\\n7,b,3,blue,0\\n")
    >>> items = read_items(path, verbose=False)
    >>> items.feature_names, items.docid.tolist()
    (('price', 'color=blue', 'color=red'), ['a', 'b'])
    >>> print(items.reading)
    column  read as  why
    grade   grade    its name
    query   query    its name
    id      id       its name
    price   number
    color   text     words, 2 levels
    to change it: kinds={'color': 'drop'}
    """
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(
            f"read_items: path is a {type(path).__name__}, not a path. Turn a data frame into "
            "items with rankwright.data.items_from_frame."
        )
    name = os.fspath(path)
    kind = _item_format(name, format)
    group = group_file(name) if isinstance(group, str) and group == "auto" else group
    if group is not None and kind != "letor":
        raise ParameterError(
            Setting("group", group), f": {name} is {kind}; only LETOR files take a group."
        )
    if kind == "letor":
        items = _read_letor(name, like, on_bad_line, group)
    elif kind == "ltrlog":
        items = read_feature_log(name, graded=graded)
    else:
        columns: dict[str, Any] = {"y": y, "qid": qid, "docid": docid, "weight": weight}
        columns |= {"features": features, "drop": drop, "one_hot": one_hot, "kinds": kinds}
        separator = "\t" if kind == "tsv" else separator
        reading: dict[str, Any] = {"grades": grades, "separator": separator, "decimal": decimal}
        encoding = getattr(like, "encoding", None)
        if encoding is not None and not isinstance(encoding, Encoding):
            raise DataError(
                "the model computes its features from the fields of queries and documents, and "
                "this table has none.",
                file=name,
                fix=Message("Give ", Setting("documents"), " and ", Setting("queries"), "."),
            )
        reading["encode_as"] = encoding
        names = getattr(like, "feature_names", None)
        items = _read_table(name, kind, columns, reading, graded, names)
        if verbose and like is None and not is_plain(items):
            print(f"{name}:\n{items.reading}", file=sys.stderr)
    return items if like is None else _with_features_of(items, like, name)


def is_plain(items: Items) -> bool:
    """Whether a table had nothing but numbers, with nothing to say about them."""
    noted = (
        read for read in items.read if read.kind == "drop" or (read.kind == "number" and read.why)
    )
    return items.encoding is None and not any(noted)


def items_from_piece(
    piece: Any, path: str, *, y: Column | None = None, qid: Column | None = None
) -> Items:
    """Items from a piece of a table, with the columns that :func:`read_items` finds in the file.

    ``piece`` is an Arrow table of some rows of a Parquet file, or an open file with the first line
    of a CSV or TSV file and some of the others.
    """
    is_text = hasattr(piece, "read")
    separator = "\t" if is_text and detect_format(path) == "tsv" else None
    names = first_fields(path, separator) if is_text else piece.column_names
    layout = _find_columns(path, names, {"y": y, "qid": qid})
    # Each piece would find other levels and dates: workers read numbers.
    roles = {layout[role] for role in ("y", "qid", "docid", "weight")}
    others = (name for name in names if name not in roles and not tables.is_index(name))
    layout["kinds"] = dict.fromkeys(others, "number")
    try:
        if is_text:
            return tables.read_table(piece, separator=separator, **layout)
        return _items_from_frame(piece, path, layout)
    except DataError as error:
        if error.kind not in ("wrong cell", "text grades", "bad grade"):
            raise
        fix = "workers read numbers: write this column as numbers"
        if error.kind == "wrong cell":
            fix += ", leave cells without a value empty, or leave the column out of the files"
        raise error.replaced(fix=fix) from None


def names_columns(path: str) -> bool:
    """Whether the first line of a CSV or TSV file has the names of its columns."""
    return tables.has_names(first_fields(path, "\t" if detect_format(path) == "tsv" else None))


def _item_format(path: str, format: str | None) -> str:
    """The format given or detected, if it is one of items."""
    if format is not None and format not in FORMATS:
        raise ParameterError(Setting("format", format), f": use one of {', '.join(ITEM_FORMATS)}.")
    kind = format or detect_format(path) or "letor"  # LETOR's reader names line and column
    if kind not in ITEM_FORMATS:
        raise DataError(
            f"this is a {kind} file; items with features are needed (LETOR, CSV, TSV, JSONL, "
            "Parquet).",
            kind=kind,
            file=path,
            fix=Message("If it is one of these, say which: ", Setting("format", "letor"), "."),
        )
    return kind


def group_file(path: str | os.PathLike[str]) -> str | None:
    """LightGBM's file of group sizes beside a LETOR file without qid, or None.

    It is called as the file, with or without its ``.gz``, and ``.query`` or ``.group`` at the end.
    """
    stems = dict.fromkeys((os.fspath(path), os.fspath(path).removesuffix(".gz")))
    names = (f"{stem}.{ending}" for stem in stems for ending in ("query", "group"))
    sizes_file = next(filter(os.path.isfile, names), None)
    if sizes_file is None or detect_format(path) not in ("letor", None):
        return None
    with open_text(path) as file:
        lines = next(file.blocks(1 << 16), b"").splitlines()
    first = next((line for line in lines if line.split(b"#")[0].strip()), b"")
    return None if b"qid:" in first else sizes_file


def _read_letor(
    path: str,
    like: Any,
    on_bad_line: Literal["error", "skip"],
    group: str | os.PathLike[str] | Sequence[int] | None,
) -> Items:
    n_features = None if like is None else like.n_features
    options: Any = {"on_bad_line": on_bad_line, "group": group}
    try:
        return read_letor(path, n_features=n_features, **options)
    except FileFormatError as error:
        if like is None or error.kind != "too many features":
            raise
        if getattr(like, "takes_more", False):
            return read_letor(path, **options)
        fix = f"the model has {n_features} features: give data of the same kind"
        raise error.replaced(fix=fix) from None


def _read_table(
    path: str,
    kind: str,
    columns: Mapping[str, Any],
    reading: Mapping[str, Any],
    graded: bool,
    names: Sequence[str] | None,
) -> Items:
    source: Any = path  # of CSV and TSV; rows of other formats are read once
    if kind in ("csv", "tsv"):
        header = first_fields(path, reading["separator"])
    else:
        source = tables.read_jsonl(path) if kind == "jsonl" else read_parquet(path)
        header = list(source)
    encoded = reading["encode_as"] is not None
    layout = _find_columns(path, header, columns, graded, names, encoded)
    try:
        items = _read_columns(path, source, layout, reading)
    except DataError as error:
        in_grades = error.kind in ("text grades", "bad grade")
        if graded or reading["grades"] is not None or not in_grades:
            raise
        layout["y"] = None  # words in a column that is not needed
        items = _read_columns(path, source, layout, reading)
    roles = {"grade": "y", "query": "qid", "id": "docid", "weight": "weight"}
    found = [role for role, option in roles.items() if columns.get(option) is None]
    read = [r._replace(why="its name") if r.kind in found else r for r in items.read]
    for k, column in enumerate(read):
        if column.kind == "number" and plain_name(column.name) in COLUMN_NAMES["y"]:
            read[k] = column._replace(why=f"a feature: the grade is {layout['y']}")
    return replace(items, read=tuple(read))


def _read_columns(
    path: str,
    source: str | DataFrame,
    layout: dict[str, Any],
    reading: Mapping[str, Any],
) -> Items:
    if isinstance(source, str):
        return tables.read_table(source, **reading, **layout)
    how = {name: reading[name] for name in ("grades", "encode_as")}
    return _items_from_frame(source, path, layout, **how)


def _items_from_frame(
    source: DataFrame, path: str, layout: dict[str, Any], **reading: Any
) -> Items:
    """The items of a JSONL or Parquet file; an error about a cell names its row or line."""
    try:
        return tables.items_of_columns(source, layout, path=path, **reading)
    except CellError as error:
        reason = f"{error.name} is {error.shown}, not {error.needed}"
        _refuse_row(path, error.row, reason, tables.cell_advice(error), error.kind)
    except DataError as error:
        if error.kind != "text grades" or error.line is None:
            raise error.in_file(path) from None
        _refuse_row(path, error.line - 1, str(error.message), error.fix, error.kind)


def _refuse_row(path: str, row: int, reason: str, fix: str, kind: str) -> NoReturn:
    if is_parquet(path):
        found = f"row {row + 1}: {reason.rstrip(':')};"
        raise DataError(found, kind=kind, file=path, line=row + 1, fix=fix) from None
    text = read_text(path)
    lines = [line for line, _ in json_rows(text)]
    text.refuse(lines[row], 1, reason, fix, kind)


def _find_columns(
    path: str,
    header: list[str],
    columns: Mapping[str, Any],
    graded: bool = True,
    names: Sequence[str] | None = None,
    encoded: bool = False,
) -> dict[str, Any]:
    """The columns of each role, as `read_table` takes them; ``names`` are those of a model.

    With ``encoded`` the encoding of a model says which columns are features.
    """

    def column(given: Column) -> Column:
        digits = isinstance(given, str) and given not in header and given.lstrip("-").isdigit()
        return int(given) if digits else given

    layout: dict[str, Any] = dict.fromkeys(("y", "qid", "docid", "weight"))
    layout |= usual_columns(header, COLUMN_NAMES)
    layout |= {role: column(columns[role]) for role in layout if columns.get(role) is not None}
    if layout["y"] is None and graded:
        more = " ..." if len(header) > 12 else ""
        rating = next((name for name in header if plain_name(name) in _MAYBE_GRADES), "NAME")
        raise DataError(
            f"no column is called {', '.join(COLUMN_NAMES['y'])}.",
            kind="no grade",
            file=path,
            fix=Message(
                "Give the column of the grade: ",
                Setting("y", rating),
                f". Columns: {', '.join(header[:12])}{more}.",
            ),
        )
    if encoded:
        return layout
    if names is not None:
        # The columns whose words were learned are called column=word.
        words = dict.fromkeys(name.partition("=")[0] for name in names if name not in header)
        layout["one_hot"] = [name for name in words if name in header]
        layout["features"] = [name for name in names if name in header] + layout["one_hot"]
        return layout
    features, drop, one_hot = (columns.get(key) or () for key in ("features", "drop", "one_hot"))
    kinds = dict(columns.get("kinds") or {})
    for name in drop:
        for key, chosen in (("features", features), ("one_hot", one_hot)):
            if name in chosen:
                both = Setting("drop", name), " and ", Setting(key, name)
                raise ParameterError(*both, ": give one of them.")
    layout |= {"drop": list(map(column, drop)), "one_hot": list(map(column, one_hot))}
    layout["kinds"] = kinds
    if features:
        layout["features"] = list(dict.fromkeys([*map(column, features), *layout["one_hot"]]))
    return layout


def _with_features_of(items: Items, like: Any, path: str) -> Items:
    """The same items with the features of other items or of a model."""
    names = like.feature_names
    if getattr(like, "encoding", None) is not None and items.encoding is not None:
        pass  # encoded in the same way
    elif names is not None and items.feature_names is not None:
        X = _columns_by_name(items, names, path)
        items = replace(items, X=X, feature_names=tuple(names))
    elif items.n_features < like.n_features or (
        items.n_features > like.n_features and not getattr(like, "takes_more", False)
    ):
        raise DataError(
            f"it has {items.n_features} features, but {like.n_features} are needed.",
            file=path,
            fix="Give data with the same features.",
        )
    else:
        _warn_of_missing_features(items, path)
    missing = None if getattr(like, "allow_nan", True) else first_missing(items)
    if missing is not None:
        raise DataError(
            f"{missing}, and the model does not support missing values.",
            file=path,
            fix="Fill them, or train a ranker that does, such as RankBoost.",
        )
    return items


def _columns_by_name(items: Items, names: Sequence[str], path: str) -> Any:
    """The columns of these names in this order; a word that no item has is a column of 0."""
    position = {name: k for k, name in enumerate(items.feature_names or ())}
    columns_of_words = {name.partition("=")[0] for name in position if "=" in name}
    words = {name for name in names if "=" in name and name.partition("=")[0] in columns_of_words}
    absent = [name for name in names if name not in position and name not in words]
    if absent and absent[0] in columns_of_words:
        raise DataError(
            f"the column {absent[0]!r} has text, but the model was trained on numbers there.",
            kind="text for numbers",
            file=path,
            fix="Give numbers, or train on files that have text in this column.",
        )
    if absent:
        raise DataError(
            f"it lacks the feature {absent[0]!r} ({len(absent)} of {len(names)} are missing). "
            f"It has {', '.join(list(position)[:10])}.",
            file=path,
        )
    order = [position.get(name, items.n_features) for name in names]
    if order == list(range(items.n_features)):
        return items.X
    if items.n_features not in order:
        return items.X[:, order]
    zeros = np.zeros((items.n_items, 1))
    if not items.is_sparse:
        return np.hstack([items.X, zeros])[:, order]
    from scipy.sparse import csr_array, hstack

    return hstack([items.X, csr_array(zeros)], format="csr")[:, order]


def _warn_of_missing_features(items: Items, path: str) -> None:
    """LETOR files leave out zeros, so data of another kind can look like data with few features."""
    if items.n_items < MANY_ITEMS:
        return
    used = items.X.indices if items.is_sparse else items.X.any(axis=0).nonzero()[0]
    width = int(used.max()) + 1 if len(used) else 0
    if width < items.n_features:
        warnings.warn(
            f"{path}: every feature after number {width} is 0 in all items, and "
            f"{items.n_features} features are expected: are these the same features?",
            DegenerateDataWarning,
            stacklevel=3,
        )
