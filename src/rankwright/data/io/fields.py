"""Lines of separated fields: cut into columns, parsed as numbers or ids, refused by line."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankwright.data.io.files import MAX_LINE, Text, open_text, read_text
from rankwright.data.vocabulary import encode_texts
from rankwright.exceptions import Message, Setting

_BLANKS = " \t\x0b\x0c\r"  # those of bytes.split; a no-break space may be part of an id
_IS_BLANK = np.isin(np.arange(256), list((_BLANKS + "\n").encode()))
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SWAP = str.maketrans(",.", ".,")
_PLAIN_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)  # reads back as it was written


@dataclass(frozen=True, eq=False)
class Fields:
    """Rows of ``n_fields`` tokens each, flat and row by row, with the line of each row."""

    text: Text
    tokens: list[str]
    n_fields: int
    lines: NDArray[np.int64]  # from 1
    separator: str | None  # None is any run of white space

    @property
    def n_rows(self) -> int:
        return len(self.lines)

    def column(self, field: int) -> list[str]:
        return self.tokens[field :: self.n_fields]

    def after_header(self) -> Fields:
        """The same rows without the first."""
        return replace(self, tokens=self.tokens[self.n_fields :], lines=self.lines[1:])

    def refuse(self, row: int, field: int, reason: str, fix: str, kind: str = "") -> NoReturn:
        line = int(self.lines[row])
        column = _column_of(self.text.line(line), field, self.separator)
        self.text.refuse(line, column, reason, fix, kind)

    def encode(
        self, field: int, what: str, as_text: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Dense numbers and distinct ids of a column: int64 if all are integers, else text."""
        number, texts = encode_texts(self.column(field))
        if "" in texts:
            row = self.column(field).index("")
            self.refuse(row, field, f"{what} is empty", f"give every line its {what}")
        if not as_text and all(map(_PLAIN_INTEGER.fullmatch, texts)):
            return number, texts.astype(np.int64)
        return number, texts

    def numbers(
        self,
        field: int,
        what: str,
        integer: bool = False,
        missing: Collection[str] = (),
        fix: str = "",
        decimal: str = ".",
    ) -> NDArray[Any]:
        """One column of plain finite numbers, as float64 or int64; ``missing`` becomes NaN."""
        tokens = self.column(field)
        if decimal == ",":  # a point is then no decimal point: 1.234 is refused, not read as 1.234
            tokens = [token.translate(_SWAP) for token in tokens]
        dtype = np.int64 if integer else np.float64
        gaps = [row for row, token in enumerate(tokens) if token in missing] if missing else []
        for row in gaps:
            tokens[row] = "0"
        values = _parse_numbers(tokens, dtype)
        if values is None or not (integer or np.isfinite(values).all()):
            kind = "whole number" if integer else "finite number"
            row = next(row for row, token in enumerate(tokens) if not is_number(token, integer))
            token = self.column(field)[row]
            shown = token if len(token) <= 40 else token[:40] + "..."
            problem = f'"{shown}" is not a {kind}' if token.strip() else "is empty"
            fault = "not a number"
            if decimal == "." and is_number(token.translate(_SWAP)) and "," in token:
                fault = "decimal comma"
                fix = Message("if commas are decimal points, give ", Setting("decimal", ","))
            fix = fix or f"write the {what} as a plain {kind}"
            self.refuse(row, field, f"{what} {problem}", fix, fault)
        if gaps:
            values[gaps] = np.nan
        return values


def _parse_numbers(tokens: list[str], dtype: type) -> NDArray[Any] | None:
    """All tokens at once by Python's own parser, or None if one is not a number."""
    distinct = list(dict.fromkeys(tokens))
    if 4 * len(distinct) < len(tokens):  # ratings, ranks, grades: parse each spelling once
        parsed = _parse_numbers(distinct, dtype)
        return None if parsed is None else parsed[encode_texts(tokens)[0]]
    joined = "\0".join(tokens)  # Python also accepts underscores, line ends, other digits
    if not joined.isascii() or any(sign in joined for sign in "_\r\n"):
        return None
    parse = int if dtype is np.int64 else float
    try:
        return np.fromiter(map(parse, tokens), dtype, len(tokens))
    except (ValueError, OverflowError):
        return None


