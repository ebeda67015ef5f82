"""Held-out questions, and the weights that answer them best: coordinate ascent on NDCG@10."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.recommend.experts.histories import Histories

HOLDOUTS = ("both", "next", "period")
# What comes next in a session is far easier to tell than what a user takes in the coming time, and
# the weights that are best for one are bad for the other. Equal shares would give up too much of
# the second.
SHARE = {"next": 0.25, "period": 0.75}
PERIOD = 0.1  # share of the pairs in the last period
MIN_HISTORY = 2  # items that must be left of a history
STEPS = (0.0, 0.5, 0.75, 1.4, 2.0)  # factors that a weight is tried with
MIN_GAIN = 0.01  # relative gain that a changed weight must bring
DISCOUNT = 1.0 / np.log2(np.arange(2, 12))

Candidates = tuple[FloatArray, FloatArray, IntArray]


class Question(NamedTuple):
    """Which items do these users take next? The answers, as pairs of user and item."""

    name: str
    users: IntArray
    user: IntArray
    item: IntArray

    def sample(self, n: int, rng: Any) -> Question:
        kept = np.sort(rng.permutation(self.users)[:n])
        used = np.isin(self.user, kept)
        return Question(self.name, kept, self.user[used], self.item[used])

    def matrix(self, block: IntArray, n_items: int) -> NDArray[np.float32]:
        """1 for the answers of a block of users."""
        table = np.zeros((len(block), n_items), np.float32)
        used = np.isin(self.user, block)
        table[np.searchsorted(block, self.user[used]), self.item[used]] = 1.0
        return table


def held_out(histories: Histories, holdout: str) -> tuple[Histories, list[Question]]:
    """Histories without the held-out pairs, and the questions; none if there is too little."""
    size = np.diff(histories.ptr)
    place = np.arange(len(histories)) - np.repeat(histories.ptr[:-1], size)
    late = np.zeros(len(histories), bool)
    if holdout != "next" and histories.time is not None and len(histories):
        late = histories.time > np.quantile(histories.time, 1.0 - PERIOD, method="lower")
    early = np.bincount(histories.user[~late], minlength=histories.n_users)
    last = (place == early[histories.user] - 1) & ~late & (early[histories.user] > MIN_HISTORY)
    if holdout == "period":
        last[:] = False
    questions = []
    for name, rows in (("next", last), ("period", late)):
        user, item = histories.user[rows].astype(np.int64), histories.item[rows].astype(np.int64)
        left = early - (np.bincount(histories.user[last], minlength=histories.n_users) > 0)
        enough = left[user] >= MIN_HISTORY
        if enough.any():
            users = np.unique(user[enough])
            questions.append(Question(name, users, user[enough], item[enough]))
    return without(histories, last | late), questions


def without(histories: Histories, rows: Any) -> Histories:
    """The histories without some pairs, over the same users and items."""
    kept = ~rows
    counts = np.bincount(histories.user[kept], minlength=histories.n_users)
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    time = None if histories.time is None else histories.time[kept]
    columns = (histories.item[kept], histories.weight[kept], time)
    return Histories(histories.users, histories.items, ptr, *columns)


def ndcg(hits: Any, n_relevant: Any) -> FloatArray:
    """NDCG@10 of each row of hits (0 or 1), best first."""
    ideal = np.cumsum(DISCOUNT)[np.clip(n_relevant, 1, 10).astype(np.int64) - 1]
    return np.asarray(hits @ DISCOUNT[: hits.shape[1]] / ideal)


def ascend(tables: list[Candidates], share: FloatArray, max_rounds: int = 4) -> FloatArray:
    """Weights >= 0, by steps of one weight at a time while NDCG@10 of the candidates grows.

    Of several questions, each has its share, and its NDCG is divided by that of the best expert.
    """
    n_experts = tables[0][0].shape[1]
    weight = np.ones(n_experts)
    best_alone = [max(_mean_ndcg(table, one) for one in np.eye(n_experts)) for table in tables]
    scale = share / np.maximum(best_alone, 1e-9)

    def value(trial: FloatArray) -> float:
        return float(scale @ [_mean_ndcg(table, trial) for table in tables])

    best = value(weight)
    for _ in range(max_rounds):
        start = best
        for at in range(n_experts):
            steps = [weight[at] * factor for factor in STEPS] if weight[at] else [0.25]
            for step in steps:
                trial = weight.copy()
                trial[at] = step
                found = value(trial) if trial.any() else -np.inf
                if found > best * (1.0 + MIN_GAIN):
                    best, weight = found, trial
        if best == start:
            break
    return np.asarray(weight / weight.sum())


def _mean_ndcg(table: Candidates, weight: FloatArray) -> float:
    features, relevance, users = table
    order = np.lexsort((-(features @ weight), users))
    first = np.flatnonzero(np.append(True, users[1:] != users[:-1]))
    size = np.diff(np.append(first, len(users)))
    place = np.arange(len(users)) - np.repeat(first, size)
    gain = np.where(place < 10, DISCOUNT[np.minimum(place, 9)], 0.0) * relevance[order]
    n_relevant = np.add.reduceat(relevance, first)
    ideal = np.cumsum(DISCOUNT)[np.clip(n_relevant, 1, 10).astype(np.int64) - 1]
    return float((np.add.reduceat(gain, first) / ideal).mean())
