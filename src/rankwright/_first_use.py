"""One line when the loops of a family of rankers are compiled for the first time.

numba keeps compiled code in ``NUMBA_CACHE_DIR``, else next to the source, else in the user's cache
folder. Only names of files are looked at here, so nothing has to import numba.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from functools import cache
from hashlib import sha1
from importlib.util import find_spec
from pathlib import Path

logger = logging.getLogger("rankwright")

# Roughly the CPU seconds of the first fit.
SECONDS = {"boosting": 25, "gradient": 10, "keeprank": 10, "magnitude": 5, "neighbors": 8}
SECONDS |= {"online": 15, "recommend": 20}


@cache
def announce_compilation(family: str) -> None:
    """Log a warning, once in a process, if nothing of this family has been compiled yet."""
    if family in SECONDS and not is_compiled(family):
        logger.warning(
            "rankwright: compiling the loops of %s once, about %d s; later runs load them. "
            "`rankwright compile` does it ahead of time.",
            f"{family} rankers" if family != "recommend" else "recommenders",
            SECONDS[family],
        )


def is_compiled(family: str) -> bool:
    """Whether the cache of numba has code of this family; True where numba is not used."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") or find_spec("numba") is None:
        return True
    package = Path(__file__).parent
    folder = package / family if family == "recommend" else package / "rankers" / family
    return any(next(place.glob("*.nbi"), None) for place in _caches(folder))


def _caches(folder: Path) -> Iterator[Path]:
    """The folders in which numba may keep the code of a folder's kernels."""
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    for source in (folder / "_kernels", folder):
        # As numba calls it: the name of the folder, and a hash of its path.
        name = f"{source.name}_{sha1(os.fspath(source).encode()).hexdigest()}"
        if "NUMBA_CACHE_DIR" in os.environ:
            yield Path(os.environ["NUMBA_CACHE_DIR"]) / name
        else:
            yield source / "__pycache__"
            yield Path(user) / "numba" / name
