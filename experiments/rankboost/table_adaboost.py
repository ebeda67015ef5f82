"""RankBoost against AdaBoost on bipartite feedback: the question that the authors leave open.

Section 8 of the paper asks how the two compare where ranking can also be treated as classification.
Rows of at least grade 1 (of films: 4 stars) belong above the others of their query. Both learn the
same thresholds, for the number of rounds that is best on validation queries; half of the training
queries of a fold are held out for it. Lists of engines, LETOR's features, and films (a viewer is a
query, other viewers' ratings are the features).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from experiments.metasearch.sources import load as load_engines
from experiments.prank.trials import save

import rankwright as rw
from rankwright.data import fold_queries
from rankwright.exceptions import DatasetError, DegenerateDataWarning

MEASURES = ["Disagreement", "AP", "NDCG@10"]
ROUNDS = (10, 20, 40, 80, 160, 320)
SYSTEMS: dict[str, Any] = {
    "RankBoost": rw.RankBoost(),
    "RankBoost .cum": rw.RankBoost(cumulative=True),
    "RankBoost, method 2": rw.RankBoost(criterion="z"),
    "AdaBoost": rw.AdaBoostRanker(),
}
FILMS, OTHERS = 60, 300


def metasearch() -> Iterator[tuple[Any, Any]]:
    engines = load_engines("letor4-mq2008-agg")
    items = rw.data.items_from_runs(engines.runs, engines.qrels)
    yield from folds(items.X, items.y, items.qid)


def letor(name: str) -> Iterator[tuple[Any, Any]]:
    items = rw.load_dataset(name)
    X = items.X.toarray() if items.is_sparse else items.X
    yield from folds(np.asarray(X), items.y, items.qid)


def films() -> Iterator[tuple[Any, Any]]:
    """Each viewer's rated films, half of them to test on; one model for each viewer."""
    ratings = rw.load_dataset("movielens-1m")
    rng = np.random.default_rng(0)
    order = rng.permutation(np.flatnonzero(ratings.user_counts >= 80))
    targets, others = order[:FILMS], order[FILMS : FILMS + OTHERS]
    table = np.full((ratings.n_users, ratings.n_items), np.nan)
    table[ratings.user, ratings.item] = ratings.value
    for target in targets:
        seen = rng.permutation(np.flatnonzero(~np.isnan(table[target])))
        X, y = table[np.ix_(others, seen)].T, (table[target, seen] >= 4).astype(float)
        half, quarter = len(seen) // 2, len(seen) // 4
        parts = [slice(0, quarter), slice(quarter, half), slice(half, None)]
        train, valid, test = ((X[p], y[p], np.zeros(len(y[p]))) for p in parts)
        yield (train, valid), test


def folds(X: np.ndarray, y: np.ndarray, qid: np.ndarray) -> Iterator[tuple[Any, Any]]:
    y = (np.asarray(y) >= 1).astype(float)
    for number, fold in enumerate(fold_queries(qid, 4, random_state=0)):
        queries = np.random.default_rng(number).permutation(np.unique(qid[fold.train]))
        held = np.isin(qid[fold.train], queries[: len(queries) // 2])
        parts = (fold.train[~held], fold.train[held], fold.test)
        train, valid, test = ((X[p], y[p], qid[p]) for p in parts)
        yield (train, valid), test


SETS: dict[str, Any] = {
    "metasearch, MQ2008-agg": metasearch,
    "OHSUMED": lambda: letor("letor3-ohsumed"),
    "MQ2008": lambda: letor("letor4-mq2008"),
    "films, MovieLens 1M": films,
}


def scores_of(system: Any, train: Any, valid: Any, test: Any) -> tuple[np.ndarray, int]:
    """Test scores with the rounds that misorder the fewest validation pairs."""
    best, chosen = np.inf, ROUNDS[0]
    for n_estimators in ROUNDS:
        model = system.set_params(n_estimators=n_estimators).fit(train[0], train[1], qid=train[2])
        found = rw.evaluate(model.decision_function(valid[0]), valid[1], valid[2], ["Disagreement"])
        if found["Disagreement"] < best:
            best, chosen = found["Disagreement"], n_estimators
    both = [np.concatenate(pair) for pair in zip(train, valid, strict=True)]
    model = system.set_params(n_estimators=chosen).fit(both[0], both[1], qid=both[2])
    return model.decision_function(test[0]), chosen


def run(title: str, parts: Iterator[tuple[Any, Any]], n_parts: int | None) -> dict[str, Any]:
    collected: dict[str, list[np.ndarray]] = {name: [] for name in SYSTEMS}
    rounds: dict[str, list[int]] = {name: [] for name in SYSTEMS}
    grades, queries = [], []
    for number, ((train, valid), test) in enumerate(parts):
        if number == n_parts:
            break
        for name, system in SYSTEMS.items():
            scores, chosen = scores_of(system, train, valid, test)
            collected[name].append(scores)
            rounds[name].append(chosen)
        grades.append(test[1])
        queries.append([f"{number} {q}" for q in test[2]])
    y, qid = np.concatenate(grades), np.concatenate(queries)
    each = {
        name: rw.evaluate(np.concatenate(scores), y, qid, MEASURES)
        for name, scores in collected.items()
    }
    print(f"\n{title}: {len(np.unique(qid))} lists; chosen rounds, mean: "
          + ", ".join(f"{name} {np.mean(r):.0f}" for name, r in rounds.items()))  # fmt: skip
    print(rw.compare(each))
    return {name: {m: float(s[m]) for m in MEASURES} for name, s in each.items()}


def main(argv: Sequence[str] | None = None) -> None:
    warnings.simplefilter("ignore", DegenerateDataWarning)  # viewers who like all their films
    quick = bool(argv) and "--quick" in argv
    found = {}
    for title, parts in SETS.items():
        try:
            found[title] = run(title, parts(), (8 if "films" in title else 1) if quick else None)
        except DatasetError as missing:
            print(f"{title} left out: {str(missing).splitlines()[0]}", file=sys.stderr)
    save("rankboost_table_adaboost", found)


if __name__ == "__main__":
    main()
