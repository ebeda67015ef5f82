"""axe-core, which finds what people with a screen reader or a keyboard cannot use."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest


def axe_source() -> str:
    """The script of axe-core: RANKWRIGHT_AXE, the package axe-playwright-python, node_modules."""
    places = [os.environ.get("RANKWRIGHT_AXE", ""), "node_modules/axe-core/axe.min.js"]
    package = find_spec("axe_playwright_python")
    if package is not None and package.origin is not None:
        places.append(str(Path(package.origin).with_name("axe.min.js")))
    found = [place for place in places if place and Path(place).is_file()]
    if not found:
        pytest.skip("axe-core is not installed: pip install axe-playwright-python")
    return Path(found[0]).read_text("utf-8")
