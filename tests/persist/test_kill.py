"""A save that is killed leaves the old file or the new one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rankwright as rw

SAVER = Path(__file__).with_name("killed_saver.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_after_each_of_200_kills_the_file_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "model.rw"
    done = subprocess.run(
        [sys.executable, str(SAVER), str(path), "200"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    report = json.loads(done.stdout)
    assert set(report["seen"]) <= {"[1.0]", "[2.0]"}
    assert sum(report["seen"].values()) == 200
    assert report["strays"] > 0, "no kill fell into a write: the test shows nothing"

    for stray in tmp_path.iterdir():
        os.utime(stray, (0, 0))
    rw.save(rw.load(path), path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.rw"]
