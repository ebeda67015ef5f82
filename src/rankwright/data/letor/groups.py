"""Queries told by their sizes: LightGBM's side file, one number a line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.letor.source import open_source
from rankwright.exceptions import DataError, FileFormatError

__all__ = ["qid_of_groups", "read_groups"]

IntArray = NDArray[np.int64]


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