def is_number(token: str, integer: bool = False) -> bool:
    """Whether a token, ignoring outer blanks, is a finite number (or an integer of 64 bits)."""
    plain = token.strip(" \t\x0b\x0c")
    if not _NUMBER.fullmatch(plain):
        return False
    if integer:
        whole = re.fullmatch(r"[+-]?[0-9]{1,4000}", plain)  # int() refuses more than 4,300 digits
        return whole is not None and -(2**63) <= int(plain) < 2**63
    return bool(np.isfinite(float(plain)))


def _column_of(line: str, field: int, separator: str | None) -> int:
    """The column (from 1) at which a field starts; past the end of the line if it has none."""
    if separator is None:
        starts = [match.start() + 1 for match in re.finditer(rf"[^{_BLANKS}]+", line)]
    else:
        inside = np.cumsum([c == '"' for c in line]) % 2 if '"' in line else np.zeros(len(line))
        cuts = [m.start() for m in re.finditer(re.escape(separator), line) if not inside[m.start()]]
        starts = [1, *(cut + len(separator) + 1 for cut in cuts)]
    return starts[field] if field < len(starts) else len(line.rstrip(_BLANKS)) + 1


def split_fields(text: Text, separator: str | None, n_fields: int, layout: str) -> Fields:
    """Cut lines that are not blank at a separator; None is any run of white space."""
    cut = _cut_at_blanks if separator is None else _cut_at
    tokens, counts = cut(text, text.decode(), separator or "", n_fields)
    wrong = (counts != n_fields) & (counts != 0)
    if wrong.any():
        line = int(np.argmax(wrong))
        _refuse_count(text, line + 1, int(counts[line]), n_fields, separator, layout)
    return Fields(text, tokens, n_fields, np.flatnonzero(counts) + 1, separator)


def _cut_at(
    text: Text, content: str, separator: str, n_fields: int
) -> tuple[list[str], NDArray[np.int64]]:
    """All fields, and how many each line has (a blank line none)."""
    if len(separator) > 1:  # read_text refuses NUL, so that it can replace a long separator
        content, separator = content.replace(separator, "\0"), "\0"
    lines = content.removesuffix("\n").split("\n")
    counts = [line.count(separator) + 1 for line in lines]
    if counts.count(n_fields) < len(lines):
        counts = [count if line.strip() else 0 for line, count in zip(lines, counts, strict=True)]
        lines = [line for line, count in zip(lines, counts, strict=True) if count]
    return separator.join(lines).split(separator), np.array(counts, dtype=np.int64)


def _cut_at_blanks(
    text: Text, content: str, separator: str, n_fields: int
) -> tuple[list[str], NDArray[np.int64]]:
    """The same at runs of white space, counted on the bytes: a field starts where it ends."""
    data = np.frombuffer(text.data, dtype=np.uint8)
    blank = _IS_BLANK[data]
    starts = np.flatnonzero(~blank & np.concatenate([[True], blank[:-1]]))
    ends = np.append(np.flatnonzero(data == ord("\n")), len(data))
    counts = np.diff(np.searchsorted(starts, ends), prepend=0)
    if content.isascii() and not any(sign in content for sign in "\x1c\x1d\x1e\x1f"):
        return content.split(), counts
    parts = text.data.split()  # str.split knows more blanks, which may be part of an id
    return b"\n".join(parts).decode(text.encoding).split("\n"), counts


def _refuse_count(
    text: Text, line: int, count: int, n_fields: int, separator: str | None, layout: str
) -> NoReturn:
    column = _column_of(text.line(line), min(count, n_fields), separator)
    fields = "field" if count == 1 else "fields"
    text.refuse(line, column, f"{count} {fields}, not {n_fields}", f"a line holds: {layout}")


def likely_separator(text: Text) -> str | None:
    """Of comma, semicolon, tab and bar, the one the first line has most of; None if none.

    >>> likely_separator(Text("a.csv", b'user;"a,b,c";rating'))
    ';'
    """
    line = re.sub(r'"[^"]*"', "", text.first_line.decode(text.encoding, "replace"))
    best = max(",;\t|", key=line.count)
    return best if best in line else None


