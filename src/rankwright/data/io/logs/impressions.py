"""Impression logs in files: CSV, TSV, JSONL, Parquet, and exports of the service."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import DataFrame
from rankwright.data.behavior.impressions import (
    COUNT_FIX,
    POSITION_FIX,
    ImpressionLog,
    _counts,
    _positions,
    first_bad_count,
    first_bad_position,
)
from rankwright.data.inputs import Columns, columns_of, one_file, read_parquet
from rankwright.data.io.fields import is_number, likely_separator, usual_columns
from rankwright.data.io.files import PipedFile, Text, bounded, is_parquet, open_binary, read_text
from rankwright.data.io.json_lines import json_rows
from rankwright.data.io.tables import column_of_values, text_rows
from rankwright.data.vocabulary import encode
from rankwright.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    import duckdb

# Usual names of columns; case, blanks, _ and - are ignored.
LOG_COLUMNS = {
    "session": ("session", "sessionid", "searchid", "impressionid", "event", "eventid", "list"),
    "query": ("query", "qid", "queryid", "searchterm", "keyword", "keywords"),
    "item": ("item", "itemid", "docid", "doc", "document", "documentid", "product", "productid",
             "url", "id"),
    "position": ("position", "rank", "pos", "place", "slot"),
    "clicks": ("clicks", "clicked", "click", "isclicked", "isclick", "nclicks"),
    "user": ("user", "userid", "visitor", "visitorid", "customer", "customerid"),
    "time": ("time", "timestamp", "ts", "date", "datetime"),
    "dwell": ("dwell", "dwelltime", "dwellseconds"),
    "ranker": ("ranker", "model", "modelversion", "version", "variant", "arm"),
}  # fmt: skip
_NEEDED = ("query", "item", "clicks")
_LARGE = 32 * 2**20  # bytes; DuckDB reads larger text files, where it is installed
_IDS = ("session", "query", "item", "user", "ranker")
SQLITE = b"SQLite format 3\x00"  # how the store of a service begins


@bounded
def read_log(
    path: str | os.PathLike[str], *, max_bytes: int | None = None, **columns: str
) -> ImpressionLog:
    """Read a log of impressions: one row for each item shown.

    The file is CSV or TSV (gzipped or not, with a header), Parquet, JSONL with one object for each
    item shown, or the JSON lines that the service exports (``GET /v1/log``). Large files are read
    with DuckDB if it is installed. :func:`rankwright.service.read_log` also reads the store
    of a service.

    Parameters
    ----------
    path : path
    max_bytes : int or None
        Maximum number of bytes of text to read; None as in :func:`read_letor`.
    **columns
        The names of the columns ``query``, ``item``, ``clicks``, ``position``, ``session``,
        ``user``, ``time``, ``dwell`` and ``ranker``, if they are not the usual ones. The first
        three are required. ``clicks`` is 0, 1 or the number of clicks.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = path.write_text("session,query,rank,doc,clicked\\n1,shoes,1,a,0\\n1,shoes,2,b,1\\n")
    >>> read_log(path)
    ImpressionLog(2 rows, 1 sessions, 1 queries, 2 items, 1 clicks)
    """
    name = os.fspath(path)
    _check_roles(columns)
    parquet = is_parquet(path)
    duckdb = find_spec("duckdb") is not None and not isinstance(path, PipedFile)
    if duckdb and (parquet or (os.path.getsize(path) > _LARGE and not _is_json(name))):
        try:
            return _from_duckdb(name, columns)
        except DataError as error:
            raise error.in_file(name) from error
    if parquet:
        return _from_table(read_parquet(path), columns, name)
    if is_store(path):
        raise DataError(f"{name} is the store of a service. Read it with service.read_log.")
    text = read_text(path)
    if text.first_line.lstrip().startswith(b"{"):
        return _from_json(text, columns)
    return _from_csv(text, columns)


def frame_to_log(frame: DataFrame, columns: Mapping[str, str]) -> ImpressionLog:
    """What :meth:`ImpressionLog.from_frame` returns."""
    return _from_table(columns_of(frame), columns, "the frame")


def log_from_events(events: Iterable[Mapping[str, Any]]) -> ImpressionLog:
    """Build a log from events of the service: ``event`` and ``feedback`` objects, in any order.

    An event lists the items shown; feedback names an event and its clicks, as item ids or as
    objects with ``id`` and perhaps ``dwell``, and perhaps ``dwell`` by item id, in seconds. Grades
    and preferences are left out.

    >>> shown = {"kind": "event", "event": 1, "query": "q", "items": [{"id": "a"}, {"id": "b"}]}
    >>> log_from_events([shown, {"kind": "feedback", "event": 1, "clicks": ["b"]}])
    ImpressionLog(2 rows, 1 sessions, 1 queries, 2 items, 1 clicks)
    """
    rows: list[tuple[Any, ...]] = []
    index: dict[tuple[Any, Any], int] = {}
    clicks: list[tuple[Any, Any]] = []
    seconds: list[tuple[Any, Any, Any]] = []
    for event in events:
        if event.get("kind") == "feedback":
            clicks += [(event["event"], click) for click in event.get("clicks") or ()]
            seconds += [(event["event"], *pair) for pair in (event.get("dwell") or {}).items()]
        if event.get("kind") != "event":
            continue
        for rank, item in enumerate(event["items"], start=1):
            index[event["event"], item["id"]] = len(rows)
            shown = item["id"], item.get("rank") or rank
            rows.append(
                (event["event"], event.get("query"), event.get("user"), event.get("time"),
                 event.get("model"), *shown)
            )  # fmt: skip
    if not rows:
        raise DataError("the log has no event with shown items.")
    session, query, user, time, model, item, position = (list(c) for c in zip(*rows, strict=True))
    count, dwell = np.zeros(len(rows)), np.full(len(rows), np.nan)
    for event, click in clicks:
        key = click["id"] if isinstance(click, Mapping) else click
        row = index.get((event, key))
        if row is None:
            raise DataError(
                f"feedback has a click on item {key!r} of event {event!r}, which was not shown."
            )
        count[row] += 1
        if isinstance(click, Mapping) and click.get("dwell") is not None:
            seconds.append((event, key, click["dwell"]))
    for event, key, value in seconds:
        if (row := index.get((event, key))) is not None:
            dwell[row] = np.nansum([dwell[row], float(value)])
    return ImpressionLog.from_arrays(
        [event if q is None else q for q, event in zip(query, session, strict=True)],
        item,
        count,
        position=position,
        session=session,
        user=None if None in user else user,
        time=None if None in time else [_seconds(t) for t in time],
        dwell=None if np.isnan(dwell).all() else dwell,
        ranker=None if None in model else model,
    )


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a file is an SQLite database, as ``rankwright serve --store`` writes it."""
    with open_binary(path) as file:
        return file.read(len(SQLITE)) == SQLITE


