"""Estimated propensities beside the true ones: largest and mean absolute error over ten positions.

20,000 simulated sessions (5 % noise) of each kind; mean over seeds. Noise raises all click rates a
little, so errors do not vanish with more sessions.
"""

from __future__ import annotations

import sys

import numpy as np
from experiments.clicks.simulations import ATTENTION, FILES, LOGGERS, load, options, write

from rankwright.data import ClickSimulator
from rankwright.feedback import estimate_propensities

KINDS = [("shuffle", "shuffle"), ("swap", "swap"), ("harvest", "swap"), ("harvest", None),
         ("em", "swap"), ("regression_em", None)]  # fmt: skip


def main(argv: list[str]) -> None:
    given = options(argv, seeds=3, sessions=20_000)
    n_seeds = 2 if given.quick else given.seeds
    table = {}
    for name in FILES:
        task = load(name)
        for curve, gamma in ATTENTION.items():
            users = ClickSimulator(task.train, gamma, noise=0.05)
            for method, experiment in KINDS:
                errors = []
                for seed in range(n_seeds):
                    scores = {f: task.train.X[:, f] for f in LOGGERS[name]}
                    several = method == "harvest" and experiment is None
                    log = users.sessions(
                        scores if several else scores[LOGGERS[name][0]],
                        given.sessions, experiment=experiment, random_state=seed,
                    )  # fmt: skip
                    found = estimate_propensities(log, method, items=task.train, max_iter=500)
                    errors.append(np.abs(found - gamma))
                what = "two rankers" if several else experiment or "one ranker"
                largest, mean = np.mean(errors, axis=0).max(), np.mean(errors)
                table[f"{name}, {curve}, {method}, {what}"] = [float(largest), float(mean)]
                print(f"{name:12} {curve:18} {method:14} {what:12} largest {largest:.3f}, "
                      f"mean {mean:.3f}", flush=True)  # fmt: skip
    write("clicks_propensities", table)


if __name__ == "__main__":
    main(sys.argv[1:])
