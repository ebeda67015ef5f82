"""The file itself: a safetensors file whose metadata hold a manifest and its SHA-256.

::

    8 bytes      length of the header, little endian
    header       JSON: {"__metadata__": {"rankwright": manifest, "sha256": ...}, array: {...}, ...}
    data         the arrays, one after another, little endian, C order

The manifest is a JSON text of its own, so that its hash does not depend on how the header is
written. Any safetensors program can list the arrays. rankwright reads and writes files itself
rather than with the safetensors package, to be safe with files from strangers: keys that occur
twice are refused, arrays are read and hashed in one pass straight into their memory, and native
code never sees a byte that was not checked.

The manifest holds what scores rows (``served``: a state of ``rankwright.scoring``) and the
estimator around it (``model``: parameters and learned attributes). Both refer to arrays by name, so
that an array they share is in the file once. A loaded estimator scores with ``served`` too, unless
it has ``partial_fit``. Numbers, and arrays that a scorer derives, such as the steps of RankBoost,
are in both parts; nothing compares them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankwright.data.columns import Encoding
from rankwright.data.io.files import PipedFile, atomic_write, file_size, open_binary
from rankwright.exceptions import DataError, ModelFileError, quoted
from rankwright.persist.provenance import Provenance

Array = NDArray[Any]

FORMAT = 2
MAX_BYTES = 2**31
MAX_HEADER = 2**24
MAX_VALUES = 2**20  # in one JSON text; bounds the memory it can take
PERMISSIONS = 0o666  # less the umask, as for any document: training and serving are seldom one user

_DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}
_DTYPE_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}

_TEXT = "a text file"
# What a user may pass by mistake, by its first bytes. Protocols 0 and 1 of pickle have no magic.
_FOREIGN = (
    (
        rb"\x80[\x02-\x05]|c[\w.]+\n[\w.]+\n|[(\]}][dlicqt(]",
        "a pickle (it could run any code when opened, so rankwright never opens one)",
    ),
    (
        rb"\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd|x[\x01\x5e\x9c\xda]",
        "a compressed file; if it holds a model file, decompress it first",
    ),
    (rb"PK\x03\x04", "a zip archive (NumPy and PyTorch write them too)"),
    (rb"binf", "an XGBoost model in its old binary format; save it as JSON or UBJSON"),
    (rb"\s*<", "an HTML or XML page (a failed download often looks like this)"),
    (rb"[\t\n\r -\x7e\x80-\xff]+\Z", _TEXT),
)


class ModelNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An estimator: its kind, constructor parameters and learned attributes."""

    kind: str
    params: dict[str, Any]
    learned: dict[str, Any]


# The kind of a model whose class is not ours: a scorer only, with the name as a parameter.
SCORER = "Scorer"


class StateNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scorer or transform of ``rankwright.scoring``: its kind and its fields."""

    kind: str
    values: dict[str, Any]


class ScorerNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What turns rows into scores: transforms in order, then a scorer."""

    transforms: list[StateNode]
    scorer: StateNode
    allow_nan: bool


