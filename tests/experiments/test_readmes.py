"""The papers' README files show what their experiments printed, line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def plain(line: str) -> str:
    return " ".join(line.split())


def fenced(text: str) -> list[str]:
    """The lines of all blocks that begin with ``` alone."""
    lines, fence = [], ""
    for line in text.splitlines():
        if line.startswith("```"):
            fence = "" if fence else line
        elif fence == "```":
            lines.append(line)
    return lines


PAPERS = sorted(path.parent.name for path in EXPERIMENTS.glob("*/README.md"))
SUMMARIES = {"clicks", "letor"}  # their Markdown tables put several runs together


def test_every_folder_of_experiments_has_a_readme() -> None:
    folders = {path.parent.name for path in EXPERIMENTS.glob("*/table_*.py")}
    assert folders == set(PAPERS)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_line_of_a_table_is_in_the_results(paper: str) -> None:
    """Run ``python -m experiments report`` after an experiment, and copy its lines.

    A block that begins with ```text is not checked: the README must say where it is from.
    """
    printed = {plain(line) for line in (EXPERIMENTS / "RESULTS.md").read_text("utf-8").splitlines()}
    text = (EXPERIMENTS / paper / "README.md").read_text("utf-8")
    lines = fenced(text)
    if paper not in SUMMARIES:
        lines += [line for line in text.splitlines() if re.match(r"\| .*\d", line)]
    shown = [plain(line) for line in lines if line.strip() and "python -m" not in line]
    assert len(shown) > 20
    assert [line for line in shown if line not in printed] == []


def test_every_file_that_the_table_of_items_names_exists() -> None:
    text = (EXPERIMENTS / "README.md").read_text("utf-8")
    root = EXPERIMENTS.parent
    for name in re.findall(r"`([\w/]+/[\w]+\.py)`", text):
        found = [root / name, root / "tests" / name, root / "src" / "rankwright" / name]
        found.append(EXPERIMENTS / name)
        assert any(path.exists() for path in found), name
    papers = "|".join(PAPERS)
    for name in re.findall(rf"`((?:{papers})/(?:table|figure)_\w+)`", text):
        assert (EXPERIMENTS / f"{name}.py").exists(), name
