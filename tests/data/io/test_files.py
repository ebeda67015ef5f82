"""A written file is the old one or the new one, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankwright.data.io.files import atomic_write, remove_stale_files
from rankwright.exceptions import ParameterError


def strays(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".rw-tmp")]


def test_a_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic_write(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert strays(tmp_path) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_old_file_and_no_other(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(error), atomic_write(path) as file:  # noqa: PT012
        file.write(b"half")
        raise error
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_new_file_is_private_and_a_replaced_one_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic_write(path) as file:
        file.write(b"1")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with atomic_write(path) as file:
        file.write(b"2")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    target, link = tmp_path / "b" / "a", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("path", ["/dev/null", "."])
def test_what_is_no_regular_file_is_not_replaced(path: str) -> None:
    with pytest.raises(ParameterError, match=r"not a regular file|a folder"), atomic_write(path):
        pass


def test_a_name_of_the_greatest_length_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_a_missing_folder_is_the_system_s_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "absent" / "a"):
        pass


def test_strays_are_swept_once_they_are_an_hour_old(tmp_path: Path) -> None:
    for name, age in (
        (".a.0.rw-tmp", 4000),
        (".b.1.rw-tmp", 3000),
        ("c.rw-tmp", 9000),
        (".d", 9000),
    ):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    assert remove_stale_files(tmp_path) == 1
    assert sorted(os.listdir(tmp_path)) == [".b.1.rw-tmp", ".d", "c.rw-tmp"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill")
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0" * 100_000)
    code = f"""
from rankwright.data.io.files import atomic_write
print("ready", flush=True)
n = 0
while True:
    n += 1
    with atomic_write({str(path)!r}) as file:
        for _ in range(100):
            file.write(str(n % 10).encode() * 1000)
"""
    for wait in (0.0, 0.004, 0.011, 0.023, 0.05):
        writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(wait)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        content = path.read_bytes()
        assert len(content) == 100_000
        assert len(set(content)) == 1


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"no such folder: '.*nowhere'"),
        atomic_write(tmp_path / "nowhere" / "x.rw"),
    ):
        pass
