"""The file itself: a safetensors file whose metadata hold a manifest and its SHA-256.

::

    8 bytes      length of the header, little endian
    header       JSON: {"__metadata__": {"rankwright": manifest, "sha256": ...}, array: {...}, ...}
    data         the arrays, one after another, little endian, C order

The manifest is a JSON text of its own (``manifest.py``), so that its hash does not depend on how
the header is written. Any safetensors program can list the arrays. Reading and writing are done
here rather than by the safetensors package because a file from a stranger needs more than that
package gives: keys that occur twice are refused, the arrays are read and hashed in one pass
straight into their memory, and no byte is handed to native code before it was checked.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rankwright.data.atomic import atomic_write
from rankwright.persist.foreign import name_of
from rankwright.persist.manifest import (
    Manifest,
    Refused,
    Stored,
    check_amount,
    dumps,
    parse,
    read_manifest,
    write_manifest,
)

__all__ = ["MAX_BYTES", "read_file", "store", "write_file"]

Array = NDArray[Any]

MAX_BYTES = 2**31
MAX_HEADER = 2**24
SHARED = 0o666  # less the umask, as for any other document: who trains is seldom who serves

_CODES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}
_NAMES = {np.dtype(code): name for name, code in _CODES.items()}


def store(array: Array) -> tuple[Array, Stored]:
    """An array as it is written (C order, little endian), and its entry in the manifest."""
    little = array.dtype.newbyteorder("<")
    if little not in _NAMES:
        raise TypeError(f"arrays of type {array.dtype}")
    fortran = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
    plain = np.ascontiguousarray(array, dtype=little)
    return plain, Stored(
        dtype=_NAMES[little],  # type: ignore[arg-type]
        shape=list(array.shape),
        order="F" if fortran else "C",
        sha256=_hash(plain),
    )


def write_file(path: Any, manifest: Manifest, arrays: Mapping[str, Array]) -> None:
    """Write manifest and arrays (as ``store`` gave them), whole or not at all."""
    # Wide types first: then every array stands at a multiple of its own width.
    names = sorted(arrays, key=lambda name: -arrays[name].itemsize)
    header = _header(manifest, {name: arrays[name] for name in names})
    with atomic_write(path, mode=SHARED) as file:
        file.write(struct.pack("<Q", len(header)))
        file.write(header)
        for name in names:
            file.write(_bytes_of(arrays[name]))


def read_file(path: Any, max_bytes: int = MAX_BYTES) -> tuple[Manifest, dict[str, Array]]:
    """Read and check a whole file: its sizes first, then its manifest, then each array.

    Raises
    ------
    Refused
        The content is not what it should be.
    OSError
        There is no such file, or it may not be read.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise Refused("it is not a regular file", "Give the path of a model file.")
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise Refused(
                f"it has {size:,} bytes, the limit is {max_bytes:,}",
                "If you trust it, raise the limit with max_bytes=.",
            )
        header, size = _read_header(file, size)
        manifest = read_manifest(header.pop("__metadata__", None))
        _check_layout(header, manifest.arrays, size)
        places = sorted(header, key=lambda name: header[name]["data_offsets"])
        arrays = {name: _read_array(file, name, manifest.arrays[name]) for name in places}
    return manifest, arrays


def _header(manifest: Manifest, arrays: Mapping[str, Array]) -> bytes:
    header: dict[str, Any] = {"__metadata__": write_manifest(manifest)}
    start = 0
    for name, array in arrays.items():
        entry, end = manifest.arrays[name], start + array.nbytes
        header[name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [start, end]}
        start = end
    raw = dumps(header).encode()
    check_amount(raw, "header")
    if len(raw) > MAX_HEADER:
        raise _too_long(len(raw))
    return raw + b" " * (-len(raw) % 8)


def _too_long(length: int) -> Refused:
    return Refused(f"its header has {length:,} bytes, the limit is {MAX_HEADER:,}")


def _read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """The parsed header, and how many bytes of data follow it."""
    start = file.read(1024)
    length = struct.unpack("<Q", start[:8])[0] if len(start) >= 9 else 0
    if not (start[8:9] == b"{" and 2 <= length <= size - 8):
        raise _stranger(start, size)
    if length > MAX_HEADER:
        raise _too_long(length)
    file.seek(8)
    return parse(file.read(length), "header"), size - 8 - length


def _stranger(start: bytes, size: int) -> Refused:
    if size == 0:
        return Refused("the file is empty")
    name = name_of(start)
    if name is None:
        return Refused("it is not a model file, or its beginning is damaged or cut off")
    return Refused(
        f"it is {name}, not a rankwright model file",
        "Load it with the program that wrote it; rankwright.save(model, path) writes model files.",
    )


def _check_layout(header: dict[str, Any], stored: dict[str, Stored], size: int) -> None:
    """The header's own words on every array must be those of the manifest, without gaps."""
    if set(header) != set(stored):
        name = min(set(header) ^ set(stored))
        raise Refused(f"array {name!r} is {'not in the manifest' if name in header else 'missing'}")
    spans = []
    for name, entry in stored.items():
        if min(entry.shape, default=0) < 0 or len(entry.shape) > 8:
            raise Refused(f"array {name!r} has an impossible shape")
        n_bytes = math.prod(entry.shape) * np.dtype(_CODES[entry.dtype]).itemsize
        said = header[name]
        if not isinstance(said, dict) or set(said) != {"dtype", "shape", "data_offsets"}:
            raise Refused(f"the header entry of array {name!r} is malformed")
        if [said["dtype"], said["shape"]] != [entry.dtype, entry.shape]:
            raise Refused(f"header and manifest disagree about array {name!r}")
        spans.append((said["data_offsets"], n_bytes, name))
    _check_spans(spans, size)


def _check_spans(spans: list[tuple[Any, int, str]], size: int) -> None:
    for offsets, _, name in spans:
        if not (
            isinstance(offsets, list)
            and len(offsets) == 2
            and all(type(offset) is int for offset in offsets)
        ):
            raise Refused(f"array {name!r} has no place in the file")
    end = 0
    for offsets, n_bytes, name in sorted(spans):
        if offsets != [end, end + n_bytes]:
            raise Refused(f"array {name!r} is not where it should be")
        end += n_bytes
    if end != size:
        cut = "cut off" if end > size else "followed by bytes that do not belong to it"
        raise Refused(f"its data are {cut}: {size:,} bytes where {end:,} are needed")


def _read_array(file: BinaryIO, name: str, entry: Stored) -> Array:
    code = np.dtype(_CODES[entry.dtype])
    array = np.empty(entry.shape, dtype=code)
    if file.readinto(_bytes_of(array)) != array.nbytes:  # type: ignore[attr-defined]
        raise Refused(f"the file ends inside array {name!r}")
    if _hash(array) != entry.sha256:
        raise Refused(f"array {name!r} does not match its checksum: the file was damaged")
    if entry.dtype == "BOOL" and array.size and array.view(np.uint8).max() > 1:
        raise Refused(f"array {name!r} holds a truth value that is neither 0 nor 1")
    array = array.astype(code.newbyteorder("="), copy=False)
    array = np.asfortranarray(array) if entry.order == "F" else array
    array.setflags(write=False)
    return array


def _bytes_of(array: Array) -> memoryview:
    """The memory of a C-contiguous array (a memoryview of no elements cannot be cast)."""
    return array.reshape(-1).data.cast("B") if array.size else memoryview(bytearray())


def _hash(array: Array) -> str:
    return hashlib.sha256(_bytes_of(array)).hexdigest()
