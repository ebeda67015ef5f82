"""Hashes of ids and rows that are the same on every machine, in every process and order.

Ids hash by value: 7, 7.0 and ``np.int8(7)`` are one id, text hashes as UTF-8 and bytes as they are,
other ids by their ``repr``. Rows hash by their content.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.data.vocabulary import as_ids, encode

Hashes = NDArray[np.uint64]


def mix(keys: Any) -> Hashes:
    """Spread 64 bits (the finalizer of splitmix64).

    >>> mix(np.array([1, 2])).tolist()
    [10451216379200822465, 10905525725756348110]
    """
    bits = np.atleast_1d(keys).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def hash_ids(ids: Any) -> Hashes:
    """A stable hash of ids of any type, the same on every machine and in every process.

    >>> a, b = hash_ids([7, 8]), hash_ids(np.array([7.0, 8.0]))
    >>> bool((a == b).all())
    True
    >>> bool(hash_ids(["x"])[0] == hash_ids([b"x"])[0])
    True
    """
    ids = as_ids(ids)
    if ids.dtype.kind in "iub":
        return mix(ids.astype(np.int64).view(np.uint64) if ids.dtype.kind != "u" else ids)
    if (
        ids.dtype.kind == "f"
        and bool((ids == np.rint(ids)).all())
        and np.abs(ids).max(initial=0) < 2**53
    ):
        return mix(ids.astype(np.int64).view(np.uint64))
    codes, distinct = encode(ids)
    return np.array([_hash_id(i) for i in distinct.tolist()], np.uint64)[codes]


def _hash_id(value: Any) -> int:
    if isinstance(value, bool | int | float) and value == value // 1:
        return int(mix(np.array([int(value) & (2**64 - 1)], np.uint64))[0])
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    data = value if isinstance(value, bytes) else repr(value).encode()
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def hash_rows(X: Any, *columns: FloatArray) -> Hashes:
    """A hash of the content of each row, which is an array, CSR, or both with more columns.

    Zeros count nothing, so CSR and dense rows agree.
    """
    factors = mix(np.arange(1, X.shape[1] + len(columns) + 1)) | np.uint64(1)
    if hasattr(X, "tocsr"):
        table, total = X.tocsr(), np.zeros(X.shape[0], np.uint64)
        row = np.repeat(np.arange(X.shape[0]), np.diff(table.indptr))
        np.add.at(total, row, _bits(table.data) * factors[table.indices])
    else:
        total = _bits(X) @ factors[: X.shape[1]]
    for number, column in enumerate(columns, start=X.shape[1]):
        total = total + _bits(column) * factors[number]
    return mix(total)


def _bits(values: Any) -> Hashes:
    return np.ascontiguousarray(values, np.float64).view(np.uint64)