def _is_json(path: str) -> bool:
    return path.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json"))


def _from_json(text: Text, columns: Mapping[str, str]) -> ImpressionLog:
    rows = [row for _, row in json_rows(text)]
    if "kind" in rows[0] and ("items" in rows[0] or "event" in rows[0]):
        try:
            return log_from_events(rows)
        except KeyError as error:
            raise DataError(f"a line lacks the field {error}.", file=text.path) from None
        except DataError as error:
            raise error.in_file(text.path) from None
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"an event is not as the service writes it ({error}).", file=text.path
            ) from None
    names = {name: None for row in rows for name in row}
    table = {name: column_of_values([row.get(name) for row in rows]) for name in names}
    return _from_table(table, columns, text.path)


def _from_csv(text: Text, columns: Mapping[str, str]) -> ImpressionLog:
    fields, names, _ = text_rows(text, likely_separator(text) or ",", header=True)
    roles = find_columns(names, columns, text.path)
    arrays: Columns = {}
    for role, name in roles.items():
        index = names.index(name)
        if role in _IDS:
            number, distinct = fields.encode(index, name)
            arrays[name] = distinct[number]
        elif role in ("position", "dwell"):
            arrays[name] = fields.numbers(index, name, missing=("",) if role == "dwell" else ())
        else:
            arrays[name] = np.array(fields.column(index), dtype=object)
        if role == "position" and (row := first_bad_position(arrays[name])) is not None:
            fields.refuse(row, index, f"{name} is {arrays[name][row]:g}", POSITION_FIX)
        if role == "clicks":
            arrays[name] = _click_numbers(arrays[name])
            if (row := first_bad_count(arrays[name])) is not None:
                token = fields.column(index)[row]
                fields.refuse(row, index, f'{name} is "{token[:40]}"', COUNT_FIX)
    return _from_table(arrays, roles, text.path)


