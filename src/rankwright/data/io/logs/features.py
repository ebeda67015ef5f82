"""Features in logs: the other columns of a log of impressions, and the logs of search engines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.inputs import parquet_names
from rankwright.data.io.fields import first_fields, first_line
from rankwright.data.io.files import Text, is_parquet, read_text
from rankwright.data.io.json_lines import DECODER, json_rows
from rankwright.data.io.logs.impressions import find_columns, is_store
from rankwright.data.io.tables import read_table
from rankwright.data.items import Items
from rankwright.data.vocabulary import encode, pair_keys
from rankwright.exceptions import DataError


def read_log_features(path: str | os.PathLike[str], **columns: str) -> Items:
    """Read features from the other columns of a log, one row for each query and item.

    In a service's export they are the ``features`` of the items shown. The first row of an item
    counts. Parameters as in :func:`read_log`.
    """
    name = os.fspath(path)
    if is_store(path):
        raise DataError(
            f"{name} is the store of a service. Read it with service.read_impression_features."
        )
    if not is_parquet(path) and first_line(path).lstrip().startswith(b"{"):
        items = _json_features(read_text(path), columns)
    else:
        names = parquet_names(path) if is_parquet(path) else first_fields(name, None)
        roles = find_columns(names, columns, name)
        others = [column for role, column in roles.items() if role not in ("query", "item")]
        items = read_table(path, y=None, qid=roles["query"], docid=roles["item"], drop=others)
    return _first_of_each(items, name)


def features_from_events(events: Iterable[Mapping[str, Any]], name: str) -> Items:
    """The features of the items that a service showed, one row for each query and item.

    Items without features, such as those of a recommender, are left out. ``name`` is for errors.
    """
    shown = [
        (event.get("query") or event["event"], item["id"], item["features"])
        for event in events
        if event.get("kind") == "event"
        for item in event["items"]
        if item.get("features")
    ]
    query, item, values = ([row[i] for row in shown] for i in range(3))
    first: Any = values[0] if values else ()
    names = tuple(first) if isinstance(first, Mapping) else None
    if any(len(v) != len(first) or isinstance(v, Mapping) != (names is not None) for v in values):
        raise DataError(f"{name}: items have different features.")
    table = [list(v) if names is None else [v[column] for column in names] for v in values]
    X = np.array(table, np.float64).reshape(len(table), len(first))
    return _first_of_each(_table(X, query, item, names), name)


def _first_of_each(items: Items, name: str) -> Items:
    """The first row of each query and item."""
    if items.n_features == 0:
        raise DataError(
            f"{name} has no column of features. Give a table of features by query and item (at a "
            "shell: --features FILE)."
        )
    assert items.docid is not None
    keys = pair_keys(items.queries.codes, encode(items.docid, "item")[0])
    return items.take(np.sort(np.unique(keys, return_index=True)[1]))


def _json_features(text: Text, columns: Mapping[str, str]) -> Items:
    rows = [row for _, row in json_rows(text)]
    try:
        return _features_in(rows, text, columns)
    except KeyError as error:
        raise DataError(f"a line lacks the field {error}.", file=text.path) from None
    except (TypeError, AttributeError) as error:
        raise DataError(f"features are numbers by name ({error}).", file=text.path) from None


def _features_in(rows: list[dict[str, Any]], text: Text, columns: Mapping[str, str]) -> Items:
    if "kind" in rows[0]:
        return features_from_events(rows, text.path)
    roles = find_columns(rows[0], columns, text.path)
    names = tuple(name for name in rows[0] if name not in roles.values())
    X = np.array([[row.get(name) for name in names] for row in rows], dtype=np.float64)
    query, item = ([row[roles[role]] for row in rows] for role in ("query", "item"))
    return _table(X.reshape(len(rows), -1), query, item, names)


def _table(
    X: NDArray[np.float64], query: list[Any], item: list[Any], names: tuple[str, ...] | None
) -> Items:
    qid: Any = query
    docid: Any = item
    return Items(X, np.zeros(len(X)), qid, docid, names)


MARKS = (b'"_ltrlog"', b'"[features]"')
GRADE_NAMES = ("grade", "label", "relevance", "rating", "judgment")
QUERY_NAMES = ("qid", "query_id", "query")


def is_feature_log(head: bytes) -> bool:
    """Whether the beginning of a JSON file holds logged features."""
    return any(mark in head for mark in MARKS)


def read_feature_log(path: str | os.PathLike[str], *, graded: bool = True) -> Items:
    """Read responses with logged features, one JSON object per line, as items.

    A line is the response to one query, as the engine sent it, or one hit of it. A field ``qid`` in
    a line names the query; without it, each response is a query of its own (1, 2, ...). A hit's
    grade is its field ``grade``, ``label`` or ``rating``, also in ``_source``.

    Elasticsearch and OpenSearch: the entries of ``fields._ltrlog``; a feature without a value is
    missing (NaN). Solr: ``[features]``, as ``name=value,...``; a feature that is not listed is 0.

    Parameters
    ----------
    path : path, gzipped or not
    graded : bool, default True
        Whether every hit must have a grade. With False, ``y`` is 0 where none is given.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.jsonl"
    >>> _ = path.write_text('{"qid": "shoes", "hits": {"hits": [{"_id": "a", "fields": {"_ltrlog":'
    ...     '[{"log": [{"name": "bm25", "value": 2.5}, {"name": "clicks"}]}]}}]}}')
    >>> items = read_feature_log(path, graded=False)
    >>> items.feature_names, items.X.tolist(), items.docid.tolist()
    (('bm25', 'clicks'), [[2.5, nan]], ['a'])
    """
    text = read_text(path)
    names: dict[str, int] = {}
    rows: list[tuple[Any, str | None, Any, dict[str, float], float]] = []
    for number, (line, content) in enumerate(_objects(text), start=1):
        for hit in _hits(content):
            logged, absent = _features(text, line, hit)
            for name in logged:
                names.setdefault(name, len(names))
            query = next((content[key] for key in QUERY_NAMES if key in content), number)
            rows.append((query, _docid(hit), _grade(text, line, hit), logged, absent))
    if not rows:
        raise DataError(f"{os.fspath(path)}: no hit in it; log features with an sltr query.")
    return _items(os.fspath(path), rows, names, graded)


def _objects(text: Text) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects with their line: one per line, or one in the whole file."""
    whole = text.decode()
    try:
        only = DECODER.decode(whole)
    except (ValueError, RecursionError):  # several lines
        for number, content in json_rows(text):
            yield number, _object(text, number, content)
    else:
        yield 1, _object(text, 1, only)


