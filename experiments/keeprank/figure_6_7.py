"""KeepRank, Figures 6 and 7: KeepRank against RankBoost fold by fold, and the curves as plots.

The paper shows TD2004; here are OHSUMED and MQ2008 (and TD2004 when its files are there). Reads
what ``table_4`` has written, or runs it first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from experiments.keeprank import table_4
from experiments.keeprank.folds import PLACES, RESULTS
from experiments.pictures import Panel, draw


def load(name: str, argv: Sequence[str]) -> dict[str, Any] | None:
    path = RESULTS / f"keeprank_table_4_{name}.json"
    if not path.exists():
        table_4.main([*argv, f"--data={name}"])
    return json.loads(path.read_text()) if path.exists() else None


def ratios(found: dict[str, Any], kind: str) -> list[list[float]]:
    """KeepRank over RankBoost, a line for each fold, a column for each n."""
    ours, others = found["folds"]["KeepRank"], found["folds"]["RankBoost"]
    return [
        [a[f"{kind}@{n}"] / max(b[f"{kind}@{n}"], 1e-9) for n in PLACES]
        for a, b in zip(ours, others, strict=True)
    ]


def plot(name: str, found: dict[str, Any]) -> None:
    """The curves of all systems above, KeepRank over RankBoost below."""
    curves, by_fold = [], []
    for kind in ("P", "NDCG"):
        lines = {s: [row[f"{kind}@{n}"] for n in PLACES] for s, row in found["means"].items()}
        folds = {f"fold {i}": line for i, line in enumerate(ratios(found, kind), start=1)}
        curves.append(Panel(f"{name}: {kind}@n", "n", PLACES, lines))
        by_fold.append(Panel(f"{kind}@n, KeepRank / RankBoost", "n", PLACES, folds, level=1.0))
    draw(f"keeprank_{name}", [curves, by_fold])


def main(argv: Sequence[str] | None = None) -> None:
    for name in table_4.DATASETS:
        found = load(name, list(argv or []))
        if found is None:
            continue
        for figure, kind in ((6, "P"), (7, "NDCG")):
            print(f"\n{name}, as Figure {figure}: {kind}@n of KeepRank over RankBoost, n = 1 .. 10")
            for fold, line in enumerate(ratios(found, kind), start=1):
                print(f"  fold {fold}  " + " ".join(f"{value:5.2f}" for value in line))
        plot(name, found)


if __name__ == "__main__":
    main()
