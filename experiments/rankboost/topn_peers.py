"""Top-N recommenders that people use, behind one call: train, then a list for each user.

Each takes training events and settings and gives a function of user numbers to lists of item
numbers, best first, without what a user took. A peer that is not installed is left out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import rankwright as rw
from rankwright.recommend.events import SLIT

N = 10
Lists = Callable[[np.ndarray], np.ndarray]


class System(NamedTuple):
    """How to train, the settings to try on validation, and the library it needs."""

    train: Callable[..., Lists]
    settings: list[dict[str, Any]]
    library: str = "numpy"

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.library) is not None


def best_of(scores: np.ndarray, taken: Any) -> np.ndarray:
    """The N best columns of each row that are not taken."""
    rows, columns = taken.nonzero()
    scores[rows, columns] = -np.inf
    first = np.argpartition(-scores, min(N, scores.shape[1] - 1), axis=1)[:, :N]
    order = np.argsort(-np.take_along_axis(scores, first, axis=1), axis=1, kind="stable")
    lists = np.take_along_axis(first, order, axis=1)
    lists[np.isneginf(np.take_along_axis(scores, lists, axis=1))] = -1
    return lists


def matrix(events: rw.Interactions) -> Any:
    table = events.to_csr().astype(np.float32)
    table.data[:] = 1.0
    return table


def in_blocks(score: Callable[[np.ndarray], np.ndarray], table: Any, size: int = 256) -> Lists:
    def lists(users: np.ndarray) -> np.ndarray:
        parts = [users[start : start + size] for start in range(0, len(users), size)]
        return np.concatenate([best_of(score(part), table[part]) for part in parts])

    return lists


def popularity(events: rw.Interactions, since: float = 0.0) -> Lists:
    """Users of each item, of the last ``1 - since`` of the events."""
    table = matrix(events)
    kept = events.take(slice(None))
    if since and events.time is not None:
        kept = events.take(events.time >= np.quantile(events.time, since))
    counts = np.bincount(kept.item, minlength=events.n_items).astype(np.float64)
    return in_blocks(lambda users: np.tile(counts, (len(users), 1)), table)


def ease(events: rw.Interactions, l2: float) -> Lists:
    """Steck 2019, as published, over at most 8000 items."""
    table = matrix(events)
    kept = np.sort(np.argsort(-events.item_counts, kind="stable")[:8000])
    X = table[:, kept]
    gram = (X.T @ X).toarray().astype(np.float64)
    gram[np.diag_indices_from(gram)] += l2
    inverse = np.linalg.inv(gram)
    weight = -inverse / np.diag(inverse)
    np.fill_diagonal(weight, 0.0)
    weight = weight.astype(np.float32)

    def score(users: np.ndarray) -> np.ndarray:
        scores = np.zeros((len(users), events.n_items), np.float32)
        scores[:, kept] = X[users] @ weight
        return scores

    return in_blocks(score, table)


def implicit_model(make: Callable[..., Any]) -> Callable[..., Lists]:
    def train(events: rw.Interactions, **settings: Any) -> Lists:
        from scipy.sparse import csr_matrix

        table = csr_matrix(matrix(events))
        model = make(**settings)
        model.fit(table, show_progress=False)

        def lists(users: np.ndarray) -> np.ndarray:
            found, scores = model.recommend(users, table[users], N=N)
            return np.where(scores > -1e30, found, -1).astype(np.int64)

        return lists

    return train


def _als(**settings: Any) -> Any:
    from implicit.als import AlternatingLeastSquares

    return AlternatingLeastSquares(random_state=0, **settings)


def _bpr(**settings: Any) -> Any:
    from implicit.bpr import BayesianPersonalizedRanking

    return BayesianPersonalizedRanking(random_state=0, **settings)


def _cosine(**settings: Any) -> Any:
    from implicit.nearest_neighbours import CosineRecommender

    return CosineRecommender(**settings)


def lenskit_pipeline(events: rw.Interactions, k: int) -> Any:
    import pandas as pd
    from lenskit.data import from_interactions_df
    from lenskit.knn import ItemKNNScorer
    from lenskit.pipeline import topn_pipeline

    frame = pd.DataFrame({"user_id": events.user, "item_id": events.item}).drop_duplicates()
    pipeline = topn_pipeline(ItemKNNScorer(max_nbrs=k, feedback="implicit"))
    pipeline.train(from_interactions_df(frame))
    return pipeline


def lenskit_knn(events: rw.Interactions, k: int) -> Lists:
    from lenskit.batch import recommend

    pipeline = lenskit_pipeline(events, k)

    def lists(users: np.ndarray) -> np.ndarray:
        found = recommend(pipeline, users.tolist(), n=N, n_jobs=1)
        out = np.full((len(users), N), -1, np.int64)
        for row, user in zip(out, users.tolist(), strict=True):
            items = found.lookup(user_id=user)
            ids = [] if items is None else items.ids()[:N]
            row[: len(ids)] = ids
        return out

    return lists


def ours(events: rw.Interactions, horizon: str | None = None, **settings: Any) -> Lists:
    """The default, or other experts; lists for the horizon of the test part."""
    model = rw.Recommender(random_state=0, **settings).fit(events)
    return lambda users: np.asarray(
        model.recommend_all(events.users[users], N, horizon=horizon).number
    )


def slit(events: rw.Interactions, horizon: str | None = None) -> Lists:
    """One expert of order alone."""
    return ours(events, experts=[SLIT()])


def two_stages(events: rw.Interactions, horizon: str | None = None) -> Lists:
    """Candidates of the default, ordered by LambdaMART; needs times."""
    model = rw.TwoStageRecommender(holdout=horizon or "next", random_state=0).fit(events)
    return lambda users: np.asarray(model.recommend_all(events.users[users], N).number)


OURS = ("Recommender()", "SLIT", "TwoStageRecommender()")
# Three settings each, all tried on the same validation part.
SYSTEMS: dict[str, System] = {
    "popularity": System(popularity, [{"since": 0.0}, {"since": 0.5}, {"since": 0.9}]),
    "EASE": System(ease, [{"l2": 100.0}, {"l2": 300.0}, {"l2": 1000.0}]),
    "implicit ALS": System(
        implicit_model(_als),
        [
            {"factors": 64, "regularization": 0.01},
            {"factors": 64, "regularization": 10.0, "alpha": 2.0},
            {"factors": 32, "regularization": 10.0},
        ],
        "implicit",
    ),
    "implicit BPR": System(
        implicit_model(_bpr),
        [
            {"factors": 64},
            {"factors": 64, "learning_rate": 0.05, "regularization": 0.002},
            {"factors": 32, "learning_rate": 0.05, "regularization": 0.02},
        ],
        "implicit",
    ),
    "implicit cosine": System(
        implicit_model(_cosine), [{"K": 20}, {"K": 50}, {"K": 200}], "implicit"
    ),
    "LensKit ItemKNN": System(lenskit_knn, [{"k": 20}, {"k": 50}, {"k": 200}], "lenskit"),
    "Recommender()": System(ours, [{}]),
    "SLIT": System(slit, [{}]),
    "TwoStageRecommender()": System(two_stages, [{}]),
}
