"""Judged pairs of queries and documents as items, with features computed from their fields."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from rankwright.data.columns import Read
from rankwright.data.io.collection import (
    JudgedPairs,
    read_documents,
    read_judgments,
    read_queries,
)
from rankwright.data.items import Items
from rankwright.exceptions import DataError
from rankwright.features.feature_set import FeatureSet
from rankwright.features.fitted import FittedFeatures

Path = str | os.PathLike[str]


class TextCollection:
    """Documents and queries in files, from which rows of fields are made.

    Parameters
    ----------
    documents : path
        CSV, TSV, JSONL or Parquet with ``id`` and fields.
    queries : path or None
        Lines of a query id, a tab and the text; or CSV or JSONL with ``id`` and fields. None: the
        id of a query is its text.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "docs.csv").write_text("id,title\\n1,Red shoe\\n2,Wine\\n")
    >>> _ = (folder / "judged.csv").write_text("query,document,grade\\nshoe,1,1\\nshoe,2,0\\n")
    >>> collection = TextCollection(folder / "docs.csv")
    >>> collection.read(folder / "judged.csv").feature_names[:2]
    ('bm25_title', 'coverage_title')
    """

    def __init__(self, documents: Path, queries: Path | None = None) -> None:
        self.documents = read_documents(documents)
        self.queries = {} if queries is None else read_queries(queries)

    def read(
        self, judgments: Path, features: FeatureSet | None = None, *, like: Any = None
    ) -> Items:
        """Judged pairs as graded items.

        Without ``like``, statistics and levels are learned (by ``features``, or a set that is
        chosen from the columns); with a ``like`` that has an ``encoding``, its features are
        computed.
        """
        pairs = read_judgments(judgments)
        table = pairs.joined(self.documents, self.queries)
        encoding = getattr(like, "encoding", None)
        read: tuple[Read, ...] = ()
        if encoding is None:
            features = features or FeatureSet()
            features.fit(table, pairs.grade, documents=self.documents)
            encoding = features.encoding_
            read = tuple(Read(name, why, "") for name, why in features.chosen_.items())
        return replace(self._items(pairs, table, encoding), read=read)

    def read_unjudged(self, pairs: Path, like: Any) -> Items:
        """Pairs without grades, with the features of a model."""
        read = read_judgments(pairs, graded=False)
        return self._items(read, read.joined(self.documents, self.queries), like.encoding)

    @staticmethod
    def _items(pairs: JudgedPairs, table: dict[str, list[Any]], encoding: object) -> Items:
        if not isinstance(encoding, FittedFeatures):
            raise DataError(
                "this model has no feature set: it was not trained with --documents.",
                fix="Give it rows of features.",
            )
        X = encoding.encode(table, qid=pairs.query)
        y = np.zeros(len(X)) if pairs.grade is None else pairs.grade
        ids = np.array(pairs.query, object), np.array(pairs.document, object)
        names = encoding.feature_names
        return Items(X, y, ids[0], ids[1], names, encoding=encoding)
