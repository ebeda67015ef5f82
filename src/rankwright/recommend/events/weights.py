"""Weights of experts, learned on held-out events by RankSVM and a stochastic search."""

from __future__ import annotations

from copy import copy
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
PERIOD = 0.1  # share of the pairs in the last period
MIN_HISTORY = 2  # items that must be left of a history
N_TOP = 50  # candidates of a user: so many of each expert, and the held-out items
N_TRIALS = 128  # in a round of the search; half of them mirror the others
TEMPERATURES = (0.02, 0.02, 0.01, 0.01, 0.01)  # a value so much below the best counts 1 / e
SPREAD = 1.2  # standard deviation of the logarithms of the weights at the start
SHRINKAGE = 0.7  # the least factor of the spread in a round: it must not collapse on one trial
MIN_WEIGHT = 0.01  # an expert with less is dropped
NO_LOSS = 0.003  # an expert is dropped if the share of NDCG@10 that is lost without it is below
N_SEGMENTS = 3  # of users, by the length of their histories
LOCAL_SPREAD = 0.6  # as SPREAD, around the weights of all users
N_SHRUNK = 300.0  # users of a segment whose own weights count as much as those of all
SURE = 1.64  # standard errors by which weights of a segment must be better
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
    session = None if histories.session is None else histories.session[kept]
    return replace(rest, weighted=histories.weighted, session=session)


