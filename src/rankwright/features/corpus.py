"""Corpus: documents in memory, found by BM25, whose features are computed without cutting texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.columns import MANY_WORDS
from rankwright.exceptions import DataError, ParameterError
from rankwright.features.base import as_list, query_column
from rankwright.features.declaration import USUAL_TEXTS
from rankwright.features.texts import QueryWords, Texts
from rankwright.features.tokenizer import Tokenizer, as_line, text_of


class FoundDocuments(NamedTuple):
    """Documents that match a query, best first: their ids, numbers and scores."""

    ids: list[str]
    number: IntArray
    score: FloatArray


class Corpus:
    """A collection of documents in memory.

    It finds the first documents of a query by BM25 (bm25s, extra ``text``), and holds their fields
    cut into words, so that a feature set computes their features quickly. Large collections belong
    in a search engine.

    Parameters
    ----------
    documents : dict of columns, or list of dicts
        With ``id`` and fields, as ``TextCollection.documents`` has them.
    fields : list of str or None
        The fields to search; None: those that hold text.
    tokenizer : Tokenizer or None
        That of the feature set; None is ``Tokenizer()``.
    k1, b : float
        Of BM25, in the variant of Lucene.

    Attributes
    ----------
    ids : list of str
    fields : list of str

    Examples
    --------
    >>> documents = [{"id": 1, "title": "red shoe"}, {"id": 2, "title": "red wine"}]
    >>> corpus = Corpus(documents)
    >>> corpus.find("wine and red cheese", 10).ids
    ['2', '1']
    """

    def __init__(
        self,
        documents: Any,
        *,
        fields: Sequence[str] | None = None,
        tokenizer: Tokenizer | None = None,
        k1: float = 1.2,
        b: float = 0.75,
    ) -> None:
        from rankwright.features.feature_set import as_table, check_ids

        self._table = as_table(documents, "documents")
        self.ids = check_ids(self._table)
        self.tokenizer = tokenizer or Tokenizer()
        self._number = {name: k for k, name in enumerate(self.ids)}
        self.fields = list(fields) if fields is not None else self._text_fields()
        for field in self.fields:
            if field not in self._table:
                known = ", ".join(self._table)
                raise ParameterError(
                    f"Corpus(fields=...): no field {field!r}. There are: {known}.",
                    parameter="fields",
                )
        if not self.fields:
            raise DataError("the documents have no field of text to search.")
        self._k1, self._b = k1, b
        self._index: Any = None
        self._texts: dict[str, Texts] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Corpus({len(self):,} documents, {', '.join(self.fields)})"

    def _text_fields(self) -> list[str]:
        found = []
        for name, cells in self._table.items():
            sample = [cell for cell in as_list(cells)[:1000] if isinstance(cell, str) and cell]
            words = sum(len(cell.split()) for cell in sample) / max(len(sample), 1)
            if name != "id" and sample and (name.lower() in USUAL_TEXTS or words >= MANY_WORDS / 2):
                found.append(name)
        return found

    def find(self, text: str, n: int = 100) -> FoundDocuments:
        """The first ``n`` documents that share a word with a text."""
        if n < 0:
            raise ParameterError(f"Corpus.find(n={n}): give an integer >= 0.", parameter="n")
        words = [word for word in self.tokenizer.words(text) if word in self._searched.vocabulary]
        if not words or n == 0:
            return FoundDocuments([], np.zeros(0, np.int64), np.zeros(0))
        scores = np.asarray(self._bm25.get_scores(words), np.float64)
        least = np.partition(scores, -n)[-n] if n < len(scores) else 0.0
        best = np.flatnonzero((scores >= least) & (scores > 0))
        best = best[np.lexsort((best, -scores[best]))][:n]
        return FoundDocuments([self.ids[k] for k in best.tolist()], best, scores[best])

    @property
    def _searched(self) -> Texts:
        if "" not in self._texts:
            columns = [as_list(self._table[field]) for field in self.fields]
            joined = [
                "\n".join(text_of(f, row, c) for f, c in zip(self.fields, cells, strict=True))
                for row, cells in enumerate(zip(*columns, strict=True))
            ]
            self._texts[""] = Texts(joined, self.tokenizer)
        return self._texts[""]

    @property
    def _bm25(self) -> Any:
        if self._index is None:
            try:
                import bm25s
            except ImportError:
                raise DataError(
                    "Corpus.find needs bm25s, which is not installed.",
                    fix="Install it: pip install 'rankwright[text]'.",
                ) from None
            texts = self._searched
            words = np.split(texts.words, texts.ptr[1:-1])
            self._index = bm25s.BM25(method="lucene", k1=self._k1, b=self._b, dtype="float64")
            ids = [part.tolist() for part in words]
            self._index.index((ids, dict(texts.vocabulary)), show_progress=False)
        return self._index

    def texts(self, field: str) -> Texts:
        """The texts of a field, cut into words once."""
        if field not in self._texts:
            cells = as_list(self._table[field])
            raw = [text_of(field, row, cell) for row, cell in enumerate(cells)]
            self._texts[field] = Texts(raw, self.tokenizer)
        return self._texts[field]

    def numbers(self, ids: Sequence[Any]) -> IntArray:
        """The numbers of documents; an unknown id is refused."""
        for name in ids:
            if str(name) not in self._number:
                raise DataError(
                    f"the document {str(name)[:80]!r} is not in the corpus of {len(self):,}."
                )
        return np.array([self._number[str(name)] for name in ids], np.int64)

    def rows(self, query: str | Mapping[str, Any], documents: IntArray) -> CorpusRows:
        """The rows of one query, for ``FittedFeatures.of_rows``.

        ``query`` is its text, or its fields; ``documents`` are numbers.
        """
        fields = {"text": query} if isinstance(query, str) else query
        return CorpusRows(self, dict(fields), documents)


class CorpusRows:
    """Documents of a corpus as the rows of one query."""

    strict = False

    def __init__(self, corpus: Corpus, query: dict[str, Any], documents: IntArray) -> None:
        self._corpus, self._query, self._documents = corpus, query, documents
        self.n_rows = len(documents)

    def has(self, name: str) -> bool:
        is_query = name.startswith(query_column(""))
        return (
            name.removeprefix(query_column("")) in self._query
            if is_query
            else name == "id" or (name in self._corpus._table)
        )

    def cells(self, name: str) -> list[Any]:
        start = query_column("")
        if name.startswith(start):
            return [self._query.get(name.removeprefix(start))] * self.n_rows
        if name == "id":
            return [self._corpus.ids[k] for k in self._documents.tolist()]
        if name not in self._corpus._table:
            return [None] * self.n_rows
        cells = as_list(self._corpus._table[name])
        return [cells[k] for k in self._documents.tolist()]

    def texts(self, field: str) -> tuple[Texts, IntArray]:
        if field not in self._corpus._table:
            return Texts([""], self._corpus.tokenizer), np.zeros(self.n_rows, np.int64)
        return self._corpus.texts(field), self._documents

    def queries(self, field: str) -> list[tuple[QueryWords, IntArray]]:
        text = text_of(query_column(field), 0, self._query.get(field))
        words = QueryWords(self._corpus.tokenizer.words(text), as_line(text))
        return [(words, np.arange(self.n_rows))]
