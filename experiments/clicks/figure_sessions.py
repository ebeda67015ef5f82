"""Learning from more and more clicks: corrected for position, naive, and full labels.

RankSVM learns from simulated sessions (attention 1 / position, ten items shown, 5 % noise) of a
BM25-like logging ranker; NDCG@10 on test queries, mean and standard error over seeds.
"""

from __future__ import annotations

import sys

from experiments.clicks.simulations import (
    ATTENTION,
    FILES,
    LOGGERS,
    load,
    options,
    simulate,
    spread,
    write,
)  # fmt: skip

import rankwright as rw
from rankwright.feedback import click_relevance

SESSIONS = [300, 1000, 10_000, 100_000]


def main(argv: list[str]) -> None:
    given = options(argv, seeds=3)
    sizes, n_seeds = (SESSIONS[:2], 2) if given.quick else (SESSIONS, given.seeds)
    gamma, curves = ATTENTION["1 / position"], {}
    for name in FILES:
        task, logger = load(name), LOGGERS[name][0]
        full = task.fit(rw.Grades(2.0**task.train.y, task.train.qid, magnitude=True))
        print(f"{name}: logging ranker {task.logger_ndcg(logger):.3f}, full labels {full:.3f}")
        print(f"  {'sessions':>8}  {'corrected':16} naive")
        for n in sizes:
            found: dict[str, list[float]] = {"corrected": [], "naive": []}
            for seed in range(n_seeds):
                users, log = simulate(task, logger, gamma, n, seed)
                slope, offset = users.affine
                fair = click_relevance(log, task.train, slope, offset=offset)
                found["corrected"].append(task.fit(fair.feedback))
                found["naive"].append(task.fit(click_relevance(log, task.train).feedback))
            print(f"  {n:8,}  {spread(found['corrected'])}  {spread(found['naive'])}", flush=True)
            curves[f"{name}, {n}"] = found
    write("clicks_sessions", curves)


if __name__ == "__main__":
    main(sys.argv[1:])
