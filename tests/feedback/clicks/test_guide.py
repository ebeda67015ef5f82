"""The page on clicks runs as printed."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_the_examples_of_the_page_hold() -> None:
    page = Path(__file__).parents[3] / "docs" / "guide" / "clicks.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.failed == 0
    assert found.attempted > 15
