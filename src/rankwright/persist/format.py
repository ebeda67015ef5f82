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
import json
import math
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankwright.data.io.files import atomic_write
from rankwright.exceptions import ModelFileError

FORMAT = 1
MAX_VALUES = 2**20  # in one JSON text; bounds the memory it can take


class ModelNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An estimator: its kind, constructor parameters and learned attributes."""

    kind: str
    params: dict[str, Any]
    learned: dict[str, Any]


class StateNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scorer or transform of ``rankwright.scoring``: its kind and its fields."""

    kind: str
    values: dict[str, Any]


class Served(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What turns rows into scores: transforms in order, then a scorer."""

    transforms: list[StateNode]
    scorer: StateNode
    allow_nan: bool


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an array in the file must look like; ``order`` is the one it had in memory."""

    dtype: Literal["F64", "F32", "I64", "I32", "U8", "BOOL"]
    shape: list[int]
    order: Literal["C", "F"]
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything in the file but the numbers of its arrays."""

    format: int
    library: str
    model: ModelNode
    served: Served | None
    feature_names: list[str] | None
    arrays: dict[str, Stored]


class Refused(Exception):
    """Why a file cannot be used, and what to do; whoever knows the path adds it."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy or "Copy the file again from its source, or save the model again."

    def about(self, path: Any) -> ModelFileError:
        return ModelFileError(f"{os.fspath(path)}: {self.reason}. {self.remedy}")


@contextmanager
def refusing(path: Any) -> Iterator[None]:
    """Whatever a hostile file may provoke becomes one class of error, which names the file."""
    try:
        yield
    except Refused as refused:
        raise refused.about(path) from refused
    except (ModelFileError, OSError):
        raise
    except Exception as error:
        raise Refused(f"its values contradict each other ({brief(error)})").about(path) from error


def write_manifest(manifest: Manifest) -> dict[str, str]:
    """The metadata of the file: the manifest as a text, and its SHA-256."""
    text = dumps(msgspec.to_builtins(manifest))
    return {"rankwright": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def read_manifest(metadata: Any) -> Manifest:
    """The manifest out of the metadata of a file."""
    if not isinstance(metadata, dict) or "rankwright" not in metadata:
        raise Refused(
            "it is a safetensors file, but not one that rankwright wrote",
            "Give a file written by rankwright.save(model, path).",
        )
    text, digest = metadata["rankwright"], metadata.get("sha256")
    if not isinstance(text, str) or set(metadata) != {"rankwright", "sha256"}:
        raise Refused("its metadata are damaged")
    raw = text.encode(errors="surrogatepass")
    if hashlib.sha256(raw).hexdigest() != digest:
        raise Refused("its manifest does not match its checksum: it was damaged or edited")
    found = parse(raw, "manifest")
    _check_format(found)
    try:
        return msgspec.convert(found, Manifest)
    except msgspec.ValidationError as error:
        raise Refused(f"its manifest is malformed ({brief(error)})") from error


def _check_format(found: dict[str, Any]) -> None:
    version = found.get("format")
    if type(version) is not int or version < 1:
        raise Refused("its manifest names no format version")
    if version > FORMAT:
        writer = str(found.get("library"))[:40]
        raise Refused(
            f"it has format {version}, written by rankwright {writer}; this version reads formats "
            f"up to {FORMAT}",
            "Upgrade rankwright (pip install -U rankwright).",
        )


def dumps(value: Any) -> str:
    """JSON in ASCII, without NaN; floats are written so that they read back to the last bit."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def parse(raw: bytes, what: str) -> dict[str, Any]:
    """A JSON object; refuses repeated keys, NaN, and more values than memory should be given to."""
    try:
        check_amount(raw, what)
        value = json.loads(raw.decode(), object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(f"its {what} is damaged ({brief(error)})") from error
    if not isinstance(value, dict):
        raise Refused(f"its {what} is not a JSON object")
    return value


def brief(error: BaseException) -> str:
    """The first line of an error, short enough to stand inside another."""
    return (str(error).split("\n", 1)[0][:200] or type(error).__name__).rstrip(".")


def check_amount(raw: bytes, what: str) -> None:
    """Refuse a JSON text of too many values: each but the first follows one of these signs."""
    if sum(raw.count(sign) for sign in (b",", b"[", b"{")) > MAX_VALUES:
        raise Refused(f"its {what} holds more than {MAX_VALUES:,} values")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


_PICKLE = "a pickle (it could run any code when opened, so rankwright never opens one)"
_JOBLIB = "a joblib pickle (it could run any code when opened, so rankwright never opens one)"

_STARTS: tuple[tuple[bytes, str], ...] = (
    (b"\x93NUMPY", "a NumPy .npy array"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras and others write it)"),
    (b"\x1f\x8b", "a gzip file; if it holds a model file, unpack it first"),
    (b"BZh", "a bzip2 file; if it holds a model file, unpack it first"),
    (b"\xfd7zXZ\x00", "an xz file; if it holds a model file, unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstandard file; if it holds a model file, unpack it first"),
    (b"\x04\x22\x4d\x18", "an lz4 file; if it holds a model file, unpack it first"),
    (b"ZF", "a compressed joblib pickle"),
    (b"tree\nversion=", "a LightGBM text model"),
    (b"tree\r\nversion=", "a LightGBM text model"),
    (b"binf", "an XGBoost binary model"),
    (b"CBM1", "a CatBoost model"),
    (b"## ", "a RankLib model"),
    (b"GGUF", "a GGUF model"),
    (b"PAR1", "a Parquet table"),
    (b"ARROW1", "an Arrow file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"%PDF-", "a PDF"),
    (b"version https://git-lfs", "a Git LFS pointer; run 'git lfs pull' to get the file it means"),
    (b"\xff\xfe", "a UTF-16 text"),
    (b"\xfe\xff", "a UTF-16 text"),
)
_INSIDE_ZIP: tuple[tuple[bytes, str], ...] = (
    (b"data.pkl", "a PyTorch file (a zip with a pickle in it)"),
    (b"schema.json", "a skops file"),
    (b".npy", "a NumPy .npz archive"),
)
_INSIDE_JSON: tuple[tuple[bytes, str], ...] = (
    (b"learner", "an XGBoost model"),
    (b"tree_info", "a LightGBM JSON model"),
    (b"oblivious_trees", "a CatBoost JSON model"),
)


def name_of(start: bytes) -> str | None:
    """What a file is, by its first few hundred bytes; None where nothing is recognized.

    >>> name_of(b"tree\\nversion=v4")
    'a LightGBM text model'
    >>> name_of(b"????") is None
    True
    """
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return _JOBLIB if b"joblib" in start else _PICKLE
    if start[:2] in (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda"):
        return "a zlib stream (joblib writes its compressed pickles so)"
    if start[:4] == b"PK\x03\x04":
        return _first(_INSIDE_ZIP, start) or "a zip archive"
    if start[:1] == b"\x08" and start[2:3] == b"\x12" and start[1:2] < b"\x20":
        return "an ONNX model"
    for magic, name in _STARTS:
        if start.startswith(magic):
            return name
    return _text_form(start)


def _text_form(start: bytes) -> str | None:
    head = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:512]
    if head[:1] in (b"{", b"["):
        return _first(_INSIDE_JSON, start) or "a JSON text"
    if head[:1] == b"<":
        return "an HTML or XML page (a download that failed often looks so)"
    if _is_old_pickle(head):
        return _PICKLE
    return None


def _is_old_pickle(head: bytes) -> bool:
    """Protocols 0 and 1 have no magic: the name of a class, or a dict, list or tuple opens them."""
    return re.match(rb"c[\w.]+\n[\w.]+\n|[(\]}][dlicqt(]", head) is not None


def _first(table: tuple[tuple[bytes, str], ...], start: bytes) -> str | None:
    return next((name for mark, name in table if mark in start), None)


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
