"""No documented way to learn from clicks falls below the logging ranker without a warning.

Each way learns from 5,000 simulated sessions for three sets, two logging rankers and three
attention curves; the table counts the settings whose mean NDCG@10 over seeds is level with the
logging ranker (at most 0.01 lower) or above, and of the others those that warned of a reversed
order. (The warning of items that were never shown comes for all of OHSUMED and MSLR.)
``--way=swaps`` runs only the ways with that in their names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from experiments.clicks.simulations import (
    ATTENTION,
    FILES,
    LOGGERS,
    Warned,
    load,
    options,
    simulate,
    write,
)  # fmt: skip

import rankwright as rw
from rankwright.feedback import (
    click_relevance,
    estimate_propensities,
    last_click,
    skip_above,
)  # fmt: skip

LEVEL = 0.01
Way = Callable[[Any, Any, Any], Any]


def corrected(change: Callable[[Any], Any]) -> Way:
    return lambda log, items, gamma: click_relevance(log, items, change(gamma)).feedback


def rows(log: Any, items: Any) -> tuple[Any, ...]:
    return log.rows_in(items), log.clicked, log.session, log.position


WAYS: dict[str, Way] = {
    "click_relevance, true propensities": corrected(lambda gamma: gamma),
    "click_relevance, estimated (5 % swaps)": lambda log, items, gamma: (
        click_relevance(log, items, estimate_propensities(log)).feedback
    ),
    "click_relevance, estimated (regression EM)": lambda log, items, gamma: (
        click_relevance(
            log, items, estimate_propensities(log, "regression_em", items=items)
        ).feedback
    ),
    "click_relevance, true propensities, unseen=0.1": lambda log, items, gamma: (
        click_relevance(log, items, gamma, unseen=0.1).feedback
    ),
    "click_relevance, no propensities": corrected(lambda gamma: None),
    "click_relevance, propensity ** 0.5": corrected(np.sqrt),
    "click_relevance, propensity ** 1.5": corrected(lambda gamma: gamma**1.5),
    "click_relevance, propensity ** 2": corrected(lambda gamma: gamma**2),
    "skip_above": lambda log, items, gamma: skip_above(*rows(log, items)),
    "skip_above, true propensities": lambda log, items, gamma: skip_above(
        *rows(log, items), propensity=gamma
    ),
    "last_click": lambda log, items, gamma: last_click(*rows(log, items)),
}


def with_swaps(task: Any, feature: int, gamma: Any, n: int, seed: int) -> Any:
    """A log in which 5 % of the sessions had their first item exchanged with another one."""
    from rankwright.data import ImpressionLog

    parts = [simulate(task, feature, gamma, n * 19 // 20, seed)[1]]
    parts.append(simulate(task, feature, gamma, n // 20, seed + 1000, experiment="swap")[1])
    columns = {
        name: np.concatenate([ids(log)[codes(log)] for log in parts])
        for name, ids, codes in (
            ("query", lambda log: log.queries, lambda log: log.query),
            ("item", lambda log: log.items, lambda log: log.item),
        )
    }
    session = np.concatenate([parts[0].session, parts[1].session + parts[0].n_sessions])
    clicks, position = (
        np.concatenate([getattr(p, c) for p in parts]) for c in ("clicks", "position")
    )
    return ImpressionLog.from_arrays(**columns, clicks=clicks, position=position, session=session)


def main(argv: list[str]) -> None:
    given = options(argv, seeds=2, sessions=5000, way="")
    n_seeds, n = (1, 3000) if given.quick else (given.seeds, given.sessions)
    table: dict[str, dict[str, Any]] = {}
    for way, learn in WAYS.items():
        if given.way not in way:
            continue
        settings: dict[str, Any] = {}
        for name in FILES:
            task = load(name)
            for feature in LOGGERS[name]:
                for curve, gamma in ATTENTION.items():
                    warned, gains = True, []
                    for seed in range(n_seeds):
                        log = with_swaps(task, feature, gamma, n, seed)
                        with Warned() as warning:
                            gains.append(task.fit(learn(log, task.train, gamma)))
                        warned &= warning.reversed
                    settings[f"{name}, feature {feature}, {curve}"] = {
                        "logger": task.logger_ndcg(feature), "learned": float(np.mean(gains)),
                        "warned": warned,
                    }  # fmt: skip
        table[way] = settings
        below = [s for s in settings.values() if s["learned"] < s["logger"] - LEVEL]
        silent = [s for s in below if not s["warned"]]
        worst = min(s["learned"] - s["logger"] for s in settings.values())
        mean = np.mean([s["learned"] - s["logger"] for s in settings.values()])
        print(
            f"{way:45} level or above {len(settings) - len(below):2} of {len(settings)}, below and "
            f"warned {len(below) - len(silent):2}, below in silence {len(silent):2}; NDCG@10 minus "
            f"the logging ranker's: mean {mean:+.3f}, worst {worst:+.3f}",
            flush=True,
        )
        for setting, s in settings.items():
            if s in silent:
                print(f"    {setting}: {s['logger']:.3f} -> {s['learned']:.3f}")
    if not given.way:
        write("clicks_not_below", table)
        _other_rankers(n, n_seeds)


def _other_rankers(n: int, n_seeds: int) -> None:
    """The same road with other rankers: true propensities, attention 1 / position.

    Ten items of a query are shown; most of OHSUMED's and MSLR's were never shown.
    """
    rankers = [
        rw.RankBoost(n_estimators=100),
        rw.RankNet(max_iter=20, random_state=0),
        rw.OnlineKeepRank(),
        rw.BayesianPRank(),
        rw.LambdaMART(n_estimators=100),
    ]
    gamma = ATTENTION["1 / position"]
    for ranker, unseen in product(rankers, (0.0, 0.1)):
        parts = []
        for name in FILES:
            task, feature = load(name), LOGGERS[name][0]
            values = []
            for seed in range(n_seeds):
                log = simulate(task, feature, gamma, n, seed)[1]
                with Warned() as warning:
                    found = click_relevance(log, task.train, gamma, unseen=unseen)
                    model = found.fit(ranker, task.train.X)
                values.append(task.model_ndcg(model))
            said = ", warned" if warning.said else ""
            level = task.logger_ndcg(feature)
            parts.append(f"{name} {level:.3f} -> {np.mean(values):.3f}{said}")
        print(f"{type(ranker).__name__:16} unseen={unseen}  {'; '.join(parts)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
