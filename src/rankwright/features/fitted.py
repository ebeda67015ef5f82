"""A fitted feature set: turns rows of fields into features, with NumPy alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, IntArray
from rankwright.data.columns import ColumnEncoding, Encoding, check_names
from rankwright.exceptions import DataError
from rankwright.features.base import (
    QUERY,
    Feature,
    Knowledge,
    Rows,
    TableRows,
    TextFeature,
    ValueFeature,
    group_rows,
    query_column,
)
from rankwright.features.declaration import Declaration, WithinQuery
from rankwright.features.statistics import LogStatistics, TextStatistics
from rankwright.features.texts import Matches, QueryWords
from rankwright.features.value_features import Column


@dataclass(frozen=True, eq=False)
class FittedFeatures:
    """What a :class:`~rankwright.features.FeatureSet` has learned, as a model file holds it.

    It is used like the :class:`~rankwright.data.columns.Encoding` of a table: ``encode`` turns
    columns into a matrix.

    Attributes
    ----------
    declared : Declaration
        As the user wrote it.
    declaration : Declaration
        With what the features have learned from training rows.
    knowledge : Knowledge
        The statistics of the collection.
    """

    declared: Declaration
    declaration: Declaration
    knowledge: Knowledge

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        features = self.declaration.features
        return tuple(name for feature in features for name in feature.output_names())

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The columns that it reads: fields of documents, and ``query.NAME``."""
        columns = [name for feature in self.declaration.features for name in feature.columns()]
        return tuple(dict.fromkeys(columns))

    @property
    def query_fields(self) -> tuple[str, ...]:
        """The fields of the query that it reads."""
        start = f"{QUERY}."
        return tuple(name.removeprefix(start) for name in self.sources if name.startswith(start))

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the document that it reads."""
        return tuple(name for name in self.sources if not name.startswith(f"{QUERY}."))

    @cached_property
    def parts(self) -> dict[str, slice]:
        """The columns of each feature."""
        places, at = {}, 0
        for feature in self.declaration.features:
            names = feature.output_names()
            key = feature.field if isinstance(feature, Column) else names[0]
            places[key] = slice(at, at + len(names))
            at += len(names)
        return places

    @property
    def kinds(self) -> dict[str, str]:
        """The class of each feature."""
        pairs = zip(self.parts, self.declaration.features, strict=True)
        return {name: type(feature).__name__ for name, feature in pairs}

    @property
    def columns(self) -> tuple[ColumnEncoding, ...]:
        """The encodings of the fields that are features by themselves."""
        return self._levels.columns

    @property
    def compares(self) -> bool:
        """Whether a value depends on the other documents of the query."""
        return any(isinstance(f, WithinQuery) for f in self.declaration.features)

    def absent(self, names: Iterable[str]) -> list[str]:
        """The columns that are not among these; ``query`` is its text."""
        given = set(names)
        if QUERY in given:
            given.add(query_column("text"))
        return [name for name in self.sources if name not in given]

    def encode(
        self, table: Mapping[str, Any], *, strict: bool = False, qid: ArrayLike | None = None
    ) -> FloatArray:
        """The features of a table, given as {name: cells}; other columns are ignored."""
        if absent := self.absent(table):
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            raise DataError(
                f"the rows lack the column {absent[0]!r}{more}. This feature set reads: "
                f"{', '.join(self.sources[:20])}."
            )
        return self.of_rows(TableRows(table, self.declaration.tokenizer, strict=strict), qid)

    def of_rows(self, rows: Rows, qid: ArrayLike | None = None) -> FloatArray:
        """The features of rows."""
        matrix = np.empty((rows.n_rows, self.n_features))
        by_query: dict[str, list[tuple[int, TextFeature]]] = {}
        at = 0
        for feature in self.declaration.features:
            plain: Feature = feature.feature if isinstance(feature, WithinQuery) else feature
            width = len(feature.output_names())
            if isinstance(plain, TextFeature):
                by_query.setdefault(plain.query_field(), []).append((at, plain))
            elif isinstance(plain, ValueFeature):
                matrix[:, at : at + width] = plain.values(rows, self.knowledge)
            at += width
        for field, features in by_query.items():
            self._score_texts(rows, field, features, matrix)
        self._compare(rows, qid, matrix)
        return matrix

    def _score_texts(
        self, rows: Rows, field: str, features: list[tuple[int, TextFeature]], out: FloatArray
    ) -> None:
        for query, chosen in rows.queries(field):
            match = partial(_match, {}, rows, query, chosen)
            done: dict[TextFeature, FloatArray] = {}
            for at, feature in features:
                if feature not in done:
                    done[feature] = feature.score(match, self.knowledge)
                out[chosen, at] = done[feature]

    def _compare(self, rows: Rows, qid: ArrayLike | None, matrix: FloatArray) -> None:
        if not self.compares:
            return
        groups = list(group_rows(qid, rows))
        for column, feature in self._numbered():
            if isinstance(feature, WithinQuery):
                values = matrix[:, column].copy()
                for group in groups:
                    matrix[group, column] = feature.compared(values[group])

    def _numbered(self) -> list[tuple[int, Feature]]:
        places = [part.start for part in self.parts.values()]
        return list(zip(places, self.declaration.features, strict=True))

    def unknown_levels(self, table: Mapping[str, Any]) -> dict[str, dict[str, int]]:
        """The levels of text columns that training did not have, by column, with their cells."""
        return self._levels.unknown_levels(table)

    def warn_of_unknown(self, table: Mapping[str, Any], where: str = "X") -> None:
        """Warn of levels that training did not have, with the number of their cells."""
        self._levels.warn_of_unknown(table, where)

    @cached_property
    def _levels(self) -> Encoding:
        features = self.declaration.features
        return Encoding(tuple(f.encoding for f in features if isinstance(f, Column) and f.encoding))

    def check(self) -> None:
        """Raise a DataError unless training could have made this."""
        for declaration in (self.declared, self.declaration):
            declaration.check()
        check_names(self.feature_names)
        if len(self.parts) != len(self.declaration.features):
            raise DataError("two features of the set are the same.")
        kinds = [[type(f) for f in d.features] for d in (self.declared, self.declaration)]
        if kinds[0] != kinds[1]:
            raise DataError("the features and their declaration contradict each other.")
        for feature in self.declaration.features:
            plain: Any = feature.feature if isinstance(feature, WithinQuery) else feature
            for name, parameter in _NEEDED.get(type(plain).__name__, ()):
                if getattr(plain, parameter) is None and (not name or getattr(plain, name) is None):
                    raise DataError(f"{type(plain).__name__} has not learned its {parameter}.")
        needed = {"+".join(c) for f in self.declaration.features for c in f.corpora()}
        if not needed <= self.knowledge.texts.keys():
            raise DataError("the statistics of a field are missing.")
        for statistics in self.knowledge.texts.values():
            statistics.check()
        if self.knowledge.log is not None:
            self.knowledge.log.check()

    def state(self) -> dict[str, Any]:
        """Plain values and arrays, from which :meth:`from_state` makes it again."""
        log = self.knowledge.log
        return {
            "declared": _plain(self.declared),
            "declaration": _plain(self.declaration),
            "texts": {name: _values(s) for name, s in self.knowledge.texts.items()},
            "log": None if log is None else _values(log),
        }

    @classmethod
    def from_state(cls, state: object) -> FittedFeatures:
        """The features of a model file; raises a DataError unless they could have been learned."""
        names = {"declared", "declaration", "texts", "log"}
        if not isinstance(state, dict) or state.keys() != names:
            raise DataError("the feature set is not valid.")
        declarations = []
        for name in ("declared", "declaration"):
            try:
                text = str(state[name])
                declarations.append(msgspec.json.decode(text, type=Declaration))
            except (msgspec.ValidationError, msgspec.DecodeError) as error:
                raise DataError(f"the feature set is not valid ({error}).") from None
        texts = {str(name): _made(TextStatistics, value) for name, value in state["texts"].items()}
        log = None if state["log"] is None else _made(LogStatistics, state["log"])
        fitted = cls(declarations[0], declarations[1], Knowledge(texts, log))
        fitted.check()
        return fitted


_NEEDED = {
    "Column": (("", "encoding"),),
    "Bucket": (("", "edges"),),
    "Age": (("at", "newest"),),
    "Recency": (("at", "newest"),),
    "Rate": (("", "prior"),),
    "Dot": (("", "size"),),
    "Cosine": (("", "size"),),
}


def _match(
    known: dict[str, Matches], rows: Rows, query: QueryWords, chosen: IntArray, field: str
) -> Matches:
    """Where a query occurs in a field of its rows, found once."""
    if field not in known:
        texts, number = rows.texts(field)
        known[field] = Matches(query, texts, number[chosen])
    return known[field]


def _plain(declaration: Declaration) -> str:
    return msgspec.json.encode(declaration).decode()


def _values(statistics: TextStatistics | LogStatistics) -> dict[str, Any]:
    return {field.name: getattr(statistics, field.name) for field in fields(statistics)}


def _made(cls: Any, values: object) -> Any:
    names = {field.name: str(field.type) for field in fields(cls)}
    if not isinstance(values, dict) or values.keys() != names.keys():
        raise DataError("the statistics of a feature set are not valid.")
    for name, kind in names.items():
        if type(values[name]) is not (np.ndarray if "Array" in kind else _TYPES[kind]):
            raise DataError(f"the {name} of a feature set is of the wrong type.")
    return cls(**values)


_TYPES = {"int": int, "float": float}
