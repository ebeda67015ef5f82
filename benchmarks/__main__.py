"""Speed beside peers and limits, as ratios in one run.

``python -m benchmarks`` runs every module of this folder that has a ``run``, ``python -m benchmarks
trees,paths`` some of them, and ``python -m benchmarks serve kills`` one with a part or options.

What a run prints is also written to a file in ``benchmarks/_results``, with the machine's load.
``python -m benchmarks compare OLD NEW`` shows the figures that differ between two such files.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?")
CHANGE = 0.1  # smaller relative changes are noise


def main(wanted: list[str]) -> None:
    if wanted[:1] == ["compare"] and len(wanted) == 3:
        print("\n".join(differences(*(Path(name).read_text() for name in wanted[1:]))))
        return
    known = sorted({path.stem for path in HERE.glob("*.py") if "\ndef run(" in path.read_text()})
    known.append("cluster")
    names = wanted[0].split(",") if wanted else known
    options = wanted[1:]
    if unknown := set(names) - set(known):
        sys.exit(f"no benchmark {sorted(unknown)[0]!r}; known: {', '.join(known)}")
    if options and len(names) > 1:
        sys.exit(f"the options {' '.join(options)} are of one benchmark: name one")
    results = HERE / "_results"
    results.mkdir(exist_ok=True)
    path = results / f"{time.strftime('%Y%m%d-%H%M%S')}-{'-'.join(names) if wanted else 'all'}.txt"
    with _copied_to(path):
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        print(f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} cores, load {load}")
        for name in names:
            print(f"\n== {name} ==", flush=True)
            import_module(f"benchmarks.{name}").run(*options)
    print(
        f"\nwritten to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}"
    )


class _copied_to:
    """Copy what this process and its children print to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        sys.stdout.flush()
        self.screen = os.dup(1)
        self.tee = subprocess.Popen(["tee", self.path], stdin=subprocess.PIPE, stdout=self.screen)
        assert self.tee.stdin is not None
        os.dup2(self.tee.stdin.fileno(), 1)

    def __exit__(self, *error: object) -> None:
        sys.stdout.flush()
        os.dup2(self.screen, 1)
        os.close(self.screen)
        try:
            self.tee.communicate(timeout=5)
        except subprocess.TimeoutExpired:  # a child that outlives the run still has the pipe
            self.tee.terminate()
            self.tee.wait()


def differences(old: str, new: str) -> list[str]:
    """The lines of two runs that have the same words and numbers that differ by 10 % or more.

    >>> differences("LambdaMART  2.0 s", "LambdaMART  3.0 s")
    ['LambdaMART  2.0 s  ->  3.0']
    """
    words = {NUMBER.sub("#", line): line for line in old.splitlines()}
    found = []
    for line in new.splitlines():
        before = words.get(NUMBER.sub("#", line))
        if before is None:
            continue
        pairs = zip(_numbers(before), _numbers(line), strict=True)
        changed = [str(b) for a, b in pairs if abs(b - a) > CHANGE * max(abs(a), abs(b))]
        if changed:
            found.append(f"{before}  ->  {', '.join(changed)}")
    return found


def _numbers(line: str) -> list[float]:
    return [float(text.replace(",", "")) for text in NUMBER.findall(line)]


if __name__ == "__main__":
    main(sys.argv[1:])
