"""Features of numbers, levels, dates, counts and vectors; NaN is a missing value.

A field ``query.NAME`` is a field of the query, others are fields of the document.
"""

from __future__ import annotations

from typing import Any, Literal, Self, TypeVar

import msgspec
import numpy as np

from rankwright._typing import FloatArray
from rankwright.data.columns import ColumnEncoding, Encoding, Rules, fit_encoding, values_of
from rankwright.exceptions import CellError, DataError
from rankwright.features.base import (
    Knowledge,
    Rows,
    ValueFeature,
    absent,
    as_list,
    plain_name,
    query_column,
)

LARGEST = 1e150  # number in a vector: its square is still finite
Dated = TypeVar("Dated", bound="Age | Recency")
Vector = TypeVar("Vector", bound="Cosine | Dot")


class Column(ValueFeature, frozen=True):
    """A field as it is: a number, a boolean, the parts of a date, or a feature per level of text.

    Fields are read by the rules of :class:`~rankwright.features.TableEncoder`.

    Parameters
    ----------
    field : str
    type : str or None
        ``"number"``, ``"boolean"``, ``"date"``, ``"text"`` or ``"codes"``; None finds it out.
    max_levels : int >= 1, default 100
        Rarer levels, and those that training did not have, count as missing.
    encoding : ColumnEncoding or None
        What ``fit`` has learned; leave it out.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> features = FeatureSet([Column("price"), Column("color")])
    >>> features.fit_transform({"price": [3, None], "color": ["red", "blue"]})
    array([[ 3.,  0.,  1.],
           [nan,  1.,  0.]])
    """

    field: str
    type: Literal["number", "boolean", "date", "text", "codes"] | None = None
    max_levels: int = 100
    encoding: ColumnEncoding | None = None

    def columns(self) -> list[str]:
        return [self.field]

    def output_names(self) -> list[str]:
        return [self.field] if self.encoding is None else self.encoding.feature_names()

    def check(self) -> None:
        if self.max_levels < 1:
            raise self._refuse("max_levels", "an integer >= 1")
        if self.encoding is not None:
            self.encoding.check()
            if self.encoding.name != self.field or self.encoding.reference is not None:
                raise self._refuse("encoding", "the encoding of the field")

    def fitted(self, rows: Rows) -> Self:
        kinds = {} if self.type is None else {self.field: self.type}
        rules = Rules(kinds=kinds, keep=frozenset({self.field}), max_levels=self.max_levels)
        encoding, _ = fit_encoding({self.field: rows.cells(self.field)}, rules)
        return msgspec.structs.replace(self, encoding=encoding.columns[0])

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        assert self.encoding is not None
        table = {self.field: rows.cells(self.field)}
        strict = bool(getattr(rows, "strict", False))
        return Encoding((self.encoding,)).encode(table, strict=strict)


def _numbers(rows: Rows, field: str) -> FloatArray:
    strict = bool(getattr(rows, "strict", False))
    return values_of(field, rows.cells(field), "number", strict=strict)


class LogOf(ValueFeature, frozen=True):
    """The logarithm of a number: sign(x) * log(1 + abs(x)).

    Parameters
    ----------
    field : str
    name : str or None
        The name of the feature; None is ``log_FIELD``.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> FeatureSet([LogOf("sales")]).fit_transform({"sales": [0, 99]}).round(2).tolist()
    [[0.0], [4.61]]
    """

    field: str
    name: str | None = None

    def columns(self) -> list[str]:
        return [self.field]

    def output_names(self) -> list[str]:
        return [self.name or f"log_{plain_name(self.field)}"]

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        value = _numbers(rows, self.field)
        return (np.sign(value) * np.log1p(np.abs(value)))[:, None]