def find_columns(names: Iterable[str], columns: Mapping[str, str], where: str) -> dict[str, str]:
    """The column of each role: as given, else by its usual name.

    >>> find_columns(["Query", "doc_id", "clicked", "price"], {}, "log.csv")
    {'query': 'Query', 'item': 'doc_id', 'clicks': 'clicked'}
    """
    names = list(names)
    _check_roles(columns)
    for column in columns.values():
        if column not in names:
            raise DataError(f"{where}: no column {column!r} among {', '.join(names)}.")
    by_role = usual_columns(names, LOG_COLUMNS) | dict(columns)
    if missing := [role for role in _NEEDED if role not in by_role]:
        raise DataError(
            f"{where}: no column of {missing[0]} among {', '.join(names)}. Call it "
            f"{missing[0]}, or name it in Python: read_log(path, {missing[0]}='NAME')."
        )
    return by_role


def _check_roles(columns: Mapping[str, str]) -> None:
    for role, column in columns.items():
        if role not in LOG_COLUMNS:
            known = ", ".join(LOG_COLUMNS)
            raise ParameterError(f"{role}={column!r}: a log has no {role}; use one of {known}.")


def is_log(names: Iterable[str]) -> bool:
    """Whether columns of these names are those of a log: query, item, clicks and position."""
    return {*_NEEDED, "position"} <= usual_columns(names, LOG_COLUMNS).keys()


def _from_table(table: Columns, columns: Mapping[str, str], where: str) -> ImpressionLog:
    roles = find_columns(table, columns, where)
    arrays: dict[str, Any] = {role: table[name] for role, name in roles.items()}
    if "time" in arrays:
        arrays["time"] = _times(arrays["time"])
    if "clicks" in arrays:
        arrays["clicks"] = _click_numbers(arrays["clicks"])
    try:
        return ImpressionLog.from_arrays(**arrays)
    except DataError as error:
        raise error.in_file(where) from error


def _click_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """0, 1 or a count; also true and false, yes and no, in any case, and blank for none.

    Other texts become NaN.
    """
    if values.dtype.kind in "iufb":
        return values if values.dtype.kind in "iub" else np.nan_to_num(values)
    words = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "": 0.0, "none": 0.0}
    texts = ("" if value is None else str(value).strip().lower() for value in values.tolist())
    return np.array(
        [
            words[text] if text in words else float(text) if is_number(text) else np.nan
            for text in texts
        ]
    )


def _times(values: NDArray[Any]) -> NDArray[np.float64]:
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]").astype(np.float64) / 1e6
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    return np.array([_seconds(value) for value in values.tolist()])


def _seconds(value: Any) -> float:
    """A time in seconds: a number as it is, a date and time as seconds since 1970."""
    try:
        return float(value)
    except (TypeError, ValueError):
        pass
    try:
        text = str(value).removesuffix("Z").removesuffix("+00:00")
        return float(np.datetime64(text, "us").astype(np.int64)) / 1e6
    except ValueError:
        raise DataError(f"time {value!r} is neither a number nor a date and time.") from None


def _from_duckdb(path: str, columns: Mapping[str, str]) -> ImpressionLog:
    """Read with DuckDB; ids of text become numbers there, so that no text per row comes here."""
    import duckdb

    parquet = is_parquet(path)
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        try:
            source = f"read_{'parquet' if parquet else 'csv'}('{_quoted(one_file(path))}'"
            connection.execute(f"CREATE VIEW log AS SELECT * FROM {source}, hive_partitioning = 0)")
            kinds = {row[0]: row[1] for row in connection.execute("DESCRIBE log").fetchall()}
            roles = find_columns(kinds, columns, path)
            arrays, ids = _fetched(connection, roles, kinds, parquet)
        except duckdb.Error as error:
            raise DataError(f"DuckDB cannot read this file ({error}).", file=path) from error
    return _from_numbers(arrays, ids)


