"""Recommending from one million ratings or events: fit, a new user, all users; with peers.

Peers are those of ``experiments/rankboost/recsys_peers.py`` and ``topn_peers.py`` (extra
``bench-recsys``); the quality of all of them on the same splits is printed by ``python -m
experiments rankboost/table_movielens`` and ``rankboost/table_topn``.
"""

from __future__ import annotations

import importlib.util
import time

import numpy as np
from experiments.rankboost.recsys_peers import PEERS

import rankwright as rw
from rankwright.recommend import split_ratings

N_NEW, N_RATED, N_USERS = 20, 20, 200


def run() -> None:
    """Print seconds (and milliseconds for one user), ours and the peers' in one run."""
    try:
        ratings = rw.load_dataset("movielens-1m")
    except rw.exceptions.DatasetError as error:
        print(f"skipped: {error}")
        return
    split = split_ratings(ratings, random_state=0)
    train, test = ratings.take(split.train), ratings.take(split.test)
    rw.Recommender(random_state=0).fit(train.take(slice(0, 2000)))  # compile
    seconds, model = _timed(lambda: rw.Recommender(random_state=0).fit(train))
    print(f"Recommender().fit, {len(train):,} ratings       {seconds:8.1f} s", flush=True)
    seconds, _ = _timed(lambda: model.predict_ratings(test))
    print(f"  score {len(test):,} test pairs                {seconds:8.1f} s", flush=True)
    _new(model, ratings)
    users = ratings.users[:N_USERS]
    seconds, _ = _timed(lambda: model.recommend_all(users=users))
    print(f"  recommend_all, per user                   {1e3 * seconds / N_USERS:8.1f} ms")
    for name, peer in PEERS.items():
        library = name.split()[0].lower()
        if importlib.util.find_spec(library) is None:
            print(f"{name}: {library} is not installed, skipped")
            continue
        scored = peer(train, test)
        print(f"{name:<32} fit {scored.fit:8.1f}, score {scored.predict:8.1f} CPU s", flush=True)


def _new(model: rw.Recommender, ratings: rw.Ratings) -> None:
    """A new user with twenty ratings gets a list of ten."""
    rng, took = np.random.default_rng(0), []
    for _ in range(N_NEW):
        items = ratings.items[rng.choice(ratings.n_items, N_RATED, replace=False)]
        mine = dict(zip(items.tolist(), rng.integers(1, 6, N_RATED).tolist(), strict=True))
        took.append(_timed(lambda: model.recommend_new(mine))[0])  # noqa: B023
    best, middle = 1e3 * min(took), 1e3 * float(np.median(took))
    print(f"  recommend_new, {N_RATED} ratings            {best:8.1f} ms, median {middle:.1f} ms")


def _timed(call: object) -> tuple[float, object]:
    start = time.perf_counter()
    answer = call()  # type: ignore[operator]
    return time.perf_counter() - start, answer
