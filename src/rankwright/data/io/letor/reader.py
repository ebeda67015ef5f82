"""LETOR (svmlight) text files: ``label qid:<id> <feature>:<value> ... # docid = <id>``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import IntArray
from rankwright.data.io.files import (
    TextFile,
    bounded,
    check_outputs,
    limit_from_environment,
    open_text,
    read_text,
    write_lines,
)
from rankwright.data.io.letor.blocks import Block, CompiledBlocks, Growing, LineBlocks, Matrix
from rankwright.data.io.letor.lines import MAX_FEATURES, BadLines, LineParser, docid_of
from rankwright.data.items import BadLine, Items
from rankwright.exceptions import DataError, FileFormatError, ParameterError

_BLOCK = 2**20  # bytes read at a time
_LARGE = 2**18  # bytes from which the compiled kernel pays off, once it is loaded
_LARGE_COLD = 16 * 2**20  # ... and from which it pays to import numba, which takes a second
_NO_ITEMS = re.compile(rb"(?:[ \t]*+(?:#(?![A-Z])[\t -~]*+)?+\n)*+")  # blank lines and comments
USUAL_FEATURES = 10_000_000  # unless the caller says how many there are
_PLAIN_INTEGER = re.compile(rb"0|[1-9][0-9]{0,18}").fullmatch


@bounded
def read_letor(
    path: str | os.PathLike[str] | IO[Any],
    *,
    n_features: int | None = None,
    dense: bool | None = None,
    zero_based: bool = False,
    group: str | os.PathLike[str] | Sequence[int] | NDArray[Any] | None = None,
    comments: Literal["docid", "keep", "drop"] = "docid",
    on_bad_line: Literal["error", "skip", "quarantine"] = "error",
    max_bad: int | float = 100,
    quarantine: str | os.PathLike[str] | None = None,
    max_bytes: int | None = None,
) -> Items:
    """Read a LETOR (svmlight) file of graded items with numbered features, gzipped or not.

    A line is ``label qid:<id> <number>:<value> ... # comment``. Labels and values are finite
    decimal numbers, rounded as ``float`` does. The value ``NULL`` is a missing feature (NaN); a
    feature that is not written is 0. Feature numbers start at 1 and ascend. Every line has a qid,
    or none has; the rows of a query need not be adjacent. Blank lines and lines with only a
    comment are skipped. The text is UTF-8 with LF or CRLF; lines are at most 16 MiB.

    Parameters
    ----------
    path : path, or file open for reading
    n_features : int or None, default=None
        Number of columns of ``X``; None uses the largest feature number in the file, up to ten
        million or ``RANKWRIGHT_MAX_FEATURES``. A line with a larger number is invalid.
    dense : bool or None, default=None
        Whether ``X`` is a NumPy array or a SciPy CSR array without explicit zeros. None chooses a
        NumPy array for up to a million cells, or if at least a quarter of the cells is written.
    zero_based : bool, default=False
        Whether the first feature is number 0.
    group : path or sequence of int or None, default=None
        For files without qid: the number of lines of each query, or LightGBM's file of them.
    comments : {"docid", "keep", "drop"}, default="docid"
        Store the id after ``docid =`` (or a whole comment of another form) in ``docid``; also fill
        ``comment``; or ignore comments, even those that are not UTF-8.
    on_bad_line : {"error", "skip", "quarantine"}, default="error"
        Raise a FileFormatError with line, column, reason and fix; skip the line and record it with
        the reason in ``bad_lines``; or record its text as well (and write ``quarantine``).
    max_bad : int or float, default=100
        Maximum number of bad lines; below 1, a fraction of the lines with items.
    quarantine : path or None, default=None
        A file for the bad lines, if any, each after a comment with its location and reason.
    max_bytes : int or None
        Maximum number of bytes of text to read. None uses ``RANKWRIGHT_MAX_BYTES`` if set, and
        otherwise refuses only gzip files that unpack to more than 64 MiB and 32 times their size.

    Returns
    -------
    items : Items
        ``qid`` is int64 if all ids are whole numbers below 2**63 without leading zeros, else text.

    Examples
    --------
    >>> import io
    >>> items = read_letor(io.StringIO("2 qid:7 1:0.5 2:1 #docid = A\\n0 qid:7 2:NULL\\n"))
    >>> items.X.tolist(), items.qid, items.docid.tolist()
    ([[0.5, 1.0], [0.0, nan]], array([7, 7]), ['A', None])
    """
    _check_options(n_features, dense, comments)
    sizes = None if group is None else _read_groups(group)
    check_outputs([path, group], [("quarantine", quarantine)])
    limit = n_features or _usual_limit()
    with open_text(path) as file:
        bad = BadLines(file.name, on_bad_line, max_bad, quarantine)
        lines = LineParser(limit, zero_based, comments != "drop", is_limit=n_features is None)
        table = _Table(Matrix(dense, n_features))
        for block in _parse_blocks(file, lines, bad, comments):
            table.add(block, file.fraction_read())
            bad.end_block(table.n_rows)
        bad.write()
        table.check(file.name, len(bad.lines))
    qid = table.qid() if lines.has_qid else None
    if sizes is not None and lines.has_qid:
        raise DataError(f"{file.name} has a qid in every line: omit group.")
    if sizes is not None:
        qid = _qid_of_groups(sizes, file.name, table.n_rows, bad.items)
    return table.finish(qid, tuple(bad.lines))


def _usual_limit() -> int:
    limit = limit_from_environment("RANKWRIGHT_MAX_FEATURES") or USUAL_FEATURES
    return min(limit, MAX_FEATURES)


def _check_options(n_features: Any, dense: Any, comments: Any) -> None:
    is_number = isinstance(n_features, int | np.integer) and not isinstance(n_features, bool)
    if n_features is not None and not (is_number and 1 <= n_features <= MAX_FEATURES):
        raise ParameterError(
            f"read_letor(n_features={n_features!r}): must be a whole number, 1 to {MAX_FEATURES}."
        )
    if dense not in (None, True, False):
        raise ParameterError(f"read_letor(dense={dense!r}): must be True, False or None.")
    if comments not in ("docid", "keep", "drop"):
        allowed = '"docid", "keep" or "drop"'
        raise ParameterError(f"read_letor(comments={comments!r}): must be {allowed}.")


def _parse_blocks(
    file: TextFile, lines: LineParser, bad: BadLines, comments: str
) -> Iterator[Block]:
    """The rows of a file, block by block; the compiled parser takes over once it pays off."""
    parser: LineBlocks | CompiledBlocks = LineBlocks(lines, bad, comments)
    n_read, tried = 0, False
    for data in file.blocks(_BLOCK):
        n_read += len(data)
        n_skipped = 0
        if lines.has_qid is None:  # the kernel waits for the first item: do not look line by line
            start = _NO_ITEMS.match(data).end()  # type: ignore[union-attr]
            n_skipped, data = data.count(b"\n", 0, start), data[start:]
        limit = _LARGE if "rankwright.data.io.letor._kernels" in sys.modules else _LARGE_COLD
        if not tried and max(n_read, file.size or 0) >= limit:
            tried = True
            with suppress(ImportError):
                parser = CompiledBlocks(lines, bad, comments)
        if data:
            yield parser.parse(data, file.line + 1 + n_skipped)


def _read_groups(group: str | os.PathLike[str] | Sequence[int] | NDArray[Any]) -> IntArray:
    if isinstance(group, str | os.PathLike) or hasattr(group, "read"):
        return _read_group_file(group)
    sizes = np.asarray(group)
    if sizes.ndim != 1 or (sizes.dtype.kind not in "iu" and len(sizes)):
        raise DataError("group must be a path or a list of whole numbers, one per query.")
    if (sizes < 1).any():
        query = int(np.argmax(sizes < 1))
        raise DataError(f"group[{query}] is {sizes[query]}: every query needs at least one item.")
    return sizes.astype(np.int64)


def _read_group_file(path: Any) -> IntArray:
    text = read_text(path)
    sizes: list[int] = []
    for number, line in enumerate(text.data.split(b"\n"), start=1):
        token = line.strip(b" \t")
        if not token:
            continue
        if not token.isdigit() or len(token) > 18 or int(token) < 1:
            reason = "the size of a group is not a whole number >= 1"
            fix = "write one number per line: how many items each query has"
            text.refuse(number, line.index(token) + 1, reason, fix)
        sizes.append(int(token))
    return np.array(sizes, dtype=np.int64)


def _qid_of_groups(sizes: IntArray, name: str, n_rows: int, left_out: list[int]) -> IntArray:
    """The query number of each row; ``left_out`` are the items that bad lines would have been."""
    qid = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    if len(qid) != n_rows + len(left_out):
        raise DataError(
            f"{name} has {n_rows + len(left_out):,} items, but the {len(sizes):,} sizes in group "
            f"add up to {len(qid):,}. Give the sizes that belong to this file."
        )
    return np.delete(qid, left_out)


class _Table:
    """The columns of a file while it is read."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix, self._labels = matrix, Growing(np.float64)
        self._qids: list[bytes] = []
        self._runs: list[int] = []
        self._docids: list[str | None] = []
        self._comments: list[str | None] = []

    @property
    def n_rows(self) -> int:
        return self._labels.size

    def add(self, block: Block, share: float | None) -> None:
        self._matrix.add(block, share)
        self._labels.append(block.labels, share)
        self._qids += block.qids
        self._runs += block.runs
        self._docids += block.docids
        self._comments += block.comments

    def check(self, name: str, n_bad: int) -> None:
        if self.n_rows == 0:
            none = f"none of the {n_bad:,} items can be read"
            reason = none if n_bad else "the file has no items"
            fix = "check that this is the right file, and that it is complete"
            raise FileFormatError(name, 1, 1, reason, "", fix)
        if self._matrix.n_columns == 0:
            fix = "write features as number:value; pass a file of group sizes as group="
            raise FileFormatError(name, 1, 1, "no line of the file has a feature", "", fix)

    def qid(self) -> NDArray[Any]:
        """Ids as int64 if all of them are plain whole numbers of 63 bits, else as text."""
        if all(_PLAIN_INTEGER(qid) and (len(qid) < 19 or int(qid) < 2**63) for qid in self._qids):
            return np.repeat(np.array(list(map(int, self._qids)), dtype=np.int64), self._runs)
        texts = np.empty(len(self._qids), dtype=object)
        texts[:] = [sys.intern(qid.decode()) for qid in self._qids]
        return np.repeat(texts, self._runs)

    def finish(self, qid: NDArray[Any] | None, bad_lines: tuple[BadLine, ...]) -> Items:
        return Items(
            self._matrix.finish(),
            self._labels.finish(),
            qid,
            docid=_texts(self._docids),
            comment=_texts(self._comments),
            bad_lines=bad_lines,
        )


