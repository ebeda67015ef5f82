"""Weights of experts, learned on held-out events by RankSVM and a stochastic search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.recommend.events.base import Expert, Scores
from rankwright.recommend.events.histories import Histories, pointers
from rankwright.recommend.events.neighbors import row_ranges
from rankwright.runtime import active_engine, map_blocks

HOLDOUTS = ("both", "next", "period")
COMBINERS = ("auto", "search", "ranksvm")
# What comes next in a session is far easier to tell than what a user takes in the coming time, and
# the weights that are best for one are bad for the other. So the coming time comes first, up to the
# value of its best expert; what is beyond that is not worth a loss for the next item.
PERIOD_SHARE = 5.0  # of the period; the next item has 1
PERIOD = 0.1  # share of the pairs in the last period
# One held-out period has few users and its own fashion. The search starts at weights that work in
# most periods: mostly what is popular now.
POPULARITY_START = 4.0  # weight of popularity with a half-life; others have 1
MIN_HISTORY = 2  # items that must be left of a history
N_TOP = 50  # candidates of a user: so many of each expert, and the held-out items
N_TRIALS = 128  # in a round of the search; half of them mirror the others
TEMPERATURES = (0.02, 0.02, 0.01, 0.01, 0.01)  # a value so much below the best counts 1 / e
SPREAD = 1.2  # standard deviation of the logarithms of the weights at the start
SHRINKAGE = 0.7  # the least factor of the spread in a round: it must not collapse on one trial
MIN_WEIGHT = 0.01  # an expert with less is dropped
BLOCK = 2**22  # scores of trials at once
DISCOUNT = 1.0 / np.log2(np.arange(2, 12))


class Holdout(NamedTuple):
    """Held-out pairs of user and item that the experts are to predict."""

    name: str
    users: IntArray  # distinct
    user: IntArray
    item: IntArray

    def sample(self, n: int, rng: np.random.Generator) -> Holdout:
        kept = np.sort(rng.permutation(self.users)[:n])
        used = np.isin(self.user, kept)
        return Holdout(self.name, kept, self.user[used], self.item[used])

    @property
    def blocks(self) -> list[IntArray]:
        """The users in blocks."""
        return np.array_split(self.users, -(-len(self.users) // 256))

    def matrix(self, block: IntArray, n_items: int) -> NDArray[np.float32]:
        """1 for the held-out items of a block of users."""
        table = np.zeros((len(block), n_items), np.float32)
        used = np.isin(self.user, block)
        table[np.searchsorted(block, self.user[used]), self.item[used]] = 1.0
        return table


def held_out(histories: Histories, holdout: str) -> tuple[Histories, list[Holdout]]:
    """Histories without the held-out pairs, and these; none if histories are too short."""
    late = np.zeros(len(histories), bool)
    if holdout != "next" and histories.time is not None and len(histories):
        late = histories.time > np.quantile(histories.time, 1.0 - PERIOD, method="lower")
    early = np.bincount(histories.user[~late], minlength=histories.n_users)
    chosen = early - 1
    if histories.time is None:  # rows may be in any order, such as that of the items
        chosen = np.random.default_rng(0).integers(np.maximum(early, 1))
    last = np.zeros(len(histories), bool)
    if holdout != "period":
        last[(histories.ptr[:-1] + chosen)[early > MIN_HISTORY]] = True
    holdouts = []
    for name, rows in (("next", last), ("period", late)):
        user, item = histories.user[rows].astype(np.int64), histories.item[rows].astype(np.int64)
        left = early - (np.bincount(histories.user[last], minlength=histories.n_users) > 0)
        enough = left[user] >= MIN_HISTORY
        if enough.any():
            users = np.unique(user[enough])
            holdouts.append(Holdout(name, users, user[enough], item[enough]))
    return without(histories, last | late), holdouts


def without(histories: Histories, rows: BoolArray) -> Histories:
    """The histories without some pairs, over the same users and items."""
    kept = ~rows
    counts = np.bincount(histories.user[kept], minlength=histories.n_users)
    time = None if histories.time is None else histories.time[kept]
    columns = (histories.item[kept], histories.weight[kept], time)
    rest = Histories(histories.users, histories.items, pointers(counts), *columns)
    return replace(rest, weighted=histories.weighted)


class ExpertCandidates:
    """Candidate items of the users of a holdout: the best of each expert, and the held-out items.

    Attributes
    ----------
    scores : (n_experts, n_users, width) float32, scaled
    absent : (n_users, width) float32, -inf where there is no candidate, else 0
    relevant : (n_users, width) float32, 1 for what the user took
    listed : (n_users, width) bool, whether an expert listed the candidate
    """

    def __init__(self, experts: list[Expert], train: Histories, holdout: Holdout, tie: IntArray):
        parts = [self._part(experts, train, holdout, block, tie) for block in holdout.blocks]
        width = max(part[0].shape[2] for part in parts)

        def joined(column: int, fill: float) -> NDArray[np.float32]:
            tables = [part[column] for part in parts]
            wide = [((0, 0),) * (t.ndim - 1) + ((0, width - t.shape[-1]),) for t in tables]
            padded = [np.pad(t, w, constant_values=fill) for t, w in zip(tables, wide, strict=True)]
            return np.concatenate(padded, axis=-2)

        self.scores, self.absent = joined(0, 0.0), joined(1, -np.inf)
        self.relevant, self.listed = joined(2, 0.0), joined(3, 0.0) > 0
        n_relevant = np.clip(self.relevant.sum(axis=1), 1, 10).astype(np.int64)
        self._ideal = np.cumsum(DISCOUNT)[n_relevant - 1]
        self._order = np.arange(width)

    def _part(
        self,
        experts: list[Expert],
        train: Histories,
        holdout: Holdout,
        block: IntArray,
        tie: IntArray,
    ) -> tuple[Scores, ...]:
        rows, n_items = train.rows.take(block), train.n_items
        scores = np.stack([scaled(expert.scores(rows)) for expert in experts])
        taken = rows.number, rows.item
        is_relevant = holdout.matrix(block, n_items)
        listed = np.zeros((rows.n_rows, n_items + 1), bool)  # the last column is for "none"
        for table in scores:
            free = table.copy()
            free[taken] = -np.inf
            np.put_along_axis(listed, best_items(free, tie, min(N_TOP, n_items)), True, axis=1)
        by_tie = np.argsort(tie)
        row, at = np.nonzero((listed[:, :-1] | (is_relevant > 0))[:, by_tie])
        size = np.bincount(row, minlength=rows.n_rows)
        column = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
        shape = (rows.n_rows, int(size.max(initial=1)))
        kept = np.zeros((len(experts), *shape), np.float32)
        absent, relevant = np.full(shape, -np.inf, np.float32), np.zeros(shape, np.float32)
        item = by_tie[at]
        kept[:, row, column] = scores[:, row, item]
        absent[row, column], relevant[row, column] = 0.0, is_relevant[row, item]
        by_an_expert = np.zeros(shape, np.float32)
        by_an_expert[row, column] = listed[row, item]
        return kept, absent, relevant, by_an_expert

    def ndcg(self, weight: FloatArray) -> FloatArray:
        """The mean NDCG@10 with each row of weights, (n_trials, n_experts)."""
        n_trials, (_, n_users, width) = len(weight), self.scores.shape
        size = max(1, BLOCK // max(1, n_trials * width))
        total_ndcg = np.zeros(n_trials)
        for start in range(0, n_users, size):
            part = slice(start, start + size)
            total = np.tensordot(weight.astype(np.float32), self.scores[:, part], 1)
            total += self.absent[part]
            best = best_items(total.reshape(-1, width), self._order, min(10, width))
            best = best.reshape(n_trials, -1, best.shape[1])
            row = np.arange(total.shape[1])[None, :, None]
            hits = self.relevant[part][row, np.maximum(best, 0)] * (best >= 0)
            gain = hits @ DISCOUNT[: best.shape[2]].astype(np.float32)
            total_ndcg += (gain / self._ideal[part]).sum(axis=1)
        return np.asarray(total_ndcg / n_users)


def learned_by_ranksvm(tables: Iterable[ExpertCandidates]) -> FloatArray | None:
    """Weights >= 0 of experts by RankSVM on bipartite feedback; None without any preference.

    A user is a query, the experts are features, and what the user took is to come before the other
    candidates. Only candidates that an expert listed count: a held-out item that no expert found
    would teach that low scores are good. Experts with negative weights are left out, one fit after
    another, until there are none.
    """
    from rankwright.rankers.gradient.ranksvm import RankSVM

    parts, n_before = [], 0
    for table in tables:
        user, column = np.nonzero(table.listed)
        rows = table.scores[:, user, column].T.astype(np.float64)
        parts.append((rows, table.relevant[user, column], user + n_before))
        n_before += len(table.listed)
    X, y, qid = (np.concatenate(column) for column in zip(*parts, strict=True))
    share = np.bincount(qid, y) / np.maximum(np.bincount(qid), 1)
    kept = np.arange(X.shape[1])
    while len(kept) and ((share > 0) & (share < 1)).any():
        with active_engine(None):  # a few columns: one machine is faster and gives one model
            coef = np.asarray(RankSVM().fit(X[:, kept], y, qid=qid).coef_)
        if (coef >= 0).all():
            weight = np.zeros(X.shape[1])
            weight[kept] = coef
            return weight if weight.any() else None
        kept = kept[coef > 0]
    return None


class Search:
    """Weights > 0 of experts by the cross-entropy method (Rubinstein 1999).

    Trials draw the logarithms of the weights from a normal distribution, whose mean starts at
    mostly what is ``popular`` now ("search") or at the weights of a RankSVM ("ranksvm"); "auto"
    takes the second if only the next item is held out. The next mean and spread are those of the
    trials, each weighted by exp(value / temperature). The best of all trials would jump with a few
    events more; this average follows the data smoothly, so that a new fit gives nearly the same
    lists.

    The value of weights is their NDCG@10, divided by that of the best expert. Of two holdouts, the
    period counts five times, but no more than its best expert; see PERIOD_SHARE.

    Attributes
    ----------
    alone : (n_holdouts, n_experts) NDCG@10 of each expert
    """

    def __init__(
        self, tables: dict[str, ExpertCandidates], popular: Sequence[bool], combiner: str = "auto"
    ) -> None:
        self.tables = tables
        self._n_experts = len(popular)
        self.alone = self.ndcg(np.eye(self._n_experts))
        self._best = np.maximum(self.alone.max(axis=1), 1e-9)
        start = np.ones(self._n_experts)
        if "period" in tables:
            start[np.asarray(popular)] = POPULARITY_START
        if combiner == "ranksvm" or (combiner == "auto" and "period" not in tables):
            learned = learned_by_ranksvm(tables.values())
            start = start if learned is None else learned
        self._start = np.maximum(start / start.sum(), MIN_WEIGHT)

    def value(self, ndcg: FloatArray) -> FloatArray:
        """The value of NDCG@10 of each holdout, (n_holdouts, n_trials)."""
        ratio = ndcg / self._best[:, None]
        if len(self.tables) == 1:
            return np.asarray(ratio[0])
        return np.asarray(ratio[0] + PERIOD_SHARE * np.minimum(ratio[1], 1.0))

    def ndcg(self, weight: FloatArray) -> FloatArray:
        """NDCG@10 of each holdout with each row of weights, (n_holdouts, n_trials)."""
        return np.array([table.ndcg(weight) for table in self.tables.values()])

    def run(self) -> FloatArray:
        """The weights that were found, with as much more of the best expert as makes them no worse
        than that expert alone."""
        rng = np.random.default_rng(0)
        center, spread = np.log(self._start), np.full(self._n_experts, SPREAD)
        for temperature in TEMPERATURES:
            drawn = rng.normal(size=(N_TRIALS // 2, self._n_experts))
            trials = np.exp(center + spread * np.concatenate([drawn, -drawn]))
            trials /= trials.sum(axis=1, keepdims=True)
            value = self.value(self.ndcg(trials))
            share = np.exp((value / max(value.max(), 1e-9) - 1.0) / temperature)
            share /= share.sum()
            logs = np.log(trials)
            center = share @ logs
            spread = np.maximum(np.sqrt(share @ (logs - center) ** 2), SHRINKAGE * spread)
        weight = np.exp(center) / np.exp(center).sum()
        weight[weight < MIN_WEIGHT] = 0.0
        alone = self.value(self.alone)
        single = np.eye(self._n_experts)[int(np.argmax(alone))]
        more = np.linspace(0.0, 1.0, 11)[:, None]
        mixed = (1.0 - more) * weight / weight.sum() + more * single
        no_worse = self.value(self.ndcg(mixed)) >= alone.max()
        return np.asarray(mixed[int(np.argmax(no_worse)) if no_worse.any() else -1])


def best_items(scores: Scores, tie: IntArray, n: int) -> NDArray[np.int64]:
    """The n best columns of each row, -1 where there are fewer; -inf is never taken."""
    from rankwright.recommend.events._kernels import take_best

    best = np.empty((len(scores), n), np.int64)
    map_blocks(lambda rows: take_best(scores, tie, n, *rows, best), row_ranges(len(scores)))
    return best


def row_rms(scores: Scores) -> Scores:
    """The root mean square of each row, at least 1e-9."""
    square = np.einsum("ij,ij->i", scores, scores) / max(scores.shape[1], 1)
    return np.asarray(np.maximum(np.sqrt(square), np.float32(1e-9)))


def scaled(scores: Scores) -> Scores:
    """Scores divided by their root mean square over the catalog, in place."""
    scores /= row_rms(scores)[:, None]
    return scores
