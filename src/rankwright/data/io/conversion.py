"""Read, write and convert data files of every kind."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Mapping
from itertools import chain
from types import SimpleNamespace
from typing import Any

from rankwright.data.behavior.ratings import Ratings
from rankwright.data.io.files import atomic_write, write_lines
from rankwright.data.io.items import detect_format, format_of_name, read_items
from rankwright.data.io.letor.writer import write_letor
from rankwright.data.io.logs.impressions import read_log
from rankwright.data.io.logs.preferences import read_preferences
from rankwright.data.io.trec import read_qrels, read_run, write_qrels, write_run
from rankwright.data.items import Items
from rankwright.data.runs import Qrels, Run
from rankwright.exceptions import DataError, Message, ParameterError, Setting

TABLE_FORMATS = ("csv", "tsv", "jsonl", "parquet")


def write_items(items: Items, path: str | os.PathLike[str], *, format: str | None = None) -> None:
    """Write items as LETOR, CSV, TSV, JSONL or Parquet; numbers are preserved exactly.

    Parameters
    ----------
    items : Items
    path : path
        Gzipped if it ends in ``.gz``; written atomically.
    format : {"letor", "csv", "tsv", "jsonl", "parquet"} or None
        None uses the one that the extension implies, or else LETOR.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "items.csv"
    >>> write_items(Items([[0.5], [2.0]], [1, 0], qid=[7, 7]), path)
    >>> print(path.read_text(), end="")
    qid,grade,f1
    7,1,0.5
    7,0,2
    """
    kind = format or format_of_name(path) or "letor"
    if kind == "letor":
        write_letor(items, path)
        return
    names = items.feature_names or tuple(f"f{k}" for k in range(1, items.n_features + 1))
    ids = {"qid": items.qid, "docid": items.docid}
    columns = {name: column for name, column in ids.items() if column is not None}
    columns["grade"] = items.y
    X = items.X.toarray() if items.is_sparse else items.X
    columns |= {name: X[:, k] for k, name in enumerate(names)}
    write_columns(columns, path, kind)


def write_data(
    data: Items | Run | Qrels | Ratings, path: str | os.PathLike[str], format: str | None = None
) -> None:
    """Write data in a format, by default the one that the extension implies."""
    kind = format or format_of_name(path)
    if isinstance(data, Items):
        write_items(data, path, format=kind)
    elif isinstance(data, Run) and kind in ("run", None):
        write_run(data, path)
    elif isinstance(data, Qrels) and kind in ("qrels", None):
        write_qrels(data, path)
    else:
        write_columns(_columns_of(data), path, kind or "csv")


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    read_as: str | None = None,
    write_as: str | None = None,
    **options: Any,
) -> tuple[str, int]:
    """Convert a data file to another format; numbers are preserved exactly.

    Parameters
    ----------
    source : path of items, a log, pairs, a TREC run or qrels
    target : path of the new file; its extension gives the format (.txt: LETOR or TREC)
    read_as, write_as : the formats, if the extensions do not give them
    **options : how to read items, as in :func:`rankwright.read_items`

    Returns
    -------
    format, n_rows : str, int
    """
    source_format = read_as or detect_format(source) or "letor"
    kind = write_as or format_of_name(target)
    if kind is None and not os.fspath(target).lower().removesuffix(".gz").endswith(".txt"):
        raise ParameterError(
            "the extension gives no format.",
            file=target,
            fix=Message(
                "Use .letor, .txt, .csv, .tsv, .jsonl, .parquet, .run or .qrels, or give ",
                Setting("write_as"),
                ".",
            ),
        )
    kind = kind or (source_format if source_format in ("run", "qrels") else "letor")
    data = read_data(source, source_format, **options)
    write_data(data, target, kind)
    return kind, len(data)


def read_data(path: str | os.PathLike[str], kind: str, **options: Any) -> Any:
    """What a file of this kind holds: a log, pairs, a run, qrels or items."""
    readers: dict[str, Any] = {"log": read_log, "store": read_log, "pairs": read_preferences}
    readers |= {"run": read_run, "qrels": read_qrels}
    if kind in readers:
        return readers[kind](path)
    return read_items(path, graded=False, **options)


def _columns_of(data: Run | Qrels | Ratings) -> dict[str, Any]:
    if isinstance(data, Ratings):
        users, items = data.users[data.user], data.items[data.item]
        return {"user": users, "item": items, "value": data.value}
    rows = data.order if isinstance(data, Run) else slice(None)
    values = {"score": data.score} if isinstance(data, Run) else {"grade": data.grade}
    ids = {"qid": data.queries[data.query], "docid": data.docs[data.doc]}
    return {name: column[rows] for name, column in (ids | values).items()}


def write_columns(columns: Mapping[str, Any], path: str | os.PathLike[str], kind: str) -> None:
    """Write a table of columns in one of TABLE_FORMATS."""
    if kind == "parquet":
        _write_parquet(columns, path)
        return
    if kind not in TABLE_FORMATS:
        raise DataError(f"this type of data cannot be written as {kind}.", file=path)
    names = list(columns)
    rows = (list(map(_plain, row)) for row in zip(*columns.values(), strict=True))
    if kind == "jsonl":
        records = (dict(zip(names, row, strict=True)) for row in rows)
        write_lines(path, (json.dumps(record) + "\n" for record in records))
    else:
        echo: Any = SimpleNamespace(write=str)  # writerow returns what this "file" returns
        writer = csv.writer(echo, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
        write_lines(path, map(writer.writerow, chain([names], rows)))


def _write_parquet(columns: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    try:
        from pyarrow import parquet, table
    except ImportError:
        raise DataError(
            "writing Parquet files needs pyarrow.", file=path, fix="Run: pip install pyarrow."
        ) from None
    texts = {k: v.tolist() if v.dtype.kind in "OU" else v for k, v in columns.items()}
    with atomic_write(path, mode=0o666) as file:
        parquet.write_table(table(texts), file)


def _plain(value: Any) -> Any:
    """A Python value; None for NaN, and whole numbers without a decimal point."""
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
