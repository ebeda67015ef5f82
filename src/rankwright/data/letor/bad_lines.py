"""What happens to lines that cannot be read: an error, a note, or a quarantine; up to a limit."""

from __future__ import annotations

import os

from rankwright.data.atomic import atomic_write
from rankwright.data.items import BadLine
from rankwright.data.letor.line import LineError
from rankwright.exceptions import FileFormatError, ParameterError

__all__ = ["BadLines"]


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
