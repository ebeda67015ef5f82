"""One display for all long work: bars in a terminal, plain lines elsewhere."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankwright.runtime import progress


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.02)


@pytest.mark.usefixtures("often")
def test_without_a_terminal_a_line_says_what_all_tasks_are_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress.task("comparing", 4, unit="candidates") as outer:
        outer.update(1, "best RankSVM, AP 0.4100")
        with progress.task("training LambdaMART", 5, unit="folds") as inner:
            inner.update(2)
            time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert lines[0].rpartition(" (")[0] == (
        "comparing, 1 of 4 candidates, best RankSVM, AP 0.4100; training LambdaMART, 2 of 5 folds"
    )


def test_short_work_without_a_terminal_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.task("reading", 2) as work:
        work.update(1)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("often")
def test_a_task_that_is_not_active_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.task("reading", active=False) as work:
        work.update(1, "note")
        time.sleep(0.1)
    assert not work.shown
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("often")
def test_the_innermost_task_says_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.task("comparing"), progress.task("training") as work:
        work.update(note="round 3")
        progress.interrupt("compiling, once")
        time.sleep(0.1)
        progress.interrupt("")
        time.sleep(0.1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("comparing; training, compiling, once (")
    assert lines[-1].startswith("comparing; training, round 3 (")


def test_an_error_ends_the_display(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), progress.task("a"), progress.task("b"):
        1 / 0  # noqa: B018
    progress.say("after")
    assert capsys.readouterr().err == "after\n"


IN_TERMINAL = """
import sys, time
from rankwright.runtime import progress
with progress.task("comparing", 4, unit="candidates") as outer:
    outer.update(1, "best 0.41")
    with progress.task("training [b]", 5, unit="folds") as inner:
        inner.update(2)
        progress.say("RankSVM: done")
        print("a result")
        time.sleep(0.3)
"""


def test_a_terminal_shows_one_display_with_a_row_for_each_task(tmp_path: Path) -> None:
    terminal, other = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", IN_TERMINAL],
        stdout=subprocess.PIPE,
        stderr=other,
        env=environment,
        text=True,
        check=True,
    )
    os.close(other)
    shown = b""
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError:  # the end, on Linux
        pass
    os.close(terminal)
    text = shown.decode()
    assert done.stdout == "a result\n"  # results go to the pipe only
    assert "a result" not in text
    for expected in ("comparing", "1 of 4 candidates", "best 0.41", "training [b]", "2 of 5 folds"):
        assert expected in text
    assert "RankSVM: done\r\n" in text
