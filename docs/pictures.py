"""Make report.png and judge.png, the pictures of the README: ``make pictures``.

With ``--check``, say whether the pages still show the text that the pictures show. Needs Chromium,
and the extra test (Playwright drives the browser).
"""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
TEXTS = HERE / "pictures.txt"
SCREEN = {"width": 900, "height": 1000}
VISIBLE = """() => [...document.querySelectorAll("main *")]
    .filter(e => !e.children.length && e.getBoundingClientRect().top < innerHeight)
    .map(e => (e.innerText || "").trim()).filter(text => text).join("\\n")"""


def main(words: list[str]) -> None:
    is_check = words == ["--check"]
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit(0 if is_check else "docs/pictures.py needs Chromium.")
    texts = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = driver.chromium.launch(executable_path=browser).new_page(viewport=SCREEN)
        for name, show in (("report.png", show_report), ("judge.png", show_judging)):
            stop = show(page, folder)
            texts.append(f"{name}\n\n{page.evaluate(VISIBLE)}\n")
            if not is_check:
                page.screenshot(path=HERE / name)
            stop()
    text = "\n".join(texts)
    if not is_check:
        TEXTS.write_text(text)
        return
    old = TEXTS.read_text().splitlines()
    changes = difflib.unified_diff(old, text.splitlines(), "pictures", "pages", n=0, lineterm="")
    if found := "\n".join(changes):
        sys.exit(f"{found}\nThe pictures of the README are stale. Run: make pictures")


def show_report(page: Any, folder: str) -> Any:
    command = [sys.executable, "-m", "rankwright", "demo", "--report", "report.html"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    page.goto(f"file://{folder}/report.html")
    page.wait_for_selector("html[data-charts]")
    return lambda: None


def show_judging(page: Any, folder: str) -> Any:
    command = [sys.executable, "-m", "rankwright", "serve", "--demo", "--port", "0"]
    server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    lines = iter(server.stderr.readline, "")
    address = next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
    page.goto(f"{address.rstrip('/.')}/judge")
    page.fill("#name", "ann")
    page.get_by_role("button", name="Start judging").click()
    for key in "3140":  # some judgments, so that the page has progress to show
        shown = page.input_value("input[name=key] >> nth=0")
        page.keyboard.press(key)
        changed = "shown => document.querySelector('input[name=key]').value !== shown"
        page.wait_for_function(changed, arg=shown)

    def stop() -> None:
        server.terminate()
        server.communicate()

    return stop


if __name__ == "__main__":
    main(sys.argv[1:])
