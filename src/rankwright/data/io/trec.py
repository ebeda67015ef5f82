"""Files of judgments: TREC runs and qrels, and the queries of the cystic fibrosis collection."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.io.fields import Fields, split_fields
from rankwright.data.io.files import Text, bounded, read_text, write_lines
from rankwright.data.items import RankedItem
from rankwright.data.runs import Judgments, Qrels, Run
from rankwright.data.vocabulary import encode, first_repeat
from rankwright.exceptions import DataError, ParameterError

Path = str | os.PathLike[str]

_RUN_LINE = "query Q0 document rank score run-name"
_QRELS_LINE = {3: "query document grade", 4: "query iteration document grade"}
_UNWRITABLE = re.compile(r"[\s\0\ufeff]", re.ASCII)


@bounded
def read_run(path: Path, *, max_bytes: int | None = None) -> Run:
    """Read a TREC run: ``query Q0 document rank score name`` on each line, gzipped or not.

    Ids are kept as text. The rank must be a whole number but is ignored: as in trec_eval, the
    score alone orders the documents (see :attr:`Run.order`). A line with other fields, a score that
    is not finite, a repeated document and a second run name are refused with their line number.
    ``max_bytes`` limits the text, as in :func:`read_letor`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "bm25.run")
    >>> write_run(Run.from_dict({"q1": {"d1": 0.5, "d2": 0.9}}, name="bm25"), path)
    >>> print(pathlib.Path(path).read_text(), end="")
    q1 Q0 d2 1 0.9 bm25
    q1 Q0 d1 2 0.5 bm25
    >>> read_run(path)
    Run('bm25', 2 rows, 1 queries)
    """
    fields = split_fields(read_text(path), None, 6, _RUN_LINE)
    fields.numbers(3, "rank", integer=True)
    score = fields.numbers(4, "score")
    names = fields.column(5)
    if names.count(names[0]) < len(names):
        other = next(row for row, name in enumerate(names) if name != names[0])
        reason = f'run name "{names[other]}" after "{names[0]}"'
        fields.refuse(other, 5, reason, "write each run to its own file")
    return Run(*_pairs(fields, 2), score=score, name=names[0])


@bounded
def read_qrels(path: Path, *, max_bytes: int | None = None) -> Qrels:
    """Read TREC qrels: ``query iteration document grade`` on each line, gzipped or not.

    Lines of three fields (``query document grade``), as in some older tracks, are read too; the
    first line decides. Grades are whole numbers, and ids are kept as text. ``max_bytes`` limits the
    text, as in :func:`read_letor`.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "qrels.txt.gz")
    >>> write_qrels(Qrels.from_dict({"q1": {"d1": 2, "d2": 0}}), path)
    >>> read_qrels(path).to_dict()
    {'q1': {'d1': 2, 'd2': 0}}
    """
    text = read_text(path)
    n_fields = 3 if len(text.first_line.split()) == 3 else 4
    fields = split_fields(text, None, n_fields, _QRELS_LINE[n_fields])
    grade = fields.numbers(n_fields - 1, "grade", integer=True)
    return Qrels(*_pairs(fields, n_fields - 2), grade=grade)


def _pairs(
    fields: Fields, field: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Vocabularies and numbers of queries and documents; a repeated pair is refused."""
    query, queries = fields.encode(0, "query", as_text=True)
    doc, docs = fields.encode(field, "document", as_text=True)
    repeat = first_repeat(query, doc)
    if repeat is not None:
        row, earlier = repeat
        reason = f"document {docs[doc[row]]} appears in query {queries[query[row]]} a second time"
        line = fields.lines[earlier]
        fields.refuse(row, field, reason, f"keep either this line or line {line}")
    return queries, docs, query, doc


def read_runs(paths: Iterable[Path]) -> dict[str, Run]:
    """TREC runs by their names; of several with one name, the later ones by the names of files.

    :func:`rankwright.fuse` and ``LearnedFusion`` take them so.
    """
    runs: dict[str, Run] = {}
    for path in paths:
        run = read_run(path)
        name = run.name if run.name not in runs else os.path.basename(path)
        if name in runs:
            raise ParameterError(f"two runs are called {name!r}. Rename one of the files.")
        runs[name] = run
    return runs


