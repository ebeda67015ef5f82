"""``python -m benchmarks [name ...]``: speed beside peers and limits, as ratios in one run."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main(wanted: list[str]) -> None:
    known = sorted(path.stem[6:] for path in Path(__file__).parent.glob("bench_*.py"))
    unknown = set(wanted) - set(known)
    if unknown:
        sys.exit(f"no benchmark {sorted(unknown)[0]!r}; known: {', '.join(known)}")
    for name in wanted or known:
        print(f"\n== {name} ==", flush=True)
        import_module(f"benchmarks.bench_{name}").run()


if __name__ == "__main__":
    main(sys.argv[1:])
