"""The record of a run: what was printed, with which version, on which data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rankwright import __version__
from rankwright.exceptions import DataError, ParameterError


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
    resumed : dict of name to date (UTC) of result files of earlier runs that it went on from
    environment : dict, versions of what it ran on
    data : dict of path to SHA-256 of every data file that was opened
    output : str, what was printed: the paper's figures and ours
    files : dict of name to content of the result files it wrote
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

    def is_current(self, quick: bool) -> bool:
        """Whether there is nothing to gain from running it again."""
        return self.version == __version__ and (quick or not self.quick)

    def words(self) -> str:
        """One line for a list."""
        kind = "quick, few trials" if self.quick else "full"
        return f"{kind}, {self.time_taken()}, {self.finished}, version {self.version}"

    def time_taken(self) -> str:
        """The seconds, and that they are not all where the run went on from kept results."""
        if not self.resumed:
            return f"{self.seconds:.0f} s"
        return f"{self.seconds:.0f} s after results kept from {min(self.resumed.values())}"

    def summary(self) -> dict[str, Any]:
        """All but the bulk."""
        found = asdict(self)
        del found["output"], found["files"]
        return found


def find_folder() -> Path:
    """The folder ``experiments`` of a source checkout: here, or where the package lies."""
    for root in (Path.cwd(), Path(__file__).parents[4]):
        if (root / "experiments" / "__main__.py").is_file():
            return root / "experiments"
    raise ParameterError(
        "experiments are part of the source, not of the installed package: "
        "clone the repository and run this inside it."
    )


def known(folder: Path) -> list[str]:
    """Every ``<paper>/table_*`` and ``<paper>/figure_*``."""
    scripts = [*folder.glob("*/table_*.py"), *folder.glob("*/figure_*.py")]
    return sorted(f"{path.parent.name}/{path.stem}" for path in scripts)


def record_path(folder: Path, name: str, *, quick: bool) -> Path:
    """Where the record of an experiment is kept."""
    ending = "-quick.json" if quick else ".json"
    return folder / "_results" / "records" / (name.replace("/", "--") + ending)


def newest(folder: Path, name: str) -> Record | None:
    """The record of an experiment: the full one if there is one, else the quick one."""
    for quick in (False, True):
        path = record_path(folder, name, quick=quick)
        if path.is_file():
            try:
                return Record(**json.loads(path.read_text("utf-8")))
            except (ValueError, TypeError) as error:
                raise DataError(f"{path} is no record of an experiment ({error}).") from None
    return None
