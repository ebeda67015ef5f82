"""Top-n lists from interactions: experts combined by weights learned on held-out time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.attributes import Attributes, SideFeatures
from rankwright.data.behavior.interactions import Interactions
from rankwright.data.vocabulary import mix
from rankwright.exceptions import DataError, ParameterError
from rankwright.rankers import schema
from rankwright.rankers.schema import Holds, Learned, floats, integer
from rankwright.recommend.events.base import Expert, Popularity, Scores
from rankwright.recommend.events.content import Content, ItemContent, UserContent
from rankwright.recommend.events.histories import (
    Entries,
    Histories,
    HistoryRows,
    check_weights,
    session_keys,
)
from rankwright.recommend.events.least_squares import EASE, ImplicitALS
from rankwright.recommend.events.neighbors import ItemCosine, NextItems
from rankwright.recommend.events.sequences import SLIT
from rankwright.recommend.events.weights import (
    COMBINERS,
    HOLDOUTS,
    N_SEGMENTS,
    ExpertCandidates,
    Holdout,
    best_items,
    held_out,
    learned_weights,
    row_rms,
    scaled,
)
from rankwright.recommend.explanations import EventExplanation, Taken
from rankwright.recommend.lists import (
    HORIZONS,
    POOL,
    ListBlock,
    Selection,
    nearest_users,
    user_cosine,
)
from rankwright.runtime import single_threaded_blas

CELLS = 2**21  # scores in a block of users
LARGE = 2_000_000  # pairs of users and items above which experts step aside
N_COLD = 5  # an item with fewer users is cold
N_USERS = 1000  # users of each holdout that the weights are learned on


def default_experts(
    random_state: int, features: SideFeatures, histories: Histories
) -> list[Expert]:
    """Experts for data of this size: those whose cost grows with the square of the catalog or of
    histories step aside for millions of events, and models of order where there are no times."""
    als = ImplicitALS(random_state=random_state)
    soon = [NextItems(), NextItems(decay=0.4, window=3)]
    experts: list[Expert] = [Popularity(half_life=0.1), *soon, SLIT(max_items=3000), als]
    if len(histories) <= LARGE:
        popularity = [Popularity(half_life=share) for share in (None, 0.1, 0.02)]
        order = soon if histories.time is None else [*soon, SLIT()]
        experts = [*popularity, ItemCosine(), *order, EASE(), als]
    if features.items is not None:
        experts.append(ItemContent())
    if features.users is not None:
        experts.append(UserContent())
    return experts


NO_FEATURES = SideFeatures()


class TopN(BaseEstimator):  # type: ignore[misc]
    """Experts whose scores are added with weights >= 0, learned as a ranker on held-out events.

    For a user, the items taken later are to come before all others: bipartite feedback. Experts
    are fitted without the held-out events and score the catalog for up to 1000 users of each
    holdout: *next* (the last item of each user) and *period* (everything in the last tenth of
    the time). Each expert's scores are divided by their root mean square over the catalog. What
    comes next in a session and what users take in the coming time need different weights, so each
    of these horizons has its own: those with a high NDCG@10 over the 50 best items of each expert
    and the held-out ones, found by the cross-entropy method from the weights of a RankSVM that
    learned from the same lists. They are no worse there than the best expert alone. Users with
    short, middle and long histories get weights of their own where these are surely better.
    Experts that add nothing are dropped, except features, which serve new items and users. Then
    the others are fitted on all events. Where there is one expert only, nothing is held out.

    Parameters
    ----------
    experts : list of Expert or None (the defaults)
    holdout : "both", "next" or "period"
        The events that the weights are learned on: those of each horizon, or of one for both.
    combiner : "auto", "search" or "ranksvm"
        Where the search of the weights starts: at equal ones ("search"), or at those of a RankSVM.
    random_state : seed

    Attributes
    ----------
    experts_ : list of Expert
    weight_ : (n_experts,) float64, for the next item, averaged over segments of users
    weights_ : (n_horizons, n_segments, n_experts) float64, for the next item and the coming time
    edges_ : (n_segments - 1,) float64, lengths of histories at which a segment starts
    validation_ : dict, NDCG@10 of each expert and of the blend on held-out events
    n_new_events_ : int, events since the last ``fit``
    """

    _constraints: ClassVar = {
        "experts": schema.optional(schema.instance_of("a list of experts", list)),
        "holdout": schema.one_of(*HOLDOUTS),
        "combiner": schema.one_of(*COMBINERS),
        "random_state": schema.at_least(0),
    }

    def __init__(
        self,
        experts: list[Expert] | None = None,
        holdout: str = "both",
        combiner: str = "auto",
        random_state: int = 0,
    ) -> None:
        self.experts = experts
        self.holdout = holdout
        self.combiner = combiner
        self.random_state = random_state

    def fit(self, histories: Histories, features: SideFeatures = NO_FEATURES) -> Self:
        self._set_histories(histories)
        given = self.experts
        if given is None:
            given = default_experts(self.random_state, features, histories)
        experts = [clone(check_expert(expert)) for expert in given]
        if not experts:
            raise ParameterError(
                "experts=[]: give one expert or more, or None for the defaults.",
                parameter="experts",
            )
        for expert in experts:
            if isinstance(expert, ItemContent):
                expert.fit(histories, need_features(features.items, "item"))
            if isinstance(expert, UserContent):
                expert.fit(histories, need_features(features.users, "user"))
        self.weights_, self.edges_ = np.ones((len(HORIZONS), 1, len(experts))), np.zeros(0)
        self.validation_: dict[str, dict[str, float]] = {}
        train, holdouts = held_out(histories, self.holdout) if len(experts) > 1 else (histories, [])
        if holdouts:
            for expert in experts:
                expert.fit(train)
            self._learn_weights(experts, train, holdouts)
        # Attributes serve new items and users, whatever they add for others.
        content = [isinstance(expert, Content) for expert in experts]
        kept = np.asarray(content) | (self.weights_.max(axis=(0, 1)) > 0)
        self.experts_ = [experts[at] for at in np.flatnonzero(kept)]
        self.weights_ = self.weights_[:, :, kept]
        self.weight_ = self.weights_[0].mean(axis=0)
        for expert in self.experts_:
            expert.refit(histories)
        self.n_new_events_ = 0
        return self

    def _learn_weights(
        self, experts: list[Expert], train: Histories, holdouts: list[Holdout]
    ) -> None:
        rng, tie = np.random.default_rng(self.random_state), popularity_rank(train)
        lengths = np.diff(train.ptr)[holdouts[0].users]
        shares = np.arange(1, N_SEGMENTS) / N_SEGMENTS
        self.edges_ = np.unique(np.quantile(lengths, shares, method="higher")).astype(np.float64)
        names, blends = [*labels(experts), "blend"], {}
        for holdout in holdouts:
            table = ExpertCandidates(experts, train, holdout.sample(N_USERS, rng), tie)
            blend = blends[holdout.name] = learned_weights(table, self.combiner, self.edges_)
            ndcg = [*blend.alone.tolist(), blend.ndcg]
            self.validation_[holdout.name] = dict(zip(names, ndcg, strict=True))
        only = next(iter(blends.values()))
        self.weights_ = np.stack([blends.get(name, only).weight for name in HORIZONS])

    def _set_histories(self, histories: Histories) -> None:
        self._histories, self.tie_ = histories, popularity_rank(histories)

    def prepare(self, histories: Histories) -> None:
        """After loading: check that all this could be learned from these histories."""
        self._set_histories(histories)
        if len(self.weight_) != len(self.experts_) or (self.weight_ < 0).any():
            raise DataError("TopN.weight_: one number >= 0 for each expert needed.")
        if getattr(self, "weights_", None) is None:  # older files have one set of weights
            self.weights_, self.edges_ = np.tile(self.weight_, (2, 1, 1)), np.zeros(0)
        if self.weights_.shape != (len(HORIZONS), len(self.edges_) + 1, len(self.experts_)):
            raise DataError(
                f"TopN.weights_ has the shape {self.weights_.shape}: one number for each horizon, "
                "segment and expert needed."
            )
        for expert in self.experts_:
            expert.prepare(histories)

    @classmethod
    def learned(cls) -> dict[str, Learned | Holds]:
        return {
            "experts_": Holds((Expert,), several=True),
            "weight_": floats("n_experts", low=0.0),
            "weights_": floats("n_horizons", "n_segments", "n_experts", low=0.0, optional=True),
            "edges_": floats("n_edges", low=0.0, optional=True),
            "validation_": Holds((dict,)),
            "n_new_events_": integer(low=0),
            "tie_": Learned("i", ("n_items",), low=0, high="n_items"),
        }

    def update(self, histories: Histories, users: IntArray) -> None:
        """Follow new events of some users; the weights of the experts stay."""
        before = self._histories
        self._set_histories(histories)
        for expert in self.experts_:
            expert.update(histories, before, users)

    def flush(self) -> None:
        """Do the pending work of updates."""
        for expert in self.experts_:
            expert.flush()

    def refit(self, histories: Histories | None = None) -> None:
        """Fit the experts again on these histories, or those so far; their weights stay."""
        self._set_histories(self._histories if histories is None else histories)
        for expert in self.experts_:
            expert.refit(self._histories)
        self.n_new_events_ = 0

    def scores(
        self, rows: HistoryRows, horizon: str | None = None, *, personal: bool = False
    ) -> Scores:
        """Scores of all items for some histories, (n_rows, n_items); ``personal`` leaves out the
        experts that do not look at the history."""
        total = np.zeros((rows.n_rows, self._histories.n_items), np.float32)
        # For one user, threads of BLAS would spend more time waiting than working.
        with single_threaded_blas() if rows.n_rows == 1 else nullcontext():
            for expert, weight in zip(self.experts_, self._weights(rows, horizon), strict=True):
                if (personal and not expert.personal) or not weight.any():
                    continue
                scores = scaled(expert.scores(rows))
                scores *= weight
                total += scores
        for content in self._item_contents:
            total = content.smooth(total)
        return total

    def expert_scores(self, rows: HistoryRows) -> dict[str, Scores]:
        """Scores of each expert by its name, scaled, (n_rows, n_items)."""
        pairs = zip(labels(self.experts_), self.experts_, strict=True)
        return {name: scaled(expert.scores(rows)) for name, expert in pairs}

    @property
    def _item_contents(self) -> list[ItemContent]:
        return [expert for expert in self.experts_ if isinstance(expert, ItemContent)]

    def _weights(self, rows: HistoryRows, horizon: str | None = None) -> list[Scores]:
        """The weight of each expert, (n_rows, 1): users without a history, but with features, get
        what users like them take."""
        table = self.weights_[HORIZONS.index(horizon or HORIZONS[0])].astype(np.float32)
        segment = np.searchsorted(self.edges_, np.diff(rows.ptr), side="right")
        weights = list(table[segment].T[:, :, None])
        empty = np.diff(rows.ptr) == 0
        for at, expert in enumerate(self.experts_):
            if isinstance(expert, UserContent) and len(rows.user) and empty.any():
                cold = (empty & expert.has_features[rows.user])[:, None]
                weights = [np.where(cold, np.float32(0.0), weight) for weight in weights]
                weights[at] = np.where(cold, np.float32(1.0), weights[at])
        return weights

    def known_items(self) -> NDArray[np.bool_]:
        """Items that may be recommended: somebody took them, or their features are known."""
        known = self._histories.item_counts > 0
        for content in self._item_contents:
            known = known | content.has_features
        return np.asarray(known)

    def own_share(self, item: int) -> float:
        """The share of an item's score that is its own: one with few users borrows the rest."""
        return float(np.prod([content.own_share(item) for content in self._item_contents]))

    def best(self, scores: Scores, n: int) -> NDArray[np.int64]:
        """The n best items of each row, -1 where there are fewer; -inf is never taken."""
        return best_items(scores, self.tie_, n)

    def parts(
        self, rows: HistoryRows, item: int, horizon: str | None = None
    ) -> tuple[dict[str, float], Scores]:
        """What each expert adds to the score of an item for one history, and what each item of the
        history adds."""
        (items, weight), parts = rows.row(0), {}
        added = np.zeros(len(items), np.float32)
        names, weights = labels(self.experts_), self._weights(rows, horizon)
        for name, expert, share in zip(names, self.experts_, weights, strict=True):
            if not share.any():
                continue
            scores = expert.scores(rows)
            scale = np.float32(share[0, 0] / row_rms(scores)[0])
            parts[name] = float(scale * scores[0, item])
            if expert.personal and len(items):
                by_item = expert.contributions(items, weight, item, weighted=rows.weighted)
                if expert.follows_order and len(rows.recent):
                    by_item = by_item * rows.recent
                by_item = scale * by_item
                parts[name], added = float(by_item.sum()), added + by_item
        return parts, added