def _texts(texts: list[str | None]) -> NDArray[Any] | None:
    """An object array, or None if every row is None."""
    if all(text is None for text in texts):
        return None
    column = np.empty(len(texts), dtype=object)
    column[:] = texts
    return column


def write_letor(
    items: Items | tuple[Any, ...], path: str | os.PathLike[str], *, zero_based: bool = False
) -> None:
    """Write items as a LETOR (svmlight) file, gzipped if the path ends in ``.gz``.

    :func:`read_letor` reads the same numbers back, bit for bit; NaN is written as ``NULL``. Every
    cell of a dense row is written, and every stored cell of a sparse row; the first sparse row
    also gets a zero in the last column, to keep the number of columns. A text id of a query that
    looks like a whole number is read back as a number. An existing file is replaced atomically.

    Parameters
    ----------
    items : Items, or tuple of its fields (X, y, qid, docid)
        ``qid`` and ``docid`` may be absent. A row's ``comment`` is written instead of its
        ``docid``, if the items have comments.
    path : path
        Gzipped if it ends in ``.gz``.
    zero_based : bool, default=False
        Number the features from 0.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> write_letor(Items([[0.5, np.nan]], [2], qid=[7], docid=["A"]), path)
    >>> print(path.read_text(), end="")
    2 qid:7 1:0.5 2:NULL #docid = A
    """
    items = items if isinstance(items, Items) else Items(*items)
    _check_writable(items)
    features = _features(items, 0 if zero_based else 1)
    parts = zip(_heads(items), features, _tails(items), strict=True)
    write_lines(path, (f"{head}{cells}{tail}\n" for head, cells, tail in parts))


