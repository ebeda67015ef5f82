"""Long counts in rounds, so that a run that was cut off goes on where it was.

Each round has a seed of its own and a verdict, which is a line of JSON in the record of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path


def run_rounds(unit, run, *, total, per_round, description):
    """Run rounds until the record has ``total`` units; the exit code is 1 if anything was lost.

    ``run(folder, n, seed)`` gives what to record: "done" units, "faults", and what else it counted.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("total", nargs="?", type=int, default=total, help=f"{unit} in all")
    parser.add_argument("--per-round", type=int, default=per_round, help=f"{unit} with one verdict")
    parser.add_argument("--record", type=Path, help="a file to go on with; without it, start again")
    options = parser.parse_args()
    rounds = []
    if options.record is not None and options.record.exists():
        rounds = [json.loads(line) for line in options.record.read_text().splitlines()]
    done = sum(each["done"] for each in rounds)
    while done < options.total:
        start, cpu = time.monotonic(), sum(os.times()[:4])
        seed = max((each["seed"] for each in rounds), default=-1) + 1
        n_units = min(options.per_round, options.total - done)
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = run(Path(folder), n_units, seed)
            except Exception:  # what a round cannot show is a fault of it
                found = {"done": n_units, "faults": [traceback.format_exc()]}
        spent = round(time.monotonic() - start, 1), round(sum(os.times()[:4]) - cpu, 1)
        rounds.append({"seed": seed, **found, "seconds": spent[0], "cpu": spent[1]})
        done += found["done"]
        if options.record is not None:
            with options.record.open("a") as file:
                file.write(json.dumps(rounds[-1]) + "\n")
        print(f"{done:,} {unit} of {options.total:,}: {json.dumps(rounds[-1])}", flush=True)
    sys.exit(_verdict(unit, rounds))


def _verdict(unit, rounds):
    """Print the sums of all rounds; the exit code."""
    kinds = [name for name, value in rounds[-1].items() if isinstance(value, int)]
    sums = {name: sum(each.get(name, 0) for each in rounds) for name in kinds if name != "seed"}
    faults = [fault for each in rounds for fault in each["faults"]]
    counted = ", ".join(f"{value:,} {name}" for name, value in sums.items() if name != "done")
    print(f"{sums['done']:,} {unit} in {len(rounds)} rounds: {counted}; {len(faults)} faults")
    for fault in faults:
        print(fault)
    return int(bool(faults))
