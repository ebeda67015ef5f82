"""Compiled kernels: the first use, ahead of time, read-only folders, damaged cache files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.compilation import FAMILIES, compile_kernels
from rankwright.exceptions import ParameterError
from rankwright.rankers.base import rankers
from rankwright.runtime import kernels


def test_a_fit_that_compiles_nothing_says_nothing(caplog: Any) -> None:
    for model in (rw.RidgeRanker(), rw.MPRank()):
        model.fit(np.eye(3), [0, 1, 2])
    assert not caplog.records


def test_nothing_is_said_when_code_is_on_the_disk(tmp_path: Path, monkeypatch: Any) -> None:
    said: list[Any] = []
    monkeypatch.setattr(kernels.logger, "warning", lambda *text: said.append(text))
    for name in ("new", "old"):
        monkeypatch.setattr(kernels, "_announced", set())
        (tmp_path / name).mkdir()
        if name == "old":
            (tmp_path / name / "prank.prank_pass-98.py311.nbi").touch()
        for _ in range(2):
            kernels.announce_compilation("online", str(tmp_path / name))
        assert len(said) == 1


def test_every_family_of_rankers_can_be_compiled() -> None:
    # RankEnsemble is of no family: it has the loops of its members.
    families = {cls._family for cls in rankers().values()} - {""}
    assert families <= FAMILIES.keys()
    assert families | {"recommend"} == kernels.SECONDS.keys()
    with pytest.raises(ParameterError, match="family 'trees' is unknown: there are boosting"):
        compile_kernels(["trees"])


def test_compiling_writes_the_code_to_the_cache(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    said: list[str] = []
    seconds = compile_kernels(["magnitude"], n_processes=1, note=said.append)
    assert seconds.keys() == {"magnitude"}
    assert said[0].startswith("[1 of 1] magnitude: ")
    assert _files(tmp_path, ".nbi")


# A package of its own, so that a small kernel is compiled and not the large ones.
MODULE = """
from rankwright.runtime.kernels import njit
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
if len(sys.argv) > 1:  # start when all are ready
    import os, time
    open(os.path.join(sys.argv[1], f"ready-{{os.getpid()}}"), "w").close()
    while not os.path.exists(os.path.join(sys.argv[1], "go")):
        time.sleep(0.001)
print(tiny.double(1.5), len(tiny.double.stats.cache_hits), len(tiny.double.stats.cache_misses))
"""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Compile and call a kernel in a process of its own; standard output and error."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "tiny.py").write_text(MODULE)

    def call(parent: str = "rankwright", *words: str, **variables: str) -> tuple[str, str]:
        script = SCRIPT.format(folder=str(tmp_path / "package"), parent=parent)
        source = str(Path(rw.__file__).parents[1])
        ours = {"PYTHONPATH": source, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
        kept = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", CACHE_HOME)}
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
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
    assert "compiling the loops of online rankers once, about 2 s" in error
    assert error.count("\n") == 1
    output, error = run(**places)
    assert output.endswith(" 1 0\n")
    assert error == ""


def test_of_processes_that_start_together_one_compiles(run: Any, tmp_path: Path) -> None:
    n, cache, meeting = 3, str(tmp_path / "cache"), tmp_path / "meeting"
    meeting.mkdir()
    with ThreadPoolExecutor(n) as pool:
        calls = [
            pool.submit(run, "rankwright", str(meeting), NUMBA_CACHE_DIR=cache) for _ in range(n)
        ]
        while len(list(meeting.iterdir())) < n and not any(call.done() for call in calls):
            time.sleep(0.01)
        (meeting / "go").touch()
        outputs = sorted(call.result()[0].split(" ", 1)[1] for call in calls)
    assert outputs == ["0 1\n", *["1 0\n"] * (n - 1)]
    assert not _files(tmp_path, ".lock")


def _files(folder: Path, ending: str) -> list[Path]:
    return sorted(folder.rglob(f"*{ending}"))


def test_damaged_files_are_compiled_again_and_it_says_so(run: Any, tmp_path: Path) -> None:
    assert run() == ("3.0 0 1\n", "")
    for ending in (".nbi", ".nbc"):
        (file,) = _files(tmp_path / "package", ending)
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        output, error = run()
        assert output == "3.0 0 1\n"
        assert error.startswith("rankwright: compiled code in ")
        assert "is damaged" in error
        assert error.count("\n") == 1
    assert run() == ("3.0 1 0\n", "")


def test_files_of_another_version_are_replaced_without_a_word(run: Any, tmp_path: Path) -> None:
    run()
    (file,) = _files(tmp_path / "package", ".nbi")
    content = b"cno_such_module\nName\n."  # a pickle that needs a module that has moved
    file.write_bytes(content)
    assert run() == ("3.0 0 1\n", "")
    assert run() == ("3.0 1 0\n", "")


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
