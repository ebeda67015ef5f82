"""Dask clusters on this machine: time, equal models, lost workers, memory, and peers.

``python -m benchmarks cluster`` runs every part at a small size. One part at a time, at any size:
``python -m benchmarks cluster weak --rows 100000 1000000 4000000 --workers 1 2``.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.cluster import equality, failures, memory, peers, relay, simulation, timing

PARTS: dict[str, tuple[Callable[[Any], None], list[int]]] = {
    "overhead": (timing.overhead, [0]),
    "grid": (equality.grid, [5_000]),
    "workers": (timing.workers, [200_000]),
    "crossover": (timing.crossover, [100_000, 400_000]),
    "weak": (timing.weak, [100_000, 400_000]),
    "memory": (memory.memory, [400_000]),
    "spill": (memory.spill, [400_000]),
    "kill": (failures.kill, [50_000]),
    "losses": (failures.losses, [30_000]),
    "gone": (failures.gone, [0]),
    "peers": (peers.peers, [300_000]),
    "relay": (relay.relay, [20_000]),
    "simulation": (simulation.simulation, [100_000, 500_000, 1_000_000, 2_000_000]),
}


def run(*arguments: str) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rows", type=int, nargs="+", help="sizes of the data")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--models", nargs="+", help="RidgeRanker, MPRank, RankSVM, LambdaMART, ...")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of boosting")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--drops", type=int, default=8, help="lost connections, of losses")
    parser.add_argument("--cancels", type=int, default=4, help="cancelled tasks, of losses")
    parser.add_argument("--state", metavar="FILE", help="of losses: where to go on after a cut")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of losses, at most")
    parser.add_argument("--repeats", type=int, default=2, help="of peers; the best counts")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {sorted(unknown)[0]!r}; there are {', '.join(PARTS)}")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)  # workers that die on purpose
    for name in options.parts or PARTS:
        part, rows = PARTS[name]
        options_of_part = argparse.Namespace(**{**vars(options), "rows": options.rows or rows})
        print(f"-- {name}: {str(part.__doc__).splitlines()[0]}", flush=True)
        part(options_of_part)
