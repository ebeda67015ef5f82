"""``python -m experiments [--quick] [paper | paper/table ...]``: the papers' tables and figures.

Each ``experiments/<paper>/table_*.py`` or ``figure_*.py`` has a ``main(argv)``; it prints the
paper's figures against ours and writes what it found under ``experiments/_results``. ``--quick``
asks for a few trials instead of the paper's number.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent


def known() -> list[str]:
    scripts = [*HERE.glob("*/table_*.py"), *HERE.glob("*/figure_*.py")]
    return sorted(f"{path.parent.name}/{path.stem}" for path in scripts)


def main(argv: list[str]) -> None:
    options = [word for word in argv if word.startswith("--")]
    wanted = [word for word in argv if not word.startswith("--")]
    chosen = [name for name in known() if not wanted or _matches(name, wanted)]
    if not chosen:
        sys.exit(f"no experiment {' '.join(wanted)!r}; known: {', '.join(known())}")
    for name in chosen:
        print(f"\n== {name} ==", flush=True)
        import_module(f"experiments.{name.replace('/', '.')}").main(options)


def _matches(name: str, wanted: list[str]) -> bool:
    return any(name == word or name.startswith(f"{word}/") for word in wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
