"""IPS, SNIPS and doubly robust beside the ``obp`` package, on its own sample of logged choices.

The random log estimates what Bernoulli Thompson sampling would earn, and the other way round.
``RANKWRIGHT_OBP`` names the interpreter of an environment with ``obp``, which needs Python 3.10 or
older: ``uv venv -p 3.10 obp-env``, ``uv pip install -p obp-env obp==0.5.7 "matplotlib<3.9"``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from experiments.clicks.simulations import options, write

from rankwright.online_eval import doubly_robust, ips, snips


def main(argv: list[str]) -> None:
    options(argv)
    python = os.environ.get("RANKWRIGHT_OBP")
    if not python:
        sys.exit("RANKWRIGHT_OBP is not set: it names the Python of an environment with obp; "
                 "experiments/clicks/table_obp.py says how to make one")  # fmt: skip
    table = {}
    print(f"{'log':7} {'estimator':14} {'obp':>12} {'ours':>12}  difference")
    for log, name, theirs, ours in compare(python):
        table[f"{log}, {name}"] = [theirs, ours]
        print(f"{log:7} {name:14} {theirs:12.8f} {ours:12.8f}  {abs(ours - theirs):.0e}")
    write("clicks_obp", table)


def compare(python: str) -> list[tuple[str, str, float, float]]:
    """The logging policy, the estimator, and both figures."""
    script = Path(__file__).with_name("obp_figures.py")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-W", "ignore", str(script), folder], check=True)
        for path in sorted(Path(folder).glob("*.npz")):
            a = np.load(path)
            logged = a["reward"], a["logging"], a["target"]
            ours = {
                "ips": ips(*logged),
                "snips": snips(*logged),
                "doubly_robust": doubly_robust(*logged, a["predicted"], a["predicted_target"]),
            }
            found += [(path.stem, name, float(a[name]), one.value) for name, one in ours.items()]
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
