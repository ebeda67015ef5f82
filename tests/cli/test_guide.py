"""Every command and every piece of Python in the guide runs as printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (GUIDE / page).read_text(), re.DOTALL)


def test_the_commands_of_the_guide_run_in_the_order_printed(files: Path, tmp_path: Path) -> None:
    for path in files.iterdir():
        shutil.copy(path, tmp_path)
    script = "\n".join(blocks("command_line.md", "sh"))
    lines = [
        line for line in script.splitlines() if line and not line.startswith("rankwright demo")
    ]
    assert len(lines) > 20
    (tmp_path / "rankwright").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rankwright "$@"\n')
    (tmp_path / "rankwright").chmod(0o755)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "compare.html").exists()


def test_the_python_of_the_report_page_runs(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("altair")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("report.md", "python"):
        exec(block, names)
    assert (tmp_path / "own.html").stat().st_size > 10_000
