"""FeatureSet: features of queries and documents, declared once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, TableLike
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.inputs import columns_of
from rankwright.exceptions import DataError, ParameterError
from rankwright.features.base import (
    Feature,
    Knowledge,
    TableRows,
    as_list,
)
from rankwright.features.declaration import (
    CLASSES,
    Declaration,
    choose_features,
    read_declaration,
    to_toml,
)
from rankwright.features.fitted import FittedFeatures
from rankwright.features.statistics import MAX_TERMS, LogStatistics, TextStatistics
from rankwright.features.texts import Texts, new_vocabulary
from rankwright.features.tokenizer import Tokenizer, text_of
from rankwright.features.value_features import ClickPopularity, Column, Count

IDS = ("id", "document", "docid", "doc_id")


class FeatureSet(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Features of queries and documents, declared once and computed in the same way everywhere.

    It is the first step of a :class:`~rankwright.RankPipeline`. Each row of a table is a document
    for a query: document fields are columns, the text of the query is the column ``query`` (or
    ``query.text``), its other fields are columns ``query.NAME``. The declaration and what was
    learned of the collection are stored in the model file, and training, ``predict``, ``serve`` and
    :func:`~rankwright.load_scorer` compute the same bits.

    Parameters
    ----------
    features : list of features, or None
        Such as ``[BM25("title"), Age("published")]``; None chooses a set from the columns.
    tokenizer : Tokenizer or None
        How texts are cut into words; None is ``Tokenizer()``.
    max_terms : int >= 1, default 100000
        The most terms of a field whose document frequency is kept (16 bytes each); the rarest are
        left out, and then count as having the mean frequency of those.

    Attributes
    ----------
    encoding_ : FittedFeatures
        The features with what they have learned.
    features_ : tuple of features
        As they were declared or chosen.
    chosen_ : dict of str to str
        Why each column was used, if the features were chosen.
    feature_names_in_ : (n_columns,) array of str
        The columns that the features read.
    n_features_in_ : int

    Examples
    --------
    >>> import rankwright as rw
    >>> from rankwright.features import BM25, Column, FeatureSet, TermCoverage
    >>> rows = {"query": ["red shoe", "red shoe", "wine", "wine"],
    ...         "title": ["Red shoes", "A red shoe", "Red wine", "Shoes"], "price": [9, 20, 7, 5]}
    >>> features = FeatureSet([BM25("title"), TermCoverage("title"), Column("price")])
    >>> features.fit_transform(rows).round(2).tolist()[1]
    [0.59, 1.0, 20.0]
    >>> ranker = rw.LambdaMART(n_estimators=3, min_samples_leaf=1)
    >>> model = rw.RankPipeline([("features", features), ("rank", ranker)])
    >>> model.fit(rows, [0, 1, 1, 0], qid=rows["query"]).rank(rows, rows["query"]).tolist()
    [2, 1, 1, 2]
    """

    __metadata_request__fit: ClassVar = {"documents": True, "log": True, "up_to": True}
    __metadata_request__transform: ClassVar = {"qid": True}

    encoding_: FittedFeatures
    features_: tuple[Any, ...]
    chosen_: dict[str, str]
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(
        self,
        features: Sequence[Feature] | None = None,
        *,
        tokenizer: Tokenizer | None = None,
        max_terms: int = MAX_TERMS,
    ) -> None:
        self.features = features
        self.tokenizer = tokenizer
        self.max_terms = max_terms

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """The feature set that a TOML file declares.

        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "features.toml"
        >>> _ = path.write_text('[[features]]\\nkind = "BM25"\\nfield = "title"\\n')
        >>> FeatureSet.from_toml(path).features
        [BM25(field='title', k1=1.2, b=0.75, query='text', name=None)]
        """
        declared = read_declaration(path)
        most = MAX_TERMS if declared.max_terms is None else declared.max_terms
        return cls(list(declared.features), tokenizer=declared.tokenizer, max_terms=most)

    def to_toml(self) -> str:
        """The declaration as the content of a TOML file."""
        features = self.features_ if hasattr(self, "features_") else self.features
        return to_toml(self._declaration(features))

    def _declaration(self, features: Sequence[Feature] | None) -> Declaration:
        if not (isinstance(self.max_terms, int) and self.max_terms >= 1):
            raise ParameterError(
                f"FeatureSet(max_terms={self.max_terms!r}): give an integer >= 1.",
                parameter="max_terms",
            )
        checked: list[Any] = []
        for feature in features or ():
            kind = CLASSES.get(type(feature).__name__)
            if kind is None or not isinstance(feature, kind):
                raise ParameterError(
                    f"FeatureSet: {feature!r} is not a feature. Give objects such as "
                    f"BM25('title'); there are {', '.join(CLASSES)}.",
                    parameter="features",
                )
            try:
                checked.append(msgspec.convert(msgspec.to_builtins(feature), kind))
            except msgspec.ValidationError as error:
                raise ParameterError(
                    f"FeatureSet: {feature!r}: {error}.", parameter="features"
                ) from None
        most = None if self.max_terms == MAX_TERMS else self.max_terms
        declaration = Declaration(tuple(checked), self.tokenizer or Tokenizer(), most)
        declaration.check()
        return declaration

    def fit(
        self,
        X: TableLike,
        y: ArrayLike | None = None,
        *,
        documents: TableLike | None = None,
        log: ImpressionLog | None = None,
        up_to: str | float | datetime | None = None,
    ) -> Self:
        """Learn statistics of the collection, levels, dates and quantiles; never from grades.

        Parameters
        ----------
        X : a data frame, a dict of columns or a list of dicts
            The training rows.
        y : grades
            Only looked at to refuse a column that repeats them.
        documents : a data frame, a dict of columns or a list of dicts, optional
            The whole collection, with a column ``id``: document frequencies and lengths are learned
            from it. Without it they are learned from the different documents of ``X``.
        log : ImpressionLog, optional
            With times, for ``Count`` and ``ClickPopularity``.
        up_to : date, optional
            Only events of the log before it are counted.
        """
        table = as_table(X, "X")
        chosen: dict[str, str] = {}
        features = self.features
        if features is None:
            features, chosen = choose_features(table, left=IDS)
        declared = self._declaration(features)
        rows = TableRows(table, declared.tokenizer)
        for feature in declared.features:
            for name in feature.columns():
                if not rows.has(name):
                    raise DataError(
                        f"{type(feature).__name__} reads the column {name!r}, which X lacks. "
                        f"X has: {', '.join(table)}."
                    )
        fitted = tuple(feature.fitted(rows) for feature in declared.features)
        learned = Declaration(fitted, declared.tokenizer, declared.max_terms)
        learned.check()
        knowledge = Knowledge(
            self._statistics(declared, table, documents), self._events(declared, log, up_to)
        )
        self._set(FittedFeatures(declared, learned, knowledge))
        self.chosen_ = chosen
        if y is not None:
            self._refuse_grades(rows, y)
        return self

    def _set(self, encoding: FittedFeatures) -> None:
        self.encoding_ = encoding
        self.features_ = encoding.declared.features
        self.n_features_in_ = len(encoding.sources)
        self.feature_names_in_ = np.array(encoding.sources, dtype=object)

    @classmethod
    def of(cls, encoding: FittedFeatures) -> Self:
        """A fitted feature set, from the encoding of items that were made by one."""
        features = cls()
        features._declare(encoding)
        return features

    def _declare(self, encoding: FittedFeatures) -> None:
        """Take parameters and what was learned from a model file."""
        declared = encoding.declared
        self.features, self.tokenizer = list(declared.features), declared.tokenizer
        self.max_terms = MAX_TERMS if declared.max_terms is None else declared.max_terms
        self._set(encoding)
        self.chosen_ = {}

    def _statistics(
        self, declared: Declaration, table: Mapping[str, Any], documents: TableLike | None
    ) -> dict[str, TextStatistics]:
        corpora = dict.fromkeys(c for feature in declared.features for c in feature.corpora())
        if not corpora:
            return {}
        if documents is not None:
            given = as_table(documents, "documents")
            check_ids(given)
            chosen = None
        else:
            given = table
            read = dict.fromkeys(field for fields in corpora for field in fields)
            chosen = _different(table, list(read))
        vocabulary, texts = new_vocabulary(), dict[str, Texts]()
        for field in dict.fromkeys(field for fields in corpora for field in fields):
            if field not in given:
                raise DataError(
                    f"the documents lack the field {field!r}. They have: {', '.join(given)}."
                )
            cells = as_list(given[field])
            used = range(len(cells)) if chosen is None else chosen
            raw = (text_of(field, row, cells[row]) for row in used)
            texts[field] = Texts(raw, declared.tokenizer, vocabulary)
        return {
            "+".join(fields): TextStatistics.of(
                *(texts[field] for field in fields), max_terms=self.max_terms
            )
            for fields in corpora
        }

    @staticmethod
    def _events(
        declared: Declaration, log: ImpressionLog | None, up_to: str | float | datetime | None
    ) -> LogStatistics | None:
        plain = [getattr(feature, "feature", feature) for feature in declared.features]
        counting = [feature for feature in plain if isinstance(feature, Count | ClickPopularity)]
        if not counting:
            return None
        if not isinstance(log, ImpressionLog):
            raise DataError(
                f"{type(counting[0]).__name__} counts events: give fit the log=, an ImpressionLog."
            )
        if up_to is None and any(feature.at is None for feature in counting):
            raise DataError(
                f"{type(counting[0]).__name__}(at=None) would count clicks that came after the "
                "judgments.",
                fix="Give the field of the query with its time as at=, or fit(up_to=...).",
            )
        return LogStatistics.of(log, up_to)

    def _refuse_grades(self, rows: TableRows, y: ArrayLike) -> None:
        """Refuse a column that repeats the grades: it will not be known for new documents."""
        grades = np.asarray(y)
        if grades.ndim != 1 or len(grades) != rows.n_rows or grades.dtype.kind not in "iufb":
            return
        grades = grades.astype(np.float64)
        if len(grades) < 3 or grades.min() == grades.max():
            return
        for feature in self.encoding_.declaration.features:
            plain: Any = getattr(feature, "feature", feature)
            if isinstance(plain, Column) and plain.output_names() == [plain.field]:
                value = plain.values(rows, self.encoding_.knowledge)[:, 0]
                if not np.isnan(value).any() and np.array_equal(value, grades):
                    raise DataError(
                        f"the column {plain.field!r} is the grade itself: it will not be known for "
                        "new documents.",
                        fix="Leave it out.",
                    )

    def transform(self, X: TableLike, qid: ArrayLike | None = None) -> FloatArray:
        """The features of a table.

        ``qid`` groups the rows for :class:`~rankwright.features.WithinQuery`; without it, rows with
        the same text of the query are a group. An array with a column per feature is returned as it
        is.
        """
        check_is_fitted(self, "encoding_")
        if isinstance(X, np.ndarray) and X.dtype.kind in "fiu":
            if X.ndim == 2 and X.shape[1] == self.encoding_.n_features:
                return X
            raise DataError(
                f"FeatureSet: X is an array of shape {X.shape}, without the names of its columns. "
                f"Give a data frame with {', '.join(self.encoding_.sources[:10])}."
            )
        table = as_table(X, "X")
        self.encoding_.warn_of_unknown(table)
        return self.encoding_.encode(table, qid=qid)

    def fit_transform(
        self, X: TableLike, y: ArrayLike | None = None, qid: ArrayLike | None = None, **params: Any
    ) -> FloatArray:
        """``fit``, then ``transform`` of the same rows."""
        return self.fit(X, y, **params).transform(X, qid=qid)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """The names of the features."""
        check_is_fitted(self, "encoding_")
        return np.array(self.encoding_.feature_names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def as_table(X: Any, name: str) -> Mapping[str, Any]:
    """The columns of a data frame, a dict of columns or a list of dicts; absent keys are missing.

    >>> as_table([{"id": 1, "title": "a"}, {"id": 2}], "documents")
    {'id': [1, 2], 'title': ['a', None]}
    """
    if isinstance(X, Mapping):
        sizes = {column: len(cells) for column, cells in X.items()}
        if len(set(sizes.values())) > 1:
            raise DataError(f"the columns of {name} have different lengths: {sizes}.")
        return {str(column): cells for column, cells in X.items()}
    if isinstance(X, Sequence) and not isinstance(X, str):
        if not X:
            raise DataError(f"{name} is an empty list: it has no rows, and no columns.")
        if not all(isinstance(row, Mapping) for row in X):
            raise DataError(f"{name} is a list of {type(X[0]).__name__}; give a list of dicts.")
        columns = dict.fromkeys(str(column) for row in X for column in row)
        return {column: [row.get(column) for row in X] for column in columns}
    if isinstance(X, np.ndarray):
        raise DataError(
            f"{name} has no names of columns. Give a data frame, a dict of columns or a list of "
            "dicts."
        )
    return columns_of(X)


def check_ids(documents: Mapping[str, Any]) -> list[str]:
    """The ids of documents as text; a repeated or missing one is refused."""
    column = next((name for name in IDS if name in documents), None)
    if column is None:
        raise DataError(
            f"the documents have no column {IDS[0]!r}. They have: {', '.join(documents)}."
        )
    seen: dict[str, int] = {}
    for row, cell in enumerate(as_list(documents[column])):
        key = text_of(column, row, cell)
        if not key:
            raise DataError(f"document {row} has no {column}.")
        if key in seen:
            raise DataError(
                f"the documents {seen[key]} and {row} have the same {column} {key[:80]!r}.",
                fix="Keep one of them.",
            )
        seen[key] = row
    return list(seen)


def _different(table: Mapping[str, Any], fields: list[str]) -> list[int]:
    """The first row of each different document: by its id, or by its texts."""
    key = next((name for name in IDS if name in table), None)
    names = fields if key is None else [key]
    columns = [as_list(table[name]) for name in names]
    first: dict[tuple[str, ...], int] = {}
    for row, cells in enumerate(zip(*columns, strict=True)):
        texts = tuple(text_of(name, row, c) for name, c in zip(names, cells, strict=True))
        first.setdefault(texts, row)
    return list(first.values())
