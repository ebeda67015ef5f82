"""``rankwright experiment``: the tables and figures of the papers, from a source checkout."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

from cyclopts import App, Parameter

from rankwright.cli.console import note, print_json
from rankwright.cli.experiments.records import Record, find_folder, known, newest, record_path
from rankwright.cli.files.pipes import write_text
from rankwright.exceptions import ParameterError, RankwrightError

app = App(name="experiment", help="The tables and figures of the papers.")


@app.command(name="list")
def list_(*, json: bool = False) -> None:
    """Name every experiment, and say which has been run.

    Parameters
    ----------
    json
        JSON instead of lines.
    """
    folder = find_folder()
    found = {name: newest(folder, name) for name in known(folder)}
    if json:
        print_json({name: None if r is None else r.summary() for name, r in found.items()})
        return
    width = max(map(len, found), default=0)
    for name, record in found.items():
        words = "not run yet" if record is None else record.words()
        print(f"{name:{width}}  {words}")


@app.command
def run(
    *names: str,
    quick: bool = False,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Run experiments by name (a paper, or paper/table).

    Parameters
    ----------
    names
        Such as prank, or oap_bpm/table_1; `rankwright experiment list` names them.
    quick
        A few trials instead of the paper's number.
    report
        Write a page with all results so far to this HTML file.
    json
        A JSON summary at the end.
    """
    folder = find_folder()
    chosen = [name for name in known(folder) if _matches(name, names)]
    if not chosen:
        every = ", ".join(known(folder))
        raise ParameterError(f"no experiment {' '.join(names)!r}. Known: {every}.")
    _run(chosen, quick=quick, again=True, report=report, json=json)


@app.command(name="all")
def all_(
    *, quick: bool = False, again: bool = False, report: str | None = None, json: bool = False
) -> None:
    """Run every experiment that has no result of this version yet.

    Interrupted, it goes on where it stopped when it is called again.

    Parameters
    ----------
    quick
        A few trials instead of the paper's number.
    again
        Run those that have a result as well.
    report
        Write a page with all results to this HTML file.
    json
        A JSON summary at the end.
    """
    _run(known(find_folder()), quick=quick, again=again, report=report, json=json)


@app.command(name="report")
def report_(
    *,
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    html: str | None = None,
    json: bool = False,
) -> None:
    """Write experiments/RESULTS.md from the results on the disk; nothing is typed by hand.

    Parameters
    ----------
    output
        Another file (- is standard output).
    html
        A page with charts as well.
    json
        The results themselves.
    """
    from rankwright.cli.experiments.results import results_page, results_text

    folder = find_folder()
    records = [found for name in known(folder) if (found := newest(folder, name)) is not None]
    if json:
        print_json([record.summary() | {"output": record.output} for record in records])
        return
    target = output or str(folder / "RESULTS.md")
    write_text([results_text(records, known(folder))], target)
    if html is not None:
        results_page(records, html)
        note(f"report: {html}")
    if target not in ("-", "<stdin>"):
        note(f"{target}: {len(records)} of {len(known(folder))} experiments")


def _matches(name: str, wanted: tuple[str, ...]) -> bool:
    return any(name == word or name.startswith(f"{word}/") for word in wanted)


def _run(names: list[str], *, quick: bool, again: bool, report: str | None, json: bool) -> None:
    folder = find_folder()
    failed: list[str] = []
    done: list[str] = []
    for place, name in enumerate(names, 1):
        record = newest(folder, name)
        if record is not None and not again and record.is_current(quick):
            note(f"[{place} of {len(names)}] {name}: has a result already")
            continue
        note(f"[{place} of {len(names)}] {name}")
        target = record_path(folder, name, quick=quick)
        words = [sys.executable, "-m", "rankwright.cli.experiments.child"]
        words += [str(folder), name, str(target), *(["--quick"] if quick else [])]
        code = subprocess.run(words, cwd=folder.parent, check=False).returncode
        if code in (130, -2):
            raise KeyboardInterrupt
        (failed if code else done).append(name)
    if report is not None:
        from rankwright.cli.experiments.results import results_page

        results_page([r for n in known(folder) if (r := newest(folder, n)) is not None], report)
        note(f"report: {report}")
    if json:
        found: dict[str, Record | None] = {name: newest(folder, name) for name in done}
        summary = {name: None if r is None else r.summary() for name, r in found.items()}
        print_json({"done": summary, "failed": failed})
    if failed:
        raise RankwrightError(f"{len(failed)} experiments did not end well: {', '.join(failed)}.")
