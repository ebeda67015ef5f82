"""What the learner goes back to: the judgments that count, and earlier states of the ranker.

A ranker cannot unlearn an example. When a judgment is taken back or replaced, the ranker goes back
to a state before that judgment and learns the log again from there, without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rankwright.service.learning.live import LiveRanker
from rankwright.service.log.entries import decode_judgment
from rankwright.service.log.reader import Entry

MOST_COPIES = 40  # states before judgments, in memory only
LATEST = 8  # of them that are kept whatever their ages

_Document = tuple[str | None, str, tuple[str, ...]]  # a judge, a query, a document
_NONE: _Document = (None, "", ())


class Standing:
    """The graded judgments that count: of each judge and document the last one, unless undone.

    It is a function of the log, entry by entry.

    Examples
    --------
    >>> from rankwright.service.log.entries import Judgment, encode
    >>> def entry(seq, action, **more):
    ...     body = encode(Judgment(action, "grades", **more))
    ...     return Entry(seq, 0.0, "judgment", f"k{seq}", None, "ann", body)
    >>> standing, document = Standing(), {"query": "q", "documents": ("d",)}
    >>> standing.apply(entry(1, "judge", value=3, **document))
    []
    >>> standing.apply(entry(2, "judge", value=4, **document))  # replaces the first one
    [1]
    >>> standing.apply(entry(3, "undo", of="k2"))  # now the first one counts again
    [1, 2]
    >>> 1 in standing, 2 in standing
    (True, False)
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._answers: dict[_Document, list[tuple[int, bool]]] = {}  # (seq, has a grade)
        self._keys: dict[str, tuple[_Document, int]] = {}
        self._counted: set[int] = set()
        for entry in entries:
            self.apply(entry)

    def __contains__(self, seq: int) -> bool:
        return seq in self._counted

    def apply(self, entry: Entry) -> list[int]:
        """Apply a judgment; the earlier ones that count no more, or count again."""
        judgment, judge = decode_judgment(entry.body), entry.user or ""
        if judgment.mode != "grades":
            return []
        undo = judgment.action == "undo"
        document: _Document = (judge, judgment.query, judgment.documents)
        seq = entry.seq
        if undo:
            document, seq = self._keys.get(judgment.of, (_NONE, 0))
            if document[0] != judge:  # unknown, or said by another judge
                return []
            del self._keys[judgment.of]
        answers = self._answers.setdefault(document, [])
        before = self._last(answers)
        if undo:
            answers[:] = [answer for answer in answers if answer[0] != seq]
        else:
            self._keys[entry.key] = document, seq
            answers.append((seq, judgment.value is not None))
        after = self._last(answers)
        self._counted -= before
        self._counted |= after
        return sorted((before ^ after) - {entry.seq})

    def forget_until(self, seq: int) -> None:
        """Drop what is no longer in the log: it stays learned and cannot be taken back."""
        self._counted = {number for number in self._counted if number > seq}
        self._keys = {key: pair for key, pair in self._keys.items() if pair[1] > seq}
        for document, answers in self._answers.items():
            self._answers[document] = [answer for answer in answers if answer[0] > seq]

    @staticmethod
    def _last(answers: list[tuple[int, bool]]) -> set[int]:
        return {answers[-1][0]} if answers and answers[-1][1] else set()


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
