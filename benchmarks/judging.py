"""Judging with keys in a real browser: from a key to the next document on the screen.

Twenty judgments in a row on the demo's texts, in Chromium; beside them, how long the same browser
takes to load the page again. Needs Chromium, and the extra test (Playwright drives the browser).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time

N_JUDGMENTS, GOAL_SECONDS = 20, 0.15
SHOWN = "() => document.querySelector('input[name=key]').value"


def run() -> None:
    from playwright.sync_api import sync_playwright

    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("Chromium is not installed: judging was not timed.")
        return
    command = [sys.executable, "-m", "rankwright", "serve", "--demo", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        lines = iter(server.stderr.readline, "")
        address = next(found[0] for line in lines if (found := re.search(r"http://\S+:\d+", line)))
        page = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.goto(f"{address}/judge")
        page.fill("#name", "ann")
        page.get_by_role("button", name="Start judging").click()
        page.wait_for_selector("input[name=key]", state="attached")
        times = []
        for number in range(N_JUDGMENTS):
            shown, start = page.evaluate(SHOWN), time.perf_counter()
            page.keyboard.press(str(number % 5))
            page.wait_for_function(f"shown => ({SHOWN})() !== shown", arg=shown, polling=5)
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        page.reload()
        page.wait_for_selector("input[name=key]", state="attached")
        reload = time.perf_counter() - start
        server.terminate()
        server.communicate()
    later = sorted(times[1:])
    below = sum(value < GOAL_SECONDS for value in times)
    print(f"first judgment {times[0]:.3f} s, the {len(later)} others: median "
          f"{later[len(later) // 2]:.3f} s, slowest {later[-1]:.3f} s")  # fmt: skip
    print(
        f"{below} of {N_JUDGMENTS} below {GOAL_SECONDS:g} s; loading the page again {reload:.3f} s"
    )


if __name__ == "__main__":
    run()