def _check_writable(items: Items) -> None:
    if items.n_items == 0 or items.n_features == 0:
        raise DataError(
            f"{items!r} cannot be written: a file needs at least one item and one feature."
        )
    if not np.isfinite(items.y).all():
        row = int(np.argmin(np.isfinite(items.y)))
        raise DataError(f"y is {items.y[row]} in row {row}: grades must be finite numbers.")
    values = items.X.data if items.is_sparse else items.X
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(items.X.toarray() if items.is_sparse else items.X))[0]
        raise DataError(
            f"X is infinite in row {row}, column {column}: values must be finite, or NaN if a "
            "feature is missing."
        )


def _number(value: float) -> str:
    """The shortest text that reads back as the same float."""
    return "NULL" if value != value else repr(value).removesuffix(".0")


def _heads(items: Items) -> Iterator[str]:
    """Label and query of each row."""
    if items.qid is None:
        yield from map(_number, items.y.tolist())
        return
    names = [str(key) for key in items.queries.ids.tolist()]
    for name in names:
        if not name.isprintable() or "#" in name or not name or any(map(str.isspace, name)):
            raise DataError(
                f"qid {name!r} cannot be written: ids must be printable, without spaces and '#'. "
                "Number the queries instead: items.queries.codes."
            )
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"two query ids of different types would both be written as {name}: rename one."
        )
    for label, code in zip(items.y.tolist(), items.queries.codes.tolist(), strict=True):
        yield f"{_number(label)} qid:{names[code]}"