def _object(text: Text, number: int, content: object) -> dict[str, Any]:
    if not isinstance(content, dict):
        text.refuse(number, 1, "not a JSON object", "write one response per line")
    inner = content.get("response")
    if isinstance(inner, dict) and ("hits" in inner or "response" in inner):
        return {**inner, **{key: content[key] for key in QUERY_NAMES if key in content}}
    return content


def _hits(content: dict[str, Any]) -> list[Any]:
    """The hits of a response, or the object itself if it is a hit."""
    for outer, inner in (("hits", "hits"), ("response", "docs")):
        part = content.get(outer)
        if isinstance(part, dict) and isinstance(part.get(inner), list):
            return list(part[inner])
    return [content]


def _features(text: Text, line: int, hit: object) -> tuple[dict[str, float], float]:
    """The logged values of a hit, and the value of features that it does not list."""
    fix = "log features in every hit (ext.ltr_log, or [features] in fl)"
    if not isinstance(hit, dict):
        text.refuse(line, 1, "a hit is not a JSON object", fix)
    solr = hit.get("[features]")
    if isinstance(solr, str):
        pairs = [part.rpartition("=") for part in solr.split(",") if part]
        return {name: _number(text, line, name, value) for name, _, value in pairs}, 0.0
    fields = hit.get("fields")
    entries = fields.get("_ltrlog") if isinstance(fields, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        text.refuse(line, 1, "a hit has neither fields._ltrlog nor [features]", fix)
    logged: dict[str, float] = {}
    for entry in entries:
        for feature in (part for log in entry.values() if isinstance(log, list) for part in log):
            if not isinstance(feature, dict) or not isinstance(feature.get("name"), str):
                text.refuse(line, 1, "a logged feature has no name", fix)
            name = feature["name"]
            logged[name] = _number(text, line, name, feature.get("value"))
    return logged, np.nan


def _number(text: Text, line: int, name: str, value: Any) -> float:
    try:
        number = np.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.inf
    if not name or np.isinf(number) or isinstance(value, bool):
        text.refuse(line, 1, f"feature {name!r} has the value {value!r}", "log finite numbers")
    return number


def _docid(hit: dict[str, Any]) -> str | None:
    docid = next((hit[key] for key in ("_id", "id", "docid") if hit.get(key) is not None), None)
    return None if docid is None else str(docid)


def _grade(text: Text, line: int, hit: dict[str, Any]) -> float | None:
    source = hit.get("_source")
    for record in (hit, source if isinstance(source, dict) else {}):
        for name in GRADE_NAMES:
            if record.get(name) is not None:
                return _number(text, line, name, record[name])
    return None


def _items(path: str, rows: list[Any], names: dict[str, int], graded: bool) -> Items:
    grades = [grade for _, _, grade, _, _ in rows]
    n_without = sum(grade is None for grade in grades)
    if graded and n_without:
        raise DataError(
            f"{path}: {n_without:,} of {len(rows):,} hits have no grade. Add a field grade to each "
            "hit, or convert the log, judge its items, and train on those."
        )
    X = np.empty((len(rows), len(names)))
    for row, (_, _, _, logged, absent) in zip(X, rows, strict=True):
        row[:] = absent
        for name, value in logged.items():
            row[names[name]] = value
    docid: Any = [name for _, name, _, _, _ in rows]
    qid: Any = [query if isinstance(query, int) else str(query) for query, *_ in rows]
    y: Any = [0.0 if grade is None else grade for grade in grades]
    return Items(
        X,
        y,
        qid=qid,
        docid=docid if any(name is not None for name in docid) else None,
        feature_names=tuple(names),
    )
