"""Interleaving beside an A/B test: sessions until the better ranker is found, and false alarms.

Two rankers of MQ2008 (BM25-like feature; the same with the grade mixed in) are compared by users
with attention 1 / position. Each method looks after every 20 sessions and stops when its
always-valid test decides; the A/B test shows each session one ranker's list and compares the mean
clicks. Sessions needed: median over experiments. False alarms: the same with two rankers that are
equally good, 2,000 experiments of 1,000 sessions, a look after every 20.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from experiments.clicks.simulations import ATTENTION, LOGGERS, load, options, write

from rankwright.data import ClickSimulator
from rankwright.online_eval import (
    always_valid_p,
    credit,
    interleave,
    mean_sequence,
    sign_test,
)  # fmt: skip
from rankwright.online_eval.interleaving import METHODS

STEP = 20


class World:
    """Users, and two rankers' lists of every query."""

    def __init__(self, mix: float) -> None:
        items = load("MQ2008").train
        keep = items.queries.sizes[items.queries.codes] >= 8
        self.items = items.take(keep)
        self.users = ClickSimulator(self.items, ATTENTION["1 / position"], noise=0.05)
        rng = np.random.default_rng(0)
        base = self.items.X[:, LOGGERS["MQ2008"][0]]
        noise = rng.normal(0, 0.2, (2, self.items.n_items))
        first, second = base + noise[0], base + noise[1] + mix * self.items.y
        self.lists = [self._lists(scores) for scores in (first, second)]

    def _lists(self, scores: Any) -> list[list[int]]:
        return [[int(row) for row in shown if row >= 0] for shown in self.users.lists(scores)]

    def clicks(self, shown: Any, rng: np.random.Generator) -> list[int]:
        slope, offset = self.users.affine
        k = len(shown)
        chance = slope[:k] * self.users.relevance[list(shown)] + offset[:k]
        return [item for item, hit in zip(shown, rng.random(k) < chance, strict=True) if hit]


def interleaved(world: World, method: str, seed: int, limit: int, swap: bool) -> tuple[int, bool]:
    """Sessions until the always-valid test decides (the limit if never), and whether rightly."""
    rng, wins = np.random.default_rng(seed), [0, 0]
    for session in range(1, limit + 1):
        query = int(rng.integers(len(world.lists[0])))
        pair = [world.lists[0][query], world.lists[1][query]]
        if swap and rng.random() < 0.5:  # equally good: which ranker has which list is drawn
            pair.reverse()
        shown = interleave(pair, 10, method=method, seed=int(rng.integers(2**62)))
        a, b = credit(shown, world.clicks(shown.items, rng))
        wins[0] += a > b
        wins[1] += b > a
        if session % STEP == 0 and always_valid_p(*wins) < 0.05:
            return session, wins[1] > wins[0]
    return limit, False


def ab_test(world: World, seed: int, limit: int) -> tuple[int, bool]:
    """The same for an A/B test of clicks per session, with pairs of sessions as observations."""
    rng = np.random.default_rng(seed)
    queries = rng.integers(len(world.lists[0]), size=(limit // 2, 2))
    gap = [
        len(world.clicks(world.lists[1][q], rng)) - len(world.clicks(world.lists[0][p], rng))
        for p, q in queries.tolist()
    ]
    lower, upper = mean_sequence(np.clip(gap, -4, 4), low=-4, high=4)
    looks = np.arange(STEP // 2 - 1, len(gap), STEP // 2)
    decided = looks[(lower[looks] > 0) | (upper[looks] < 0)]
    if not len(decided):
        return limit, False
    return 2 * (int(decided[0]) + 1), bool(lower[decided[0]] > 0)


def ab_fixed(world: World, n_pairs: int = 20_000) -> int:
    """Sessions that a two-sample z-test of clicks per session needs, 80 % power at 5 %."""
    rng = np.random.default_rng(0)
    queries = rng.integers(len(world.lists[0]), size=n_pairs).tolist()
    clicks = [[len(world.clicks(lists[q], rng)) for q in queries] for lists in world.lists]
    gap = np.mean(clicks[1]) - np.mean(clicks[0])
    return int(np.ceil(2 * (1.96 + 0.8416) ** 2 * (np.var(clicks[0]) + np.var(clicks[1])) / gap**2))


def main(argv: list[str]) -> None:
    given = options(argv, experiments=100, alarms=2000)
    n, alarms = (10, 100) if given.quick else (given.experiments, given.alarms)
    world, limit, table = World(mix=0.1), 40_000, {}
    runs = [ab_test(world, seed, limit) for seed in range(n)]
    base = float(np.median([sessions for sessions, _ in runs]))
    right = np.mean([ok for _, ok in runs])
    fixed = ab_fixed(world)
    print(f"A/B test, always valid: median {base:,.0f} sessions, right {right:.0%}; a z-test of "
          f"fixed size needs {fixed:,} (80 % power)", flush=True)  # fmt: skip
    table["A/B"] = [base, float(right), fixed]
    for method in METHODS:
        runs = [interleaved(world, method, seed, limit, swap=False) for seed in range(n)]
        median = float(np.median([sessions for sessions, _ in runs]))
        right = np.mean([ok for _, ok in runs])
        table[method] = [median, float(right)]
        print(f"{method:14} median {median:6,.0f} sessions, right {right:.0%}; the A/B test needs "
              f"{base / median:.0f} times as many, the z-test of fixed size {fixed / median:.0f} "
              "times", flush=True)  # fmt: skip
    for method in ("team_draft",):
        found = [interleaved(world, method, seed, 1000, swap=True)[0] < 1000
                 for seed in range(alarms)]  # fmt: skip
        print(f"{method}: false alarms of the always-valid test {np.mean(found):.1%} of {alarms:,} "
              "experiments (promised: at most 5 %)", flush=True)  # fmt: skip
        table["false alarms"] = [float(np.mean(found)), alarms]
    rng = np.random.default_rng(1)
    wins = np.cumsum(rng.random((alarms, 1000)) < 0.5, axis=1)[:, STEP - 1 :: STEP].tolist()
    looked = [
        any(sign_test(w, STEP * (k + 1) - w) < 0.05 for k, w in enumerate(one)) for one in wins
    ]
    print(f"sign test, looked at every {STEP} of 1,000 fair sessions: {np.mean(looked):.1%}")
    write("clicks_interleaving", table | {"sign test": float(np.mean(looked))})


if __name__ == "__main__":
    main(sys.argv[1:])
