"""Which items a judge gets, in which order, and on which side a document is shown."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from rankwright.exceptions import ParameterError
from rankwright.service.judging.live_model import Mode
from rankwright.service.judging.queue import Queue

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
