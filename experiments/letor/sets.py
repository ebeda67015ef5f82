"""The sets of table_default: real and generated, in training, validation and test queries.

A set published in five folds has one fold per seed. Of a set published in two files, a fifth of the
training queries is held out for validation, drawn with the seed. Generated sets are drawn with it.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

import rankwright as rw
from rankwright.data import make_queries, split_queries
from rankwright.data.datasets.loading import Partition

SEEDS = (1, 2, 3, 4, 5)


class Set(NamedTuple):
    """Where a set comes from, and whether settings of AutoRanker were chosen on it."""

    source: str
    parts: str  # "folds", "files" or "drawn"
    chooses: bool


SETS = {
    "ohsumed": Set("letor3-ohsumed", "folds", chooses=True),
    "mq2008": Set("letor4-mq2008", "folds", chooses=True),
    "mq2007": Set("letor4-mq2007-partial", "folds", chooses=False),
    "mslr": Set("mslr-web-sample", "files", chooses=False),
    "lightgbm": Set("lightgbm-rank", "files", chooses=False),
    "long-lists": Set("long_lists", "drawn", chooses=True),
    "short-lists": Set("short_lists", "drawn", chooses=True),
}


def load(name: str, seed: int) -> Partition:
    """Training, validation and test items of a set for one seed."""
    source, parts, _ = SETS[name]
    if parts == "folds":
        fold: Partition = rw.load_dataset(source, fold=seed)
        return fold
    if parts == "files":
        files = rw.load_dataset(source)
        split = split_queries(files.train.qid, test_size=0.2, random_state=seed)
        return Partition(files.train.take(split.train), files.train.take(split.test), files.test)
    items, n_train, n_vali = {"long_lists": long_lists, "short_lists": short_lists}[source](seed)
    ends = np.searchsorted(items.qid, [n_train, n_train + n_vali])
    rows = np.split(np.arange(len(items)), ends)
    return Partition(*(items.take(part) for part in rows))


def long_lists(seed: int) -> tuple[rw.Items, int, int]:
    """48 + 12 + 200 queries with 100 to 300 documents: nearly linear, with much noise.

    Every other feature is log-normal, as counts and lengths are, so no linear function of the
    features has the true order.
    """
    drawn = make_queries(
        260, docs_per_query=(100, 300), n_features=40, n_informative=15, noise=2.0,
        random_state=seed,
    )  # fmt: skip
    X = drawn.X.copy()
    X[:, ::2] = np.exp(X[:, ::2])
    return rw.Items(X, drawn.y, drawn.qid), 48, 12


def short_lists(seed: int) -> tuple[rw.Items, int, int]:
    """800 + 200 + 500 queries with 5 to 20 documents: interactions, thresholds, real-valued grades.

    The first three features belong to the query. A label is the mean of the grades 0 .. 4 of three
    judges, so it has thirds.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 21, size=1500)
    qid = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.standard_normal((len(qid), 30))
    X[:, :3] = rng.standard_normal((len(sizes), 3))[qid]
    utility = (
        np.where(X[:, 0] > 0, X[:, 3], X[:, 4])
        + X[:, 5] * X[:, 6]
        - np.abs(X[:, 7])
        + np.maximum(X[:, 8], X[:, 9])
        + 1.5 * (X[:, 10] > 0.8)
        + 0.5 * X[:, 11]
    )
    utility = (utility - utility.mean()) / utility.std()
    judged = utility + 1.5 * rng.standard_normal((3, len(qid)))
    cuts = np.quantile(judged, [0.5, 0.75, 0.9, 0.97])
    return rw.Items(X, np.searchsorted(cuts, judged).mean(axis=0), qid), 800, 200


def identity(name: str, seed: int) -> str:
    """What a result depends on: the source, or the numbers that were drawn."""
    if SETS[name].parts != "drawn":
        return SETS[name].source
    fold = load(name, seed)
    numbers = [part.X.tobytes() + part.y.tobytes() for part in (fold.train, fold.vali, fold.test)]
    return hashlib.sha256(b"".join(numbers)).hexdigest()


def query_names(name: str, seed: int, qid: Any) -> list[str]:
    """A query has the same name in all seeds that test it; drawn queries are tested once."""
    prefix = f"{seed}-" if SETS[name].parts == "drawn" else ""
    return [f"{prefix}{query}" for query in np.asarray(qid).tolist()]
