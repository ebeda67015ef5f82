"""TREC's files: runs of six columns, qrels of four (or three), separated by blanks."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.io.fields import Fields, split_fields
from rankwright.data.io.files import atomic_write, read_text
from rankwright.data.runs import Qrels, Run
from rankwright.data.vocabulary import first_repeat
from rankwright.exceptions import DataError

Path = str | os.PathLike[str]

_RUN_LINE = "query Q0 document rank score run-name"
_QRELS_LINE = {3: "query document grade", 4: "query iteration document grade"}
_UNWRITABLE = re.compile(r"[\s\0\ufeff]", re.ASCII)


def read_run(path: Path) -> Run:
    """Read a TREC run: ``query Q0 document rank score name`` on each line, gzipped or not.

    The ids are kept as text. The rank column must be a whole number but, as in trec_eval, only the
    score orders (see :attr:`Run.order`). Blank lines are passed over; a line with another number
    of fields, a score that is no finite number, a document that came before in the same query,
    and a second run name are errors that name the line.

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
        fields.refuse(other, 5, reason, "keep each run in a file of its own")
    return Run(*_pairs(fields, 2), score=score, name=names[0])


def read_qrels(path: Path) -> Qrels:
    """Read TREC qrels: ``query iteration document grade`` on each line, gzipped or not.

    Lines of three fields (``query document grade``) are read as well, as some older tracks wrote
    them; the first line decides. Grades are whole numbers, ids are kept as text.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "qrels.txt.gz")
    >>> write_qrels(Qrels.from_dict({"q1": {"d1": 2, "d2": 0}}), path)
    >>> read_qrels(path).to_dict()
    {'q1': {'d1': 2, 'd2': 0}}
    """
    text = read_text(path)
    n_fields = 3 if len(text.data.lstrip().split(b"\n", 1)[0].split()) == 3 else 4
    fields = split_fields(text, None, n_fields, _QRELS_LINE[n_fields])
    grade = fields.numbers(n_fields - 1, "grade", integer=True)
    return Qrels(*_pairs(fields, n_fields - 2), grade=grade)


def _pairs(
    fields: Fields, field: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Vocabularies and numbers of queries and documents; a pair that comes twice is refused."""
    query, queries = fields.encode(0, "query", as_text=True)
    doc, docs = fields.encode(field, "document", as_text=True)
    again = first_repeat(query * np.int64(len(docs)) + doc)
    if again is not None:
        row, earlier = again
        reason = f"document {docs[doc[row]]} stands in query {queries[query[row]]} a second time"
        line = fields.lines[earlier]
        fields.refuse(row, field, reason, f"keep either this line or line {line}")
    return queries, docs, query, doc


def write_run(run: Run, path: Path) -> None:
    """Write a TREC run, best first; gzipped where the name ends in ``.gz``.

    Scores are written so that they read back to the last bit. The file replaces an old one only
    when it is complete.
    """
    queries, docs = _texts(run.queries, "query"), _texts(run.docs, "document")
    (name,) = _texts(np.array([run.name], dtype=object), "run name")
    rows = run.order
    columns = (run.query[rows], run.doc[rows], run.rank[rows], run.score[rows])
    _write(
        path,
        (
            f"{queries[query]} Q0 {docs[doc]} {rank} {score!r} {name}\n"
            for query, doc, rank, score in zip(*(c.tolist() for c in columns), strict=True)
        ),
    )


def write_qrels(qrels: Qrels, path: Path) -> None:
    """Write TREC qrels of four columns, in the order of the rows; gzipped for ``.gz``."""
    queries, docs = _texts(qrels.queries, "query"), _texts(qrels.docs, "document")
    columns = (qrels.query, qrels.doc, qrels.grade)
    _write(
        path,
        (
            f"{queries[query]} 0 {docs[doc]} {grade}\n"
            for query, doc, grade in zip(*(c.tolist() for c in columns), strict=True)
        ),
    )


def _texts(ids: NDArray[Any], what: str) -> list[str]:
    texts = [str(key) for key in ids.tolist()]
    for text in texts:
        if not text or _UNWRITABLE.search(text):
            raise DataError(f"{what} {text!r} is empty or holds a blank: TREC files cannot say it.")
    return texts


def _write(path: Path, lines: Iterable[str]) -> None:
    data = "".join(lines).encode()
    if os.fspath(path).endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    with atomic_write(path) as file:
        file.write(data)
