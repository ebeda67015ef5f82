"""Recommenders that people use, behind one call: train, then score the test pairs.

Each takes the training and the test ratings (over the same users and items) and gives a score for
each test row with the CPU seconds of fitting and of scoring (wall time would depend on the load).
A peer that is not installed is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import rankwright as rw

__all__ = ["PEERS", "Scored"]


class Scored(NamedTuple):
    """A score for each test row, and the CPU seconds it took to fit and to score."""

    scores: np.ndarray
    fit: float
    predict: float


def surprise(make: Callable[[Any], Any]) -> Callable[[Any, Any], Scored]:
    def run(train: rw.Ratings, test: rw.Ratings) -> Scored:
        import pandas as pd
        import surprise as library

        reader = library.Reader(rating_scale=(1, 5))
        frame = pd.DataFrame({"u": train.user, "i": train.item, "r": train.value})
        data = library.Dataset.load_from_df(frame, reader).build_full_trainset()
        model = make(library)
        start = time.process_time()
        model.fit(data)
        middle = time.process_time()
        pairs = zip(test.user.tolist(), test.item.tolist(), strict=True)
        scores = np.array([model.predict(u, i, clip=False).est for u, i in pairs])
        return Scored(scores, middle - start, time.process_time() - middle)

    return run


def lenskit(make: Callable[[], Any]) -> Callable[[Any, Any], Scored]:
    def run(train: rw.Ratings, test: rw.Ratings) -> Scored:
        import pandas as pd
        from lenskit.batch import predict
        from lenskit.data import from_interactions_df
        from lenskit.pipeline import predict_pipeline

        names = ["user_id", "item_id", "rating"]
        known = pd.DataFrame(dict(zip(names, (train.user, train.item, train.value), strict=True)))
        asked = pd.DataFrame({"user_id": test.user, "item_id": test.item})
        pipeline = predict_pipeline(make())
        start = time.process_time()
        pipeline.train(from_interactions_df(known))
        middle = time.process_time()
        found = predict(pipeline, asked, n_jobs=1).to_df()
        seconds = time.process_time() - middle
        both = asked.merge(found, on=["user_id", "item_id"], how="left")
        filled = both["score"].fillna(train.value.mean()).to_numpy()
        return Scored(filled, middle - start, seconds)

    return run


def implicit_als(train: rw.Ratings, test: rw.Ratings) -> Scored:
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(factors=64, iterations=15, random_state=0)
    start = time.process_time()
    model.fit(train.to_csr().astype(np.float32), show_progress=False)
    middle = time.process_time()
    scores = (model.user_factors[test.user] * model.item_factors[test.item]).sum(axis=1)
    return Scored(np.asarray(scores, float), middle - start, time.process_time() - middle)


def _item_knn() -> Any:
    from lenskit.knn import ItemKNNScorer

    return ItemKNNScorer(k=20)


def _biased_mf() -> Any:
    from lenskit.als import BiasedMFScorer

    return BiasedMFScorer(features=50)


_BY_ITEM = {"name": "pearson_baseline", "user_based": False}

PEERS: dict[str, Callable[[rw.Ratings, rw.Ratings], Scored]] = {
    "Surprise BaselineOnly": surprise(lambda s: s.BaselineOnly(verbose=False)),
    "Surprise SVD": surprise(lambda s: s.SVD(random_state=0)),
    "Surprise KNNBaseline (item)": surprise(
        lambda s: s.KNNBaseline(sim_options=_BY_ITEM, verbose=False)
    ),
    "LensKit ItemKNN": lenskit(_item_knn),
    "LensKit BiasedMF": lenskit(_biased_mf),
    "implicit ALS": implicit_als,
}
