"""Which judgments of the log count, and what several judges say together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rankwright.service.log.entries import decode_judgment
from rankwright.service.log.reader import Entry

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


def median_value(values: Iterable[float]) -> float:
    """The median of what several judges gave; between two grades, the higher one.

    >>> median_value([0, 3, 4]), median_value([2, 3])
    (3.0, 3.0)
    """
    return float(np.floor(np.median(list(values)) + 0.5))