def _from_numbers(arrays: dict[str, Any], ids: Mapping[str, Any]) -> ImpressionLog:
    """A log from columns in which the ids are numbers already."""
    for name in ("user", "time", "dwell", "ranker", "position"):
        arrays.setdefault(name, None)
    n_rows = len(arrays["query"])
    if arrays["position"] is not None:
        arrays["position"] = _positions(arrays["position"], n_rows)
    arrays["clicks"] = _counts(_click_numbers(arrays["clicks"]), n_rows)
    if arrays["time"] is not None:
        arrays["time"] = _times(arrays["time"])
    for name in ("user", "ranker"):
        if name in ids:
            arrays[name] = ids[name][arrays[name]]
    return ImpressionLog.from_codes(
        arrays,
        (arrays.pop("session"), ids["session"]) if "session" in ids else None,
        ids["query"],
        ids["item"],
    )


def _fetched(
    connection: duckdb.DuckDBPyConnection,
    roles: Mapping[str, str],
    kinds: Mapping[str, str],
    by_column: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns as numbers, and for each column of ids its distinct values.

    Ids of text come as 64-bit hashes: DuckDB hashes each distinct text of a Parquet file once,
    while a cast to an enum looks up every row. Single columns take less memory at a time, but a
    CSV file would be parsed for each.
    """
    chosen = {}
    for role, name in roles.items():
        column = '"' + name.replace('"', '""') + '"'
        is_text = role in _IDS and kinds[name] in ("VARCHAR", "UUID")
        chosen[role] = (f"{column}::VARCHAR" if is_text else column, is_text)
    groups = [[role] for role in chosen] if by_column else [list(chosen)]
    arrays: dict[str, Any] = {}
    ids: dict[str, Any] = {}
    for group in groups:
        terms = (_term(role, *chosen[role]) for role in group)
        fetched = connection.execute(f"SELECT {', '.join(terms)} FROM log").fetchnumpy()
        for role in group:
            values = fetched.pop(role)
            if role in _IDS and np.ma.is_masked(values):
                raise DataError(f"{role} is missing in row {int(np.argmax(values.mask))}.")
            values = np.ma.filled(values, 0) if role == "clicks" else np.asarray(values)
            if chosen[role][1]:
                arrays[role], ids[role] = _decoded(connection, role, chosen[role][0], values)
            elif role in _IDS:
                arrays[role], ids[role] = encode(values, role)
            else:
                arrays[role] = values
    return arrays, ids


def _term(role: str, column: str, is_text: bool) -> str:
    """How a column is selected; the hash of a missing text would be a number."""
    chosen = f"CASE WHEN {column} IS NOT NULL THEN hash({column}) END" if is_text else column
    return f"{chosen} AS {role}"


def _decoded(
    connection: duckdb.DuckDBPyConnection, role: str, column: str, hashes: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Dense numbers for the hashes of texts, and the texts: sorted, sessions as they appear."""
    order = "" if role == "session" else "ORDER BY id"
    table = connection.execute(
        f"SELECT id, hash(id) AS key FROM (SELECT DISTINCT {column} AS id FROM log "
        f"WHERE {column} IS NOT NULL) {order}"
    ).fetchnumpy()
    texts, key = np.asarray(table["id"], dtype=object), np.asarray(table["key"])
    by_key = np.argsort(key)
    key = key[by_key]
    if len(twice := np.flatnonzero(key[1:] == key[:-1])):
        pair = texts[by_key[twice[0]]], texts[by_key[twice[0] + 1]]
        raise DataError(
            f"{role}: {pair[0]!r} and {pair[1]!r} have the same hash: rename one of them."
        )
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    number = by_key[np.searchsorted(key, hashes[starts])]
    if role == "session":
        number, distinct = encode(number, role)
        texts = texts[distinct]
    if len(starts) < len(hashes):
        number = np.repeat(number, np.diff(np.append(starts, len(hashes))))
    return number.astype(np.int64, copy=False), texts


def _quoted(path: str) -> str:
    return path.replace("'", "''")
