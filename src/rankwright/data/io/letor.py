"""LETOR (svmlight) text files in: ``label qid:<id> <feature>:<value> ... # docid = <id>``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import IntArray
from rankwright.data.io.files import atomic_write
from rankwright.data.io.letor_blocks import (
    Block,
    BlockParser,
    CompiledBlocks,
    Growing,
    Matrix,
    PlainBlocks,
)
from rankwright.data.io.letor_lines import MAX_FEATURES, LineError, LineParser, Source, open_source
from rankwright.data.items import BadLine, Items
from rankwright.exceptions import DataError, FileFormatError, ParameterError


class BadLines:
    """Takes the bad lines of one file.

    Attributes
    ----------
    lines : list of BadLine
        Those left out so far; their text only under "quarantine".
    items : list of int
        Which of the file's items (counted from 0, good and bad) they would have been.
    n_rows_before : int
        Good rows of all blocks before the one at hand.
    """

    def __init__(
        self,
        name: str,
        on_bad_line: str,
        max_bad: float,
        quarantine: str | os.PathLike[str] | None,
    ) -> None:
        if on_bad_line not in ("error", "skip", "quarantine"):
            raise ParameterError(
                f'read_letor(on_bad_line={on_bad_line!r}): must be "error", "skip" or "quarantine".'
            )
        if isinstance(max_bad, bool) or not isinstance(max_bad, int | float) or not max_bad >= 0:
            raise ParameterError(
                f"read_letor(max_bad={max_bad!r}): must be a whole number >= 0, or a fraction "
                "of the lines between 0 and 1."
            )
        if quarantine is not None and on_bad_line != "quarantine":
            raise ParameterError('read_letor: a quarantine file needs on_bad_line="quarantine".')
        self._name, self._mode, self._limit, self._path = name, on_bad_line, max_bad, quarantine
        self._raw: list[bytes] = []
        self.lines: list[BadLine] = []
        self.items: list[int] = []
        self.n_rows_before = 0

    def refuse(self, number: int, line: bytes, row: int, error: LineError) -> None:
        """Take line ``number``, which stands before good row ``row`` of its block."""
        column = len(line[: error.offset].decode("utf-8", "replace")) + 1
        text = line.decode("utf-8", "replace")
        if self._mode == "error":
            raise FileFormatError(self._name, number, column, error.reason, text, error.fix)
        if not line.lstrip(b" \t").startswith(b"#"):
            self.items.append(self.n_rows_before + row + len(self.items))
        keep = self._mode == "quarantine"
        self.lines.append(BadLine(number, column, error.reason, text if keep else ""))
        if self._path is not None:
            self._raw.append(line)
        if self._limit >= 1 or self._limit == 0:
            self._check_limit(int(self._limit), f"max_bad={self._limit}", text, error.fix)

    def check(self, n_rows: int) -> None:
        """Apply a limit that is a fraction of the lines; ``n_rows`` good ones have been read."""
        self.n_rows_before = n_rows
        if self.lines and 0 < self._limit < 1:
            n_lines = n_rows + len(self.lines)
            words = f"max_bad={self._limit} of {n_lines:,} lines"
            self._check_limit(int(self._limit * n_lines), words, "", "")

    def finish(self) -> None:
        """Write the quarantine file, if there is something to write."""
        if self._path is None or not self._raw:
            return
        name = self._name.replace("\n", "?").replace("\r", "?")
        with atomic_write(self._path, mode=0o666) as file:
            for bad, raw in zip(self.lines, self._raw, strict=True):
                place = f"# {name}:{bad.line}:{bad.column}: {bad.reason}\n"
                file.write(place.encode("utf-8", "replace") + raw + b"\n")

    def _check_limit(self, limit: int, words: str, text: str, fix: str) -> None:
        if len(self.lines) > limit:
            last = self.lines[-1]
            reason = f"{last.reason}; this is bad line {len(self.lines):,}, more than {words}"
            fix = fix or "mend the file, or allow more with max_bad"
            raise FileFormatError(self._name, last.line, last.column, reason, text, fix)


def read_groups(group: str | os.PathLike[str] | Sequence[int] | NDArray[Any]) -> IntArray:
    """The number of items of each query, from numbers or from a file with one number a line.

    >>> read_groups([2, 3])
    array([2, 3])
    """
    if isinstance(group, str | os.PathLike) or hasattr(group, "read"):
        return _read_file(group)
    sizes = np.asarray(group)
    if sizes.ndim != 1 or (sizes.dtype.kind not in "iu" and len(sizes)):
        raise DataError("group must be a path or a list of whole numbers, one per query.")
    if (sizes < 1).any():
        place = int(np.argmax(sizes < 1))
        raise DataError(f"group[{place}] is {sizes[place]}: every query needs at least one item.")
    return sizes.astype(np.int64)


def qid_of_groups(sizes: IntArray, name: str, n_rows: int, left_out: list[int]) -> IntArray:
    """The query number of each row; ``left_out`` are the items that bad lines would have been.

    >>> qid_of_groups(np.array([2, 2]), "a.txt", 3, [1])
    array([0, 1, 1])
    """
    qid = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    if len(qid) != n_rows + len(left_out):
        raise DataError(
            f"{name} has {n_rows + len(left_out):,} items and the {len(sizes):,} sizes in group "
            f"add up to {len(qid):,}. Give the sizes that belong to this file."
        )
    return np.delete(qid, left_out)


def _read_file(path: Any) -> IntArray:
    sizes: list[int] = []
    with open_source(path) as source:
        for block in source.blocks(2**20):
            for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), source.line + 1):
                token = line.strip(b" \t")
                if not token:
                    continue
                if not token.isdigit() or len(token) > 18 or int(token) < 1:
                    text = line.decode("utf-8", "replace")
                    raise FileFormatError(
                        source.name, number, line.index(token) + 1,
                        "the size of a group is not a whole number >= 1", text,
                        "write one number a line: how many items each query has",
                    )  # fmt: skip
                sizes.append(int(token))
        if not sizes:
            raise FileFormatError(
                source.name, 1, 1, "the file has no group sizes", "", "write one number a line"
            )
    return np.array(sizes, dtype=np.int64)


_BLOCK = 2**20  # bytes read at a time
_LARGE = 2**18  # bytes from which the compiled kernel is worth calling, once it is loaded
_LARGE_COLD = 16 * 2**20  # ... and from which loading it, with numba, is worth about a second


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
) -> Items:
    """Read a file of graded items with numbered features, gzipped or not.

    A line is ``label qid:<id> <number>:<value> ... # comment``, separated by blanks or tabs::

        2 qid:10 1:0.031310 2:0.666667 4:NULL #docid = GX000-24-12369390 inc = 0.6 prob = 0.4

    The label and the values are finite decimal numbers, rounded exactly as ``float`` does; the
    value ``NULL`` says that the feature abstains and becomes NaN. Feature numbers are whole,
    start at 1 and ascend within a line; a feature that is not written is 0. Every line has a qid
    or none has. A query may come back after another has begun: rows keep the order of the file.
    Blank lines and lines with only a comment are passed over. UTF-8 with or without byte order
    mark, LF or CRLF; the last line needs no newline (so a file that was cut inside the digits of
    its last number cannot be told from a whole one). Lines are at most 16 MiB.

    Parameters
    ----------
    path : path or file
        A path, or a file open for reading. Gzip is told by the content, not by the name.
    n_features : int or None, default=None
        Columns of ``X``; a line with a larger feature number is bad. None takes the largest
        number in the file. Give it when several files must agree.
    dense : bool or None, default=None
        Whether ``X`` is a NumPy array (True) or a SciPy CSR array without explicit zeros (False).
        None chooses dense for matrices of up to a million cells, or with at least a quarter of
        the cells written in the file.
    zero_based : bool, default=False
        Whether the first feature is number 0.
    group : path or sequence of int or None, default=None
        How many lines each query has, for files without qid: the numbers, or LightGBM's side file
        (``.query``). Query ids are then 0, 1, 2, ...
    comments : {"docid", "keep", "drop"}, default="docid"
        What to keep of comments: ``docid`` takes the word after ``docid =``, or the whole comment
        where it has another form, into ``docid``; ``keep`` fills ``comment`` as well; ``drop``
        keeps nothing, and does not ask that comments are UTF-8.
    on_bad_line : {"error", "skip", "quarantine"}, default="error"
        What to do with a line that breaks these rules: stop; leave it out and note where and why
        in ``bad_lines`` of the result; or keep its text there too (and in ``quarantine``).
    max_bad : int or float, default=100
        Stop after more bad lines than this; below 1, a fraction of the lines that hold an item.
    quarantine : path or None, default=None
        A file for the bad lines, each after a comment with place and reason; once mended it can
        be read as it is. Written only if there are bad lines.

    Returns
    -------
    items : Items
        ``X``, ``y``, ``qid`` (int64 where every id of the file is a plain whole number from 0 to
        2**63 - 1 without leading zeros, else text; None without qid), ``docid`` (None where no
        line has one), ``comment``, ``bad_lines``.

    Raises
    ------
    FileFormatError
        With file, line, column, reason, the text of the line and what to do.

    Examples
    --------
    >>> import io
    >>> text = "2 qid:7 1:0.5 2:1 #docid = A\\n0 qid:7 2:NULL #docid = B\\n"
    >>> items = read_letor(io.StringIO(text))
    >>> items
    Items(2 items, 2 features, 1 queries, grades 0 to 2)
    >>> items.X, items.qid, items.docid.tolist()
    (array([[0.5, 1. ],
           [0. , nan]]), array([7, 7]), ['A', 'B'])
    """
    _check_options(n_features, dense, comments)
    sizes = None if group is None else read_groups(group)
    with open_source(path) as source:
        bad = BadLines(source.name, on_bad_line, max_bad, quarantine)
        lines = LineParser(n_features or MAX_FEATURES, zero_based, comments != "drop")
        table = _Table(Matrix(dense, n_features))
        for block in _parse_blocks(source, lines, bad, comments):
            table.add(block, source.fraction_read())
            bad.check(table.n_rows)
        bad.finish()
        table.check(source.name, len(bad.lines))
    if sizes is None:
        qid = table.qid() if lines.has_qid else None
    elif lines.has_qid:
        raise DataError(f"{source.name} has a qid in every line: leave group out.")
    else:
        qid = qid_of_groups(sizes, source.name, table.n_rows, bad.items)
    return table.finish(qid, tuple(bad.lines))


def _check_options(n_features: Any, dense: Any, comments: Any) -> None:
    is_number = isinstance(n_features, int | np.integer) and not isinstance(n_features, bool)
    if n_features is not None and not (is_number and 1 <= n_features <= MAX_FEATURES):
        raise ParameterError(
            f"read_letor(n_features={n_features!r}): must be a whole number, 1 to {MAX_FEATURES}."
        )
    if dense not in (None, True, False):
        raise ParameterError(f"read_letor(dense={dense!r}): must be True, False or None.")
    if comments not in ("docid", "keep", "drop"):
        raise ParameterError(
            f'read_letor(comments={comments!r}): must be "docid", "keep" or "drop".'
        )


def _parse_blocks(
    source: Source, lines: LineParser, bad: BadLines, comments: str
) -> Iterator[Block]:
    """The rows of a file, block by block; the compiled parser takes over when it is worth it."""
    keep = comments != "drop", comments == "keep"
    parser: BlockParser = PlainBlocks(lines, bad.refuse, *keep)
    n_seen, compiled = 0, False
    for data in source.blocks(_BLOCK):
        n_seen += len(data)
        if not compiled and _is_large(max(n_seen, source.size or 0)):
            compiled = True
            # Where numba finds no folder for its cache it raises RuntimeError: slow is still right.
            with suppress(ImportError, RuntimeError):
                parser = CompiledBlocks(lines, bad.refuse, *keep)
        yield parser.parse(data, source.line + 1)


def _is_large(n_bytes: int) -> bool:
    is_loaded = "rankwright.data.io._kernels" in sys.modules
    return n_bytes >= (_LARGE if is_loaded else _LARGE_COLD)


class _Table:
    """The columns of a file as they grow."""

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
        """Refuse a file without items or without features."""
        if self.n_rows == 0:
            reason = (
                f"none of the {n_bad:,} items can be read" if n_bad else "the file has no items"
            )
            fix = "check that this is the right file, and that it was written to the end"
            raise FileFormatError(name, 1, 1, reason, "", fix)
        if self._matrix.n_columns == 0:
            fix = "write features as number:value; a file of group sizes is given as group="
            raise FileFormatError(name, 1, 1, "no line of the file has a feature", "", fix)

    def qid(self) -> NDArray[Any]:
        """Ids as int64 if all of them are plain whole numbers of 63 bits, else as text."""
        if all(map(_is_plain_integer, self._qids)):
            return np.repeat(np.array(list(map(int, self._qids)), dtype=np.int64), self._runs)
        texts = np.empty(len(self._qids), dtype=object)
        texts[:] = [sys.intern(qid.decode()) for qid in self._qids]
        return np.repeat(texts, self._runs)

    def finish(self, qid: NDArray[Any] | None, bad_lines: tuple[BadLine, ...]) -> Items:
        X, y = self._matrix.finish(), self._labels.finish()
        return Items(
            X, y, qid, docid=_texts(self._docids), comment=_texts(self._comments),
            bad_lines=bad_lines,
        )  # fmt: skip


def _is_plain_integer(qid: bytes) -> bool:
    if not qid.isdigit() or (qid[:1] == b"0" and len(qid) > 1):
        return False
    return len(qid) < 19 or (len(qid) == 19 and int(qid) < 2**63)


def _texts(texts: list[str | None]) -> NDArray[Any] | None:
    """An object array, or None where no row says anything."""
    if not any(text is not None for text in texts):
        return None
    column = np.empty(len(texts), dtype=object)
    column[:] = texts
    return column
