"""``rankwright demo``: the papers' kinds of data, generated here, and every family of rankers."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rankwright.cli.console import note, print_json, suggest
from rankwright.cli.files.pipes import check_targets
from rankwright.cli.options import check_seed

if TYPE_CHECKING:
    from rankwright.cli.demonstrations import Part
    from rankwright.report.page import Section


def demo(
    *,
    seed: int = 0,
    report: str = "report.html",
    json: bool = False,
) -> None:
    """Train every family of rankers on generated data, print how they compare, write a page.

    Needs no network and no files. The first run also compiles the kernels, which takes a while.

    ```text
    rankwright demo
    rankwright demo --seed 7 --report seven.html
    ```

    Parameters
    ----------
    seed
        Seeds the data and the rankers.
    report
        Where to write the page.
    json
        JSON instead of tables.
    """
    from rankwright.cli.demonstrations import PARTS
    from rankwright.report.page import Page, write_page
    from rankwright.report.provenance import environment
    from rankwright.report.sections import by_mean, settings_section

    began = time.perf_counter()
    check_seed(seed)
    check_targets(report=report)
    parts: list[Part] = []
    for number, make in enumerate(PARTS, 1):
        note(f"[{number} of {len(PARTS)}] {(make.__doc__ or '').splitlines()[0]}")
        part = make(seed)
        parts.append(part)
        if not json:
            print(f"\n{part.title}\n\n{part.text}\n")
    sections = [section for part in parts for section in _named(part)]
    settings: dict[str, Any] = {"command": f"rankwright demo --seed {seed}", **environment()}
    lead = "Every family of rankers on data that were generated for this page."
    facts = {part.short: f"best: {by_mean(part.comparison)[0]}" for part in parts}
    page = Page("rankwright demo", lead, (*sections, settings_section(settings)), facts)
    write_page(page, report)
    seconds = time.perf_counter() - began
    if json:
        tables = {part.title: part.comparison.to_dict() for part in parts}
        print_json({"tables": tables, "report": report, "seconds": round(seconds, 1)})
        return
    print(f"Done in {seconds:.0f} s. The report page: {os.path.abspath(report)}")
    suggest("train", "YOUR-DATA.txt", "--report", "training.html")


def _named(part: Part) -> list[Section]:
    """The sections of a part under its own title."""
    first, *rest = part.sections
    return [replace(first, title=part.short), *(replace(each, level=3) for each in rest)]
