"""What makes LambdaMART's trees generalize: additions alone and together, beside three libraries.

Every system trains on the training queries, has at most 1000 rounds, and stops when NDCG@10 of the
validation queries has not improved for 50. "Old default" is what ``LambdaMART()`` was before these
additions: leaf-wise trees of 31 leaves, logistic loss weighted by the change of NDCG@30, rate .1,
the single best round. "New default" is ``LambdaMART()`` now, early-stopped. LightGBM lambdarank,
XGBoost rank:ndcg, CatBoost YetiRank and QueryRMSE have their defaults; their fits are those of
table_default. One thread each.

The rules, written down before the run:

1. The mean lead of the new default over the old one, pooled over the seven sets, has a 95 %
   interval above 0.
2. On no set is the new default significantly below CatBoost (the better of YetiRank and QueryRMSE
   on the test queries of this set: nobody can choose it, so this is harder than it needs to be).

Differences are paired by query, pooled means and p-values are those of table_default: sets weigh
the same, and Holm's correction is over the seven sets. The new defaults were chosen on OHSUMED,
MQ2008 and the two generated sets; MQ2007 (partial), the MSLR sample and lightgbm-rank confirm.

Additions that did not help are in additions.py and not in the package.

Every fit is kept in ``_results/letor_default`` under a hash of what it depends on. ``--sets=``,
``--seeds=1,2`` and ``--systems=new,CatBoost`` run part of it; ``--kept`` only prints; ``--quick``
has seed 1.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from experiments.letor.additions import TriedLambdaMART
from experiments.letor.sets import SEEDS, SETS
from experiments.letor.systems import PATIENCE, ROUNDS, SPACES, Predict, System, systems
from experiments.letor.table_default import (
    RESULTS,
    THREADS,
    Result,
    compare,
    differences,
    fit_all,
    kept_path,
    pooled,
    print_table,
    query_means,
)
from experiments.sources import source_hash

import rankwright as rw

OLD, NEW = "old default", "new default"
CATBOOST = ("CatBoost YetiRank", "CatBoost QueryRMSE")
LEAFWISE: dict[str, Any] = {
    "tree": "leafwise", "loss": "logistic", "weighting": "NDCG@30", "learning_rate": 0.1,
    "smoothing": 0.0,
}  # fmt: skip
LISTWISE = {"loss": "query_rmse", "weighting": "auto"}
NDCG = {"loss": "logistic", "weighting": "NDCG@30"}

# Parameters of LambdaMART, of its EarlyStopping (smoothing) and of TriedLambdaMART.
VARIANTS: dict[str, dict[str, Any]] = {
    OLD: LEAFWISE,
    "old + symmetric trees": {**LEAFWISE, "tree": "symmetric"},
    "old + rows count equally (query_rmse)": {**LEAFWISE, **LISTWISE},
    "old + xendcg": {**LEAFWISE, "loss": "xendcg", "weighting": "auto"},
    "old + smoothed stopping": {**LEAFWISE, "smoothing": 0.3},
    "old + rate by size": {**LEAFWISE, "learning_rate": "auto"},
    "old + colsample_bynode .5": {**LEAFWISE, "colsample_bynode": 0.5},
    NEW: {},
    "new, leaf-wise trees": {"tree": "leafwise"},
    "new, NDCG@30 pairs": NDCG,
    "new, xendcg": {"loss": "xendcg"},
    "new, stopping not smoothed": {"smoothing": 0.0},
    "new, rate .1": {"learning_rate": 0.1},
    "new + colsample_bynode .5": {"colsample_bynode": 0.5},
    "new + half of the queries a tree": {"subsample": 0.5},
    "new + noise on splits .2": {"split_noise": 0.2},
    "new + Bayesian bootstrap by query": {"bootstrap": 1.0},
    "new + 3 Newton steps": {"newton_steps": 3},
    "new, NDCG@30 pairs + noise on scores .5": {**NDCG, "score_noise": 0.5},
}
DROPPED = ("score_noise", "bootstrap", "split_noise", "newton_steps")
FOLDERS = [
    "rankwright/feedback", "rankwright/feedback/_kernels", "rankwright/rankers/boosting",
    "rankwright/rankers/boosting/_kernels",
]  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """LambdaMART with some parameters, to be fitted as a ``System`` is."""

    name: str
    parameters: dict[str, Any]
    family: str = "LambdaMART"
    trial: int = 0
    installed: bool = field(default=True, init=False)

    def identity(self) -> dict[str, Any]:
        """What the result depends on, but for early stopping, which has a file of its own."""
        limits = {"limits": [ROUNDS, PATIENCE], "sources": source_hash(FOLDERS)}
        return {"family": self.family, "parameters": self.parameters, **limits}

    def fit(self, fold: Any, seed: int) -> Predict:
        parameters = dict(self.parameters)
        added = {name: parameters.pop(name) for name in DROPPED if name in parameters}
        smoothing = {k: parameters.pop(k) for k in ("smoothing",) if k in parameters}
        stopping = rw.EarlyStopping(n_iter_no_change=PATIENCE, **smoothing)
        parameters |= {"n_estimators": ROUNDS, "early_stopping": stopping, "random_state": seed}
        train, vali = fold.train, fold.vali
        model = TriedLambdaMART(added, **parameters).fit(
            train.X, train.y, qid=train.qid, eval_set=(vali.X, vali.y), eval_qid=vali.qid
        )
        return model.decision_function


def every(seed: int) -> list[Variant | System]:
    ours: list[Variant | System] = [Variant(*item) for item in VARIANTS.items()]
    peers = [system for system in systems(seed) if system.family in SPACES and not system.trial]
    return ours + [peer for peer in peers if peer.installed]


def run(sets: list[str], seeds: list[int], words: list[str]) -> None:
    """Fit what is not kept yet."""
    os.environ.update(THREADS)
    context = multiprocessing.get_context("spawn")
    for seed, name in product(seeds, sets):
        wanted = [one for one in every(seed) if any(word in one.name for word in words)]
        missing = [one for one in wanted if not kept_path(name, seed, one).exists()]  # type: ignore[arg-type]
        if missing:
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                pool.submit(fit_all, name, seed, missing).result()  # type: ignore[arg-type]


def read(name: str, seeds: list[int]) -> dict[str, Result]:
    """The kept results of one set."""
    found: dict[str, Result] = {}
    for seed in seeds:
        for one in every(seed):
            path = kept_path(name, seed, one)  # type: ignore[arg-type]
            if path.exists():
                content = json.loads(path.read_text("utf-8"))
                result = found.setdefault(one.name, Result({}, {}, {}))
                result.test[seed], result.cpu[seed] = content["test"], content["cpu"]
    return found


def print_means(found: Mapping[str, dict[str, Result]], n_seeds: int) -> None:
    """Means, and the pooled difference from the old and the new default."""
    rows = []
    names = list(dict.fromkeys(name for results in found.values() for name in results))
    for system in names:
        cells = []
        for results in found.values():
            result = results.get(system)
            mean = np.mean(list(query_means(result.test).values())) if result else np.nan
            few = f" ({len(result.test)})" if result and len(result.test) < n_seeds else ""
            cells.append("-" if result is None else f"{mean:.4f}{few}")
        for base in (OLD, NEW):
            pairs = [
                differences(results[system].test, results[base].test)
                for results in found.values()
                if system in results and base in results
            ]
            same = system == base or len(pairs) < len(SETS)
            cells.append("" if same else str(pooled(pairs)))
        rows.append([system, *cells])
    print("NDCG@10 on test queries, mean over seeds; pooled differences, paired by query.")
    print_table(["system", *found, "minus old default", "minus new default"], rows)


def print_verdict(found: Mapping[str, dict[str, Result]]) -> dict[str, Any]:
    """The two rules, and the new default beside each peer, set by set."""
    complete = {
        name: results
        for name, results in found.items()
        if all(system in results for system in (OLD, NEW, *CATBOOST))
    }
    rows = []
    leads = {}
    for name, results in complete.items():
        new = results[NEW].test

        def mean(system: str, results: dict[str, Result] = results) -> float:
            return float(np.mean(list(query_means(results[system].test).values())))

        best = max(CATBOOST, key=mean)
        leads[name, best] = differences(new, results[best].test)
        peers = [peer for peer in (OLD, *SPACES) if peer in results]
        rows += [
            [name, peer, str(pooled([differences(new, results[peer].test)]))] for peer in peers
        ]
    print("The new default minus others, paired by query, 95 % intervals.")
    print_table(["set", "other", "difference"], rows)
    compared = compare(leads)
    for one in compared:
        print(f"  {one.name}: {one.lead} from {one.opponent}, p {one.p:.3f} after Holm")
    lead = pooled([differences(r[NEW].test, r[OLD].test) for r in complete.values()])
    confirming = [
        differences(r[NEW].test, r[OLD].test)
        for name, r in complete.items()
        if not SETS[name].chooses
    ]
    print(f"\nNew minus old default, pooled: {lead}")
    if confirming:
        print(f"The same on the sets that confirm: {pooled(confirming)}")
    rules = {
        "1. the pooled interval is above 0": lead.low > 0,
        "2. on no set significantly below the better CatBoost": not any(
            one.is_below for one in compared
        ),
    }
    for rule, holds in rules.items():
        print(f"{rule}: {'yes' if holds else '**NO**'}")
    if len(complete) < len(SETS):
        print(f"Preliminary; missing: {', '.join(set(SETS) - set(complete))}.")
    print()
    return {"pooled": lead, "rules": rules}


def print_cpu(found: Mapping[str, dict[str, Result]]) -> None:
    names = [OLD, NEW, "new, xendcg", *SPACES]
    rows = [
        [
            system,
            *(
                f"{np.median(list(results[system].cpu.values())):.1f}" if system in results else "-"
                for results in found.values()
            ),
        ]
        for system in names
    ]
    print("CPU seconds of a fit, one thread, median over seeds.")
    print_table(["system", *found], rows)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="letor/table_trees", allow_abbrev=False)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--systems", default="")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kept", action="store_true")
    options = parser.parse_args(argv or [])
    sets = options.sets.split(",")
    if unknown := [name for name in sets if name not in SETS]:
        parser.error(f"--sets: no set {', '.join(unknown)}; there are {', '.join(SETS)}.")
    seeds = [1] if options.quick else [int(seed) for seed in options.seeds.split(",")]
    if not options.kept:
        try:
            run(sets, seeds, options.systems.split(","))
        except rw.exceptions.DatasetError as error:
            print(f"needs the data sets: {error}")
            return
    found = {name: read(name, seeds) for name in SETS}
    print_means(found, len(seeds))
    verdict = print_verdict(found)
    print_cpu(found)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "letor_trees.json").write_text(json.dumps(verdict, indent=1), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
