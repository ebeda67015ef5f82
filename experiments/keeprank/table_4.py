"""KeepRank, Table 4 and Figures 2 to 5, 8 and 9: MAP, P@1..10 and NDCG@1..10 by LETOR's rules.

Needs RANKWRIGHT_DATA. TD2003 and TD2004 run when their files are there, and are left out otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from experiments.keeprank.folds import BY_HAND, MEASURES, PLACES, by_fold, pooled, run_folds, save
from experiments.keeprank.systems import SYSTEMS

from rankwright import compare
from rankwright.exceptions import DatasetError

DATASETS = ["letor3-ohsumed", "letor4-mq2008", *BY_HAND]
PAPER = {  # MAP, Table 4
    "letor3-td2003": {"FRank": 0.20, "RankSVM": 0.26, "RankBoost": 0.23, "KeepRank": 0.28},
    "letor3-td2004": {"FRank": 0.24, "RankSVM": 0.22, "RankBoost": 0.26, "KeepRank": 0.23},
    "letor3-ohsumed": {"FRank": 0.44, "RankSVM": 0.43, "RankBoost": 0.44, "KeepRank": 0.45},
}


def run(name: str, n_folds: int = 5) -> dict[str, Any]:
    """One data set: tables printed, numbers returned."""
    outcomes, tests = run_folds(name, SYSTEMS, "AP", "letor3", n_folds)
    folds = {system: by_fold(found, tests, "letor3") for system, found in outcomes.items()}
    means = {
        system: {m: float(np.mean([fold[m] for fold in found])) for m in MEASURES}
        for system, found in folds.items()
    }
    print(f"\n{name}: MAP, mean of {n_folds} folds, chosen on validation by MAP")
    for system, values in means.items():
        paper = PAPER.get(name, {}).get(system)
        print(f"  {system:20} paper {'-' if paper is None else paper:>4}  ours {values['AP']:.4f}")
    for kind in ("P", "NDCG"):
        print(f"\n{name}: {kind}@n, n = 1 .. 10")
        for system, values in means.items():
            print(f"  {system:20} " + " ".join(f"{values[f'{kind}@{n}']:.3f}" for n in PLACES))
    each = {
        system: pooled(found, tests, ["AP", "NDCG@10"], "letor3")
        for system, found in outcomes.items()
    }
    print(f"\n{compare(each)}")
    chosen = {s: [outcome.params for outcome in found] for s, found in outcomes.items()}
    return {"means": means, "folds": folds, "chosen": chosen}


def main(argv: Sequence[str] | None = None) -> None:
    words = list(argv or [])
    n_folds = 1 if "--quick" in words else 5
    chosen = [word.removeprefix("--data=") for word in words if word.startswith("--data=")]
    for name in chosen or DATASETS:
        try:
            found = run(name, n_folds)
        except DatasetError as missing:
            print(f"{name} left out: {str(missing).splitlines()[0]}")
            continue
        save(f"keeprank_table_4_{name}", found)


if __name__ == "__main__":
    main()
