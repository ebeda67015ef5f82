"""The query file of the cystic fibrosis collection: pairs with the scores of four judges."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rankwright.data.io.files import Text, read_text
from rankwright.data.runs import Judgments
from rankwright.data.vocabulary import encode

_PAIR = re.compile(r"(\d{1,18}) +([0-2]+)(?![^ ])", re.ASCII)
_FIX = "restore the line from the original file"


def read_judges(path: str | os.PathLike[str]) -> Judgments:
    """Read the query file of the cystic fibrosis collection (``cfquery``), gzipped or not.

    A query has four fields: ``QN`` its number, ``QU`` its text, ``NR`` the number of pairs and
    ``RD`` the pairs, each a document number and the scores (0, 1 or 2) of four judges.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "cfquery"
    >>> lines = ["QN 00001", "QU Is CF mucus", "   abnormal?", "NR 00002", "RD 139 1222  151 0001"]
    >>> _ = path.write_text("\\n".join(lines))
    >>> judged = read_judges(path)
    >>> judged.texts, judged.docs.tolist(), judged.scores.tolist()
    (('Is CF mucus abnormal?',), [139, 151], [[1, 2, 2, 2], [0, 0, 0, 1]])
    """
    return _Reader(read_text(path, "latin-1")).read()


class _Pair(NamedTuple):
    doc: int
    scores: str
    line: int


@dataclass
class _Record:
    """One query while its lines are being read."""

    line: int
    number: int
    texts: list[str] = field(default_factory=list)
    n_pairs: int | None = None
    pairs: list[_Pair] = field(default_factory=list)


class _Reader:
    """Line by line: a tag starts a field, a line without a tag continues it."""

    def __init__(self, text: Text) -> None:
        self.text, self.tag = text, ""
        self.records: list[_Record] = []

    def read(self) -> Judgments:
        for number, line in enumerate(self.text.decode().split("\n"), start=1):
            line = line.rstrip(" \t\x1a")
            if line:
                self._read_line(number, line)
        if not self.records:
            self.text.refuse(1, 1, "no query in the file", "give the file cfquery")
        pairs = [pair for record in self.records for pair in record.pairs]
        n_judges = len(pairs[0].scores) if pairs else 0
        for record in self.records:
            self._check(record, n_judges)
        doc, docs = encode(np.array([pair.doc for pair in pairs], dtype=np.int64), "document")
        scores = [int(score) for pair in pairs for score in pair.scores]
        return Judgments(
            np.array([record.number for record in self.records]),
            docs,
            np.repeat(np.arange(len(self.records)), [len(r.pairs) for r in self.records]),
            doc,
            np.array(scores, dtype=np.int64).reshape(len(pairs), n_judges),
            tuple(" ".join(record.texts) for record in self.records),
        )

    def _read_line(self, number: int, line: str) -> None:
        is_new = line[0] != " "
        tag, rest = (line[:2], line[2:]) if is_new else (self.tag, line)
        if tag not in ("QN", "QU", "NR", "RD"):
            self.text.refuse(number, 1, f'unknown field "{tag}"', "use QN, QU, NR and RD")
        self.tag = tag
        if tag == "QN" and is_new:
            self.records.append(_Record(number, self._whole_number(number, rest)))
            return
        if not self.records:
            self.text.refuse(number, 1, f"{tag} before the first QN", "start each query with QN")
        record = self.records[-1]
        if tag == "QU":
            record.texts.append(rest.strip())
        elif tag == "NR":
            record.n_pairs = self._whole_number(number, rest)
        elif tag == "RD":
            record.pairs += self._pairs(number, line, len(line) - len(rest))
        else:
            self.text.refuse(number, 1, "text after the number of the query", _FIX)

    def _whole_number(self, number: int, rest: str) -> int:
        if not re.fullmatch(r" *\d{1,18} *", rest, re.ASCII):
            self.text.refuse(
                number, 4, f'"{rest.strip()[:40]}" is not a whole number of at most 18 digits', _FIX
            )
        return int(rest)

    def _pairs(self, number: int, line: str, start: int) -> list[_Pair]:
        """The pairs ``139 1222  151 2211 ...`` from offset ``start``."""
        pairs = []
        end = start
        for match in _PAIR.finditer(line, start):
            if line[end : match.start()].strip(" "):
                break
            pairs.append(_Pair(int(match[1]), match[2], number))
            end = match.end()
        rest = line[end:].lstrip(" ")
        if rest:
            column = len(line) - len(rest) + 1
            reason = "expected a document number and scores of 0, 1 or 2"
            self.text.refuse(number, column, reason, _FIX)
        return pairs

    def _check(self, record: _Record, n_judges: int) -> None:
        if record.n_pairs != len(record.pairs):
            n = "no number of pairs (NR)" if record.n_pairs is None else f"NR {record.n_pairs}"
            reason = f"query {record.number} has {n} but lists {len(record.pairs)} pairs"
            self.text.refuse(record.line, 1, reason, _FIX)
        seen: set[int] = set()
        for doc, scores, line in record.pairs:
            if len(scores) != n_judges:
                reason = f"document {doc} has scores of {len(scores)} judges, not {n_judges}"
                self.text.refuse(line, 1, reason, _FIX)
            if doc in seen:
                self.text.refuse(line, 1, f"document {doc} appears twice in its query", _FIX)
            seen.add(doc)
