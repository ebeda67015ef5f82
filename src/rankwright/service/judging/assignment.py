"""Which items a judge gets: random orders, shared items, and what a committee differs on most."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np

from rankwright._typing import FloatArray
from rankwright.data.queries import Queries
from rankwright.exceptions import ParameterError
from rankwright.service.judging.queue import Queue
from rankwright.service.log.entries import Mode

Item = tuple[int, ...]  # rows of the queue, ascending: one, or the two of a pair


class Assignment:
    """Random orders against position bias, the same after every restart.

    Each judge has an order of their own. A share of the items, ``overlap``, goes to every judge.
    The documents of a query form a random ring, and neighbors on it are the pairs to compare: all
    documents are connected, and each is in two pairs.
    """

    def __init__(self, queue: Queue, overlap: float, seed: int) -> None:
        if not 0.0 <= overlap <= 1.0:
            raise ParameterError(f"overlap: {overlap:g} is not a share between 0 and 1.")
        self.queue, self.overlap, self.seed = queue, overlap, seed
        self.order = lru_cache(64)(self._order)
        self.documents: list[Item] = [(row,) for row in range(len(queue))]
        self.pairs: list[Item] = self._ring()

    def items(self, mode: Mode) -> list[Item]:
        """Everything there is to judge in a mode."""
        return self.pairs if mode == "pairs" else self.documents

    def _order(self, judge: str, mode: Mode) -> list[Item]:
        return sorted(self.items(mode), key=lambda item: self._draw(judge, *map(str, item)))

    def is_shared(self, item: Item) -> bool:
        """Whether every judge gets the item."""
        return self._draw("overlap", *map(str, item)) < self.overlap

    def sides(self, judge: str, item: Item) -> Item:
        """The rows of an item as a judge sees them, left and right."""
        return item if self._draw("side", judge, *map(str, item)) < 0.5 else item[::-1]

    def _ring(self) -> list[Item]:
        queries: dict[str, list[int]] = {}
        for row, document in enumerate(self.queue.documents):
            queries.setdefault(document.query, []).append(row)
        pairs: set[Item] = set()
        for rows in queries.values():
            ring = sorted(rows, key=lambda row: self._draw("ring", str(row)))
            neighbors = zip(ring, ring[1:] + ring[:1], strict=True)
            pairs |= {(min(a, b), max(a, b)) for a, b in neighbors if a != b}
        return sorted(pairs)

    def _draw(self, *words: str) -> float:
        """A number in [0, 1) that depends on the seed and the words only."""
        text = "\0".join([str(self.seed), *words]).encode()
        digest = hashlib.blake2b(text, digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2.0**64


def rank_variance(model: Any, X: Any, queries: Queries) -> FloatArray:
    """The variance over the members of an ensemble of each item's rank, as a share of its list.

    Ranks are divided by the length of the list. Otherwise the longest lists would be judged first,
    which is worse than judging at random on MQ2008 (``experiments/oap_bpm/README.md``).

    Parameters
    ----------
    model : fitted OAPBPM, OAPBagging or OAPVoting
    X : (n_items, n_features) array
    queries : the query of each row

    Examples
    --------
    >>> from rankwright import OAPBPM
    >>> X = np.random.default_rng(0).normal(size=(6, 3))
    >>> model = OAPBPM(n_estimators=20, tau=1, random_state=0).fit(X, [0, 1, 2, 0, 1, 2])
    >>> rank_variance(model, X, Queries.from_ids([7, 7, 7, 8, 8, 8]))  # all members are equal
    array([0., 0., 0., 0., 0., 0.])
    """
    scores = model.member_scores(X)
    variance = np.empty(len(scores))
    for size in np.unique(queries.sizes):  # lists of one length are sorted together
        of_size = np.flatnonzero(queries.sizes == size)
        rows = queries.order[queries.ptr[of_size][:, None] + np.arange(size)]
        places = np.argsort(np.argsort(-scores[rows], axis=1, kind="stable"), axis=1)
        variance[rows] = places.var(axis=2) / size**2
    return variance


def pair_disagreement(member_scores: FloatArray, pairs: Any) -> FloatArray:
    """How evenly the members are split about which of two rows is better: 0 to 1/4.

    Parameters
    ----------
    member_scores : (n_items, n_members) array
    pairs : (n_pairs, 2) row numbers

    Examples
    --------
    >>> pair_disagreement(np.array([[1.0, 2.0], [0.0, 3.0], [5.0, 5.0]]), [[0, 1], [2, 0]])
    array([0.25, 0.  ])
    """
    first, second = np.asarray(pairs).T
    share = (member_scores[first] > member_scores[second]).mean(axis=1)
    disagreement: FloatArray = share * (1.0 - share)
    return disagreement
