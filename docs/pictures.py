"""Make report.png and judge.png, the pictures of the README: ``python docs/pictures.py``.

Needs Chromium, and the extra test (Playwright drives the browser).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
SCREEN = {"width": 900, "height": 1000}


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("docs/pictures.py needs Chromium.")
    run = [sys.executable, "-m", "rankwright"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = driver.chromium.launch(executable_path=browser).new_page(viewport=SCREEN)
        subprocess.run([*run, "demo", "--report", "report.html"], cwd=folder, check=True)
        page.goto(f"file://{folder}/report.html")
        page.wait_for_selector("html[data-charts]")
        page.screenshot(path=HERE / "report.png")
        command = [*run, "serve", "--demo", "--port", "0"]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            lines = iter(server.stderr.readline, "")
            address = next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
            page.goto(f"{address.rstrip('/.')}/judge")
            page.locator("input[type=text], input:not([type])").first.fill("ann")
            page.get_by_role("button", name="Start judging").click()
            page.wait_for_load_state("networkidle")
            for key in "3140":  # some judgments, so that the page has progress to show
                page.keyboard.press(key)
                page.wait_for_timeout(1000)
            page.screenshot(path=HERE / "judge.png")
            server.terminate()


if __name__ == "__main__":
    main()
