"""Compiled kernels: the first use, ahead of time, read-only folders, damaged cache files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright import _kernel_cache
from rankwright.compilation import FAMILIES
from rankwright.exceptions import ParameterError
from rankwright.rankers.base import rankers


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    _kernel_cache.announce_compilation.cache_clear()
    yield tmp_path
    _kernel_cache.announce_compilation.cache_clear()


def test_a_fit_that_compiles_nothing_says_nothing(empty_cache: Path, caplog: Any) -> None:
    for model in (rw.Regression(), rw.MPRank()):
        model.fit(np.eye(3), [0, 1, 2])
    assert not caplog.records


def test_nothing_is_said_when_the_code_is_on_the_disk(empty_cache: Path, caplog: Any) -> None:
    assert not _kernel_cache.is_compiled("online")
    places = list(_kernel_cache._caches(Path(_kernel_cache.__file__).parent / "rankers" / "online"))
    places[0].mkdir()
    (places[0] / "prank.prank_pass-98.py311.nbi").touch()
    assert _kernel_cache.is_compiled("online")
    _kernel_cache.announce_compilation("online")
    assert not caplog.records


def test_the_cache_is_looked_for_where_numba_keeps_it(tmp_path: Path, monkeypatch: Any) -> None:
    from numba.core.caching import _CacheLocator

    source = tmp_path / "_kernels" / "prank.py"
    source.parent.mkdir()
    expected = _CacheLocator.get_suitable_cache_subpath(str(source))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert tmp_path / expected in list(_kernel_cache._caches(tmp_path))


def test_a_process_without_a_home_folder_looks_in_the_others(monkeypatch: Any) -> None:
    def no_user(uid: int) -> Any:  # a container that runs under a number that no user has
        raise KeyError(uid)

    for name in ("HOME", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", no_user)
    folder = Path(_kernel_cache.__file__).parent / "rankers" / "online"
    assert folder / "__pycache__" in list(_kernel_cache._caches(folder))


def test_every_family_of_rankers_can_be_compiled() -> None:
    # RankEnsemble is of no family: it has the loops of its members.
    families = {cls._family() for cls in rankers().values()} - {""}
    assert families <= FAMILIES.keys()
    assert families | {"recommend"} == _kernel_cache.SECONDS.keys()
    with pytest.raises(ParameterError, match="family 'trees' is unknown: there are boosting"):
        rw.compile_kernels(["trees"])


def test_compiling_writes_the_code_to_the_cache(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    said: list[str] = []
    seconds = rw.compile_kernels(["magnitude"], n_processes=1, note=said.append)
    assert seconds.keys() == {"magnitude"}
    assert said[0].startswith("[1 of 1] magnitude: ")
    assert _kernel_cache.is_compiled("magnitude")


# A package of its own, so that a small kernel is compiled and not the large ones.
MODULE = """
from numba import njit
@njit(cache=True, nogil=True)
def double(x):
    return 2.0 * x
"""
CACHE_HOME = "XDG_CACHE_HOME"
SCRIPT = """
import sys
import rankwright
sys.path.insert(0, {folder!r})
import {parent} as parent
parent.__path__.append({folder!r})
from {parent} import tiny
print(tiny.double(1.5), len(tiny.double.stats.cache_hits), len(tiny.double.stats.cache_misses))
"""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Compile and call a kernel in a process of its own; standard output and error."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "tiny.py").write_text(MODULE)

    def call(parent: str = "rankwright", **variables: str) -> tuple[str, str]:
        script = SCRIPT.format(folder=str(tmp_path / "package"), parent=parent)
        source = str(Path(rw.__file__).parents[1])
        ours = {"PYTHONPATH": source, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
        kept = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", CACHE_HOME)}
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**kept, **ours, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout, done.stderr

    return call


def test_the_first_kernel_of_a_family_says_that_it_compiles(run: Any, tmp_path: Path) -> None:
    places = {"parent": "rankwright.rankers.online", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    output, error = run(**places)
    assert output.endswith(" 0 1\n")
    assert "compiling the loops of online rankers once, about 15 s" in error
    assert error.count("\n") == 1
    output, error = run(**places)
    assert output.endswith(" 1 0\n")
    assert error == ""


def _files(folder: Path, ending: str) -> list[Path]:
    return sorted(folder.rglob(f"*{ending}"))


def test_damaged_files_are_compiled_again_and_it_says_so(run: Any, tmp_path: Path) -> None:
    assert run() == ("3.0 0 1\n", "")
    for ending, damage in ((".nbi", _truncate), (".nbc", _flip)):
        (file,) = _files(tmp_path / "package", ending)
        damage(file)
        output, error = run()
        assert output == "3.0 0 1\n"
        assert error.startswith("rankwright: numba's cache is damaged (tiny.double")
        assert error.count("\n") == 1
    assert run() == ("3.0 1 0\n", "")


def test_files_of_another_version_are_replaced_without_a_word(run: Any, tmp_path: Path) -> None:
    run()
    (file,) = _files(tmp_path / "package", ".nbi")
    content = b"cno_such_module\nName\n."  # a pickle that needs a module that has moved
    file.write_bytes(content + _kernel_cache._MARK + _kernel_cache._digest(content))
    assert run() == ("3.0 0 1\n", "")
    assert run() == ("3.0 1 0\n", "")


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))


def test_without_a_writable_folder_it_goes_to_a_temporary_one(run: Any, tmp_path: Path) -> None:
    # A file where a folder should be: not even root can write there.
    for blocked in (tmp_path / "package" / "__pycache__", tmp_path / ".cache"):
        blocked.write_text("")
    environment = {"PYTHONDONTWRITEBYTECODE": "1"}
    output, error = run(**environment)
    assert output == "3.0 0 1\n"
    assert "cache folders are not writable: compiled code goes to" in error
    assert "NUMBA_CACHE_DIR" in error
    assert error.count("\n") == 1
    (folder,) = tmp_path.glob("rankwright-*")
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o777)  # somebody else may have written code there
    assert run(**environment)[0] == "3.0 0 1\n"
    shutil.rmtree(folder)