class Ratio(ValueFeature, frozen=True):
    """A number divided by another one; missing where the other one is 0.

    Parameters
    ----------
    field, by : str
    name : str or None
        The name of the feature; None is ``FIELD_per_BY``.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"price": [3.0, 4.0], "weight": [2.0, 0.0]}
    >>> FeatureSet([Ratio("price", "weight")]).fit_transform(rows).tolist()
    [[1.5], [nan]]
    """

    field: str
    by: str
    name: str | None = None

    def columns(self) -> list[str]:
        return [self.field, self.by]

    def output_names(self) -> list[str]:
        return [self.name or f"{plain_name(self.field)}_per_{plain_name(self.by)}"]

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        value, by = _numbers(rows, self.field), _numbers(rows, self.by)
        by = np.where(by == 0, np.nan, by)
        with np.errstate(over="ignore"):
            quotient = value / by
        return np.where(np.isinf(quotient), np.nan, quotient)[:, None]


class Bucket(ValueFeature, frozen=True):
    """The number of edges that a number reaches.

    Parameters
    ----------
    field : str
    edges : tuple of float or None
        Ascending; None takes quantiles of the training rows.
    n : int >= 2, default 10
        The number of buckets, if there are no edges.
    name : str or None
        The name of the feature; None is ``bucket_FIELD``.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"price": [3.0, 10.0, None, 70.0]}
    >>> FeatureSet([Bucket("price", (5, 10, 50))]).fit_transform(rows).ravel().tolist()
    [0.0, 2.0, nan, 3.0]
    """

    field: str
    edges: tuple[float, ...] | None = None
    n: int = 10
    name: str | None = None

    def columns(self) -> list[str]:
        return [self.field]

    def output_names(self) -> list[str]:
        return [self.name or f"bucket_{plain_name(self.field)}"]

    def check(self) -> None:
        if self.edges is not None and not _is_ascending(self.edges):
            raise self._refuse("edges", "finite numbers in ascending order")
        if self.n < 2:
            raise self._refuse("n", "an integer >= 2")

    def fitted(self, rows: Rows) -> Self:
        if self.edges is not None:
            return self
        value = _numbers(rows, self.field)
        known = value[~np.isnan(value)]
        edges: Any = np.zeros(0)
        if len(known):
            edges = np.unique(np.quantile(known, np.arange(1, self.n) / self.n))
        return msgspec.structs.replace(self, edges=tuple(map(float, edges)))

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        value = _numbers(rows, self.field)
        assert self.edges is not None
        number = np.searchsorted(np.array(self.edges), value, side="right").astype(np.float64)
        return np.where(np.isnan(value), np.nan, number)[:, None]


def _is_ascending(values: tuple[float, ...]) -> bool:
    array = np.asarray(values, np.float64)
    return bool(np.isfinite(array).all() and (np.diff(array) > 0).all())


class Age(ValueFeature, frozen=True):
    """The age of a document in days.

    Parameters
    ----------
    field : str
        A date or a time of the document.
    at : str or None
        The field of the query with the time of the search, such as ``"time"``; None counts from
        the newest date in training.
    newest : float or None
        What ``fit`` has learned, in days since 1970; leave it out.
    name : str or None
        The name of the feature; None is ``age_FIELD``.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"published": ["2024-05-30", "2024-05-31"]}
    >>> FeatureSet([Age("published")]).fit_transform(rows).tolist()
    [[1.0], [0.0]]
    """

    field: str
    at: str | None = None
    newest: float | None = None
    name: str | None = None

    def columns(self) -> list[str]:
        return [self.field, *([] if self.at is None else [query_column(self.at)])]

    def output_names(self) -> list[str]:
        return [self.name or f"age_{plain_name(self.field)}"]

    def check(self) -> None:
        if self.newest is not None and not np.isfinite(self.newest):
            raise self._refuse("newest", "a finite number")

    def fitted(self, rows: Rows) -> Self:
        return _with_newest(self, rows)

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        return _age(self, rows)[:, None]


