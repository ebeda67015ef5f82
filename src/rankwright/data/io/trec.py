"""TREC files: runs of six columns, qrels of four (or three), separated by white space."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.io.fields import Fields, split_fields
from rankwright.data.io.files import bounded, read_text, write_lines
from rankwright.data.items import RankedItem
from rankwright.data.runs import Qrels, Run
from rankwright.data.vocabulary import first_repeat
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
