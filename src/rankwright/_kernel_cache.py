"""Where compiled kernels are kept: the first use, folders that are read-only, damaged files.

numba keeps compiled code in ``NUMBA_CACHE_DIR``, else in ``__pycache__`` beside a module, else in
the user's cache folder. Where no folder is writable it refuses to compile, and it loads damaged
files without a check. ``install`` replaces the cache of this package's functions by one that

- falls back to a folder of this user under the temporary folder, or to no cache at all;
- ends every file with a checksum, and compiles again what does not match it;
- goes on when a file cannot be written;
- warns before the first kernel of a family of rankers is compiled.

Each of these is logged once, as a warning. Functions of other packages keep numba's own cache.
Nothing here imports numba.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

logger = logging.getLogger("rankwright")

# Roughly the CPU seconds of the first fit.
SECONDS = {"boosting": 25, "gradient": 10, "keeprank": 10, "magnitude": 5, "neighbors": 8}
SECONDS |= {"online": 15, "recommend": 20}

_DISPATCHER = "numba.core.dispatcher"
_MARK = b"rankwright-sha256:"
_TAIL = len(_MARK) + hashlib.sha256().digest_size
_ADVICE = "Set NUMBA_CACHE_DIR to a writable folder to keep it."


def install() -> None:
    """Prepare numba's cache, now or as soon as numba is imported; numba is not imported here."""
    if _DISPATCHER in sys.modules:
        _prepare(sys.modules[_DISPATCHER])
    elif not any(isinstance(finder, _AfterNumba) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterNumba())


class _AfterNumba(MetaPathFinder):
    """Calls ``_prepare`` after numba's dispatcher was imported, and removes itself."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _DISPATCHER:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_prepare(module: Any) -> None:
            load(module)
            _prepare(module)

        spec.loader.exec_module = load_and_prepare  # type: ignore[method-assign]
        return spec


def _prepare(dispatcher: Any) -> None:
    plain, package = dispatcher.FunctionCache, f"{__name__.split('.')[0]}."
    kernel_cache = _kernel_cache(sys.modules["numba.core.caching"])

    def cache_of(function: Any) -> Any:
        return (kernel_cache if function.__module__.startswith(package) else plain)(function)

    dispatcher.FunctionCache = cache_of


def _kernel_cache(caching: Any) -> Any:
    """A function that makes the cache of a kernel from numba's classes."""

    class Files(caching.IndexDataCacheFile):  # type: ignore[misc]
        @contextmanager
        def _open_for_write(self, filepath: str) -> Iterator[BytesIO]:
            # Loading stops at the end of the pickle, so numba can read these files as well.
            with super()._open_for_write(filepath) as file:
                content = BytesIO()
                yield content
                file.write(content.getvalue() + _MARK + _digest(content.getvalue()))

        def _load_index(self) -> Any:
            return self._checked(super()._load_index, Path(self._index_path), {})

        def _load_data(self, name: str) -> Any:
            load = super()._load_data
            return self._checked(lambda: load(name), Path(self._data_path(name)), None)

        def _checked(self, load: Any, path: Path, missing: Any) -> Any:
            intact = False
            try:
                intact = _check_digest(path)
                return load()
            except FileNotFoundError:
                return missing
            except Exception as error:  # a damaged pickle may raise anything
                if not intact:  # else another version wrote it, with modules that have moved
                    _warn_of_damage(path, error)
                path.unlink(missing_ok=True)
                return missing

    class NoCache(caching.NullCache):  # type: ignore[misc]
        def __init__(self, function: Any) -> None:
            self._family = _family(function.__module__)

        def load_overload(self, sig: Any, target_context: Any) -> None:
            announce_compilation(self._family)

    class KernelCache(caching.FunctionCache):  # type: ignore[misc]
        def __init__(self, function: Any) -> None:
            super().__init__(function)
            self._family = _family(function.__module__)
            stamp = self._impl.locator.get_source_stamp()
            self._cache_file = Files(self._cache_path, self._impl.filename_base, stamp)

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                overload = super().load_overload(sig, target_context)
            except Exception as error:  # code that cannot be linked
                _warn_of_damage(Path(self._cache_path), error)
                overload = None
            if overload is None:  # numba compiles it next
                announce_compilation(self._family)
            return overload

        def save_overload(self, sig: Any, data: Any) -> None:
            try:
                super().save_overload(sig, data)
            except OSError as error:
                _warn_once(
                    f"compiled code cannot be written to {self._cache_path} ({error}). {_ADVICE}"
                )

    def make(function: Any) -> Any:
        try:
            return KernelCache(function)
        except RuntimeError:  # no folder is writable
            before, caching.config.CACHE_DIR = caching.config.CACHE_DIR, _temporary_folder()
        try:
            return (KernelCache if caching.config.CACHE_DIR else NoCache)(function)
        finally:
            caching.config.CACHE_DIR = before

    return make


def _check_digest(path: Path) -> bool:
    """Whether a file ends with its checksum; a ValueError if it is that of other content."""
    content = path.read_bytes()
    data, tail = content[:-_TAIL], content[-_TAIL:]
    # A file without a mark was written by numba itself, or is truncated, which loading shows.
    if tail.startswith(_MARK) and tail != _MARK + _digest(data):
        raise ValueError("its checksum does not match")
    return tail.startswith(_MARK)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


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


def _warn_of_damage(path: Path, error: Exception) -> None:
    reason = str(error) or type(error).__name__
    _warn_once(
        f"numba's cache is damaged ({path.name}: {reason}): it is compiled and written again."
    )


@cache
def _warn_once(message: str) -> None:
    logger.warning("rankwright: %s", message)


def _family(module: str) -> str:
    """The family whose kernels a module holds: rankwright.rankers.boosting._kernels.grower."""
    below = module.split(".")[1:]
    return below[1] if below[0] == "rankers" else below[0]


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
    return any(next(path.glob("*.nbi"), None) for path in _caches(folder))


def _caches(folder: Path) -> Iterator[Path]:
    """The folders in which numba may keep the code of a folder's kernels."""
    # Path.home raises where neither HOME nor a user of this process exists, as in some containers.
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    inside = (path for path in folder.rglob("*") if path.is_dir() and path.name != "__pycache__")
    for source in (folder, *inside):
        # As numba calls it: the name of the folder, and a hash of its path.
        name = f"{source.name}_{hashlib.sha1(os.fspath(source).encode()).hexdigest()}"
        if "NUMBA_CACHE_DIR" in os.environ:
            yield Path(os.environ["NUMBA_CACHE_DIR"]) / name
        else:
            yield source / "__pycache__"
            yield Path(user) / "numba" / name
