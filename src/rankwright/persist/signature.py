"""Signatures of model files: an HMAC-SHA-256 that only the holders of a key can make.

The signature covers the manifest, which holds the SHA-256 of every array, and so the whole file.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Any

from rankwright.exceptions import ParameterError

MIN_BYTES, MAX_BYTES = 16, 4096  # of a key in a file
_CONTEXT = b"rankwright model file\0"  # so that the key can sign other things as well
_default: bytes | None = None


def use_key(key: bytes | None) -> None:
    """Set the key of this process: saving and loading without ``key=`` then use it."""
    global _default
    _default = None if key is None else as_key(key)


def read_key(path: str | os.PathLike[str]) -> bytes:
    """The key in a file: its bytes without white space at the ends, at least 16 of them."""
    with open(path, "rb") as file:
        key = file.read(MAX_BYTES + 1).strip()
    if not MIN_BYTES <= len(key) <= MAX_BYTES:
        raise ParameterError(
            f"{os.fspath(path)}: a key has {MIN_BYTES} to {MAX_BYTES} bytes. Make one: "
            "openssl rand -hex 32 > key.txt"
        )
    return key


def as_key(key: Any) -> bytes | None:
    """The bytes of a key; None gives the key of the process, if one was set."""
    if key is None:
        return _default
    raw = key.encode() if isinstance(key, str) else key
    if not isinstance(raw, bytes | bytearray) or not raw:
        raise ParameterError(f"key is a {type(key).__name__}: give bytes or text, not empty.")
    return bytes(raw)


def sign(manifest: bytes, key: bytes) -> str:
    return hmac.new(key, _CONTEXT + manifest, hashlib.sha256).hexdigest()


def is_signed_by(key: bytes, manifest: bytes, signature: Any) -> bool:
    """Whether this is the signature; takes the same time wherever the two differ."""
    return hmac.compare_digest(sign(manifest, key).encode(), str(signature).encode())
