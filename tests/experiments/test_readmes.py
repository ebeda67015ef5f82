"""The papers' README files show what their experiments printed, line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def plain(line: str) -> str:
    return " ".join(line.split())


@pytest.mark.parametrize("paper", ["oap_bpm", "prank", "keeprank", "mprank", "metasearch"])
def test_every_line_of_a_table_is_in_the_results(paper: str) -> None:
    """Run ``python -m experiments report`` after an experiment, and copy its lines."""
    printed = {plain(line) for line in (EXPERIMENTS / "RESULTS.md").read_text("utf-8").splitlines()}
    text = (EXPERIMENTS / paper / "README.md").read_text("utf-8")
    lines = [line for block in re.findall(r"^```\n(.*?)^```", text, re.S | re.M)
             for line in block.splitlines()]  # fmt: skip
    lines += [line for line in text.splitlines() if re.match(r"\| .*\d", line)]
    shown = [plain(line) for line in lines if line.strip() and "python -m" not in line]
    assert len(shown) > 20
    assert [line for line in shown if line not in printed] == []
