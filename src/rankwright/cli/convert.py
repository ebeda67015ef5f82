"""``rankwright convert``: the same data in another format."""

from __future__ import annotations

import csv
import io
import json as json_module
import math
from collections.abc import Callable, Iterator
from typing import Any

import rankwright as rw
from rankwright.cli.config import STDIN
from rankwright.cli.console import note, print_json
from rankwright.cli.files.formats import by_ending, tell_format
from rankwright.cli.files.items import TableOptions, read_items
from rankwright.cli.files.pipes import at_hand, write_text
from rankwright.exceptions import DataError, ParameterError

Rows = Iterator[list[Any]]


def convert(
    source: str,
    target: str,
    /,
    *,
    write_as: str | None = None,
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Write data in another format: items as LETOR, CSV, TSV, JSONL or Parquet; runs and qrels as
    TREC, CSV, TSV or JSONL. Numbers keep their last bit.

    ```text
    rankwright convert train.txt train.csv
    rankwright convert train.csv.gz - --write-as letor | head
    ```

    Parameters
    ----------
    source
        The data (- is standard input).
    target
        The new file, its format told by its ending (.txt: LETOR, or TREC for runs and qrels);
        gzipped for .gz (- is standard output).
    write_as
        letor, csv, tsv, jsonl, parquet, run or qrels, where the ending does not say it.
    json
        A JSON summary of what was written, on standard output (not with target -).
    """
    with at_hand(source) as local:
        found = tell_format(local, table.read_as)
        kind = write_as or by_ending(target) or _plain(found, target)
        if found in ("run", "qrels"):
            n_rows = _convert_judged(local, found, target, kind)
        else:
            items = read_items(local, table, graded=False)
            n_rows = items.n_items
            write_items(items, target, kind)
    if json:
        print_json({"source": source, "target": target, "format": kind, "n_rows": n_rows})
    elif target not in ("-", STDIN):
        note(f"{target}: {n_rows:,} rows as {kind}")


def _plain(found: str, target: str) -> str:
    """``.txt`` is the plain form of what was found: TREC for runs and qrels, else LETOR."""
    if not target.lower().removesuffix(".gz").endswith(".txt"):
        raise ParameterError(
            f"{'-' if target == STDIN else target}: its ending names no format. Use .letor, .txt, "
            ".csv, .tsv, .jsonl, .parquet, .run or .qrels, or say --write-as."
        )
    return found if found in ("run", "qrels") else "letor"


def _convert_judged(source: str, found: str, target: str, kind: str) -> int:
    data: Any = rw.read_run(source) if found == "run" else rw.read_qrels(source)
    if kind == found:
        _write_whole(rw.write_run if found == "run" else rw.write_qrels, data, target)
        return len(data)
    value = "score" if found == "run" else "grade"
    order = data.order if found == "run" else range(len(data))
    columns = (data.queries[data.query], data.docs[data.doc], getattr(data, value))
    rows = ([column[row] for column in columns] for row in order)
    _write_rows(["qid", "docid", value], rows, target, kind)
    return len(data)


def write_items(items: rw.Items, target: str, kind: str | None = None) -> None:
    """Write items in the format that is named, or that the ending tells."""
    kind = kind or by_ending(target) or "letor"
    if kind == "letor":
        _write_whole(rw.write_letor, items, target)
        return
    names = items.feature_names or tuple(f"f{k}" for k in range(1, items.n_features + 1))
    head = [*(["qid"] if items.qid is not None else [])]
    head += [*(["docid"] if items.docid is not None else []), "grade", *names]
    if kind == "parquet":
        _write_parquet(items, names, target)
    else:
        _write_rows(head, _rows(items), target, kind)


def _write_whole(write: Callable[[Any, str], None], data: Any, target: str) -> None:
    """Let a writer of files write a file, or standard output by way of one."""
    if target not in ("-", STDIN):
        write(data, target)
        return
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "copy")
        write(data, path)
        with open(path, encoding="utf-8") as file:
            write_text(file, None)


def _rows(items: rw.Items) -> Rows:
    for row in range(items.n_items):
        values = items.X[[row]].toarray()[0] if items.is_sparse else items.X[row]
        cells = [] if items.qid is None else [items.qid[row]]
        cells += [] if items.docid is None else [items.docid[row]]
        yield [*cells, items.y[row], *values.tolist()]


def _write_rows(head: list[str], rows: Rows, target: str, kind: str) -> None:
    if kind == "jsonl":
        lines = (json_module.dumps(dict(zip(head, map(_json, row), strict=True))) for row in rows)
        write_text((f"{line}\n" for line in lines), target)
    elif kind in ("csv", "tsv"):
        write_text(_csv(head, rows, "," if kind == "csv" else "\t"), target)
    else:
        raise DataError(f"{target}: such data cannot be written as {kind}.")


def _csv(head: list[str], rows: Rows, separator: str) -> Iterator[str]:
    for row in (head, *rows):
        buffer = io.StringIO()
        csv.writer(buffer, delimiter=separator, lineterminator="\n").writerow(map(_cell, row))
        yield buffer.getvalue()


def _cell(value: Any) -> Any:
    value = _json(value)
    return "" if value is None else repr(value) if isinstance(value, float) else value


def _json(value: Any) -> Any:
    """A number without a needless .0; None for a gap."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if value.is_integer() and abs(value) < 2**53:
            return int(value)
    return value


def _write_parquet(items: rw.Items, names: tuple[str, ...], target: str) -> None:
    try:
        from pyarrow import parquet, table
    except ImportError:
        raise DataError(f"{target}: Parquet is written by pyarrow: pip install pyarrow.") from None
    from rankwright.data.io.files import atomic_write

    if target in ("-", STDIN):
        raise ParameterError("Parquet is written to a file only. Give its name instead of -.")
    X = items.X.toarray() if items.is_sparse else items.X
    columns: dict[str, Any] = {} if items.qid is None else {"qid": items.qid.tolist()}
    if items.docid is not None:
        columns["docid"] = items.docid.tolist()
    columns["grade"] = items.y
    columns |= {name: X[:, k] for k, name in enumerate(names)}
    with atomic_write(target, mode=0o666) as file:
        parquet.write_table(table(columns), file)
