"""``python -m experiments [--quick] [paper | paper/table ...]``: the papers' tables and figures.

Each ``experiments/<paper>/table_*.py`` or ``figure_*.py`` has a ``main(argv)``; it prints the
paper's figures against ours and writes what it found under ``experiments/_results``. ``--quick``
asks for a few trials instead of the paper's number. A record of each run (what was printed, with
which version, on which data) is kept; ``rankwright experiment report`` makes RESULTS.md of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rankwright.cli.experiments import child
from rankwright.cli.experiments.records import known, record_path

HERE = Path(__file__).parent


def main(argv: list[str]) -> None:
    options = [word for word in argv if word.startswith("--")]
    wanted = [word for word in argv if not word.startswith("--")]
    chosen = [name for name in known(HERE) if not wanted or _matches(name, wanted)]
    if not chosen:
        sys.exit(f"no experiment {' '.join(wanted)!r}; known: {', '.join(known(HERE))}")
    for name in chosen:
        print(f"\n== {name} ==", flush=True)
        record = record_path(HERE, name, quick="--quick" in options)
        child.main([str(HERE), name, str(record), *options])


def _matches(name: str, wanted: list[str]) -> bool:
    return any(name == word or name.startswith(f"{word}/") for word in wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
