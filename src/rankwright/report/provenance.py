"""What a result was computed with: versions of libraries and checksums of files."""

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
    versions = {"rankwright": __version__, "Python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn", "numba"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return versions | {"machine": f"{platform.system()} {platform.machine()}"}


def file_fingerprint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Path, size and SHA-256 of a file; only the path if it is not a regular file."""
    if not os.path.isfile(path):
        return {"path": os.fspath(path)}
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": os.fspath(path), "bytes": os.path.getsize(path), "sha256": digest}