class ExpertCandidates:
    """Candidate items of the users of a holdout: the best of each expert, and the held-out items.

    Attributes
    ----------
    scores : (n_experts, n_users, width) float32, scaled
    absent : (n_users, width) float32, -inf where there is no candidate, else 0
    relevant : (n_users, width) float32, 1 for what the user took
    listed : (n_users, width) bool, whether an expert listed the candidate
    length : (n_users,) of the histories
    """

    scores: Scores
    absent: Scores
    relevant: Scores
    listed: BoolArray
    length: IntArray

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
        self.length = np.diff(train.ptr)[holdout.users]

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

    def take(self, rows: IntArray | BoolArray) -> ExpertCandidates:
        """Some of the users."""
        part = copy(self)
        part.scores, part.length = self.scores[:, rows], self.length[rows]
        for name in ("absent", "relevant", "listed"):
            setattr(part, name, getattr(self, name)[rows])
        return part

    def of_experts(self, kept: IntArray) -> ExpertCandidates:
        """Some of the experts."""
        part = copy(self)
        part.scores = self.scores[kept]
        return part

    def ndcg(self, weight: FloatArray) -> FloatArray:
        """The mean NDCG@10 with each row of weights, (n_trials, n_experts)."""
        return np.asarray(self.per_user(weight).mean(axis=1))

    def per_user(self, weight: FloatArray) -> FloatArray:
        """NDCG@10 of each user with each row of weights, (n_trials, n_users)."""
        n_trials, (_, n_users, width) = len(weight), self.scores.shape
        n_relevant = np.clip(self.relevant.sum(axis=1), 1, 10).astype(np.int64)
        ideal = np.cumsum(DISCOUNT)[n_relevant - 1]
        size = max(1, BLOCK // max(1, n_trials * width))
        ndcg, order = np.zeros((n_trials, n_users)), np.arange(width)
        for start in range(0, n_users, size):
            part = slice(start, start + size)
            total = np.tensordot(weight.astype(np.float32), self.scores[:, part], 1)
            total += self.absent[part]
            best = best_items(total.reshape(-1, width), order, min(10, width))
            best = best.reshape(n_trials, -1, best.shape[1])
            row = np.arange(total.shape[1])[None, :, None]
            hits = self.relevant[part][row, np.maximum(best, 0)] * (best >= 0)
            gain = hits @ DISCOUNT[: best.shape[2]].astype(np.float32)
            ndcg[:, part] = gain / ideal[part]
        return ndcg


def learned_by_ranksvm(table: ExpertCandidates) -> FloatArray | None:
    """Weights >= 0 of experts by RankSVM on bipartite feedback; None without any preference.

    A user is a query, the experts are features, and what the user took is to come before the other
    candidates. Only candidates that an expert listed count: a held-out item that no expert found
    would teach that low scores are good. Experts with negative weights are left out, one fit after
    another, until there are none.
    """
    from rankwright.rankers.gradient.ranksvm import RankSVM

    qid, column = np.nonzero(table.listed)
    X = table.scores[:, qid, column].T.astype(np.float64)
    y = table.relevant[qid, column]
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


class ExpertWeights(NamedTuple):
    """Weights of experts for one horizon, and what they are worth on its held-out events."""

    weight: FloatArray  # (n_segments, n_experts), each row adds up to 1
    alone: FloatArray  # (n_experts,) NDCG@10 of each expert
    ndcg: float  # of the weights


def learned_weights(table: ExpertCandidates, combiner: str, edges: FloatArray) -> ExpertWeights:
    """Weights of all users, then those of segments where these are surely better.

    The cross-entropy method finds weights of all users, from those of a RankSVM or from equal
    ones. If one expert alone is better, it gets more weight until the weights are no worse. Experts
    are dropped one by one while that loses nothing. The weights of a segment are searched around
    these on half of its users, and used only if they are better on the other half; then they are
    searched on all its users, and shrunk toward those of all users.
    """
    n_experts = len(table.scores)
    start = learned_by_ranksvm(table) if combiner != "search" else None
    alone = table.ndcg(np.eye(n_experts))
    weight = searched(table, np.ones(n_experts) if start is None else start, SPREAD)
    weight = pruned(table, no_worse_than(table, weight, alone))
    segment = np.searchsorted(edges, table.length, side="right")
    weights = np.tile(weight, (len(edges) + 1, 1))
    for number in range(len(weights) if (weight > 0).sum() > 1 else 0):
        rows = np.flatnonzero(segment == number)
        halves = table.take(rows[::2]), table.take(rows[1::2])
        if len(rows) < 2 * N_SEGMENTS:
            continue
        own = shrunk(halves[0], weight)
        gain = halves[1].per_user(own[None])[0] - halves[1].per_user(weight[None])[0]
        if gain.mean() > SURE * gain.std() / np.sqrt(len(gain)):
            weights[number] = shrunk(table.take(rows), weight)
    per_segment = [table.take(segment == k).per_user(w[None])[0] for k, w in enumerate(weights)]
    return ExpertWeights(weights, alone, float(np.concatenate(per_segment).mean()))


def searched(table: ExpertCandidates, start: FloatArray, spread: float) -> FloatArray:
    """Weights by the cross-entropy method (Rubinstein 1999), which add up to 1.

    Trials draw the logarithms of the weights from a normal distribution around ``start``. The next
    mean and spread are those of the trials, each weighted by exp(value / temperature), where the
    value is NDCG@10 over that of the best trial. The best of all trials would jump with a few
    events more; this average follows the data smoothly, so that a new fit gives nearly the same
    lists.
    """
    rng = np.random.default_rng(0)
    center = np.log(np.maximum(start / start.sum(), MIN_WEIGHT))
    deviation = np.full(len(start), spread)
    for temperature in TEMPERATURES:
        drawn = rng.normal(size=(N_TRIALS // 2, len(start)))
        trials = np.exp(center + deviation * np.concatenate([drawn, -drawn]))
        trials /= trials.sum(axis=1, keepdims=True)
        value = table.ndcg(trials)
        share = np.exp((value / max(value.max(), 1e-9) - 1.0) / temperature)
        share /= share.sum()
        logs = np.log(trials)
        center = share @ logs
        deviation = np.maximum(np.sqrt(share @ (logs - center) ** 2), SHRINKAGE * deviation)
    weight = np.exp(center) / np.exp(center).sum()
    weight[weight < MIN_WEIGHT] = 0.0
    return np.asarray(weight / weight.sum())


def no_worse_than(table: ExpertCandidates, weight: FloatArray, alone: FloatArray) -> FloatArray:
    """The weights, with as much more of the best expert as makes them no worse than it."""
    single = np.eye(len(weight))[int(np.argmax(alone))]
    more = np.linspace(0.0, 1.0, 11)[:, None]
    mixed = (1.0 - more) * weight + more * single
    enough = table.ndcg(mixed) >= alone.max()
    return np.asarray(mixed[int(np.argmax(enough)) if enough.any() else -1])


def pruned(table: ExpertCandidates, weight: FloatArray) -> FloatArray:
    """The weights without experts that add nothing; the one that is missed least goes first."""
    least = (1.0 - NO_LOSS) * table.ndcg(weight[None])[0]
    while (weight > 0).sum() > 1:
        kept = np.flatnonzero(weight)
        trials = np.tile(weight, (len(kept), 1))
        trials[np.arange(len(kept)), kept] = 0.0
        trials /= trials.sum(axis=1, keepdims=True)
        value = table.ndcg(trials)
        if value.max() < max(least, table.ndcg(np.eye(len(weight))[kept]).max()):
            break
        weight = trials[int(np.argmax(value))]
    return weight


def shrunk(table: ExpertCandidates, weight: FloatArray) -> FloatArray:
    """The weights of some users, searched around those of all users and shrunk toward them."""
    kept, n_users = np.flatnonzero(weight), table.scores.shape[1]
    own = np.zeros_like(weight)
    own[kept] = searched(table.of_experts(kept), weight[kept], LOCAL_SPREAD)
    return np.asarray((n_users * own + N_SHRUNK * weight) / (n_users + N_SHRUNK))


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
