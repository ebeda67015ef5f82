"""RankBoost, Table 1: metasearch, on lists of engines that are public.

For each source: how many queries have a relevant document among the first 1, 2, 5, 10, 20 and 30,
and the mean place of the first relevant one, at most 31. Four-fold cross-validation by query; the
best engine is picked on the test queries, as in the paper, and on the training queries beside it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from experiments.metasearch.sources import SOURCES, Engines, load

import rankwright as rw
from rankwright.data import fold_queries
from rankwright.metrics import Scores

RESULTS = Path(__file__).parents[1] / "_results"
PLACES = (1, 2, 5, 10, 20, 30)
TOPS = [f"Top@{k}" for k in range(1, 31)]
CONSTRAINTS = {
    "CombSUM": {"method": "sum"},
    "CombMNZ": {"method": "mnz"},
    "CombMED": {"method": "med"},
    "CombANZ": {"method": "anz"},
    "Borda": {"method": "borda"},
    "reciprocal rank": {"method": "rrf"},
    "median rank": {"method": "median_rank"},
    "Condorcet": {"method": "condorcet"},
}
PLAIN = {"criterion": "r", "cumulative": True}  # the paper's WeakLearn.3.cum
BOOSTED = {
    "RankBoost 3.cum (paper)": PLAIN,
    "RankBoost 2.cum": {"criterion": "z", "cumulative": True},
    "RankBoost 3.cum, NDCG weights": {"cumulative": True, "weighting": "NDCG", "n_estimators": 200},
}
GRID = (20, 40, 80, 160, 320)
PAPER = {
    "ML, 210 queries: RankBoost": (102, 144, 173, 184, 194, 202, 4.38),
    "ML: best template by Top 10": (112, 147, 172, 179, 185, 187, 5.33),
    "UNIV, 290 queries: RankBoost": (95, 141, 197, 215, 247, 263, 7.74),
    "UNIV: best template": (112, 144, 198, 221, 238, 247, 8.17),
}


def measured(run: rw.Run, qrels: rw.Qrels, measures: Sequence[str]) -> Scores:
    aligned = rw.data.align(run, qrels)
    return rw.evaluate(aligned.scores, aligned.y, aligned.qid, [*measures, *TOPS])


def first_place(scores: Scores) -> float:
    """Mean of min(place of the first relevant document, 31), from the law of that place."""
    return 31 - sum(scores[top] for top in TOPS)


def of_queries(run: rw.Run, queries: np.ndarray) -> rw.Run:
    wanted = np.isin(run.queries.astype(str), queries.astype(str))
    return run.take(wanted[run.query])


def joined(runs: list[rw.Run], name: str) -> rw.Run:
    qid = np.concatenate([run.queries[run.query] for run in runs])
    docid = np.concatenate([run.docs[run.doc] for run in runs])
    return rw.Run.from_arrays(qid, docid, np.concatenate([run.score for run in runs]), name)


class Folds:
    """Four folds of the judged queries."""

    def __init__(self, engines: Engines) -> None:
        self.engines = engines
        qrels = engines.qrels
        folds = fold_queries(qrels.queries, 4, random_state=0)
        self.train = [qrels.take(np.isin(qrels.query, fold.train)) for fold in folds]
        self.tested = [qrels.queries[fold.test] for fold in folds]
        self.seen = [[of_queries(run, q.queries) for run in engines.runs] for q in self.train]
        self.test = [[of_queries(run, q) for run in engines.runs] for q in self.tested]

    def fused(self, name: str, model: rw.LearnedFusion) -> rw.Run:
        """The test lists of all folds, each fused by what was learned on the other three."""
        runs = [
            model.fit(seen, train).fuse(test)
            for seen, train, test in zip(self.seen, self.train, self.test, strict=True)
        ]
        return joined(runs, name)

    def n_estimators(self, fusion: rw.LearnedFusion) -> int:
        """Where the training error flattens: twice as many rounds lower it by less than 2 %."""
        before = np.inf
        for n_estimators in GRID:
            fusion.ranker.set_params(n_estimators=n_estimators)
            folds = zip(self.seen, self.train, strict=True)
            errors = [fusion.fit(seen, train).ranker_.train_rloss_ for seen, train in folds]
            if np.mean(errors) > 0.98 * before:
                return n_estimators // 2
            before = float(np.mean(errors))
        return GRID[-1]

    def chosen_engine(self, scores: dict[str, Scores]) -> rw.Run:
        """On each fold the engine whose first relevant document stands highest in training."""
        places = [31 - sum(one.per_query(top) for top in TOPS) for one in scores.values()]
        query_ids = next(iter(scores.values())).query_ids.astype(str)
        runs = []
        for tested, test in zip(self.tested, self.test, strict=True):
            train = ~np.isin(query_ids, tested.astype(str))
            runs.append(test[int(np.argmin([place[train].mean() for place in places]))])
        return joined(runs, "engine chosen in training")


def learned(options: dict, features: str) -> rw.LearnedFusion:
    ranker = rw.RankBoost(default=0, **options)
    return rw.LearnedFusion(ranker, features=features)


def best_engines(scores: dict[str, Scores]) -> dict[str, Scores]:
    """The paper's rows: the engine that is best on the test queries by Top 1, 10 and 30."""
    found = {}
    for k in (1, 10, 30):
        name = max(scores, key=lambda name: scores[name][f"Top@{k}"])
        found[f"best by Top {k}: {name}"] = scores[name]
    return found