class Recency(ValueFeature, frozen=True):
    """1 for a new document, and one half after each half-life: 2 ** (-age / half_life).

    Documents from the future count as new.

    Parameters
    ----------
    field : str
        A date or a time of the document.
    half_life : float > 0, default 30
        In days.
    at, newest, name
        As of :class:`Age`.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"published": ["2024-05-01", "2024-05-31"]}
    >>> FeatureSet([Recency("published", half_life=30)]).fit_transform(rows).tolist()
    [[0.5], [1.0]]
    """

    field: str
    half_life: float = 30.0
    at: str | None = None
    newest: float | None = None
    name: str | None = None

    def columns(self) -> list[str]:
        return [self.field, *([] if self.at is None else [query_column(self.at)])]

    def output_names(self) -> list[str]:
        return [self.name or f"recency_{plain_name(self.field)}"]

    def check(self) -> None:
        if not self.half_life > 0:
            raise self._refuse("half_life", "a number of days > 0")

    def fitted(self, rows: Rows) -> Self:
        return _with_newest(self, rows)

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        return np.exp2(-np.maximum(_age(self, rows), 0.0) / self.half_life)[:, None]


def _with_newest(feature: Dated, rows: Rows) -> Dated:
    if feature.at is not None:
        return feature
    days = values_of(feature.field, rows.cells(feature.field), "date")
    known = days[~np.isnan(days)]
    newest = float(known.max()) if len(known) else 0.0
    return msgspec.structs.replace(feature, newest=newest)


def _age(feature: Age | Recency, rows: Rows) -> FloatArray:
    days = values_of(feature.field, rows.cells(feature.field), "date")
    if feature.at is None:
        assert feature.newest is not None
        return np.asarray(feature.newest - days)
    column = query_column(feature.at)
    return values_of(column, rows.cells(column), "date") - days


