"""Parts of long runs, kept on disk: an interrupted run continues where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.sources import changed_modules, loaded_modules, module_hashes

RESULTS = Path(__file__).parent / "_results"


def kept(name: str, part: str, compute: Callable[[], Any]) -> Any:
    """What ``compute`` returns, as JSON; from an earlier run of the same code if there is one.

    name : the folder under ``_results``
    part : the name of the part in it, with everything that its result depends on
    """
    path = RESULTS / name / f"{part}.json"
    if path.is_file():
        found = json.loads(path.read_text("utf-8"))
        if "modules" in found and not changed_modules(found["modules"]):
            return found["result"]
    result = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".half")
    half.write_text(json.dumps({"modules": module_hashes(loaded_modules()), "result": result}))
    half.rename(path)
    return result
