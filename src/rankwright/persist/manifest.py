"""What a model file says about itself, as strict records; how its JSON text is read.

The text is read with Python's own parser, which gives numbers back to the last bit, refuses a key
that occurs twice and ``NaN`` (both through hooks); msgspec then checks the form of the result: no
field may be missing, unknown or of another type.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from rankwright.exceptions import ModelFileError

__all__ = [
    "FORMAT",
    "Manifest",
    "ModelNode",
    "Refused",
    "Served",
    "StateNode",
    "Stored",
    "brief",
    "check_amount",
    "dumps",
    "parse",
    "read_manifest",
    "refusing",
    "write_manifest",
]

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
