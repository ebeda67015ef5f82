"""Better than what people use? Recommenders on MovieLens 1M, same split, same run.

Misranked: the share of pairs of a user's test films, rated differently, that are in wrong order
(equal scores count 1/2), over all pairs and as a mean over users. NDCG@10 and AP of the top rating
are over each user's test films; times are CPU seconds. Peers (extra ``bench-recsys``) that are not
installed are left out.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from experiments.rankboost.recsys_peers import PEERS, Scored

import rankwright as rw
from rankwright.recommend.protocols import split_by_time, split_ratings

RESULTS = Path(__file__).parents[1] / "_results"
MEASURES = ["Disagreement", "NDCG@10", "AP(rel=max)"]


def ours(train: rw.Ratings, test: rw.Ratings) -> Scored:
    start = time.process_time()
    model = rw.Recommender(random_state=0).fit(train)
    middle = time.process_time()
    scores = model.predict_ratings(test)
    seconds = time.process_time() - middle
    _parts(model, test)
    return Scored(scores, middle - start, seconds)


def _parts(model: Any, test: rw.Ratings) -> None:
    """Each expert of the default model alone: what the combination gains."""
    from rankwright.recommend.blend import predict_rows
    from rankwright.recommend.experts import Table

    known = Table.by_user(model.ratings_)
    for expert in model.model_.experts_:
        scores = predict_rows(
            lambda user, wanted, e=expert: e.scores(*known.row(user), wanted), test
        )
        _line(f"  {type(expert).__name__} alone", Scored(scores, np.nan, np.nan), test)


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


def _line(name: str, scored: Scored, test: rw.Ratings) -> dict[str, float]:
    found = {**measured(scored, test), "fit": scored.fit, "predict": scored.predict}
    print(f"{name:<30}" + "".join(f"{value:>10.4g}" for value in found.values()), flush=True)
    return found


def _installed(name: str) -> bool:
    library = {"Surprise": "surprise", "LensKit": "lenskit", "implicit": "implicit"}
    return importlib.util.find_spec(library[name.split()[0]]) is not None


def run(quick: bool) -> dict[str, Any]:
    ratings = rw.load_dataset("movielens-100k" if quick else "movielens-1m")
    results: dict[str, Any] = {}
    peers = {name: peer for name, peer in PEERS.items() if _installed(name)}
    for title, split in {
        "random 90/10": split_ratings(ratings, test_size=0.1, random_state=0),
        "by time 90/10": split_by_time(ratings, test_size=0.1),
    }.items():
        train, test = ratings.take(split.train), ratings.take(split.test)
        heads = ("pooled", "per user", "NDCG@10", "AP(top)", "fit CPU", "score CPU")
        print(f"\n{title:<30}" + "".join(f"{head:>10}" for head in heads), flush=True)
        for name, each in {"item means": item_means, "Recommender()": ours, **peers}.items():
            results[f"{title} | {name}"] = _line(name, each(train, test), test)
    return results


def main(argv: list[str] | None = None) -> None:
    quick = "--quick" in (sys.argv[1:] if argv is None else argv)
    try:
        results = run(quick)
    except rw.exceptions.DatasetError as error:
        sys.exit(f"this table needs MovieLens: {error}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "rankboost_table_movielens.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
