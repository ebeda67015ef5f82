"""LETOR (svmlight) text files out, such that reading them gives the same bits back."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

import numpy as np

from rankwright.data.io.files import atomic_write
from rankwright.data.io.letor_lines import docid_of
from rankwright.data.items import Items
from rankwright.exceptions import DataError


def write_letor(
    items: Items | tuple[Any, ...],
    path: str | os.PathLike[str],
    *,
    zero_based: bool = False,
) -> None:
    """Write items as a LETOR file that :func:`read_letor` reads back.

    A line is ``label qid:<id> <number>:<value> ... #docid = <id>``.

    :func:`read_letor` gives back the same numbers, bit for bit: values are written with as many
    digits as that takes, NaN as ``NULL``. Dense rows are written whole; of sparse rows the cells
    that are stored, and a zero in the last column of the first row, so that the number of columns
    is kept. An id of a query that is text but looks like a whole number comes back as a number.
    The file appears whole or not at all; if it exists, it is replaced.

    Parameters
    ----------
    items : Items, or tuple of its fields (X, y, qid, docid)
        ``qid`` and ``docid`` may be absent. ``comment``, where there is one, is written in place
        of ``docid``.
    path : path
        Gzipped if it ends in ``.gz``.
    zero_based : bool, default=False
        Number the features from 0.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "train.txt"
    >>> write_letor(Items([[0.5, np.nan]], [2], qid=[7], docid=["A"]), path)
    >>> print(path.read_text(), end="")
    2 qid:7 1:0.5 2:NULL #docid = A
    """
    items = items if isinstance(items, Items) else Items(*items)
    _check(items)
    features = _features(items, 0 if zero_based else 1)
    with _open(path) as file:
        for parts in zip(_heads(items), features, _tails(items), strict=True):
            file.write(("".join(parts) + "\n").encode())


def _check(items: Items) -> None:
    """Refuse what no file can say: nothing at all, infinite numbers."""
    if items.n_items == 0 or items.n_features == 0:
        raise DataError(f"{items!r} cannot be written: a file needs an item and a feature.")
    if not np.isfinite(items.y).all():
        row = int(np.argmin(np.isfinite(items.y)))
        raise DataError(f"y is {items.y[row]} in row {row}: grades must be finite numbers.")
    values = items.X.data if items.is_sparse else items.X
    if np.isinf(values).any():
        place = np.argwhere(np.isinf(items.X.toarray() if items.is_sparse else items.X))[0]
        raise DataError(
            f"X is infinite in row {place[0]}, column {place[1]}: values must be finite, or NaN "
            "where a feature abstains."
        )


def _number(value: float) -> str:
    """The shortest text that reads back as the same float."""
    text = repr(value)
    if text == "nan":
        return "NULL"
    return text.removesuffix(".0")


def _heads(items: Items) -> Iterator[str]:
    """Label and query of each row."""
    if items.qid is None:
        for label in items.y:
            yield _number(float(label))
        return
    names = _query_names(items)
    for label, code in zip(items.y, items.queries.codes, strict=True):
        yield f"{_number(float(label))} qid:{names[code]}"


def _query_names(items: Items) -> list[str]:
    names = [str(key) for key in items.queries.ids.tolist()]
    for name in names:
        if not name.isprintable() or "#" in name or not name or any(map(str.isspace, name)):
            raise DataError(
                f"qid {name!r} cannot be written: ids need printable characters, without blanks "
                "and '#'. Number the queries instead: items.queries.codes."
            )
    if len(set(names)) < len(names):
        raise DataError("Two query ids of different types look alike in a file: make them differ.")
    return names


def _features(items: Items, first: int) -> Iterator[str]:
    """The features of each row."""
    if items.is_sparse:
        yield from _sparse_features(items, first)
        return
    names = [f" {number}:" for number in range(first, first + items.n_features)]
    for row in items.X:
        yield "".join(
            [name + _number(value) for name, value in zip(names, row.tolist(), strict=True)]
        )


def _sparse_features(items: Items, first: int) -> Iterator[str]:
    X, last = items.X, items.n_features - 1
    for row in range(items.n_items):
        cells = slice(X.indptr[row], X.indptr[row + 1])
        columns, values = X.indices[cells].tolist(), X.data[cells].tolist()
        if row == 0 and last not in columns:
            columns, values = [*columns, last], [*values, 0.0]
        yield "".join([f" {c + first}:{_number(v)}" for c, v in zip(columns, values, strict=True)])


def _tails(items: Items) -> Iterator[str]:
    """The comment of each row."""
    texts = items.docid if items.comment is None else items.comment
    write = _docid_tail if items.comment is None else _comment_tail
    if texts is None:
        yield from [""] * items.n_items
        return
    for row, text in enumerate(texts):
        yield "" if text is None else write(text, row)


def _docid_tail(docid: str, row: int) -> str:
    """The form that reads back as this id: ``docid = <id>``, or the bare id if it has blanks."""
    for comment in (f"docid = {docid}", f" {docid}"):
        if docid_of(comment.encode("utf-8", "replace")) == docid.encode("utf-8", "replace"):
            return _comment_tail(comment, row)
    raise DataError(
        f"docid {docid!r} in row {row} cannot be written: it is empty, or has outer blanks."
    )


def _comment_tail(comment: str, row: int) -> str:
    if any(c in comment for c in "\n\r\0") or any("\ud800" <= c <= "\udfff" for c in comment):
        raise DataError(f"{comment!r} in row {row} cannot be written: it holds an end of line, "
                        "NUL or half a character.")  # fmt: skip
    return f" #{comment}"


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    with atomic_write(path, mode=0o666) as file:
        if not os.fspath(path).endswith(".gz"):
            yield file
            return
        # No name and no time inside, so that equal items make equal files.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipped:
            yield cast(IO[bytes], zipped)
