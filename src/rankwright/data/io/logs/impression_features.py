"""The features that a log of impressions holds itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from rankwright.data.inputs import parquet_names
from rankwright.data.io.files import Text, is_parquet, read_text
from rankwright.data.io.items import first_fields
from rankwright.data.io.json_lines import json_rows
from rankwright.data.io.logs.impressions import find_columns
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
    if not is_parquet(path) and read_text(path).first_line.lstrip().startswith(b"{"):
        items = _json_features(read_text(path), columns)
    else:
        names = parquet_names(path) if is_parquet(path) else first_fields(name, None)
        roles = find_columns(names, columns, name)
        others = [column for role, column in roles.items() if role not in ("query", "item")]
        items = read_table(path, y=None, qid=roles["query"], docid=roles["item"], drop=others)
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
        raise DataError(f"{text.path}: a line lacks the field {error}.") from None
    except (TypeError, AttributeError) as error:
        raise DataError(f"{text.path}: features are numbers by name ({error}).") from None


def _features_in(rows: list[dict[str, Any]], text: Text, columns: Mapping[str, str]) -> Items:
    if "kind" in rows[0]:
        shown = [
            (event.get("query") or event["event"], item["id"], item.get("features") or ())
            for event in rows
            if event.get("kind") == "event"
            for item in event["items"]
        ]
        query, item, values = (list(column) for column in zip(*shown, strict=True))
        first = values[0]
        names = tuple(first) if isinstance(first, Mapping) else None
        table = [list(v.values()) if isinstance(v, Mapping) else list(v) for v in values]
        if len({len(row) for row in table}) > 1:
            raise DataError(f"{text.path}: items have different numbers of features.")
        return _table(np.array(table, np.float64), query, item, names)
    roles = find_columns(rows[0], columns, text.path)
    names = tuple(name for name in rows[0] if name not in roles.values())
    X = np.array([[row.get(name) for name in names] for row in rows], dtype=np.float64)
    query, item = ([row[roles[role]] for row in rows] for role in ("query", "item"))
    return _table(X.reshape(len(rows), -1), query, item, names)


def _table(X: Any, query: list[Any], item: list[Any], names: Any) -> Items:
    qid: Any = query
    docid: Any = item
    return Items(X, np.zeros(len(X)), qid, docid, names)
