"""The papers' tables and figures: run them, list them, write the results down.

::

    python -m experiments [--quick] [--again] [paper | paper/table ...]
    python -m experiments list
    python -m experiments report [-o RESULTS.md] [--html page.html]

Each ``experiments/<paper>/table_*.py`` or ``figure_*.py`` has a ``main(argv)``; it prints the
paper's figures next to ours and writes its results under ``experiments/_results``. ``--quick``
runs a few trials instead of the paper's number; other options go to the experiment. Without names,
every experiment runs that has no result of the present code yet (with ``--again``, all of them).
``report`` also lists the results that older code gave, with the modules that changed since.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.results import older_parts, results_page, results_text
from experiments.runner import HERE, RESULTS, experiment_names, latest_record, run


def main(argv: list[str]) -> None:
    if argv[:1] == ["list"]:
        list_experiments()
    elif argv[:1] == ["report"]:
        report(argv[1:])
    elif "-h" in argv or "--help" in argv:
        print(__doc__)
    else:
        options = [word for word in argv if word.startswith("--") and word != "--again"]
        names = [word for word in argv if not word.startswith("--")]
        run_all(names, options, again="--again" in argv or bool(names))


def list_experiments() -> None:
    names = experiment_names()
    width = max(map(len, names), default=0)
    for name in names:
        record = latest_record(name)
        print(f"{name:{width}}  {'not run yet' if record is None else record.summary()}")


def run_all(names: list[str], options: list[str], again: bool) -> None:
    known = experiment_names()
    chosen = [
        name for name in known if not names or any(f"{name}/".startswith(f"{n}/") for n in names)
    ]
    if not chosen:
        sys.exit(f"no experiment {' '.join(names)!r}; known: {', '.join(known)}")
    failed = []
    for number, name in enumerate(chosen, 1):
        record = latest_record(name)
        if record is not None and not again and record.is_current("--quick" in options):
            print(f"[{number} of {len(chosen)}] {name}: has a result already", file=sys.stderr)
            continue
        print(f"[{number} of {len(chosen)}] {name}", file=sys.stderr, flush=True)
        code = run(name, options)
        if code in (130, -2):
            sys.exit(130)
        failed += [name] if code else []
    if failed:
        sys.exit(f"{len(failed)} of {len(chosen)} experiments failed: {', '.join(failed)}")


def report(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments report")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "RESULTS.md")
    parser.add_argument("--html", type=Path, default=RESULTS / "results.html")
    paths = parser.parse_args(argv)
    names = experiment_names()
    records = [record for name in names if (record := latest_record(name)) is not None]
    earlier = paths.output.read_text("utf-8") if paths.output.is_file() else ""
    text = results_text(records, names, earlier)
    paths.output.write_text(text, "utf-8")
    paths.html.parent.mkdir(parents=True, exist_ok=True)
    results_page(records, str(paths.html))
    print(f"{paths.output}, {paths.html}: {len(records)} of {len(names)} experiments")
    older = older_parts(text)
    print(f"{len(older)} results are of older code{':' * bool(older)}")
    for name, changed in older.items():
        since = f": {', '.join(changed[:4])}{' ...' * (len(changed) > 4)}" if changed else ""
        print(f"  {name}{since}")


if __name__ == "__main__":
    main(sys.argv[1:])