class StoredArray(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an array in the file must look like; ``order`` is the one it had in memory."""

    dtype: Literal["F64", "F32", "I64", "I32", "U8", "BOOL"]
    shape: list[int]
    order: Literal["C", "F"]
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything in the file but the values of its arrays.

    ``encoding`` turns tables into rows, ``features`` (a packed ``FittedFeatures.state``) fields of
    queries and documents; ``provenance`` says how the model was made, and is no part of it.
    """

    format: int
    library: str
    model: ModelNode
    served: ScorerNode | None
    feature_names: list[str] | None
    arrays: dict[str, StoredArray]
    encoding: Encoding | None = None
    features: dict[str, Any] | None = None
    provenance: Provenance | None = None


class Refused(Exception):
    """Why a file cannot be used, and what to do; :func:`refusing` adds the path."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy or "Copy the file again from its source, or save the model again."


class NotModelFile(Refused):
    """The file is not one of rankwright's; another library may have written it."""


@contextmanager
def refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn every error that a hostile file can cause into a ModelFileError that names the file."""
    try:
        yield
    except (ModelFileError, OSError, MemoryError):
        raise
    except Exception as error:
        known = isinstance(error, DataError)
        fault = quoted(error) if known else f"its values contradict each other ({quoted(error)})"
        refused = error if isinstance(error, Refused) else Refused(fault)
        raise ModelFileError(f"{refused.reason}.", file=path, fix=refused.remedy) from error


def store(array: Array) -> tuple[Array, StoredArray]:
    """An array as it is written (C order, little endian), and its entry in the manifest."""
    little = array.dtype.newbyteorder("<")
    if little not in _DTYPE_NAMES:
        raise TypeError(f"arrays of type {array.dtype}")
    fortran = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
    plain = np.ascontiguousarray(array, dtype=little)
    name: Any = _DTYPE_NAMES[little]
    return plain, StoredArray(name, list(array.shape), "F" if fortran else "C", _hash(plain))


def write_file(
    path: str | os.PathLike[str], manifest: Manifest, arrays: Mapping[str, Array]
) -> None:
    """Write the manifest and the arrays that :func:`store` returned, completely or not at all."""
    # Wide types first: every array then starts at a multiple of its own width.
    names = sorted(arrays, key=lambda name: -arrays[name].itemsize)
    text = _to_json(msgspec.to_builtins(manifest))
    metadata = {"rankwright": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in names:
        entry, start, end = manifest.arrays[name], end, end + arrays[name].nbytes
        header[name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [start, end]}
    raw = _to_json(header).encode()
    raw += b" " * (-len(raw) % 8)
    _check_limits(raw, "header")
    with atomic_write(path, mode=PERMISSIONS) as file:
        file.write(struct.pack("<Q", len(raw)))
        file.write(raw)
        for name in names:
            file.write(_bytes_of(arrays[name]))


def digest(manifest: Manifest, omitted: Set[str]) -> str:
    """The SHA-256 of a model, without its names of arrays, its version and some parameters."""

    parts: list[Any] = [manifest.model, manifest.served, manifest.feature_names]
    if manifest.encoding is not None:
        parts.append(manifest.encoding)
    if manifest.features is not None:
        parts.append(manifest.features)
    content = by_content(parts, manifest.arrays, omitted)
    text = json.dumps(content, allow_nan=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def by_content(
    value: object, arrays: Mapping[str, StoredArray], omitted: Set[str] = frozenset()
) -> Any:
    """Nodes of a manifest with hashes of arrays instead of names, without some parameters."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, list):
        return [by_content(item, arrays, omitted) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(name := value.get("array"), str) and len(value) == 1:
        return [arrays[name].dtype, arrays[name].shape, arrays[name].sha256]
    if value.keys() == {"kind", "params", "learned"}:
        params = {k: v for k, v in value["params"].items() if k not in omitted}
        value = {**value, "params": params}
    return {key: by_content(item, arrays, omitted) for key, item in value.items()}


@contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a regular file for reading; a pipe is refused and cannot make the call wait.

    The open file is examined, not the path, which may be another file a moment later. The content
    of a pipe that the command line has read is opened in memory.
    """
    if isinstance(path, PipedFile):
        yield open_binary(path)
        return
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Refused("it is not a regular file", "Give the path of a model file.")
        file = open(descriptor, "rb", closefd=False)  # noqa: SIM115
        with file:
            yield file
    finally:
        os.close(descriptor)


def read_file(
    path: str | os.PathLike[str], max_bytes: int = MAX_BYTES, *, mmap: bool = False
) -> tuple[Manifest, dict[str, Array]]:
    """Read and check a whole file: its sizes first, then its manifest, then each array.

    With ``mmap`` arrays stay in the file: their pages are shared by all processes that map it, and
    copied when they are written to.
    """
    with open_regular(path) as file:
        size = file_size(file)
        if size > max_bytes:
            fault = f"it has {size:,} bytes, the limit is {max_bytes:,}"
            raise Refused(fault, "If you trust it, raise the limit with max_bytes=.")
        header = _read_header(file, size)
        manifest = _read_manifest(header.pop("__metadata__", None))
        names = _check_layout(header, manifest.arrays, size - file.tell())
        read = _map_array if mmap else _read_array
        arrays = {name: read(file, name, manifest.arrays[name]) for name in names}
    return manifest, arrays


def _read_header(file: BinaryIO, size: int) -> dict[str, Any]:
    start = file.read(1024)
    length = struct.unpack("<Q", start[:8])[0] if len(start) >= 9 else 0
    if not (start[8:9] == b"{" and 2 <= length <= size - 8):
        raise _foreign(start)
    if length > MAX_HEADER:
        raise Refused(f"its header has {length:,} bytes, the limit is {MAX_HEADER:,}")
    file.seek(8)
    return _from_json(file.read(length), "header")


def _foreign(start: bytes) -> NotModelFile:
    """What a file that is no model file seems to be, by its first bytes."""
    if not start:
        return NotModelFile("the file is empty")
    name = next((name for pattern, name in _FOREIGN if re.match(pattern, start)), None)
    if name is None:
        return NotModelFile("it is not a model file, or its beginning is damaged or cut off")
    remedy = (
        "Load it with the program that wrote it; rankwright.save(model, path) writes model files."
    )
    if name == _TEXT:
        remedy = "Give a model file; in a command, models and runs come first, the data last."
    return NotModelFile(f"it is {name}, not a rankwright model file", remedy)


def _read_manifest(metadata: object) -> Manifest:
    if not isinstance(metadata, dict) or "rankwright" not in metadata:
        fault = "it is a safetensors file, but not one that rankwright wrote"
        raise Refused(fault, "Give a file written by rankwright.save(model, path).")
    text, digest = metadata["rankwright"], metadata.get("sha256")
    if not isinstance(text, str) or set(metadata) != {"rankwright", "sha256"}:
        raise Refused("its metadata are damaged")
    raw = text.encode(errors="surrogatepass")
    if hashlib.sha256(raw).hexdigest() != digest:
        raise Refused("its manifest does not match its checksum: it was damaged or edited")
    content = _from_json(raw, "manifest")
    version = content.get("format")
    if type(version) is not int or version < 1:
        raise Refused("its manifest names no format version")
    if version < FORMAT:
        raise Refused(
            f"it has format {version}, which no release of rankwright has written",
            "Train the model again and save it with this version.",
        )
    if version > FORMAT:
        raise Refused(
            f"it has format {version}, written by rankwright {str(content.get('library'))[:40]}; "
            f"this version reads format {FORMAT}",
            "Upgrade rankwright (pip install -U rankwright).",
        )
    try:
        return msgspec.convert(content, Manifest)
    except msgspec.ValidationError as error:
        raise Refused(f"its manifest is malformed ({quoted(error)})") from error


def _to_json(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _from_json(raw: bytes, what: str) -> dict[str, Any]:
    """A JSON object; refuses repeated keys, NaN and too many values."""
    try:
        _check_limits(raw, what)
        value = json.loads(raw.decode(), object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(f"its {what} is damaged ({quoted(error)})") from error
    if not isinstance(value, dict):
        raise Refused(f"its {what} is not a JSON object")
    return value


def _check_limits(raw: bytes, what: str) -> None:
    if len(raw) > MAX_HEADER:
        raise Refused(f"its {what} has {len(raw):,} bytes, the limit is {MAX_HEADER:,}")
    # Every value but the first follows one of these signs.
    if sum(raw.count(sign) for sign in (b",", b"[", b"{")) > MAX_VALUES:
        raise Refused(f"its {what} holds more than {MAX_VALUES:,} values")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key occurs twice")
    return values


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _check_layout(header: dict[str, Any], stored: dict[str, StoredArray], size: int) -> list[str]:
    """Check header against manifest, and for gaps; the names of the arrays in their order."""
    if set(header) != set(stored):
        name = min(set(header) ^ set(stored))
        raise Refused(f"array {name!r} is {'not in the manifest' if name in header else 'missing'}")
    spans = []
    for name, entry in stored.items():
        if min(entry.shape, default=0) < 0 or len(entry.shape) > 8:
            raise Refused(f"array {name!r} has an impossible shape")
        given = header[name]
        if not isinstance(given, dict) or set(given) != {"dtype", "shape", "data_offsets"}:
            raise Refused(f"the header entry of array {name!r} is malformed")
        if [given["dtype"], given["shape"]] != [entry.dtype, entry.shape]:
            raise Refused(f"header and manifest disagree about array {name!r}")
        offsets = given["data_offsets"]
        if not isinstance(offsets, list) or [type(offset) for offset in offsets] != [int, int]:
            raise Refused(f"array {name!r} has no valid offsets")
        n_bytes = math.prod(entry.shape) * np.dtype(_DTYPES[entry.dtype]).itemsize
        spans.append((offsets, n_bytes, name))
    end = 0
    for offsets, n_bytes, name in sorted(spans):
        if offsets != [end, end + n_bytes]:
            raise Refused(f"array {name!r} has offsets {offsets}, not {[end, end + n_bytes]}")
        end += n_bytes
    if end != size:
        fault = "cut off" if end > size else "followed by bytes that do not belong to it"
        raise Refused(f"its data are {fault}: {size:,} bytes where {end:,} are needed")
    return [name for _, _, name in sorted(spans)]


def _read_array(file: BinaryIO, name: str, entry: StoredArray) -> Array:
    array = np.empty(entry.shape, dtype=_DTYPES[entry.dtype])
    if file.readinto(_bytes_of(array)) != array.nbytes:  # type: ignore[attr-defined]
        raise Refused(f"the file ends inside array {name!r}")
    return _checked(array, name, entry)


def _map_array(file: BinaryIO, name: str, entry: StoredArray) -> Array:
    """The array in the file, or a copy where it cannot stay: empty, or in another order."""
    dtype, start = np.dtype(_DTYPES[entry.dtype]), file.tell()
    if math.prod(entry.shape) == 0 or start % dtype.itemsize or entry.order == "F":
        return _read_array(file, name, entry)
    array = np.asarray(np.memmap(file, dtype, "c", start, tuple(entry.shape)))
    file.seek(start + array.nbytes)
    return _checked(array, name, entry)


def _checked(array: Array, name: str, entry: StoredArray) -> Array:
    if _hash(array) != entry.sha256:
        raise Refused(f"array {name!r} does not match its checksum: the file was damaged")
    if entry.dtype == "BOOL" and array.size and array.view(np.uint8).max() > 1:
        raise Refused(f"array {name!r} holds a truth value that is neither 0 nor 1")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    array = np.asfortranarray(array) if entry.order == "F" else array
    array.setflags(write=False)
    return array


def _bytes_of(array: Array) -> memoryview:
    """The memory of a C-contiguous array (a memoryview of no elements cannot be cast)."""
    return array.reshape(-1).data.cast("B") if array.size else memoryview(bytearray())


def _hash(array: Array) -> str:
    return hashlib.sha256(_bytes_of(array)).hexdigest()
