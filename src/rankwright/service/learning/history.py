"""Earlier states of the ranker, which the learner goes back to.

A ranker cannot unlearn an example. When a judgment is taken back or replaced, the ranker goes back
to a state before that judgment and learns the log again from there, without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rankwright.service.learning.live import LiveRanker

MOST_COPIES = 40  # states before judgments, in memory only
LATEST = 8  # of them that are kept whatever their ages


class History:
    """Earlier states of a ranker. Each has learned what counts now up to its entry, and no more.

    Snapshots are in the store, copies of the states just before judgments are in memory only. Fewer
    are kept the older they are, so that going back ``n`` entries learns a few times ``n`` again.

    Parameters
    ----------
    stored : snapshots by their last entries
    """

    def __init__(self, stored: Mapping[int, bytes] | None = None) -> None:
        self.stored: dict[int, bytes] = dict(stored or {})
        self.unwritten: set[int] = set()  # not in the store yet
        self._copies: dict[int, LiveRanker] = {}

    def remember(self, live: LiveRanker) -> None:
        """Keep a copy of the state before a judgment."""
        last = live.progress.last_seq
        self._copies[last] = live.copy()
        if len(self._copies) > MOST_COPIES:
            kept = _spread(self._copies, last) | set(sorted(self._copies)[-LATEST:])
            self._copies = {seq: self._copies[seq] for seq in kept}

    def keep(self, live: LiveRanker) -> bytes:
        """Keep a snapshot, which goes to the store with the next write."""
        content, seq = live.snapshot(), live.progress.last_seq
        self.stored[seq] = content
        self.unwritten.add(seq)
        return content

    def before(self, seq: int) -> LiveRanker | None:
        """The latest state before an entry."""
        copied = max((last for last in self._copies if last < seq), default=-1)
        stored = max((last for last in self.stored if last < seq), default=-1)
        if copied >= stored:
            return None if copied < 0 else self._copies[copied].copy()
        return LiveRanker.restore(self.stored[stored])

    def thin(self, last: int) -> None:
        """Keep fewer snapshots the older they are."""
        kept = _spread(self.stored, last)
        self.stored = {seq: self.stored[seq] for seq in kept}
        self.unwritten &= kept

    def drop_from(self, seq: int) -> None:
        """Drop the states that have learned an entry which does not count, or lack one."""
        self._drop({last for last in (*self.stored, *self._copies) if last >= seq})

    def drop_until(self, seq: int) -> None:
        """Drop the states that the log no longer leads on from."""
        self._drop({last for last in (*self.stored, *self._copies) if last < seq})

    def _drop(self, seqs: set[int]) -> None:
        for seq in seqs:
            self.stored.pop(seq, None)
            self._copies.pop(seq, None)
        self.unwritten -= seqs


def _spread(seqs: Iterable[int], last: int) -> set[int]:
    """The oldest entry of each power of two of entries back from the last one.

    >>> sorted(_spread(range(100), last=99))
    [0, 36, 68, 84, 92, 96, 98, 99]
    """
    by_age: dict[int, int] = {}
    for seq in sorted(seqs):
        by_age.setdefault((last - seq).bit_length(), seq)
    return set(by_age.values())