class EventBackend:
    """What a recommender does with histories: rank the whole catalog for each.

    Parameters
    ----------
    data : Histories
    model : TopN
    titles : (n_items,) texts or None
    exploration : the share of the places of a list that go to items with few users
    """

    def __init__(
        self,
        data: Histories,
        model: TopN,
        titles: NDArray[Any] | None = None,
        exploration: float = 0.0,
    ) -> None:
        self.data, self.model, self.titles = data, model, titles
        self.exploration = exploration
        self.known_items = model.known_items()
        self.changed: dict[int, Entries] = {}  # histories of users with events since then

    @property
    def block_size(self) -> int:
        """Users whose lists are made at once."""
        return max(1, min(256, CELLS // max(self.data.n_items, 1)))

    def known(self, numbers: IntArray) -> HistoryRows:
        """The histories of users of the data."""
        numbers = np.asarray(numbers, np.int64)
        rows = self.data.rows.take(numbers)
        if not self.changed or not any(number in self.changed for number in numbers.tolist()):
            return rows
        now = [self.entries(number) for number in numbers.tolist()]
        return HistoryRows.of(now, rows)

    def entries(self, number: int) -> Entries:
        """The history of one user of the data."""
        if number in self.changed:
            return self.changed[number]
        own = slice(*self.data.ptr[number : number + 2])
        time, session = self.data.time, self.data.session
        return Entries(
            *self.data.rows.row(number),
            None if time is None else time[own],
            None if session is None else session[own],
        )

    def add(self, events: Interactions, user: IntArray, item: IntArray) -> None:
        """Let some users' histories follow new events; what experts know of items stays."""
        keys = session_keys(events)
        for number in np.unique(user).tolist():
            own = user == number
            time = None if events.time is None else events.time[own]
            session = None if keys is None else keys[own]
            self.changed[number] = self.entries(number).followed_by(
                item[own], events.weight[own], time, session
            )

    def new(self, items: IntArray, weight: FloatArray, given: Mapping[Any, float]) -> HistoryRows:
        """The history of a new user."""
        if (weight <= 0).any():
            bad = list(given)[int(np.argmax(weight <= 0))]
            raise DataError(f"item {bad!r} has the weight {given[bad]!r}: give weights > 0.")
        check_weights(weight)
        return HistoryRows.single(items, weight, weighted=self.data.weighted)

    def scores(self, history: HistoryRows, items: IntArray) -> FloatArray:
        """Scores of some items for one history."""
        return np.asarray(self.model.scores(history)[0, items], np.float64)

    def lists(self, histories: HistoryRows, n: int, selection: Selection) -> ListBlock:
        """The best items for each history."""
        scores = self.model.scores(histories, selection.horizon)
        if selection.exclude_taken:
            scores[histories.number, histories.item] = -np.inf
            scores[self.data.disliked_in(histories)] = -np.inf
        scores[:, ~selection.allowed] = -np.inf
        cold = scores[:, self._cold] if self.exploration else None
        scores[:, ~self.known_items] = -np.inf
        best = self._best(scores, n, selection)
        return best if cold is None else self._explored(best, cold, histories)

    def _best(self, scores: Scores, n: int, selection: Selection) -> ListBlock:
        pool = n if selection.is_plain else POOL * n
        if selection.filter.max_per_category is not None:
            pool = scores.shape[1]
        best = self.model.best(scores, min(pool, scores.shape[1]))
        if selection.is_plain:
            values = np.take_along_axis(scores, np.maximum(best, 0), axis=1)
            missing = ((0, 0), (0, n - best.shape[1]))  # the catalog may have fewer items
            return ListBlock(np.pad(best, missing, constant_values=-1), np.pad(values, missing))
        values = np.take_along_axis(scores, np.maximum(best, 0), axis=1)
        picked = selection.pick(best, values, n)
        return ListBlock.of(picked, [row[at] for row, at in zip(scores, picked, strict=True)], n)

    @property
    def _cold(self) -> IntArray:
        """Items with few users, or none."""
        return np.flatnonzero(self.data.item_counts < N_COLD)

    def _explored(self, best: ListBlock, scores: Scores, histories: HistoryRows) -> ListBlock:
        """Lists whose last places go to cold items: the best scores, plus Gumbel noise by a hash.

        ``scores`` are those of the cold items, which change.
        """
        number, value = best.number.copy(), best.score.copy()
        cold, n = self._cold, number.shape[1]
        if len(cold) == 0:
            return best
        index = np.full(self.data.n_items, -1)
        index[cold] = np.arange(len(cold))
        row, place = np.nonzero((number >= 0) & (index[np.maximum(number, 0)] >= 0))
        known = histories.user if len(histories.user) else histories.ptr[1:] + histories.n_rows
        keys = mix(mix(known)[:, None].ravel() ^ np.uint64(len(self.data)))
        n_places = np.floor(n * self.exploration + keys / 2.0**64).astype(np.int64)
        uniform = mix((keys[:, None] ^ mix(cold)[None, :]).ravel()).reshape(scores.shape) / 2.0**64
        free = np.isfinite(scores)
        free[row, index[number[row, place]]] = False  # in the list already
        spread = np.std(scores, axis=1, where=np.isfinite(scores), keepdims=True)
        scaled_scores = np.where(free, scores, 0.0) / np.maximum(np.nan_to_num(spread), 1e-9)
        noisy = np.where(free, scaled_scores - np.log(-np.log(uniform + 1e-12) + 1e-12), -np.inf)
        for at, count in enumerate(np.minimum(n_places, free.sum(axis=1)).tolist()):
            chosen = np.argsort(-noisy[at], kind="stable")[:count]
            kept = min(int((number[at] >= 0).sum()), n - count)
            places = slice(kept, kept + count)
            number[at, places], value[at, places] = cold[chosen], scores[at, chosen]
        return ListBlock(number, value)

    def similar(self, number: int) -> FloatArray:
        """The similarity of all items to an item: by the experts, or else cosines of users."""
        if not any(expert.personal for expert in self.model.experts_):
            return user_cosine(self.data, number)
        history = HistoryRows.single(np.array([number]), np.ones(1))
        return np.asarray(self.model.scores(history, personal=True)[0], np.float64)

    def similar_users(self, history: HistoryRows, n: int) -> list[tuple[int, float]]:
        """The users who took the same items; rare items count more."""
        data, number = self.data, int(history.user[0]) if len(history.user) else -1
        rarity = np.log1p(data.n_users / np.maximum(data.item_counts, 1))
        own = np.zeros(data.n_items)
        own[history.item] = rarity[history.item]
        return nearest_users(data, rarity[data.item], own, number, n)

    def explain(self, history: HistoryRows, number: int, n: int) -> EventExplanation:
        """The part of each expert, and the n items of the history that add most."""
        taken = history.row(0)[0]
        score = float(self.scores(history, np.array([number]))[0])
        parts, added = self.model.parts(history, number)
        own = self.model.own_share(number)
        if own < 1.0:  # the rest comes from known items that are like it
            parts, added = {name: own * part for name, part in parts.items()}, own * added
            parts["items like it"] = score - sum(parts.values())
        first = [at for at in np.argsort(-added, kind="stable")[:n] if added[at] > 0]
        numbers = [number, *(int(taken[at]) for at in first)]
        item, *ids = self.data.items[numbers].tolist()
        titles = {}
        if self.titles is not None:
            titles = dict(zip([item, *ids], self.titles[numbers].tolist(), strict=True))
        reasons = tuple(map(Taken, ids, added[first].tolist()))
        return EventExplanation(item, score, parts, reasons, titles)


def popularity_rank(histories: Histories) -> NDArray[np.int64]:
    """The rank of each item by the number of its users, from 0; it breaks ties of scores."""
    return np.argsort(np.argsort(-histories.item_counts, kind="stable"))


def check_expert(expert: object) -> Expert:
    """An expert whose parameters are in their ranges."""
    if not isinstance(expert, Expert):
        raise ParameterError(
            f"experts: {expert!r} is not an expert. Give objects of rankwright.recommend.events, "
            "such as EASE()."
        )
    for name, constraint in expert._constraints.items():
        constraint.check(type(expert).__name__, name, getattr(expert, name))
    return expert


def need_features(features: Attributes | None, kind: str) -> Attributes:
    if features is None:
        expert = f"{kind.capitalize()}Content"
        raise DataError(f"{expert} needs features: fit(..., {kind}_features=...).")
    return features


def labels(experts: list[Expert]) -> list[str]:
    """A name of each expert: its class, with parameters where two have one class."""
    kinds = Counter(type(expert) for expert in experts if not isinstance(expert, Popularity))
    names = []
    for expert in experts:
        name = type(expert).__name__
        if isinstance(expert, Popularity) and expert.half_life is not None:
            name = f"Popularity ({expert.half_life:g})"
        names.append(repr(expert) if kinds[type(expert)] > 1 else name)
    return names