def _features(items: Items, first: int) -> Iterator[str]:
    """The features of each row."""
    X, last = items.X, items.n_features - 1
    names = [] if items.is_sparse else [f" {k}:" for k in range(first, first + items.n_features)]
    for row in range(items.n_items):
        if items.is_sparse:
            cells = slice(X.indptr[row], X.indptr[row + 1])
            columns, values = X.indices[cells].tolist(), X.data[cells].tolist()
            if row == 0 and last not in columns:
                columns, values = [*columns, last], [*values, 0.0]
            names = [f" {column + first}:" for column in columns]
        else:
            values = X[row].tolist()
        yield "".join([name + _number(v) for name, v in zip(names, values, strict=True)])


def _tails(items: Items) -> Iterator[str]:
    """The comment of each row."""
    texts = items.docid if items.comment is None else items.comment
    write = _docid_tail if items.comment is None else _comment_tail
    for row, text in enumerate([None] * items.n_items if texts is None else texts):
        yield "" if text is None else write(text, row)


def _docid_tail(docid: str, row: int) -> str:
    """The form that reads back as this id: ``docid = <id>``, or the bare id if it has spaces."""
    for comment in (f"docid = {docid}", f" {docid}"):
        if docid_of(comment.encode("utf-8", "replace")) == docid.encode("utf-8", "replace"):
            return _comment_tail(comment, row)
    raise DataError(
        f"docid {docid!r} in row {row} cannot be written: it is empty, or starts or ends with a "
        "space."
    )


def _comment_tail(comment: str, row: int) -> str:
    if any(c in comment for c in "\n\r\0") or any("\ud800" <= c <= "\udfff" for c in comment):
        raise DataError(
            f"{comment!r} in row {row} cannot be written: it contains a line end, a NUL or half of "
            "a surrogate pair."
        )
    return f" #{comment}"
