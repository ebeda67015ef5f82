"""``rankwright demo`` and ``rankwright compile``: to begin with."""

from __future__ import annotations

import os
import time

import rankwright as rw
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

    Args:
        report: Where to write the page.
        serve: Instead: serve generated models and users over HTTP, until Ctrl-C.
        port: The port of --serve; 0 takes a free one.
    """
    if serve:
        from rankwright.service.demo import serve_demo

        serve_demo(random_state, port, note=console.note)
        return
    start = time.perf_counter()
    console.check_targets(report=report)
    from rankwright.report.demonstrations import demo_page, run_demo
    from rankwright.report.page import write_page

    parts = []
    for part in run_demo(random_state, note=console.note):
        parts.append(part)
        if not json:
            print(f"\n{part.title}\n\n{part.text}\n")
    write_page(demo_page(parts, f"rankwright demo --random-state {random_state}"), report)
    seconds = time.perf_counter() - start
    if json:
        tables = {part.title: part.comparison.to_dict() for part in parts}
        about = {"tables": tables, "report": report, "seconds": round(seconds, 1)}
        console.answer(json, "", about)
        return
    print(f"Done in {seconds:.0f} s. The report page: {os.path.abspath(report)}")
    print(console.next_command("train", "YOUR-DATA.txt", "--report", "training.html"))


def compile(
    *,
    family: list[str] = [],  # noqa: B006
    processes: opt.MaybeCount = None,
    json: opt.Json = False,
) -> None:
    """Compile the loops of every ranker once, as for a container image.

    Compiled code is kept in the folder NUMBA_CACHE_DIR, or next to the
    package. Later trainings load it instead of compiling for 5 to 25 s.

    rankwright compile
    NUMBA_CACHE_DIR=/opt/kernels rankwright compile --family boosting

    Args:
        family: Only boosting, online, recommend, gradient, neighbors, keeprank, magnitude or
            readers; may be repeated.
        processes: How many processes compile at the same time; by default one for each core.
    """
    seconds = rw.compile_kernels(family or None, n_processes=processes, note=console.note)
    text = f"{len(seconds)} families compiled: {sum(seconds.values()):.0f} s of CPU"
    console.answer(json, text, {name: round(value, 1) for name, value in seconds.items()})
