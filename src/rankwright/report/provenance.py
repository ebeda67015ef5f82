"""What a result came from: versions, and the checksum of the data."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rankwright import __version__


def environment() -> dict[str, str]:
    """Versions of this package, Python and the numerical libraries.

    >>> environment()["rankwright"]
    '0.1.0'
    """
    found = {"rankwright": __version__, "Python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn", "numba"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found | {"machine": f"{platform.system()} {platform.machine()}"}


def file_fingerprint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Size and SHA-256 of a file; nothing for a pipe."""
    if not os.path.isfile(path):
        return {"path": os.fspath(path)}
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": os.fspath(path), "bytes": os.path.getsize(path), "sha256": digest}
