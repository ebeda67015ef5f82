"""Features of a query and a document's texts, for queues that bring none."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwright._typing import FloatArray

K1, B = 1.2, 0.75  # the usual constants of BM25


def words(text: str) -> list[str]:
    """The words of a text, in lower case.

    >>> words("Salt-loss (in sweat)")
    ['salt', 'loss', 'in', 'sweat']
    """
    return re.findall(r"\w+", text.lower())


def text_features(
    documents: Sequence[Any], query_texts: Mapping[str, str]
) -> tuple[FloatArray, tuple[str, ...]]:
    """BM25, the share of the query's words and length, for titles and texts, and their names."""
    columns, names = [], []
    for field in ("title", "text"):
        texts = [words(getattr(document, field)) for document in documents]
        queries = [words(query_texts[document.query]) for document in documents]
        columns += [
            bm25(texts, queries),
            [_share(query, text) for query, text in zip(queries, texts, strict=True)],
            [math.log1p(len(text)) for text in texts],
        ]
        names += [f"{field} BM25", f"{field} share of query words", f"{field} log length"]
    return np.array(columns, dtype=np.float64).T, tuple(names)


def bm25(texts: Sequence[list[str]], queries: Sequence[list[str]]) -> list[float]:
    """Okapi BM25 of each text for its query; word statistics are those of the distinct texts.

    >>> values = bm25([["salt", "sweat"], ["lung"], ["lung"]], [["salt"], ["salt"], ["lung"]])
    >>> values[0] > 0 == values[1] < values[2]
    True
    """
    distinct = {tuple(text) for text in texts}
    frequency = Counter(word for text in distinct for word in set(text))
    mean_length = max(sum(map(len, distinct)) / len(distinct), 1.0)
    return [
        sum(
            _idf(frequency[word], len(distinct))
            * _saturation(text.count(word), len(text) / mean_length)
            for word in sorted(set(query))  # the sum has the same bits in every process
        )
        for text, query in zip(texts, queries, strict=True)
    ]


def _idf(n_with: int, n_texts: int) -> float:
    return math.log1p((n_texts - n_with + 0.5) / (n_with + 0.5))


def _saturation(count: int, relative_length: float) -> float:
    return count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * relative_length))


def _share(query: list[str], text: list[str]) -> float:
    return len(set(query) & set(text)) / max(len(set(query)), 1)