def write_run(run: Run, path: Path) -> None:
    """Write a TREC run, best document first; gzipped if the path ends in ``.gz``.

    Scores are preserved exactly. An existing file is replaced atomically.
    """
    for ids, what in ((run.queries, "query"), (run.docs, "document"), ([run.name], "run name")):
        _texts(np.array(ids, dtype=object), what)
    write_lines(path, _run_lines(run.ranking(), run.name))


def ranking_lines(rows: Iterable[RankedItem], run_name: str | None = None) -> Iterable[str]:
    """Ordered lists as a TREC run, or without a name as query, rank, item and score with tabs.

    The columns of a TREC run are separated by blanks, so no id may have one.
    """
    if run_name is None:
        return (f"{q}\t{rank}\t{item}\t{score:.6g}\n" for q, item, rank, score in rows)
    lines = list(_run_lines(rows, run_name))
    for line in lines:
        if len(line.split()) != 6 or "  " in line:
            raise DataError(
                "an id is empty or contains a space, which a TREC run does not allow: "
                f"{line.rstrip()!r}. "
                "Use other ids, or another format."
            )
    return lines


def ranking_lists(rows: Iterable[RankedItem]) -> dict[str, list[dict[str, Any]]]:
    """Ordered lists by query, each item with its rank and score."""
    lists: dict[str, list[dict[str, Any]]] = {}
    for query, item, rank, score in rows:
        lists.setdefault(str(query), []).append({"item": item, "rank": rank, "score": score})
    return lists


def _run_lines(rows: Iterable[RankedItem], name: str) -> Iterator[str]:
    return (f"{q} Q0 {item} {rank} {score!r} {name}\n" for q, item, rank, score in rows)


def write_qrels(qrels: Qrels, path: Path) -> None:
    """Write TREC qrels of four columns, in the order of the rows; gzipped for ``.gz``."""
    queries, docs = _texts(qrels.queries, "query"), _texts(qrels.docs, "document")
    rows = zip(qrels.query.tolist(), qrels.doc.tolist(), qrels.grade.tolist(), strict=True)
    write_lines(path, (f"{queries[q]} 0 {docs[d]} {grade}\n" for q, d, grade in rows))


def _texts(ids: NDArray[Any], what: str) -> list[str]:
    texts = [str(key) for key in ids.tolist()]
    for text in texts:
        if not text or _UNWRITABLE.search(text):
            problem = "it is empty or contains white space. Rename it."
            raise DataError(f"{what} {text!r} cannot be written to a TREC file: {problem}")
    return texts


_PAIR = re.compile(r"(\d{1,18}) +([0-2]+)(?![^ ])", re.ASCII)
_RESTORE = "restore the line from the original file"


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
    return _JudgesReader(read_text(path, "latin-1")).read()


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


class _JudgesReader:
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
            self.text.refuse(number, 1, "text after the number of the query", _RESTORE)

    def _whole_number(self, number: int, rest: str) -> int:
        if not re.fullmatch(r" *\d{1,18} *", rest, re.ASCII):
            reason = f'"{rest.strip()[:40]}" is not a whole number of at most 18 digits'
            self.text.refuse(number, 4, reason, _RESTORE)
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
            self.text.refuse(number, column, reason, _RESTORE)
        return pairs

    def _check(self, record: _Record, n_judges: int) -> None:
        if record.n_pairs != len(record.pairs):
            n = "no number of pairs (NR)" if record.n_pairs is None else f"NR {record.n_pairs}"
            reason = f"query {record.number} has {n} but lists {len(record.pairs)} pairs"
            self.text.refuse(record.line, 1, reason, _RESTORE)
        seen: set[int] = set()
        for doc, scores, line in record.pairs:
            if len(scores) != n_judges:
                reason = f"document {doc} has scores of {len(scores)} judges, not {n_judges}"
                self.text.refuse(line, 1, reason, _RESTORE)
            if doc in seen:
                self.text.refuse(line, 1, f"document {doc} appears twice in its query", _RESTORE)
            seen.add(doc)
