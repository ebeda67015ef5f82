"""Dropout (DART), minimum gain and path smoothing for LambdaMART, on the small sets of LETOR.

The three are built here around trees that LambdaMART grows one at a time (``init_score``), on five
folds of OHSUMED and MQ2008, 8 leaves, at most 80 rounds. Strength and rounds are chosen by NDCG@10
on the validation part of each fold; "plain" chooses the rounds alone. The test part is looked at
once. Needs RANKWRIGHT_DATA. ``--ohsumed`` or ``--mq2008``: only that set. What is done is kept in
``_results/letor_regularization``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from experiments.letor.table_boosting import RESULTS, load

import rankwright as rw
from rankwright.scoring import Trees

SETS = {"letor3-ohsumed": "OHSUMED", "letor4-mq2008": "MQ2008"}
ROUNDS, LEAVES, RATE = 80, 8, 0.1
STRENGTHS = {
    "plain": [0.0],
    "dropout": [0.02, 0.1, 0.3],  # the chance of each tree to be left out in a round
    "minimum gain": [0.01, 0.03, 0.1],  # of a split, as a share of the first tree's first split
    "path smoothing": [2.0, 10.0, 50.0],  # rows that the value of the parent counts as
}
KEPT = RESULTS / "letor_regularization"


def grow(train: Any, scores: Any) -> Any:
    """One tree of LambdaMART that improves on these scores."""
    model = rw.LambdaMART(
        tree="leafwise", weighting="NDCG@30", n_estimators=1, max_leaf_nodes=LEAVES,
        learning_rate=RATE, n_jobs=1,
    )  # fmt: skip
    return model.fit(train.X, train.y, qid=train.qid, init_score=scores)


def change(model: Any, value: Callable[[int, float, float], tuple[float, bool]]) -> Trees:
    """The tree with other leaves.

    ``value`` gets a node, its mean and the new value of its parent; it returns the new value, and
    whether the node becomes a leaf.
    """
    scorer, cover = model._scorer(), model.node_cover_
    feature, out = scorer.feature.copy(), scorer.value.copy()
    mean = out.copy()
    for node in range(len(feature) - 1, -1, -1):  # children come after their parent
        if feature[node] >= 0:
            below = [scorer.low[node], scorer.high[node]]
            mean[node] = np.average(mean[below], weights=np.maximum(cover[below], 1))
    waiting = [(int(scorer.root[0]), 0.0)] if len(scorer.root) else []
    while waiting:
        node, above = waiting.pop()
        out[node], ends = value(node, mean[node], above)
        if ends:
            feature[node] = -1
        if feature[node] >= 0:
            waiting += [(int(scorer.low[node]), out[node]), (int(scorer.high[node]), out[node])]
    return Trees(
        scorer.n_inputs, scorer.root, scorer.weight, feature, scorer.threshold, scorer.default,
        scorer.low, scorer.high, out,
    )  # fmt: skip


def regularized(model: Any, method: str, strength: float, first_gain: float) -> Trees:
    cover, gain = model.node_cover_, model.node_gain_
    if method == "path smoothing":
        share = cover / (cover + strength)
        return change(
            model, lambda n, mean, above: (share[n] * mean + (1 - share[n]) * above, False)
        )
    if method == "minimum gain":  # a split stays if it, or one below it, gains enough
        scorer, best = model._scorer(), gain.copy()
        for node in range(len(gain) - 1, -1, -1):
            if scorer.feature[node] >= 0:
                best[node] = max(best[node], best[scorer.low[node]], best[scorer.high[node]])
        return change(model, lambda n, mean, _: (mean, best[n] < strength * first_gain))
    return model._scorer()


def curves(fold: Any, method: str, strength: float) -> tuple[Any, Any]:
    """NDCG@10 of the validation part after each round, and that of each test query."""
    rng, first_gain = np.random.default_rng(0), 0.0
    parts = fold.train, fold.vali, fold.test
    added: list[list[Any]] = []  # per tree what it adds to each part
    weight = np.zeros(0)
    vali, test = [], []
    for _ in range(ROUNDS):
        dropped = np.flatnonzero(rng.random(len(added)) < strength) if method == "dropout" else []
        kept = weight.copy()
        kept[dropped] = 0.0
        start = sum((w * own[0] for w, own in zip(kept, added, strict=True) if w), np.zeros(1))
        model = grow(fold.train, np.broadcast_to(start, len(fold.train.y)))
        if not len(model.alpha_):
            break
        first_gain = first_gain or float(model.node_gain_[0])
        tree = regularized(model, method, strength, first_gain)
        added.append([tree.decision_function(part.X) for part in parts])
        if n_dropped := len(dropped):  # as in XGBoost: the sum of their weights does not change
            weight[dropped] *= n_dropped / (n_dropped + RATE)
        weight = np.append(weight, 1.0 / (n_dropped + RATE) if n_dropped else 1.0)
        scores = [sum(w * own[i] for w, own in zip(weight, added, strict=True)) for i in (1, 2)]
        found = [
            rw.evaluate(s, part.y, part.qid, ["NDCG@10"], like="letor3")
            for s, part in zip(scores, parts[1:], strict=True)
        ]
        vali.append(found[0]["NDCG@10"])
        test.append(found[1].per_query("NDCG@10"))
    return vali, test


def fold_result(name: str, number: int, method: str) -> dict[str, Any]:
    """The test queries at the strength and round that are best on the validation part."""
    path = KEPT / f"{name}, {method}, fold {number}.json"
    if path.is_file():
        return dict(json.loads(path.read_text()))
    fold, best = load(name, number), {"vali": -1.0}
    for strength in STRENGTHS[method]:
        vali, test = curves(fold, method, strength)
        at = int(np.argmax(vali))
        if vali[at] > best["vali"]:
            best = {"vali": vali[at], "strength": strength, "rounds": at + 1}
            best["queries"] = test[at].tolist()
    KEPT.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(best))
    return best


def main(argv: list[str] | None = None) -> None:
    words = argv or []
    folds = [1] if "--quick" in words else [1, 2, 3, 4, 5]
    for name, title in SETS.items():
        if any(f"--{other.lower()}" in words for other in SETS.values() if other != title):
            continue
        print(f"{title}, {len(folds)} folds; strengths chosen on validation, fold by fold")
        plain: Any = None
        for method in STRENGTHS:
            found = [fold_result(name, number, method) for number in folds]
            queries = np.concatenate([each["queries"] for each in found])
            plain = queries if plain is None else plain
            gap = queries - plain
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            mean = np.mean([np.mean(each["queries"]) for each in found])
            chosen = ", ".join(f"{each['strength']:g} ({each['rounds']})" for each in found)
            print(
                f"  {method:14s} NDCG@10 {mean:.4f}, minus plain {gap.mean():+.4f} +- {error:.4f}"
                f"   strength (rounds): {chosen}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
