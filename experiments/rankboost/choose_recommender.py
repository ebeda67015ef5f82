"""How the settings of the default recommender were chosen: on training ratings alone.

``python -m experiments.rankboost.choose_recommender [--only=ItemKNN ...]`` takes the two training
sets of ``table_movielens`` (MovieLens 1M without the tenth that is tested on: at random, and by
time), cuts a tenth off each for validation in the same manner, and tries one setting after the
other of each model alone. The test ratings are never read.

The setting with the least share of misranked validation pairs, averaged over both cuts, stands in
the code; where two differ by less than 0.0003, which is chance, the cheaper one.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from experiments.rankboost.table_movielens import misranked

import rankwright as rw
from rankwright.recommend import split_by_time, split_ratings
from rankwright.recommend.ratings import ItemKNN, MatrixFactorization, RatingModel, UserSimilarity
from rankwright.recommend.ratings.base import RatingRows
from rankwright.recommend.ratings.blend import predict_rows

RESULTS = Path(__file__).parents[1] / "_results" / "rankboost_choose_recommender.json"

# One setting changed at a time; {} is what stands in the code.
TRIED: dict[type[RatingModel], list[dict[str, Any]]] = {
    MatrixFactorization: [
        {},
        *({"n_components": n} for n in (16, 32)),
        *({"n_implicit": n} for n in (20, 50, 200)),
        *({"max_iter": n} for n in (12, 30)),
        *({"damping": n} for n in (3.0, 30.0)),
        *({"ridge": n} for n in (3.0, 300.0)),
    ],
    ItemKNN: [
        {},
        *({"n_neighbors": n} for n in (100, 1000)),
        *({"shrinkage": n} for n in (0.0, 30.0)),
        *({"power": n, "damping": d} for n, d in ((1.0, 0.1), (1.5, 0.05), (3.0, 0.001))),
        *({"damping": n} for n in (0.002, 0.02, 0.05)),
    ],
    UserSimilarity: [
        {},
        *({"n_neighbors": n} for n in (300, 3000)),
        *({"power": n, "damping": d} for n, d in ((1.0, 0.05), (1.0, 0.2), (3.0, 0.005))),
        *({"damping": n} for n in (0.05, 0.2, 0.5)),
    ],
}


@cache
def cut(by_time: bool) -> tuple[rw.Ratings, rw.Ratings]:
    """Ratings to learn from and ratings to choose by, without the tenth that is tested on."""
    ratings = rw.load_dataset("movielens-1m")
    if by_time:
        train = ratings.take(split_by_time(ratings, test_size=0.1).train)
        split = split_by_time(train, test_size=0.1)
    else:
        train = ratings.take(split_ratings(ratings, test_size=0.1, random_state=0).train)
        split = split_ratings(train, test_size=0.1, random_state=1)
    return train.take(split.train), train.take(split.test)


def tried(by_time: bool, model: RatingModel, again: bool = False) -> tuple[float, float]:
    """Misranked validation pairs, and the CPU seconds of fitting.

    ``again``: fitted on nine tenths first, then refitted, as the recommender does.
    """
    known, asked = cut(by_time)
    if again:
        model.fit(known.take(np.random.default_rng(0).random(len(known)) > 0.1))
    start = time.process_time()
    model.refit(known) if again else model.fit(known)
    seconds = time.process_time() - start
    table = RatingRows.by_user(known)
    scores = predict_rows(lambda user, items: model.scores(*table.row(user), items), asked)
    return misranked(scores, asked), seconds


def main(argv: list[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    only = [word.removeprefix("--only=") for word in words if word.startswith("--only=")]
    runs = {
        repr(kind(**setting)): (kind(**setting), False)
        for kind, settings in TRIED.items()
        for setting in settings
    }
    runs["MatrixFactorization(), refitted"] = (MatrixFactorization(), True)
    chosen = [name for name in runs if not only or any(word in name for word in only)]
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    print(f"{'':<44}{'random':>9}{'by time':>9}{'mean':>9}{'fit CPU':>9}", flush=True)
    with ProcessPoolExecutor(2) as pool:
        waiting = {
            name: [pool.submit(tried, by_time, *runs[name]) for by_time in (False, True)]
            for name in chosen
        }
        for name, found in waiting.items():
            (random, seconds), (by_time, _) = (each.result() for each in found)
            figures = f"{random:>9.4f}{by_time:>9.4f}{(random + by_time) / 2:>9.4f}{seconds:>9.1f}"
            print(f"{name:<44}{figures}", flush=True)
            results[name] = {"random": random, "by time": by_time, "fit CPU": seconds}
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
