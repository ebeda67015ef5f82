"""Feature: what every feature declares; Rows: where its values come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, IntArray
from rankwright.data.columns import values_of
from rankwright.data.vocabulary import is_missing
from rankwright.exceptions import DataError, ParameterError
from rankwright.features.statistics import LogStatistics, TextStatistics
from rankwright.features.texts import Matches, QueryWords, Texts
from rankwright.features.tokenizer import Tokenizer, as_line, text_of

QUERY = "query"  # the column of the query's text; other fields of a query are query.NAME
Missing = Literal["empty", "nan"]


def query_column(field: str) -> str:
    """The column of a field of the query.

    >>> query_column("text")
    'query.text'
    """
    return f"{QUERY}.{field}"


def plain_name(field: str) -> str:
    """A field in the name of a feature."""
    return field.replace(".", "_")


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What a feature set has learned of the collection."""

    texts: Mapping[str, TextStatistics]  # by field, or by fields joined by +
    log: LogStatistics | None = None

    def of(self, *fields: str) -> TextStatistics:
        """The statistics of a field, or of several fields together."""
        return self.texts["+".join(fields)]


class Rows(Protocol):
    """Pairs of a query and a document, as features read them."""

    n_rows: int

    def has(self, name: str) -> bool:
        """Whether there is a column of this name."""

    def cells(self, name: str) -> Any:
        """The cells of a column."""

    def texts(self, field: str) -> tuple[Texts, IntArray]:
        """The texts of a document field, and the number of the text of each row."""

    def queries(self, field: str) -> Sequence[tuple[QueryWords, IntArray]]:
        """The different texts of a query field, each with its rows."""


class Feature(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag=True,
):
    """One or more columns of numbers, computed from the fields of a query and a document."""

    def output_names(self) -> list[str]:
        """The names of its columns."""
        raise NotImplementedError

    def columns(self) -> list[str]:
        """The columns that it reads."""
        raise NotImplementedError

    def corpora(self) -> list[tuple[str, ...]]:
        """The fields, or groups of fields, whose document frequencies it needs."""
        return []

    def fitted(self, rows: Rows) -> Self:
        """The same feature with what it learns from training rows."""
        return self

    def check(self) -> None:
        """Raise a ParameterError unless the parameters are valid."""

    def _refuse(self, parameter: str, needed: str) -> ParameterError:
        value = getattr(self, parameter)
        return ParameterError(
            f"{type(self).__name__}({parameter}={value!r}): give {needed}.", parameter=parameter
        )


class TextFeature(Feature, frozen=True):
    """A feature of the words of a query in a document: one column."""

    prefix: ClassVar[str] = ""

    def output_names(self) -> list[str]:
        given = getattr(self, "name", None)
        return [given or f"{self.prefix}_{'_'.join(map(plain_name, self.fields_read()))}"]

    def fields_read(self) -> Sequence[str]:
        """The document fields."""
        field: str = self.field  # type: ignore[attr-defined]
        return (field,)

    def query_field(self) -> str:
        return str(getattr(self, "query", "text"))

    def columns(self) -> list[str]:
        return [query_column(self.query_field()), *self.fields_read()]

    def score(self, match: Callable[[str], Matches], known: Knowledge) -> FloatArray:
        """The value of each document of one query; ``match`` finds the query in a field."""
        raise NotImplementedError


class ValueFeature(Feature, frozen=True):
    """A feature that is computed for all rows at once."""

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        """(n_rows, n_columns) values; NaN is a missing value."""
        raise NotImplementedError


class TableRows:
    """Rows of a table with the fields of queries and documents; equal texts are cut once."""

    def __init__(
        self, table: Mapping[str, Any], tokenizer: Tokenizer, *, strict: bool = False
    ) -> None:
        self._table, self._tokenizer, self.strict = table, tokenizer, strict
        self.n_rows = len(next(iter(table.values()), ()))
        self._texts: dict[str, tuple[Texts, IntArray]] = {}
        self._queries: dict[str, list[tuple[QueryWords, IntArray]]] = {}

    def has(self, name: str) -> bool:
        return name in self._table or (name == query_column("text") and QUERY in self._table)

    def cells(self, name: str) -> Any:
        if name in self._table:
            return self._table[name]
        if self.has(name):
            return self._table[QUERY]
        raise DataError(f"the rows lack the column {name!r}. They have: {', '.join(self._table)}.")

    def numbers(self, name: str) -> FloatArray:
        """A column of numbers."""
        return values_of(name, self.cells(name), "number", strict=self.strict)

    def _distinct(self, name: str) -> tuple[list[str], IntArray]:
        number: dict[str, int] = {}
        cells = as_list(self.cells(name))
        codes = np.empty(len(cells), np.int64)
        for row, cell in enumerate(cells):
            text = cell if type(cell) is str else text_of(name, row, cell)
            codes[row] = number.setdefault(text, len(number))
        return list(number), codes

    def texts(self, field: str) -> tuple[Texts, IntArray]:
        if field not in self._texts:
            texts, codes = self._distinct(field)
            self._texts[field] = Texts(texts, self._tokenizer), codes
        return self._texts[field]

    def queries(self, field: str) -> list[tuple[QueryWords, IntArray]]:
        if field not in self._queries:
            texts, codes = self._distinct(query_column(field))
            order = np.argsort(codes, kind="stable")
            ends = np.cumsum(np.bincount(codes, minlength=len(texts)))
            parts = np.split(order, ends[:-1]) if len(texts) else []
            words = [QueryWords(self._tokenizer.words(text), as_line(text)) for text in texts]
            self._queries[field] = list(zip(words, parts, strict=True))
        return self._queries[field]


def absent(cell: object) -> bool:
    """Whether a cell, which may be a vector, is missing."""
    return not hasattr(cell, "__len__") and is_missing(cell)


def as_list(cells: Iterable[Any]) -> list[Any]:
    """The cells of a column as Python objects."""
    if isinstance(cells, list):
        return cells
    if isinstance(cells, np.ndarray) and cells.ndim == 1:
        return list(cells.tolist()) if cells.dtype.kind not in "OM" else list(cells)
    return list(cells)


def group_rows(qid: ArrayLike | None, rows: Rows) -> Iterator[IntArray]:
    """The rows of each query: by its id, or by its text if there are no ids."""
    if qid is None:
        column = query_column("text")
        if not rows.has(column):
            yield np.arange(rows.n_rows)
            return
        qid = ["" if is_missing(cell) else str(cell) for cell in as_list(rows.cells(column))]
    number: dict[Any, int] = {}
    listed = as_list(qid if isinstance(qid, list) else np.asarray(qid))
    codes = np.array([number.setdefault(key, len(number)) for key in listed], np.int64)
    if len(codes) != rows.n_rows:
        raise DataError(f"qid has {len(codes)} values for {rows.n_rows} rows.")
    order = np.argsort(codes, kind="stable")
    if len(codes):
        yield from np.split(order, np.cumsum(np.bincount(codes))[:-1])
