"""Better than what people use? Recommenders on MovieLens 1M, same split, same run.

Misranked: the share of pairs of a user's test films, rated differently, that are in wrong order
(equal scores count 1/2), over all pairs and as a mean over users. NDCG@10 and AP of the top rating
are over each user's test films; times are CPU seconds, each split has a process of its own. Peers
(extra ``bench-recsys``) that are not installed are left out.

    python -m experiments rankboost/table_movielens [--quick] [--ours]

``--quick`` takes MovieLens 100k, ``--ours`` runs no peers.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from experiments.rankboost.recsys_peers import PEERS, Scored
from experiments.sources import call_in_worker, note_worker

import rankwright as rw
from rankwright.recommend import split_by_time, split_ratings
from rankwright.recommend.ratings import RatingModel
from rankwright.recommend.ratings.base import RatingRows
from rankwright.recommend.ratings.blend import MODELS, predict_rows

RESULTS = Path(__file__).parents[1] / "_results"
MEASURES = ["Disagreement", "NDCG@10", "AP(rel=max)"]
SPLITS = {
    "random 90/10": lambda ratings: split_ratings(ratings, test_size=0.1, random_state=0),
    "by time 90/10": lambda ratings: split_by_time(ratings, test_size=0.1),
}


def ours(train: rw.Ratings, test: rw.Ratings) -> Scored:
    start = time.process_time()
    model = rw.Recommender(random_state=0).fit(train)
    middle = time.process_time()
    scores = model.predict_ratings(test)
    return Scored(scores, middle - start, time.process_time() - middle)


def part(kind: type[RatingModel]) -> Callable[[rw.Ratings, rw.Ratings], Scored]:
    """A model of the default model alone: what the combination gains."""

    def run(train: rw.Ratings, test: rw.Ratings) -> Scored:
        start = time.process_time()
        model, known = kind().fit(train), RatingRows.by_user(train)
        middle = time.process_time()
        scores = predict_rows(lambda user, items: model.scores(*known.row(user), items), test)
        return Scored(scores, middle - start, time.process_time() - middle)

    return run


def item_means(train: rw.Ratings, test: rw.Ratings) -> Scored:
    total = np.bincount(train.item, train.value - train.value.mean(), train.n_items)
    return Scored((total / (train.item_counts + 5.0))[test.item], 0.0, 0.0)


def measured(scored: Scored, test: rw.Ratings) -> dict[str, float]:
    found = rw.evaluate(scored.scores, test.value, test.user, MEASURES)
    return {"pooled": misranked(scored.scores, test), **{m: float(found[m]) for m in MEASURES}}


def misranked(scores: np.ndarray, test: rw.Ratings) -> float:
    """The share of all pairs inside users that are in wrong order, equal scores 1/2."""
    found = rw.evaluate(scores, test.value, test.user, ["Disagreement"])
    wrong = found.per_query("Disagreement", skipped=0.0)
    _, first = np.unique(test.user, return_index=True)
    users = test.user[np.sort(first)]
    values, level = np.unique(test.value, return_inverse=True)
    table = np.zeros((test.n_users, len(values)))
    np.add.at(table, (test.user, level), 1.0)
    pairs = ((table.sum(axis=1) ** 2 - (table**2).sum(axis=1)) / 2)[users]
    return float((wrong * pairs).sum() / pairs.sum())


OURS = {"item means": item_means, "Recommender()": ours} | {
    f"  {kind.__name__} alone": part(kind) for kind in MODELS
}


def _installed(name: str) -> bool:
    library = {"Surprise": "surprise", "LensKit": "lenskit", "implicit": "implicit"}
    return importlib.util.find_spec(library[name.split()[0]]) is not None


def one_split(title: str, ratings: rw.Ratings, ours_only: bool) -> dict[str, dict[str, float]]:
    """Every system on one split, in one process."""
    split = SPLITS[title](ratings)
    train, test = ratings.take(split.train), ratings.take(split.test)
    rw.Recommender(random_state=0).fit(train.take(slice(0, 2000)))  # compile
    found = {}
    for name, system in {**OURS, **PEERS}.items():
        if name in OURS or (not ours_only and _installed(name)):
            scored = system(train, test)
            found[name] = {
                **measured(scored, test),
                "fit": scored.fit,
                "predict": scored.predict,
            }
    return found


def run(quick: bool, ours_only: bool) -> dict[str, Any]:
    ratings = rw.load_dataset("movielens-100k" if quick else "movielens-1m")
    with ProcessPoolExecutor(len(SPLITS)) as pool:
        waiting = {
            title: pool.submit(call_in_worker, one_split, title, ratings, ours_only)
            for title in SPLITS
        }
    results = {}
    heads = ("pooled", "per user", "NDCG@10", "AP(top)", "fit CPU", "score CPU")
    for title, found in waiting.items():
        print(f"\n{title:<30}" + "".join(f"{head:>10}" for head in heads), flush=True)
        for name, figures in note_worker(found.result()).items():
            print(f"{name:<30}" + "".join(f"{each:>10.4g}" for each in figures.values()))
            results[f"{title} | {name}"] = figures
    return results


def main(argv: list[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    try:
        results = run("--quick" in words, "--ours" in words)
    except rw.exceptions.DatasetError as error:
        sys.exit(f"this table needs MovieLens: {error}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "rankboost_table_movielens.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