def first_line(path: str | os.PathLike[str]) -> bytes:
    """The first line of a text file that is not blank; an empty file is refused."""
    with open_text(path) as file:
        start = Text(file.name, next(file.blocks(1 << 16), b""))
    return start.first_line or read_text(path).first_line


def first_fields(path: str, separator: str | None) -> list[str]:
    """The fields of the first line of a table: the names of its columns, if it names them."""
    line = first_line(path)
    separator = separator or likely_separator(Text(path, line)) or ","
    plain = line.decode("utf-8", "replace").replace("\r", " ")  # which csv takes for a line end
    fields = next(csv.reader([plain], delimiter=separator), [])
    return [name.strip() for name in fields]


def plain_name(name: str) -> str:
    """A column name without case, blanks, _ and -."""
    return re.sub(r"[\s_-]", "", name.lower())


def usual_columns(
    names: Iterable[str], usual_names: Mapping[str, Collection[str]]
) -> dict[str, str]:
    """The column of each role, where one has a usual name; case, blanks, _ and - are ignored.

    >>> usual_columns(["Query ID", "grade"], {"qid": ["query", "queryid"], "docid": ["id"]})
    {'qid': 'Query ID'}
    """
    plain = {plain_name(name): name for name in reversed(list(names))}
    usual = {
        role: next((plain[name] for name in known if name in plain), None)
        for role, known in usual_names.items()
    }
    return {role: name for role, name in usual.items() if name is not None}


def parse_csv(text: Text, separator: str, layout: str) -> Fields:
    """Cut lines whose fields may be in double quotes; the first line sets their number."""
    if '"' not in text.decode():
        n_fields = text.first_line.count(separator.encode(text.encoding)) + 1
        return split_fields(text, separator, n_fields, layout)
    rows, lines = zip(*quoted_rows(text, separator), strict=True)
    n_fields = len(rows[0])
    for row, line in zip(rows, lines, strict=True):
        if len(row) != n_fields:
            _refuse_count(text, line, len(row), n_fields, separator, layout)
    tokens = [token for row in rows for token in row]
    return Fields(text, tokens, n_fields, np.array(lines, dtype=np.int64), separator)


def quoted_rows(text: Text, separator: str) -> Iterator[tuple[list[str], int]]:
    """The fields of each line that is not blank, and its number; quotes may hold line ends."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))  # 128 KiB by default
    reader = csv.reader(io.StringIO(text.decode(), newline=""), delimiter=separator, strict=True)
    line = 1
    try:
        for row in reader:
            if row and (len(row) > 1 or row[0].strip()):
                yield row, line
            line = reader.line_num + 1
    except csv.Error as error:
        column = _column_of(text.line(line), 10**9, separator)
        fix = 'close every quote; write " inside one as ""'
        text.refuse(line, column, f"broken quoting ({error})", fix)


# NumPy reads a bare CR as a line end, and the separators of ASCII as blanks.
_NUMPY_BLANKS = (b"\r", b"\x1c", b"\x1d", b"\x1e", b"\x1f")


def parse_numeric(
    text: Text, separator: str, dtype: DTypeLike, *, n_header: int = 0, ndmin: Literal[1, 2] = 1
) -> NDArray[Any] | None:
    """Every line as a row of numbers, NaN and infinity included, by NumPy's parser.

    None means that a number or a field is missing or malformed, or that the text has characters
    that NumPy reads differently (it accepts some letters of other scripts as digits).

    >>> parse_numeric(Text("a.dat", b"1::0.5\\n2::1.5\\n"), "::", "i8,f8")["f1"]
    array([0.5, 1.5])
    >>> parse_numeric(Text("a.dat", b"1::0.5\\n2::\\n"), "::", "i8,f8") is None
    True
    """
    data = text.data
    if not data.isascii() or any(sign in data for sign in _NUMPY_BLANKS):
        return None
    if len(separator) > 1:  # NumPy needs one character; read_text refuses NUL
        data, separator = data.replace(separator.encode(), b"\0"), "\0"
    if n_header and not data.removesuffix(b"\n").count(b"\n"):
        return None  # only a header: NumPy would warn
    file = io.BytesIO(data)
    try:
        rows: NDArray[Any] = np.loadtxt(file, dtype, None, separator, None, n_header, ndmin=ndmin)
    except ValueError:
        return None
    return rows
