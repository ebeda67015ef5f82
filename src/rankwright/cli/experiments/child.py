"""Run one experiment and write its record: ``python -m ... FOLDER NAME RECORD [--quick]``.

A process of its own, so that every data file which is opened can be noted (an audit hook cannot be
taken away again), and so that one experiment cannot disturb the next.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from rankwright import __version__
from rankwright.cli.experiments.records import Record
from rankwright.data.io.files import atomic_write
from rankwright.report.provenance import environment


class _Tee(io.TextIOBase):
    """Writes to the terminal and remembers."""

    def __init__(self, below: Any) -> None:
        self._below, self.text = below, io.StringIO()

    def write(self, text: str) -> int:
        self._below.write(text)
        return self.text.write(text)

    def flush(self) -> None:
        self._below.flush()


def main(argv: list[str]) -> None:
    """Run, print, and write the record when the experiment has ended well."""
    folder, name, target = Path(argv[0]), argv[1], Path(argv[2])
    quick = "--quick" in argv[3:]
    sys.path.insert(0, str(folder.parent))
    results = folder / "_results"
    opened, reread = _note_opened(os.environ.get("RANKWRIGHT_DATA")), _note_opened(str(results))
    began, before = time.perf_counter(), _written(results)
    tee = _Tee(sys.stdout)
    sys.stdout = tee
    try:
        module = import_module(f"experiments.{name.replace('/', '.')}")
        module.main(argv[3:])
    finally:
        sys.stdout = tee._below
    after = _written(results)
    kept = {path: when for path, when in before.items() if os.path.realpath(path) in reread}
    fresh = [path for path, when in after.items() if before.get(path) != when]
    tables = [path for path in dict.fromkeys([*fresh, *kept]) if path.parent == results]
    record = Record(
        name=name,
        about=(module.__doc__ or "").strip().splitlines()[0] if module.__doc__ else "",
        quick=quick,
        seconds=round(time.perf_counter() - began, 1),
        finished=_date(time.time()),
        version=__version__,
        seed="fixed in the script: trial k draws with seed k",
        environment=environment(),
        resumed=_oldest({path.relative_to(results): when for path, when in kept.items()}),
        data={_shown(path): _sha256(path) for path in sorted(opened)},
        output=tee.text.getvalue(),
        files={p.name: json.loads(p.read_text("utf-8")) for p in tables if p.suffix == ".json"},
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target, mode=0o666) as file:
        file.write(json.dumps(asdict(record), indent=1).encode())


def _note_opened(root: str | None) -> set[str]:
    """Every file under a folder that is read from now on before it is written."""
    opened: set[str] = set()
    written: set[str] = set()
    if root:
        real = os.path.realpath(root) + os.sep

        def note(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "open" and isinstance(arguments[0], str | bytes):
                path = os.path.realpath(os.fsdecode(arguments[0]))
                if isinstance(arguments[1], str) and "w" in arguments[1]:
                    written.add(path)
                elif path.startswith(real) and os.path.isfile(path) and path not in written:
                    opened.add(path)

        sys.addaudithook(note)
    return opened


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _shown(path: str) -> str:
    """The path inside the data folder: where that folder lies is nobody's business."""
    return os.path.relpath(path, os.path.realpath(os.environ["RANKWRIGHT_DATA"]))


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _written(folder: Path) -> dict[Path, float]:
    """When each result was written: tables, and parts of them in folders of their own."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.stat().st_mtime for path in found if path.parent.name != "records"}


def _oldest(kept: dict[Path, float]) -> dict[str, str]:
    """The first date of each table that was there already; parts count for the whole."""
    dates: dict[str, str] = {}
    for path, when in sorted(kept.items(), key=lambda entry: entry[1]):
        dates.setdefault(path.parts[0], _date(when))
    return dates


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