def run(name: str, quick: bool = False) -> dict:
    """All rows of one source: {system: Scores}, printed on the way."""
    engines = load(name, 60 if quick else None)
    qrels = engines.qrels
    n_queries = qrels.n_queries
    folds = Folds(engines)
    print(f"\n{engines.title}: {n_queries} queries with a relevant document, four folds")
    systems, notes = {}, {}
    rounds = folds.n_estimators(learned(PLAIN, engines.features))
    for label, options in list(BOOSTED.items())[: 1 if quick else None]:
        start = time.perf_counter()
        fusion = learned({"n_estimators": rounds, **options}, engines.features)
        systems[label] = measured(folds.fused(label, fusion), qrels, engines.measures)
        seconds = time.perf_counter() - start
        notes[label] = f"{fusion.ranker.n_estimators} rounds, {seconds:.0f} s"
    hedge = rw.LearnedFusion(method="hedge")
    systems["Hedge, greedy order"] = measured(folds.fused("hedge", hedge), qrels, engines.measures)
    singles = {one.name: measured(one, qrels, engines.measures) for one in engines.runs}
    systems |= best_engines(singles)
    chosen = folds.chosen_engine(singles)
    systems[chosen.name] = measured(chosen, qrels, engines.measures)
    judged = [of_queries(one, qrels.queries) for one in engines.runs]
    for label, options in CONSTRAINTS.items():
        systems[label] = measured(rw.fuse(judged, **options), qrels, engines.measures)
    print_rows(systems, n_queries, notes)
    comparison = rw.compare(systems, engines.measures, baseline=next(iter(systems)))
    print("\nsignificance, each against the first row:")
    print(comparison)
    return {"queries": n_queries, "notes": notes, **comparison.to_dict(), "rows": rows(systems)}


def rows(systems: dict) -> dict[str, list[float]]:
    return {
        name: [*(scores[f"Top@{k}"] for k in PLACES), first_place(scores)]
        for name, scores in systems.items()
    }


def print_rows(systems: dict, n_queries: int, notes: dict[str, str]) -> None:
    head = "".join(f"{f'Top {k}':>8}" for k in PLACES)
    print(f"{'':34}{head}{'Avg Rank':>10}")
    for name, (*tops, place) in rows(systems).items():
        counts = "".join(f"{share * n_queries:8.0f}" for share in tops)
        print(f"{name:34}{counts}{place:10.2f}  {notes.get(name, '')}")


def main(argv: Sequence[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    print("paper (other engines; the lists were never published):")
    for name, (*tops, place) in PAPER.items():
        print(f"{name:34}{''.join(f'{top:8d}' for top in tops)}{place:10.2f}")
    wanted = [word for word in words if not word.startswith("--")] or list(SOURCES)
    RESULTS.mkdir(exist_ok=True)
    for name in wanted:
        found = run(name, "--quick" in words)
        (RESULTS / f"metasearch_{name}.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
