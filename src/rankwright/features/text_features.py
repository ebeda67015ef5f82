"""Features of the words of a query in the fields of a document.

A missing field counts as an empty text. An empty query, or one without words, gives 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.features.base import Knowledge, TextFeature, plain_name
from rankwright.features.texts import Matches

MOST_CHARACTERS = 256  # of a text that is compared letter by letter
Match = Callable[[str], Matches]


class BM25(TextFeature, frozen=True):
    """Okapi BM25 of a field, in the variant of Lucene.

    The sum over the words of the query of idf * tf / (tf + k1 * (1 - b + b * length / mean)),
    where idf = log(1 + (n - df + 1/2) / (df + 1/2)); n, df and mean come from the documents that
    ``fit`` has seen. A word that occurs twice in the query counts twice.

    Parameters
    ----------
    field : str
        The field of the document.
    k1 : float, default 1.2
        How soon further occurrences stop to count.
    b : float from 0 to 1, default 0.75
        How much long texts are discounted.
    query : str, default "text"
        The field of the query.
    name : str or None
        The name of the feature; None is ``bm25_FIELD``.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query": ["red shoe"] * 2, "title": ["A red shoe", "Blue shoes"]}
    >>> FeatureSet([BM25("title")]).fit_transform(rows).round(3)
    array([[0.582],
           [0.   ]])
    """

    field: str
    k1: float = 1.2
    b: float = 0.75
    query: str = "text"
    name: str | None = None
    prefix: ClassVar[str] = "bm25"

    def corpora(self) -> list[tuple[str, ...]]:
        return [(self.field,)]

    def check(self) -> None:
        _check_bm25(self)

    def score(self, match: Match, known: Knowledge) -> FloatArray:
        found, statistics = match(self.field), known.of(self.field)
        share = found.length / (statistics.mean_length or 1.0)
        norm = self.k1 * (1.0 - self.b + self.b * share)
        total = np.zeros(len(found.length))
        for k, term in enumerate(found.query.terms):
            tf = found.frequency[k]
            total += found.query.counts[k] * statistics.idf(term) * (tf / (tf + norm + (tf == 0)))
        return total


class BM25F(TextFeature, frozen=True):
    """BM25 over several fields: occurrences are weighted by field, then added, then saturated.

    With tf = sum over fields of weight * tf_field / (1 - b + b * length / mean) it is the sum of
    idf * tf / (tf + k1). A document that has a word in two fields counts once for its idf.

    Parameters
    ----------
    fields : tuple of str
    weights : tuple of float or None
        The weight of each field; None: all 1.
    k1, b, query, name
        As of :class:`BM25`.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query": ["shoe"] * 2, "title": ["red shoe", "shop"], "body": ["", "a shoe"]}
    >>> FeatureSet([BM25F(("title", "body"), weights=(3, 1))]).fit_transform(rows).round(3)
    array([[0.122],
           [0.059]])
    """

    fields: tuple[str, ...]
    weights: tuple[float, ...] | None = None
    k1: float = 1.2
    b: float = 0.75
    query: str = "text"
    name: str | None = None
    prefix: ClassVar[str] = "bm25f"

    def corpora(self) -> list[tuple[str, ...]]:
        return [tuple(self.fields), *((field,) for field in self.fields)]

    def fields_read(self) -> tuple[str, ...]:
        return tuple(self.fields)

    def check(self) -> None:
        _check_bm25(self)
        if not self.fields:
            raise self._refuse("fields", "one or more fields")
        weights = self.weights
        if weights is not None and (
            len(weights) != len(self.fields) or not all(0 < w < np.inf for w in weights)
        ):
            raise self._refuse("weights", "a finite weight > 0 for each field")

    def score(self, match: Match, known: Knowledge) -> FloatArray:
        matches = [match(field) for field in self.fields]
        first, statistics = matches[0], known.of(*self.fields)
        weights = self.weights or (1.0,) * len(self.fields)
        scale = []
        for field, weight, found in zip(self.fields, weights, matches, strict=True):
            share = found.length / (known.of(field).mean_length or 1.0)
            scale.append(weight / np.maximum(1.0 - self.b + self.b * share, 1e-9))
        total = np.zeros(len(first.length))
        for k, term in enumerate(first.query.terms):
            tf = np.zeros(len(first.length))
            for found, factor in zip(matches, scale, strict=True):
                tf += factor * found.frequency[k]
            total += first.query.counts[k] * statistics.idf(term) * (tf / (tf + self.k1))
        return total


def _check_bm25(feature: BM25 | BM25F) -> None:
    if not 0 < feature.k1 < np.inf:
        raise feature._refuse("k1", "a finite number > 0")
    if not 0 <= feature.b <= 1:
        raise feature._refuse("b", "a number from 0 to 1")


class TermCoverage(TextFeature, frozen=True):
    """The share of the different words of the query that occur in a field.

    Parameters
    ----------
    field : str
    query, name
        As of :class:`BM25`.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query": ["red shoe"] * 2, "title": ["A red shoe", "Blue shoe"]}
    >>> FeatureSet([TermCoverage("title")]).fit_transform(rows).tolist()
    [[1.0], [0.5]]
    """

    field: str
    query: str = "text"
    name: str | None = None
    prefix: ClassVar[str] = "coverage"

    def score(self, match: Match, known: Knowledge) -> FloatArray:
        found = match(self.field)
        return _count(found) / max(len(found.query.terms), 1)


class IDFSum(TextFeature, frozen=True):
    """The sum of the idf of the different words of the query that occur in a field.

    Parameters
    ----------
    field : str
    query, name
        As of :class:`BM25`.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query": ["red shoe"] * 2, "title": ["A red shoe", "Blue shoe"]}
    >>> FeatureSet([IDFSum("title")]).fit_transform(rows).round(3).tolist()
    [[0.875], [0.182]]
    """

    field: str
    query: str = "text"
    name: str | None = None
    prefix: ClassVar[str] = "idf"

    def corpora(self) -> list[tuple[str, ...]]:
        return [(self.field,)]

    def score(self, match: Match, known: Knowledge) -> FloatArray:
        found, statistics = match(self.field), known.of(self.field)
        total = np.zeros(len(found.length))
        for k, term in enumerate(found.query.terms):
            total += statistics.idf(term) * (found.frequency[k] > 0)
        return total


class Phrase(TextFeature, frozen=True):
    """The share of the query's pairs of neighbors that are neighbors in a field, in this order.

    Of a query with one word: whether the field has it.

    Parameters
    ----------
    field : str
    query, name
        As of :class:`BM25`.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query": ["new york hotel"] * 2, "title": ["New York", "York, a new hotel"]}
    >>> FeatureSet([Phrase("title")]).fit_transform(rows).tolist()
    [[0.5], [0.0]]
    """

    field: str
    query: str = "text"
    name: str | None = None
    prefix: ClassVar[str] = "phrase"

    def score(self, match: Match, known: Knowledge) -> FloatArray:
        found = match(self.field)
        pairs = found.query.pairs
        if not pairs:
            return np.minimum(_count(found), 1.0)
        total = np.zeros(len(found.length))
        for one, other in pairs:
            total += found.adjacent(one, other)
        return total / len(pairs)


class Proximity(TextFeature, frozen=True):
    """How close the query's pairs of neighbors come to each other in a field, in any order.

    The mean over these pairs of 1 / distance: 1 if all are neighbors, 0 where a word is absent. Of
    a query with one word: whether the field has it.

    Parameters
    ----------
    field : str
    query, name
        As of :class:`BM25`.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query": ["red shoe"] * 2, "title": ["a shoe, red", "red and blue shoe"]}
    >>> FeatureSet([Proximity("title")]).fit_transform(rows).round(3).tolist()
    [[1.0], [0.333]]
    """

    field: str
    query: str = "text"
    name: str | None = None
    prefix: ClassVar[str] = "proximity"

    def score(self, match: Match, known: Knowledge) -> FloatArray:
        found = match(self.field)
        pairs = found.query.pairs
        if not pairs:
            return np.minimum(_count(found), 1.0)
        total = np.zeros(len(found.length))
        for one, other in pairs:
            total += 1.0 / found.nearest(one, other)
        return total / len(pairs)


class ExactMatch(TextFeature, frozen=True):
    """Whether the words of a field are the words of the query, in the same order.

    Parameters
    ----------
    field : str
    query, name
        As of :class:`BM25`.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query": ["red shoe"] * 2, "title": ["Red shoe!", "red shoes"]}
    >>> FeatureSet([ExactMatch("title")]).fit_transform(rows).tolist()
    [[1.0], [0.0]]
    """

    field: str
    query: str = "text"
    name: str | None = None
    prefix: ClassVar[str] = "exact"

    def score(self, match: Match, known: Knowledge) -> FloatArray:
        found = match(self.field)
        sequence = np.array(found.query.sequence, np.int64)
        if not len(sequence):
            return np.zeros(len(found.length))
        inside = found.position < len(sequence)
        agrees = found.term[inside] == sequence[found.position[inside]]
        count = np.bincount(found.row[inside][agrees], minlength=len(found.length))
        is_equal = (count == len(sequence)) & (found.length == len(sequence))
        return np.asarray(is_equal, np.float64)


class Prefix(TextFeature, frozen=True):
    """The share of the different words of the query that some word of a field starts with.

    It is for queries that are still being typed.

    Parameters
    ----------
    field : str
    query, name
        As of :class:`BM25`.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query": ["red sho"] * 2, "title": ["Red shoes", "Blue shoes"]}
    >>> FeatureSet([Prefix("title")]).fit_transform(rows).tolist()
    [[1.0], [0.5]]
    """

    field: str
    query: str = "text"
    name: str | None = None
    prefix: ClassVar[str] = "prefix"

    def score(self, match: Match, known: Knowledge) -> FloatArray:
        found = match(self.field)
        total = np.zeros(len(found.length))
        for term in found.query.terms:
            total += found.has_start(term)
        return total / max(len(found.query.terms), 1)


class EditSimilarity(TextFeature, frozen=True):
    """1 - Levenshtein distance / length of the longer text, of the query and a field.

    Texts are compared in lower case and on one line, up to 256 characters. Use it for short fields:
    its time grows with the length of the field.

    Parameters
    ----------
    field : str
    query, name
        As of :class:`BM25`.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query": ["red sheo"] * 2, "title": ["Red shoe", "Blue"]}
    >>> FeatureSet([EditSimilarity("title")]).fit_transform(rows).tolist()
    [[0.75], [0.125]]
    """

    field: str
    query: str = "text"
    name: str | None = None
    prefix: ClassVar[str] = "edit"

    def score(self, match: Match, known: Knowledge) -> FloatArray:
        found = match(self.field)
        line = found.query.line[:MOST_CHARACTERS]
        values = np.zeros(len(found.length))
        if line:
            for row, number in enumerate(found.number.tolist()):
                text = found.texts.lines[number][:MOST_CHARACTERS]
                if text:
                    values[row] = 1.0 - edit_distance(line, text) / max(len(line), len(text))
        return values


def edit_distance(one: str, other: str) -> int:
    """The least number of insertions, deletions and replacements (Myers 1999, Hyyrö 2003).

    >>> edit_distance("kitten", "sitting")
    3
    """
    if not one or not other:
        return max(len(one), len(other))
    where: dict[str, int] = {}
    for k, letter in enumerate(one):
        where[letter] = where.get(letter, 0) | (1 << k)
    mask, last, distance = (1 << len(one)) - 1, 1 << (len(one) - 1), len(one)
    plus, minus = mask, 0  # differences between neighbors in a column of the table: +1, -1
    for letter in other:
        equal = where.get(letter, 0)
        zero = (((equal & plus) + plus) ^ plus) | equal | minus
        right_plus = minus | (mask & ~(zero | plus))
        right_minus = zero & plus
        distance += bool(right_plus & last) - bool(right_minus & last)
        right_plus = (right_plus << 1) | 1
        right_minus <<= 1
        plus = mask & (right_minus | ~(zero | right_plus))
        minus = mask & zero & right_plus
    return distance


class FieldLength(TextFeature, frozen=True):
    """The number of words of a field.

    Parameters
    ----------
    field : str
    name : str or None
        The name of the feature; None is ``length_FIELD``.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query": ["red"] * 2, "title": ["Red shoe", None]}
    >>> FeatureSet([FieldLength("title")]).fit_transform(rows).tolist()
    [[2.0], [0.0]]
    """

    field: str
    name: str | None = None
    prefix: ClassVar[str] = "length"

    def score(self, match: Match, known: Knowledge) -> FloatArray:
        return match(self.field).length


class NGrams(TextFeature, frozen=True):
    """The share of the query's runs of n letters that occur in a field.

    It needs no words, so it suits Chinese, Japanese or Thai with n = 2, and misspelled queries with
    n = 3. Texts are compared in lower case, with single blanks.

    Parameters
    ----------
    field : str
    n : int >= 1, default 3
        A shorter query is one run.
    query, name
        As of :class:`BM25`.

    Examples
    --------
    >>> from rankwright.features import FeatureSet
    >>> rows = {"query": ["東京駅"] * 2, "title": ["東京駅前ホテル", "東京の宿"]}
    >>> FeatureSet([NGrams("title", 2)]).fit_transform(rows).tolist()
    [[1.0], [0.5]]
    """

    field: str
    n: int = 3
    query: str = "text"
    name: str | None = None
    prefix: ClassVar[str] = "ngrams"

    def output_names(self) -> list[str]:
        return [self.name or f"ngrams{self.n}_{plain_name(self.field)}"]

    def check(self) -> None:
        if self.n < 1:
            raise self._refuse("n", "an integer >= 1")

    def score(self, match: Match, known: Knowledge) -> FloatArray:
        found = match(self.field)
        line, values = found.query.line, np.zeros(len(found.length))
        runs = dict.fromkeys(line[k : k + self.n] for k in range(max(len(line) - self.n + 1, 1)))
        if line:
            for row, number in enumerate(found.number.tolist()):
                text = found.texts.lines[number]
                values[row] = sum(run in text for run in runs) / len(runs)
        return values


def _count(found: Matches) -> FloatArray:
    """How many different words of the query each row has."""
    return np.asarray((found.frequency > 0).sum(axis=0), np.float64)
