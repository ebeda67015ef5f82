"""``rankwright demo``: every family of rankers on generated data."""

from __future__ import annotations

import os
import time

from rankwright.cli import _console as console
from rankwright.cli import _options as opt


def demo(
    *,
    random_state: opt.RandomState = 0,
    report: str = "report.html",
    json: opt.Json = False,
    serve: bool = False,
    port: opt.Port = 8000,
) -> None:
    """Train every family of rankers on generated data, and compare them.

    Prints tables and writes a report page. Needs no network and no files.
    The first run also compiles the kernels, which takes a while.

    rankwright demo
    rankwright demo --random-state 7 --report seven.html
    rankwright demo --serve

    Parameters
    ----------
    report
        Where to write the page.
    serve
        Instead: serve generated models and users over HTTP, until Ctrl-C.
    port
        The port of --serve; 0 takes a free one.
    """
    if serve:
        _serve(random_state, port)
        return
    start = time.perf_counter()
    console.check_targets(report=report)
    from rankwright.report.demonstrations import PARTS, demo_page
    from rankwright.report.page import write_page

    parts = []
    for number, make in enumerate(PARTS, 1):
        console.note(f"[{number} of {len(PARTS)}] {make.__doc__}")
        parts.append(make(random_state))
        if not json:
            print(f"\n{parts[-1].title}\n\n{parts[-1].text}\n")
    write_page(demo_page(parts, f"rankwright demo --random-state {random_state}"), report)
    seconds = time.perf_counter() - start
    if json:
        tables = {part.title: part.comparison.to_dict() for part in parts}
        console.print_json({"tables": tables, "report": report, "seconds": round(seconds, 1)})
        return
    print(f"Done in {seconds:.0f} s. The report page: {os.path.abspath(report)}")
    console.suggest("train", "YOUR-DATA.txt", "--report", "training.html")


def _serve(random_state: int, port: int) -> None:
    import tempfile

    from rankwright.service.demo import demo_settings
    from rankwright.service.server import serve

    with tempfile.TemporaryDirectory() as folder:
        with console.working("training the models of the demo"):
            settings = demo_settings(folder, random_state)
        serve(settings, port, note=console.note)
