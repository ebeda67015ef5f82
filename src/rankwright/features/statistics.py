"""What features know of a collection: document frequencies and lengths, clicks by day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from math import log
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.columns import values_of
from rankwright.exceptions import DataError
from rankwright.features.texts import Texts

MAX_TERMS = 100_000
MOST_WORDS = 1 << 21  # words that are counted at once
_DAY = 86400.0


def term_hash(term: str) -> int:
    """64 bits that stand for a term in a model file; two of 100,000 terms meet once in 10^9 files.

    >>> term_hash("shoe") == term_hash("shoe"), term_hash("shoe") == term_hash("shoes")
    (True, False)
    """
    raw = blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "little", signed=True)


@dataclass(frozen=True, eq=False)
class TextStatistics:
    """Document frequencies of a field, by the hashes of its terms.

    Only the most frequent terms are kept. The rest, and terms of documents that came later, count
    as having the mean document frequency of the terms that were left out, or 1.

    Attributes
    ----------
    n_documents : int
    mean_length : float
        The mean number of words.
    n_terms : int
        The number of terms, also of those that were left out.
    rare : float
        The document frequency of terms that are not listed.
    terms : (n_kept,) int64, ascending
        Hashes of terms.
    frequency : (n_kept,) int64
        In how many documents each of them occurs.

    >>> from rankwright.features.tokenizer import Tokenizer
    >>> texts = Texts(["red shoe", "red wine", "blue"], Tokenizer())
    >>> statistics = TextStatistics.of(texts)
    >>> statistics.document_frequency("red"), statistics.document_frequency("green")
    (2.0, 1.0)
    >>> statistics.mean_length
    1.6666666666666667
    """

    n_documents: int
    mean_length: float
    n_terms: int
    rare: float
    terms: NDArray[np.int64]
    frequency: NDArray[np.int64]

    @classmethod
    def of(cls, *fields: Texts, max_terms: int = MAX_TERMS) -> Self:
        """The statistics of a field, or of several fields together, which share a vocabulary.

        Each field has a text for each document.
        """
        n_documents, size = len(fields[0]), max(len(fields[0].vocabulary), 1)
        total = np.zeros(size, np.int64)
        n_words = sum(len(texts.words) for texts in fields)
        step = max(1, MOST_WORDS * n_documents // max(n_words, 1))
        for start in range(0, n_documents, step):  # in blocks, which bounds the memory
            keys = [_document_words(texts, start, start + step, size) for texts in fields]
            total += np.bincount(np.unique(np.concatenate(keys)) % size, minlength=size)
        used = np.flatnonzero(total)
        n_terms, count = len(used), total[used]
        terms = list(fields[0].vocabulary)
        hashes = np.array([term_hash(terms[k]) for k in used.tolist()], np.int64)
        kept = np.lexsort((hashes, -count))[:max_terms]
        left_out = int(count.sum() - count[kept].sum())
        rare = left_out / (n_terms - len(kept)) if n_terms > len(kept) else 1.0
        kept = kept[np.argsort(hashes[kept])]
        mean = n_words / n_documents if n_documents else 0.0
        return cls(n_documents, mean, n_terms, rare, hashes[kept], count[kept].astype(np.int64))

    def document_frequency(self, term: str) -> float:
        """In how many documents a term occurs."""
        key = term_hash(term)
        at = int(np.searchsorted(self.terms, key))
        if at < len(self.terms) and self.terms[at] == key:
            return float(self.frequency[at])
        return self.rare

    def idf(self, term: str) -> float:
        """log(1 + (n - df + 1/2) / (df + 1/2)), as Lucene has it: never negative."""
        df = min(self.document_frequency(term), float(self.n_documents))
        return log(1.0 + (self.n_documents - df + 0.5) / (df + 0.5))

    def check(self) -> None:
        """Raise a DataError unless training could have made this."""
        shapes = self.terms.ndim == self.frequency.ndim == 1
        same = shapes and len(self.terms) == len(self.frequency) <= self.n_terms
        types = self.terms.dtype == np.int64 and self.frequency.dtype == np.int64
        if not (same and types and self.n_documents >= 0 and self.rare >= 0):
            raise DataError("the statistics of a field are not valid.")
        ascending = bool((np.diff(self.terms) > 0).all()) if len(self.terms) else True
        counts = self.frequency
        in_range = not len(counts) or (counts.min() >= 1 and counts.max() <= self.n_documents)
        finite = np.isfinite(self.mean_length) and np.isfinite(self.rare) and self.mean_length >= 0
        if not (ascending and in_range and finite):
            raise DataError("the document frequencies of a field are not valid.")


def _document_words(texts: Texts, start: int, stop: int, size: int) -> IntArray:
    """document * size + word, of every word of some documents."""
    ptr = texts.ptr[start : stop + 1]
    document = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    return np.asarray(document * size + texts.words[ptr[0] : ptr[-1]])


@dataclass(frozen=True, eq=False)
class LogStatistics:
    """Impressions and clicks of documents by day, so that a day sees only the days before it.

    Attributes
    ----------
    documents : (n_documents,) int64, ascending
        Hashes of document ids.
    ptr : (n_documents + 1,) int64
        Document k has the days ``ptr[k]`` to ``ptr[k + 1]``.
    day : (n_days,) float64
        Days since 1970, ascending for each document.
    impressions, clicks : (n_days,) float64
        Totals up to the end of the day.
    total : (2,) float64
        The impressions and clicks of all documents.
    """

    documents: NDArray[np.int64]
    ptr: NDArray[np.int64]
    day: FloatArray
    impressions: FloatArray
    clicks: FloatArray
    total: FloatArray

    @classmethod
    def of(cls, log: ImpressionLog, up_to: str | float | datetime | None = None) -> Self:
        """Count a log, without what came at ``up_to`` (a date) or later."""
        if log.time is None:
            raise DataError(
                "the log has no times, so it cannot be told which clicks came before a judgment.",
                fix="Give ImpressionLog a time for each row.",
            )
        used = np.ones(len(log.time), bool) if up_to is None else log.time / _DAY < moment(up_to)
        day, item = np.floor(log.time[used] / _DAY), log.item[used]
        hashes = np.array([term_hash(str(name)) for name in log.items.tolist()], np.int64)
        order = np.lexsort((day, hashes[item]))
        key, day = hashes[item][order], day[order]
        counts = np.ones(len(order)), log.clicks[used][order].astype(np.float64)
        new = np.flatnonzero(
            np.concatenate([[True], (key[1:] != key[:-1]) | (day[1:] != day[:-1])])
        )
        if not len(order):
            new = new[:0]
        documents, first = np.unique(key[new], return_index=True)
        ptr = np.append(first, len(new)).astype(np.int64)
        sums: list[FloatArray] = []
        for values in counts:
            total = np.cumsum(np.add.reduceat(values, new)) if len(new) else np.zeros(0)
            before = np.concatenate([[0.0], total])[ptr[:-1]]
            sums.append(total - np.repeat(before, np.diff(ptr)))
        impressions, clicks = sums
        every = np.array([values.sum() for values in counts])
        return cls(documents, ptr, day[new], impressions, clicks, every)

    def counts(self, ids: Iterable[Any], days: FloatArray | None) -> FloatArray:
        """(2, n) impressions and clicks of documents before a day; None is after the last one."""
        keys = np.array([term_hash(str(name)) for name in ids], np.int64)
        found = np.zeros((2, len(keys)))
        if not len(self.documents):
            return found
        place = np.minimum(np.searchsorted(self.documents, keys), len(self.documents) - 1)
        for k in np.flatnonzero(self.documents[place] == keys).tolist():
            start, stop = self.ptr[place[k]], self.ptr[place[k] + 1]
            last = stop
            if days is not None:
                if np.isnan(days[k]):
                    found[:, k] = np.nan
                    continue
                last = start + np.searchsorted(self.day[start:stop], np.floor(days[k]))
            if last > start:
                found[:, k] = self.impressions[last - 1], self.clicks[last - 1]
        return found

    def check(self) -> None:
        """Raise a DataError unless training could have made this."""
        arrays = (self.documents, self.ptr, self.day, self.impressions, self.clicks, self.total)
        n = len(self.day)
        valid = all(array.ndim == 1 for array in arrays) and len(self.total) == 2
        valid = valid and len(self.impressions) == len(self.clicks) == n
        valid = valid and len(self.ptr) == len(self.documents) + 1 and self.ptr[0] == 0
        valid = valid and self.ptr[-1] == n and bool((np.diff(self.ptr) >= 0).all())
        valid = valid and bool((np.diff(self.documents) > 0).all())
        valid = valid and all(bool(np.isfinite(array).all()) for array in arrays)
        if not valid:
            raise DataError("the counts of a log are not valid.")


def moment(value: object) -> float:
    """A date or a time in days since 1970."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) / _DAY
    if isinstance(value, str | datetime) or hasattr(value, "year"):
        return float(values_of("up_to", [value], "date")[0])
    raise DataError(f"up_to is {value!r}; give a date, such as 2024-05-31.")


def first_of(codes: IntArray) -> IntArray:
    """The first row of each code."""
    return np.unique(codes, return_index=True)[1]
