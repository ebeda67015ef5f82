"""Run an experiment in a process of its own and keep a record of what it printed and read.

``python -m experiments.runner NAME RECORD [options]`` runs one experiment. An audit hook notes the
data files that it opens, and a hook cannot be removed, so each experiment gets a new process.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments.sources import changed_modules, hash_of, loaded_modules, module_hashes

from rankwright import __version__

HERE = Path(__file__).parent
RESULTS = HERE / "_results"


@dataclass(frozen=True)
class Record:
    """One run of one experiment.

    Attributes
    ----------
    name : str, such as ``oap_bpm/table_1``
    about : str, the first line of the script's docstring
    quick : bool, whether few trials were run
    seconds : float
    finished : str, date and time (UTC)
    version : str, of rankwright
    seed : str, what seeds the trials
    resumed : dict of name to date (UTC) of the result files of earlier runs that it continued from
    environment : dict, versions of what it ran on
    data : dict of path to SHA-256 of every data file that was opened
    output : str, what was printed: the paper's figures and ours
    files : dict of name to content of the result files it wrote
    options : list of str, what the experiment was told besides ``--quick``
    source : str, hash of the code that was measured
    modules : dict of file to hash of its code: the modules that were loaded
    """

    name: str
    about: str
    quick: bool
    seconds: float
    finished: str
    version: str
    seed: str
    resumed: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    output: str = ""
    files: dict[str, Any] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)
    source: str = ""
    modules: dict[str, str] = field(default_factory=dict)

    def is_current(self, quick: bool) -> bool:
        """Whether running it again would give nothing new."""
        return self.is_of_present_code() and (quick or not self.quick)

    def is_of_present_code(self) -> bool:
        """Whether the code that it measured is still the same."""
        return bool(self.modules) and not changed_modules(self.modules)

    def summary(self) -> str:
        """One line for a list."""
        kind = "quick, few trials" if self.quick else "full"
        code = "" if self.is_of_present_code() else ", of older code"
        return f"{kind}, {self.duration()}, {self.finished}, version {self.version}{code}"

    def duration(self) -> str:
        """The seconds, and since when results of earlier runs were kept, if any."""
        if not self.resumed:
            return f"{self.seconds:.0f} s"
        return f"{self.seconds:.0f} s after results kept from {min(self.resumed.values())}"


def experiment_names() -> list[str]:
    """Every ``<paper>/table_*`` and ``<paper>/figure_*``."""
    scripts = [*HERE.glob("*/table_*.py"), *HERE.glob("*/figure_*.py")]
    return sorted(f"{path.parent.name}/{path.stem}" for path in scripts)


def record_path(name: str, *, quick: bool) -> Path:
    """Where the record of an experiment is kept."""
    return RESULTS / "records" / (name.replace("/", "--") + ("-quick.json" if quick else ".json"))


def latest_record(name: str) -> Record | None:
    """The record of an experiment: the full one if there is one, else the quick one."""
    for quick in (False, True):
        path = record_path(name, quick=quick)
        if path.is_file():
            known = {entry.name for entry in fields(Record)}
            try:
                found = json.loads(path.read_text("utf-8"))
                return Record(**{name: found[name] for name in found if name in known})
            except (ValueError, TypeError) as error:
                sys.exit(f"{path} is not a record of an experiment ({error}); delete it")
    return None


def run(name: str, options: list[str]) -> int:
    """Run an experiment in a new process; its exit code."""
    record = record_path(name, quick="--quick" in options)
    command = [sys.executable, "-m", "experiments.runner", name, str(record), *options]
    return subprocess.run(command, cwd=HERE.parent, check=False).returncode


class _Tee(io.TextIOBase):
    """Writes to the terminal and keeps a copy."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.text = stream, io.StringIO()

    def write(self, text: str) -> int:
        self._stream.write(text)
        return self.text.write(text)

    def flush(self) -> None:
        self._stream.flush()


def run_here(name: str, target: Path, options: list[str]) -> None:
    """Run an experiment in this process and write the record when it has succeeded."""
    opened, reread = _files_read(os.environ.get("RANKWRIGHT_DATA")), _files_read(str(RESULTS))
    start, before = time.perf_counter(), _result_files()
    stdout = sys.stdout
    sys.stdout = tee = _Tee(stdout)
    try:
        module = import_module(f"experiments.{name.replace('/', '.')}")
        module.main(options)
    finally:
        sys.stdout = stdout
    kept = {path: when for path, when in before.items() if os.path.realpath(path) in reread}
    fresh = [path for path, when in _result_files().items() if before.get(path) != when]
    tables = [path for path in dict.fromkeys([*fresh, *kept]) if path.parent == RESULTS]
    hashes = module_hashes(loaded_modules())
    from rankwright.data.io.files import atomic_write  # now: not among the modules measured
    from rankwright.report.page import environment

    record = Record(
        name=name,
        about=(module.__doc__ or "").strip().partition("\n")[0],
        quick="--quick" in options,
        seconds=round(time.perf_counter() - start, 1),
        finished=_date(time.time()),
        version=__version__,
        seed="fixed in the script: trial k draws with seed k",
        environment=environment(),
        resumed=_first_dates(kept),
        data={_shown(path): _sha256(path) for path in sorted(opened)},
        output=tee.text.getvalue(),
        options=[option for option in options if option != "--quick"],
        source=hash_of(hashes),
        modules=hashes,
        files={p.name: json.loads(p.read_text("utf-8")) for p in tables if p.suffix == ".json"},
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target, mode=0o666) as file:
        file.write(json.dumps(asdict(record), indent=1).encode())


def _files_read(folder: str | None) -> set[str]:
    """Every file in a folder that is opened from now on, unless it was written before."""
    opened: set[str] = set()
    written: set[str] = set()
    if folder:
        root = os.path.realpath(folder) + os.sep

        def note(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "open" and isinstance(arguments[0], str | bytes):
                path = os.path.realpath(os.fsdecode(arguments[0]))
                if isinstance(arguments[1], str) and "w" in arguments[1]:
                    written.add(path)
                elif path.startswith(root) and os.path.isfile(path) and path not in written:
                    opened.add(path)

        sys.addaudithook(note)
    return opened


def _result_files() -> dict[Path, float]:
    """When each result was written: tables, and parts of them in folders of their own."""
    files = (path for path in RESULTS.rglob("*") if path.is_file())
    return {path: path.stat().st_mtime for path in files if path.parent.name != "records"}


def _first_dates(kept: dict[Path, float]) -> dict[str, str]:
    """The earliest date of each result; a folder of parts counts as one result."""
    dates: dict[str, str] = {}
    for path, when in sorted(kept.items(), key=lambda entry: entry[1]):
        dates.setdefault(path.relative_to(RESULTS).parts[0], _date(when))
    return dates


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _shown(path: str) -> str:
    """The path inside the data folder: records do not name folders of this machine."""
    return os.path.relpath(path, os.path.realpath(os.environ["RANKWRIGHT_DATA"]))


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    try:
        run_here(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
    except KeyboardInterrupt:
        sys.exit(130)