class Rate(ValueFeature, frozen=True):
    """Clicks per impression of a document, drawn towards a prior: few impressions say little.

    (clicks + strength * prior) / (impressions + strength). The counts must be older than the
    judgments; :class:`ClickPopularity` takes care of that itself.

    Parameters
    ----------
    clicks, impressions : str
        Fields with counts.
    prior : float from 0 to 1, or None
        The rate of a document without impressions; None takes that of the training rows together.
    strength : float > 0, default 20
        How many impressions the prior counts as.
    name : str or None
        The name of the feature; None is ``CLICKS_rate``.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"clicks": [1, 30, 0], "views": [1, 100, 0]}
    >>> rate = Rate("clicks", "views", prior=0.1, strength=10)
    >>> FeatureSet([rate]).fit_transform(rows).round(3).tolist()
    [[0.182], [0.282], [0.1]]
    """

    clicks: str
    impressions: str
    prior: float | None = None
    strength: float = 20.0
    name: str | None = None

    def columns(self) -> list[str]:
        return [self.clicks, self.impressions]

    def output_names(self) -> list[str]:
        return [self.name or f"{plain_name(self.clicks)}_rate"]

    def check(self) -> None:
        if self.prior is not None and not 0 <= self.prior <= 1:
            raise self._refuse("prior", "a number from 0 to 1")
        if not 0 < self.strength < np.inf:
            raise self._refuse("strength", "a finite number > 0")

    def fitted(self, rows: Rows) -> Self:
        if self.prior is not None:
            return self
        clicks, impressions = self._counts(rows)
        seen = impressions.sum()
        return msgspec.structs.replace(self, prior=float(clicks.sum() / seen) if seen else 0.0)

    def _counts(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        clicks = np.nan_to_num(_numbers(rows, self.clicks))
        impressions = np.nan_to_num(_numbers(rows, self.impressions))
        for name, count in ((self.clicks, clicks), (self.impressions, impressions)):
            if len(count) and count.min() < 0:
                row = int(np.argmin(count))
                raise CellError(name, row, float(count[row]), "a count, 0 or more")
        wrong = clicks > impressions
        if wrong.any():
            row = int(np.argmax(wrong))
            needed = f"at most the {impressions[row]:g} of {self.impressions}"
            raise CellError(self.clicks, row, float(clicks[row]), needed)
        return clicks, impressions

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        assert self.prior is not None
        clicks, impressions = self._counts(rows)
        rate = (clicks + self.strength * self.prior) / (impressions + self.strength)
        return np.asarray(rate)[:, None]


class Count(ValueFeature, frozen=True):
    """How often a document was shown or clicked before the day of the search, as log(1 + count).

    The events are those of the ``log`` of ``fit``, an :class:`~rankwright.ImpressionLog` with
    times.

    Parameters
    ----------
    of : "clicks" or "impressions", default "clicks"
    document : str, default "id"
        The field with the id of the document, as in the log.
    at : str or None, default "time"
        The field of the query with its time; events from its day on are not counted. None counts
        all, and needs an ``up_to`` of ``fit`` that is older than every judgment.
    name : str or None
        The name of the feature; None is ``log_clicks`` or ``log_impressions``.

    Examples
    --------
    >>> import rankwright as rw
    >>> from rankwright.features import FeatureSet
    >>> log = rw.ImpressionLog.from_arrays(["q"] * 2, ["a", "a"], [1, 1], time=[0.0, 9e5])
    >>> rows = {"id": ["a", "a"], "query.time": ["1970-01-05", "1970-02-01"]}
    >>> FeatureSet([Count("clicks")]).fit(rows, log=log).transform(rows).round(3).tolist()
    [[0.693], [1.099]]
    """

    of: Literal["clicks", "impressions"] = "clicks"
    document: str = "id"
    at: str | None = "time"
    name: str | None = None

    def columns(self) -> list[str]:
        return [self.document, *([] if self.at is None else [query_column(self.at)])]

    def output_names(self) -> list[str]:
        return [self.name or f"log_{self.of}"]

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        impressions, clicks = _events(self, rows, known)
        count = clicks if self.of == "clicks" else impressions
        return np.asarray(np.log1p(count))[:, None]


class ClickPopularity(ValueFeature, frozen=True):
    """Clicks per impression of a document before the day of the search, drawn towards the mean.

    (clicks + strength * rate) / (impressions + strength), where rate is that of the whole log. The
    events are those of the ``log`` of ``fit``.

    Parameters
    ----------
    strength : float > 0, default 20
        How many impressions the mean counts as.
    document, at
        As of :class:`Count`.
    name : str or None
        The name of the feature; None is ``click_popularity``.

    Examples
    --------
    >>> import rankwright as rw
    >>> from rankwright.features import FeatureSet
    >>> log = rw.ImpressionLog.from_arrays(["q"] * 2, ["a", "b"], [1, 0], time=[0.0, 0.0])
    >>> rows = {"id": ["a", "b", "new"], "query.time": ["1970-01-05"] * 3}
    >>> features = FeatureSet([ClickPopularity(strength=1.0)])
    >>> features.fit(rows, log=log).transform(rows).tolist()
    [[0.75], [0.25], [0.5]]
    """

    strength: float = 20.0
    document: str = "id"
    at: str | None = "time"
    name: str | None = None

    def columns(self) -> list[str]:
        return [self.document, *([] if self.at is None else [query_column(self.at)])]

    def output_names(self) -> list[str]:
        return [self.name or "click_popularity"]

    def check(self) -> None:
        if not 0 < self.strength < np.inf:
            raise self._refuse("strength", "a finite number > 0")

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        impressions, clicks = _events(self, rows, known)
        assert known.log is not None
        shown, clicked = known.log.total
        rate = clicked / shown if shown else 0.0
        popularity = (clicks + self.strength * rate) / (impressions + self.strength)
        return np.asarray(popularity)[:, None]


def _events(feature: Count | ClickPopularity, rows: Rows, known: Knowledge) -> FloatArray:
    if known.log is None:
        raise DataError(f"{type(feature).__name__} counts events: give fit the log=.")
    days = None
    if feature.at is not None:
        column = query_column(feature.at)
        days = values_of(column, rows.cells(column), "date")
    ids = ["" if absent(cell) else cell for cell in as_list(rows.cells(feature.document))]
    return known.log.counts(ids, days)


class Dot(ValueFeature, frozen=True):
    """The dot product of a vector of the query and one of the document.

    Parameters
    ----------
    field : str
        The field of the document that holds its vector, a list of numbers.
    query : str, default "vector"
        The field of the query with its vector.
    size : int or None
        The length of the vectors; None takes that of the training rows.
    name : str or None
        The name of the feature; None is ``dot_FIELD``.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query.vector": [[1.0, 2.0]] * 2, "embedding": [[0.5, 1.0], None]}
    >>> FeatureSet([Dot("embedding")]).fit_transform(rows).tolist()
    [[2.5], [nan]]
    """

    field: str
    query: str = "vector"
    size: int | None = None
    name: str | None = None

    def columns(self) -> list[str]:
        return [query_column(self.query), self.field]

    def output_names(self) -> list[str]:
        return [self.name or f"dot_{plain_name(self.field)}"]

    def fitted(self, rows: Rows) -> Self:
        return _with_size(self, rows)

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        one, other = _vectors(self, rows)
        return np.asarray((one * other).sum(axis=1))[:, None]


class Cosine(ValueFeature, frozen=True):
    """The cosine of a vector of the query and one of the document.

    A missing vector gives a missing value, a vector of zeros gives 0.

    Parameters
    ----------
    field, query, size
        As of :class:`Dot`.
    name : str or None
        The name of the feature; None is ``cosine_FIELD``.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query.vector": [[1.0, 0.0]] * 2, "embedding": [[3.0, 4.0], [2.0, 0.0]]}
    >>> FeatureSet([Cosine("embedding")]).fit_transform(rows).tolist()
    [[0.6], [1.0]]
    """

    field: str
    query: str = "vector"
    size: int | None = None
    name: str | None = None

    def columns(self) -> list[str]:
        return [query_column(self.query), self.field]

    def output_names(self) -> list[str]:
        return [self.name or f"cosine_{plain_name(self.field)}"]

    def fitted(self, rows: Rows) -> Self:
        return _with_size(self, rows)

    def values(self, rows: Rows, known: Knowledge) -> FloatArray:
        one, other = _vectors(self, rows)
        product = (one * other).sum(axis=1)
        norm = np.sqrt((one * one).sum(axis=1)) * np.sqrt((other * other).sum(axis=1))
        return np.where(norm == 0, 0.0, product / np.where(norm == 0, 1.0, norm))[:, None]


def _with_size(feature: Vector, rows: Rows) -> Vector:
    if feature.size is not None:
        return feature
    for name in feature.columns():
        for row, cell in enumerate(as_list(rows.cells(name))):
            if not absent(cell):
                if isinstance(cell, str) or not hasattr(cell, "__len__") or not len(cell):
                    raise CellError(name, row, cell, "a list of numbers")
                return msgspec.structs.replace(feature, size=len(cell))
    raise DataError(f"no row has a vector in {feature.field!r}.", fix="Leave the feature out.")


def _vectors(feature: Cosine | Dot, rows: Rows) -> list[FloatArray]:
    """Vectors of the query and of the document, one for each row; NaN where there is none."""
    found = []
    assert feature.size is not None
    needed = f"a list of {feature.size} finite numbers up to {LARGEST:g}"
    for name in feature.columns():
        matrix = np.full((rows.n_rows, feature.size), np.nan)
        for row, cell in enumerate(as_list(rows.cells(name))):
            if absent(cell):
                continue
            try:
                vector = np.asarray(cell, np.float64)
            except (TypeError, ValueError):
                vector = np.zeros((0, 0))
            if vector.shape != (feature.size,) or not (np.abs(vector) <= LARGEST).all():
                raise CellError(name, row, cell, needed)
            matrix[row] = vector
        found.append(matrix)
    return found
