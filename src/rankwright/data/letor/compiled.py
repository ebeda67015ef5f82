"""Blocks of lines become rows: with a compiled kernel, for large files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankwright.data.letor.blocks import Refuse, is_utf8
from rankwright.data.letor.line import LineError, LineParser, Row, docid_of
from rankwright.data.letor.table import Block

__all__ = ["CompiledBlocks"]


class _Rows:
    """Room for the rows of one block, used again for the next one."""

    def __init__(self, n_lines: int, n_values: int) -> None:
        self.n_lines, self.n_values = n_lines, n_values
        self.labels = np.empty(n_lines)
        self.ends = np.zeros(n_lines + 1, np.int64)
        self.spans = np.empty((n_lines, 6), np.int64)
        self.indices = np.empty(n_values, np.int32)
        self.values = np.empty(n_values)
        self.left = np.empty((n_values, 3), np.int64)


class CompiledBlocks:
    """The parser for large files.

    The kernel reads line after line; a line that it does not understand is judged by the line
    parser, and the kernel goes on behind it.
    """

    def __init__(
        self, lines: LineParser, refuse: Refuse, keep_docid: bool, keep_comment: bool
    ) -> None:
        from rankwright.data.letor._kernels import POWERS_OF_FIVE, parse_lines

        self._kernel, self._powers = parse_lines, POWERS_OF_FIVE
        self._lines, self._refuse = lines, refuse
        self._keep_docid, self._keep_comment = keep_docid, keep_comment
        self._rows, self._is_utf8 = _Rows(0, 0), False

    def parse(self, data: bytes, first_line: int) -> Block:
        if not data.endswith(b"\n"):
            data += b"\n"
        text, state = np.frombuffer(data, np.uint8), np.zeros(3, np.int64)
        self._make_room(int(np.count_nonzero(text == 10)), len(data))
        self._is_utf8 = is_utf8(data)
        self._run(text, state)
        number, counted = first_line, 0
        while state[0] < len(data):
            start = int(state[0])
            number += data.count(b"\n", counted, start)
            counted = start
            self._judge(data, state, number)
            self._run(text, state)
        for start, stop, place in self._rows.left[: state[2]].tolist():
            self._rows.values[place] = float(data[start:stop])
        return self._block(data, int(state[1]))

    def _judge(self, data: bytes, state: NDArray[np.int64], number: int) -> None:
        """Give the line at hand to the line parser, and step over it."""
        start = int(state[0])
        stop = data.index(b"\n", start)
        state[0] = stop + 1
        try:
            row = self._lines.parse(data[start:stop])
        except LineError as error:
            self._refuse(number, data[start:stop], int(state[1]), error)
            return
        if row is not None:
            self._put(int(state[1]), row, data, start)
            state[1] += 1

    def _put(self, place: int, row: Row, data: bytes, start: int) -> None:
        """Write a row of the line parser where the kernel would have written it."""
        rows = self._rows
        begin = rows.ends[place]
        end = rows.ends[place + 1] = begin + len(row.values)
        rows.labels[place] = row.label
        rows.indices[begin:end] = row.indices
        rows.values[begin:end] = row.values
        span = rows.spans[place]
        span[:] = 0
        if row.qid is not None:
            span[0] = data.index(b"qid:", start) + 4
            span[1] = span[0] + len(row.qid)
        if row.comment is not None:
            span[2] = data.index(b"#", start) + 1
            span[3] = span[2] + len(row.comment)
            docid = docid_of(row.comment) or b""
            span[4] = data.index(docid, span[2])  # any place that says the same
            span[5] = span[4] + len(docid)

    def _make_room(self, n_lines: int, n_bytes: int) -> None:
        n_values = n_bytes // 4 + 1  # the shortest feature: " 1:0"
        if n_lines > self._rows.n_lines or n_values > self._rows.n_values:
            self._rows = _Rows(max(n_lines, self._rows.n_lines), max(n_values, self._rows.n_values))

    def _run(self, text: NDArray[np.uint8], state: NDArray[np.int64]) -> None:
        """Let the kernel read on; the first line with an item is the line parser's."""
        lines, rows = self._lines, self._rows
        if lines.has_qid is None or state[0] >= len(text):
            return
        self._kernel(
            text, state, self._powers, rows.labels, rows.ends, rows.indices, rows.values,
            rows.spans, rows.left, lines.has_qid, 0 if lines.zero_based else 1, lines.n_features,
            self._is_utf8, self._is_utf8 or not lines.check_comments,
        )  # fmt: skip

    def _block(self, data: bytes, n_rows: int) -> Block:
        rows = self._rows
        spans, n_values = rows.spans[:n_rows], int(rows.ends[n_rows])
        block = Block(
            rows.labels[:n_rows],
            np.diff(rows.ends[: n_rows + 1]),
            rows.indices[:n_values],
            rows.values[:n_values],
        )
        if self._lines.has_qid and n_rows:
            heads = np.flatnonzero(np.diff(spans[:, 0], prepend=-1))
            block.qids = [data[start:stop] for start, stop in spans[heads, :2].tolist()]
            block.runs = np.diff(heads, append=n_rows).tolist()
        if self._keep_docid:
            block.docids = [text or None for text in _cut(data, spans[:, 4:])]
        if self._keep_comment:
            texts, starts = _cut(data, spans[:, 2:4]), spans[:, 2].tolist()
            block.comments = [
                text if start else None for text, start in zip(texts, starts, strict=True)
            ]
        return block


def _cut(data: bytes, spans: NDArray[np.int64]) -> list[str]:
    pairs = zip(spans[:, 0].tolist(), spans[:, 1].tolist(), strict=True)
    if data.isascii():
        text = data.decode("ascii")
        return [text[start:stop] for start, stop in pairs]
    return [data[start:stop].decode() for start, stop in pairs]
