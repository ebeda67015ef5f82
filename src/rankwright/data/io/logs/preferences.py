"""Files of pairwise preferences: winner, loser, and perhaps weight and query."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.inputs import Columns, read_parquet
from rankwright.data.io.fields import likely_separator, plain_name, usual_columns
from rankwright.data.io.files import Text, is_parquet, read_text
from rankwright.data.io.tables import read_jsonl, text_rows
from rankwright.data.vocabulary import as_column
from rankwright.exceptions import DataError

_PAIR_COLUMNS = {
    "winner": ("winner", "preferred", "better", "chosen", "upper"),
    "loser": ("loser", "other", "worse", "rejected", "lower"),
    "weight": ("weight", "count", "n"),
    "query": ("query", "qid", "queryid", "session", "user"),
}


class Preferences(NamedTuple):
    """Preferences between ids: winner, loser, and optionally weight and query."""

    winner: NDArray[Any]
    loser: NDArray[Any]
    weight: NDArray[np.float64] | None = None
    query: NDArray[Any] | None = None

    def facts(self) -> str:
        """What it holds, in numbers."""
        return f"{len(self.winner):,} pairs"

    def __str__(self) -> str:
        return f"Preferences({self.facts()})"


def read_preferences(path: str | os.PathLike[str]) -> Preferences:
    """Read pairs of ids from CSV, TSV, JSONL or Parquet: winner, loser, weight, query.

    The last two columns may be absent.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pairs.csv"
    >>> _ = path.write_text("winner,loser,weight\\nb,a,2\\nb,c,1\\n")
    >>> read_preferences(path).weight.tolist()
    [2.0, 1.0]
    """
    name = os.fspath(path)
    table = read_parquet(path) if is_parquet(path) else _text_columns(read_text(path))
    by_role = {role: table[column] for role, column in usual_columns(table, _PAIR_COLUMNS).items()}
    for role in ("winner", "loser"):
        if role not in by_role:
            raise DataError(f"{name}: no column of the {role} among {', '.join(table)}.")
    if "weight" in by_role:
        by_role["weight"] = as_column(by_role["weight"], "weight", len(by_role["winner"]))
        if len(bad := np.flatnonzero(by_role["weight"] < 0)):
            raise DataError(
                f"{name}: weight {by_role['weight'][bad[0]]:g} in row {bad[0] + 1} is < 0."
            )
    for row, (winner, loser) in enumerate(zip(by_role["winner"], by_role["loser"], strict=True)):
        if winner == loser:
            raise DataError(f"{name}: row {row + 1} prefers {winner} to itself.")
    return Preferences(**by_role)


def is_preferences(names: Iterable[str]) -> bool:
    """Whether columns of these names are those of preferences: a winner and a loser."""
    return {"winner", "loser"} <= set(map(plain_name, names))


def _text_columns(text: Text) -> Columns:
    if text.first_line.lstrip().startswith(b"{"):
        return read_jsonl(text.path)
    fields, names, _ = text_rows(text, likely_separator(text) or ",", header=True)
    table: Columns = {}
    for index, name in enumerate(names):
        if plain_name(name) in _PAIR_COLUMNS["weight"]:
            table[name] = fields.numbers(index, name)
        else:
            number, distinct = fields.encode(index, name)
            table[name] = distinct[number]
    return table
