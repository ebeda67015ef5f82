"""Texts as numbered words, and where the words of a query occur in them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.features.tokenizer import Tokenizer, as_line

Numbers = NDArray[np.int32]


class _Vocabulary(dict[str, int]):
    """Numbers words as they come."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def new_vocabulary() -> dict[str, int]:
    """A vocabulary that several :class:`Texts` may share."""
    return _Vocabulary()


class Texts:
    """Texts cut into words: the words of all texts in a row, as numbers.

    Attributes
    ----------
    raw : list of str
    words : (n_words,) int32
        The number of each word in ``vocabulary``.
    ptr : (n_texts + 1,) int64
        Text k has the words ``ptr[k]`` to ``ptr[k + 1]``.
    vocabulary : dict of word to number

    >>> texts = Texts(["red shoe", "", "Red, red wine"], Tokenizer())
    >>> texts.words.tolist(), texts.ptr.tolist()
    ([0, 1, 0, 0, 2], [0, 2, 2, 5])
    """

    def __init__(
        self, raw: Iterable[str], tokenizer: Tokenizer, vocabulary: dict[str, int] | None = None
    ) -> None:
        self.raw = list(raw)
        self.vocabulary = new_vocabulary() if vocabulary is None else vocabulary
        number, ends = self.vocabulary.__getitem__, [0]
        words = array("i")
        for text in self.raw:
            words.extend(map(number, tokenizer.words(text)))
            ends.append(len(words))
        self.words: Numbers = np.array(words, np.int32)
        self.ptr = np.array(ends, np.int64)

    def __len__(self) -> int:
        return len(self.raw)

    @cached_property
    def lines(self) -> list[str]:
        """The normalized texts, each on one line."""
        return [as_line(text) for text in self.raw]

    @cached_property
    def _sorted(self) -> tuple[list[str], Numbers]:
        words = sorted(self.vocabulary)
        return words, np.array([self.vocabulary[word] for word in words], np.int32)

    def starting_with(self, start: str) -> Numbers:
        """The numbers of the words that start in this way."""
        words, numbers = self._sorted
        last = start[:-1] + chr(min(ord(start[-1]) + 1, 0x10FFFF))
        return numbers[bisect_left(words, start) : bisect_left(words, last)]


class QueryWords:
    """The words of a query.

    >>> query = QueryWords(["new", "york", "new"])
    >>> query.terms, query.counts, query.sequence
    (['new', 'york'], [2, 1], [0, 1, 0])
    """

    def __init__(self, words: Sequence[str], line: str = "") -> None:
        counts = Counter(words)
        self.line = line  # the normalized text
        self.terms, self.counts = list(counts), list(counts.values())
        number = {term: k for k, term in enumerate(self.terms)}
        self.sequence = [number[word] for word in words]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Neighbors in the query that are different, each pair once."""
        both = zip(self.sequence, self.sequence[1:], strict=False)
        return list(dict.fromkeys(pair for pair in both if pair[0] != pair[1]))


class Matches:
    """Where the words of one query occur in one field of some documents.

    Attributes
    ----------
    query : QueryWords
    length : (n_rows,) float64
        The number of words of each document's field.
    frequency : (n_terms, n_rows) float64
        How often each term of the query occurs.
    row, position, term : (n_hits,) int64
        Every occurrence, sorted by row and position.
    """

    def __init__(self, query: QueryWords, texts: Texts, number: IntArray) -> None:
        self.query, self.texts, self.number = query, texts, number
        n_rows, start = len(number), texts.ptr[number]
        length = texts.ptr[number + 1] - start
        self.length: FloatArray = length.astype(np.float64)
        self._row = np.repeat(np.arange(n_rows), length)
        shift = np.repeat(start - (np.cumsum(length) - length), length)
        at = np.arange(len(self._row)) + shift
        self._words = texts.words[at]
        found = np.full(len(at), -1, np.int64)
        for k, term in enumerate(query.terms):
            if (word := texts.vocabulary.get(term)) is not None:
                found[self._words == word] = k
        hits = np.flatnonzero(found >= 0)
        self.row, self.term = self._row[hits], found[hits]
        self.position = at[hits] - start[self.row]
        shape = len(query.terms), n_rows
        count = np.bincount(self.term * n_rows + self.row, minlength=shape[0] * n_rows)
        self.frequency: FloatArray = count.reshape(shape).astype(np.float64)

    def has_start(self, start: str) -> FloatArray:
        """1 for each row with a word that starts in this way, else 0."""
        numbers = self.texts.starting_with(start)
        has = np.zeros(len(self.length))
        if len(numbers):
            has[self._row[np.isin(self._words, numbers)]] = 1.0
        return has

    def nearest(self, one: int, other: int) -> FloatArray:
        """The least distance of two terms in each row; infinite where one of them is absent."""
        of_both = np.flatnonzero((self.term == one) | (self.term == other))
        row, position, term = self.row[of_both], self.position[of_both], self.term[of_both]
        # The closest occurrences of two terms are neighbors among the occurrences of both.
        change = np.flatnonzero((row[1:] == row[:-1]) & (term[1:] != term[:-1]))
        least = np.full(len(self.length), np.inf)
        np.minimum.at(least, row[change], position[change + 1] - position[change])
        return least

    def adjacent(self, one: int, other: int) -> FloatArray:
        """1 for each row in which the second term follows the first one at once, else 0."""
        has = np.zeros(len(self.length))
        row, position, term = self.row, self.position, self.term
        follows = (row[1:] == row[:-1]) & (position[1:] == position[:-1] + 1)
        has[row[1:][follows & (term[:-1] == one) & (term[1:] == other)]] = 1.0
        return has
