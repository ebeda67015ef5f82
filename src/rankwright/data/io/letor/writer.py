"""Write LETOR (svmlight) text files, which read back bit for bit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankwright.data.io.files import write_lines
from rankwright.data.io.letor.parser import docid_of
from rankwright.data.items import Items
from rankwright.exceptions import DataError


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
