"""Compiled kernels: ``njit`` with a cache that says when it compiles, and where code is kept.

numba keeps compiled code in ``NUMBA_CACHE_DIR``, else in ``__pycache__`` beside a module, else in
the user's cache folder. Where no folder is writable it refuses to compile, and a file that was cut
off ends the program. The cache of the kernels of this package

- falls back to a folder of this user under the temporary folder, or to no cache at all: images of
  containers are often read-only, and without it no ranker can be imported there;
- compiles again what cannot be loaded, and goes on when a file cannot be written: a process that is
  killed or a disk that is full leaves such files;
- waits while another process compiles the same kernel, and loads its code: the workers of a cluster
  start together;
- warns before the first kernel of a family of rankers is compiled, which takes seconds.

Each of these is logged once, as a warning.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

from rankwright.runtime import progress

try:
    import fcntl
except ImportError:  # Windows: every process compiles
    fcntl = None  # type: ignore[assignment]

LOCK_SECONDS = 120.0  # that a process waits for another one that compiles the same kernel
logger = logging.getLogger("rankwright")

# Roughly the CPU seconds of the first fit.
SECONDS = {"boosting": 7, "gradient": 2, "keeprank": 2, "magnitude": 1, "neighbors": 3}
SECONDS |= {"online": 2, "recommend": 6}

_ADVICE = "Set NUMBA_CACHE_DIR to a writable folder to keep it."


def njit(*, cache: bool, **options: Any) -> Callable[[Any], Any]:
    """``numba.njit`` with the cache of this module; without the JIT, the function itself."""

    def decorate(function: Callable[..., Any]) -> Any:
        # No code for calls from C, which nothing here makes: 5 % of the time to compile.
        kernel: Any = numba.njit(no_cfunc_wrapper=True, **options)(function)
        if cache and kernel is not function:
            kernel._cache = _cache_of(function)  # what numba's own cache=True sets
        return kernel

    return decorate


class KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """The cache of one kernel."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._module = function.__module__
        self._lock: int | None = None  # of this process, from a look in vain until code is written

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code of a signature, or None: numba compiles it next."""
        overload = self._load(sig, target_context)
        if overload is None and self._acquire():
            overload = self._load(sig, target_context)  # another process has compiled it
        if overload is None:
            announce_compilation(_family(self._module), self._cache_path)
            progress.interrupt("compiling, once")  # if a terminal shows the task
        else:
            self._release()
        return overload

    def _load(self, sig: Any, target_context: Any) -> Any:
        try:
            overload = super().load_overload(sig, target_context)
        except Exception as error:  # a damaged pickle, or code that cannot be linked
            if not isinstance(error, ImportError | AttributeError):  # of modules that have moved
                reason = str(error) or type(error).__name__
                _warn_once(f"compiled code in {self._cache_path} is damaged ({reason}): it is "
                           "compiled and written again.")  # fmt: skip
            with suppress(OSError):
                self.flush()
            overload = None
        return overload

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the code of a signature, if that is possible."""
        progress.interrupt("")
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_once(
                f"compiled code cannot be written to {self._cache_path} ({error}). {_ADVICE}"
            )
        finally:
            self._release()

    @property
    def _lock_path(self) -> Path:
        return Path(self._cache_path) / f"{self._impl.filename_base}.lock"

    def _acquire(self) -> bool:
        """Wait until no other process compiles this kernel; False if that cannot be known.

        The system ends the lock of a process that ends.
        """
        if fcntl is None or self._lock is not None:
            return False
        deadline = time.monotonic() + LOCK_SECONDS
        try:
            lock = os.open(self._lock_path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            return False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(0.02)
                    continue
                os.close(lock)
                return True
            except OSError:  # a file system without locks
                os.close(lock)
                return False
            self._lock = lock
            return True

    def _release(self) -> None:
        if self._lock is not None:
            with suppress(OSError):
                self._lock_path.unlink()
            os.close(self._lock)
            self._lock = None


class NoCache(caching.NullCache):  # type: ignore[misc]
    """In the place of the cache of a kernel where no folder is writable."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._module = function.__module__

    def load_overload(self, sig: Any, target_context: Any) -> None:
        """Nothing is kept: numba compiles it next."""
        announce_compilation(_family(self._module), "")


def _cache_of(function: Callable[..., Any]) -> Any:
    try:
        return KernelCache(function)
    except RuntimeError:  # no folder is writable
        before, caching.config.CACHE_DIR = caching.config.CACHE_DIR, _temporary_folder()
    try:
        return (KernelCache if caching.config.CACHE_DIR else NoCache)(function)
    finally:
        caching.config.CACHE_DIR = before


@cache
def _temporary_folder() -> str:
    """A folder that only this user can write to; "" if there is none."""
    try:
        root = Path(tempfile.gettempdir())
        folder = root / f"rankwright-{os.getuid() if hasattr(os, 'getuid') else 'kernels'}"
        folder.mkdir(mode=0o700, exist_ok=True)
        owner = folder.lstat()
        # Compiled code is executed: do not trust a folder of another user.
        if hasattr(os, "getuid") and (owner.st_uid != os.getuid() or owner.st_mode & 0o077):
            folder = Path(tempfile.mkdtemp(prefix="rankwright-"))
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        _warn_once(f"no folder is writable: kernels are compiled in every process. {_ADVICE}")
        return ""
    _warn_once(f"numba's cache folders are not writable: compiled code goes to {folder}. {_ADVICE}")
    return str(folder)


@cache
def _warn_once(message: str) -> None:
    logger.warning("rankwright: %s", message)


def _family(module: str) -> str:
    """The family whose kernels a module holds: rankwright.rankers.boosting._kernels.grower."""
    below = module.split(".")[1:]
    return below[1] if below[0] == "rankers" else below[0]


_announced: set[str] = set()


def announce_compilation(family: str, folder: str) -> None:
    """Log a warning, once in a process, if the folder of a family's code has none yet."""
    if family in _announced or family not in SECONDS:
        return
    _announced.add(family)
    if folder and next(Path(folder).glob("*.nbi"), None):
        return
    logger.warning(
        "rankwright: compiling the loops of %s once, about %d s; later runs load them. "
        "`rankwright compile` does it ahead of time.",
        f"{family} rankers" if family != "recommend" else "recommenders",
        SECONDS[family],
    )
