"""Bias, standard deviation and coverage of counterfactual estimators, 200 runs each.

A new ranker (the mean of two normalized features) is estimated from logs of 5,000 sessions of
another one, over queries of MQ2008 cut to six documents, and of the MSLR sample cut to five. The
truth is known. ``one order``: each query always had the same list; ``shuffled``: random order.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from experiments.clicks.simulations import LOGGERS, load, options, write

from rankwright.data import ClickSimulator
from rankwright.online_eval import estimate_from_log
from rankwright.online_eval.rankings import METHODS

CUT = {"MQ2008": 6, "MSLR sample": 5}


def main(argv: list[str]) -> None:
    given = options(argv, runs=200, sessions=5000)
    n_runs, table = 20 if given.quick else given.runs, {}
    for name, size in CUT.items():
        items = load(name).train
        place = items.queries.places(items.y + 1e-6 * items.X[:, LOGGERS[name][0]])
        # Documents of all grades: the first, the last and some between them.
        keep = (
            (place - 1) * (size - 1) % np.maximum(items.queries.sizes[items.queries.codes] - 1, 1)
        )
        keep = (keep < size - 1) & (items.queries.sizes[items.queries.codes] >= size)
        items = items.take(keep)
        gamma = 1.0 / np.arange(1, size + 1)
        users = ClickSimulator(items, gamma, noise=0.05)
        slope, offset = users.affine
        old = items.X[:, LOGGERS[name][0]]
        new = items.y + np.random.default_rng(0).normal(0, 1.0, items.n_items)
        for measure in ("CTR", "DCG"):
            truth = users.expected_clicks(new, measure)
            for experiment in (None, "shuffle"):
                for method in METHODS:
                    if experiment is None and method not in ("pbm", "doubly_robust"):
                        continue
                    values, covered = [], []
                    for seed in range(n_runs):
                        log = users.sessions(old, given.sessions, experiment=experiment,
                                             random_state=seed)  # fmt: skip
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            found = estimate_from_log(
                                log, new[log.rows_in(items)], method=method, measure=measure,
                                propensity=slope, offset=offset,
                            )  # fmt: skip
                        values.append(found.value)
                        covered.append(found.interval[0] <= truth <= found.interval[1])
                    bias, sd = float(np.mean(values) - truth), float(np.std(values, ddof=1))
                    error, share = sd / np.sqrt(n_runs), float(np.mean(covered))
                    order = "shuffled" if experiment else "one order"
                    table[f"{name}, {measure}, {order}, {method}"] = [truth, bias, sd, share]
                    print(f"{name:11} {measure} {order:9} {method:14} truth {truth:.4f}, bias "
                          f"{bias:+.4f} +- {error:.4f}, sd {sd:.4f}, 95 % intervals cover "
                          f"{share:.1%}", flush=True)  # fmt: skip
    write("clicks_estimators", table)


if __name__ == "__main__":
    main(sys.argv[1:])
