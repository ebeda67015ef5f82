"""Which kind a file is: by its ending, else by its first line."""

from __future__ import annotations

import gzip
import os
import re
import zlib

from rankwright.exceptions import DataError, ParameterError

FORMATS = ("letor", "csv", "tsv", "jsonl", "parquet", "run", "qrels", "ratings", "scores", "model")

_ENDINGS = {
    ".letor": "letor", ".svm": "letor", ".svmlight": "letor", ".libsvm": "letor",
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".parquet": "parquet", ".pq": "parquet",
    ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".run": "run", ".trec": "run", ".qrels": "qrels", ".qrel": "qrels",
    ".rw": "model",
}  # fmt: skip

_NUMBER = rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_SIGNS = {
    "jsonl": re.compile(rb"\s*\{"),
    "scores": re.compile(rb"\s*(" + _NUMBER + rb"|[+-]?inf)\s*$"),
    "run": re.compile(rb"\s*\S+\s+Q0\s+\S+\s+\S+\s+\S+\s+\S+\s*$", re.IGNORECASE),
    "ratings": re.compile(rb"\s*\d+::\d+::[\d.]+(::\d+)?\s*$"),
    "letor": re.compile(rb"\s*(#|" + _NUMBER + rb"\s+(qid:\S|\d+:\S))"),
    "qrels": re.compile(rb"\s*\S+\s+(\S+\s+)?\S+\s+[+-]?\d+\s*$"),
    "tsv": re.compile(rb"[^\t,;]+\t"),
    "csv": re.compile(rb".*[,;|]"),
}


def by_ending(path: str) -> str | None:
    """The kind that a name promises; ``.txt`` promises nothing.

    >>> by_ending("train.svm.gz"), by_ending("q.txt")
    ('letor', None)
    """
    name = path.lower().removesuffix(".gz")
    return _ENDINGS.get(os.path.splitext(name)[1])


def tell_format(path: str, asked: str | None = None) -> str:
    """One of ``FORMATS``: as asked, by the ending, by the content, else LETOR.

    LETOR is the last word because its reader names the line and column of what is wrong.
    """
    if asked is not None:
        if asked not in FORMATS:
            raise ParameterError(f"--read-as {asked}: use one of {', '.join(FORMATS)}.")
        return asked
    return guess_format(path) or "letor"


def guess_format(path: str) -> str | None:
    """The kind of a file by its ending, else by its content; None where neither tells."""
    return by_ending(path) or _by_content(path)


def _by_content(path: str) -> str | None:
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder: give the file inside it.")
    with open(path, "rb") as file:
        head = file.read(1 << 16)
    if head[:2] == b"\x1f\x8b":
        head = _unzipped(head)
    if head[:4] == b"PAR1":
        return "parquet"
    if head[8:9] == b"{" and head[:1] != b"{":
        return "model"
    line = next((line for line in head.splitlines() if line.strip()), b"")
    return next((kind for kind, sign in _SIGNS.items() if sign.match(line)), None)


def _unzipped(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, 1 << 16)
    except (zlib.error, gzip.BadGzipFile):
        return b""
