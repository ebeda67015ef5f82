"""Two stages: candidates of a recommender, ordered by a ranker of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import BoolArray, Column, FloatArray, Id, IntArray
from rankwright.data.behavior.attributes import Attributes, as_features
from rankwright.data.behavior.interactions import Interactions
from rankwright.data.vocabulary import as_ids
from rankwright.exceptions import DataError, ParameterError
from rankwright.features.feature_set import FeatureSet
from rankwright.features.fitted import FittedFeatures
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.foreign_names import ExplainsParameters
from rankwright.rankers.schema import Holds, Learned, floats, real, texts
from rankwright.recommend.evaluation import leave_last_out, relevant_pairs, split_by_time
from rankwright.recommend.events.histories import Histories, HistoryRows
from rankwright.recommend.events.weights import DISCOUNT
from rankwright.recommend.explanations import Recommendation
from rankwright.recommend.lists import HORIZONS, Allow, Exclude, ListBlock, Selection, TopLists
from rankwright.recommend.recommender import Recommender, check_n

BLOCK = 128  # users whose features are computed at once
N_USERS = 20_000  # users with training lists
RECENT = 0.02  # share of the events, the last ones, that count as recent
SHARES = np.linspace(0.0, 1.0, 11)  # of the ranker in the final score, tried on validation users


class TwoStageRecommender(ExplainsParameters, BaseEstimator):  # type: ignore[misc]
    """Candidates of a recommender of interactions, ordered by a ranker of their features.

    The recommender is fitted without the events that are held out, and lists ``n_candidates`` items
    for each user who took a new item in them. These lists are training queries: relevant are the
    items that the user took later, and features are what was known before. They are the score and
    the rank of the blend and of each expert, how often, how recently and since when an item was
    taken, how long the history is, the share of each event type among the events of an item, and
    the columns of ``features``. Of the other candidates, ``n_negatives`` are drawn for each list,
    and count as many as they stand for. The final score is a sum of the standardized scores of the
    ranker and of the first stage; the share of the ranker is the best on a fifth of the lists that
    it was not trained on, and may be 0. At last the experts are fitted on all events; their weights
    stay.

    Parameters
    ----------
    candidates : Recommender or None
        The first stage; None is ``Recommender()``.
    ranker : a ranker or None
        The second stage; None is ``LambdaMART`` with 100 trees.
    features : FeatureSet, Attributes or None
        A declaration of more features, which may use all columns above and those of
        ``item_features`` by name, and those of ``user_features`` as ``query.NAME``. Attributes are
        those of items: the same as ``item_features``.
    n_candidates : int >= 10, default 100
    n_negatives : int >= 1, default 30
    holdout : "next" or "period", default "next"
        What is held out: the last new item of each user, or the last tenth of the time.
    random_state : int, RandomState or None

    Attributes
    ----------
    ``candidates_`` : Recommender
    ``ranker_`` : the fitted ranker
    ``encoding_`` : dict, what ``features`` have learned, or None
    ``share_`` : float, the share of the ranker in the final score
    ``validation_`` : dict, NDCG@10 of the first stage, the ranker and both on validation users
    ``feature_names_`` : tuple of the names of the features

    Examples
    --------
    >>> from rankwright.data import make_shop_log
    >>> from rankwright import LambdaMART
    >>> log = make_shop_log(4000, 200, 80, random_state=0)
    >>> ranker = LambdaMART(n_estimators=20, min_samples_leaf=5)
    >>> model = TwoStageRecommender(ranker=ranker, random_state=0).fit(log)
    >>> len(model.recommend(log.users[0], n=5)), "rank" in model.feature_names_
    (5, True)
    """

    _encoding: FittedFeatures | None
    _constraints: ClassVar = {
        "candidates": schema.optional(schema.instance_of("a Recommender", Recommender)),
        "ranker": schema.optional(schema.instance_of("a ranker", Ranker)),
        "features": schema.optional(
            schema.instance_of("a FeatureSet or Attributes", FeatureSet, Attributes)
        ),
        "n_candidates": schema.at_least(10),
        "n_negatives": schema.at_least(1),
        "holdout": schema.one_of(*HORIZONS),
        "random_state": schema.random_state(),
    }

    def __init__(
        self,
        *,
        candidates: Recommender | None = None,
        ranker: Ranker | None = None,
        features: FeatureSet | Attributes | None = None,
        n_candidates: int = 100,
        n_negatives: int = 30,
        holdout: str = "next",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.candidates = candidates
        self.ranker = ranker
        self.features = features
        self.n_candidates = n_candidates
        self.n_negatives = n_negatives
        self.holdout = holdout
        self.random_state = random_state

    def fit(
        self,
        data: Interactions,
        y: None = None,
        *,
        item_features: Attributes | None = None,
        user_features: Attributes | None = None,
    ) -> Self:
        """Learn from interactions with times; features are as in :meth:`Recommender.fit`.

        Parameters
        ----------
        data : Interactions
        item_features, user_features : Attributes, data frame or None
        """
        for name, constraint in self._constraints.items():
            constraint.check(type(self).__name__, name, getattr(self, name))
        if not isinstance(data, Interactions):
            raise DataError(
                f"TwoStageRecommender.fit got {type(data).__name__}: it takes Interactions. Make "
                "them of ratings with Interactions.from_ratings(ratings)."
            )
        if data.time is None:
            raise DataError(
                "TwoStageRecommender.fit: these events have no times, so what is known before an "
                "event and what comes after cannot be told apart. Read them with a time column."
            )
        if isinstance(self.features, Attributes):
            if item_features is not None:
                raise ParameterError("features and item_features are both Attributes: give one.")
            item_features = self.features
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        items = None if item_features is None else as_features(item_features)
        users = None if user_features is None else as_features(user_features)
        split = leave_last_out(data) if self.holdout == "next" else split_by_time(data)
        before, after = data.take(split.train), data.take(split.test)
        first = Recommender() if self.candidates is None else clone(self.candidates)
        if first.random_state is None:
            first.set_params(random_state=seed)
        self.candidates_ = first.fit(before, item_features=items, user_features=users)
        self._set_columns(items, users, before)
        self._fit_ranker(before, after, np.random.default_rng(seed))
        self.candidates_._refit_with(after)
        self._set_columns(items, users, data)
        self._stats = item_stats(self.candidates_.histories_)
        return self

    def _set_columns(
        self, items: Attributes | None, users: Attributes | None, events: Interactions
    ) -> None:
        """Columns of the items and of the users of the data, as far as these events tell."""
        data = self.candidates_.histories_
        columns: dict[str, FloatArray] = {}
        if events.event is not None and events.event_types is not None:
            total = np.bincount(events.item, minlength=data.n_items)
            for number, name in enumerate(events.event_types.tolist()):
                own = events.event == number
                count = np.bincount(events.item[own], minlength=data.n_items)
                # Shrunk toward the share among all events, as if ten more were like these.
                columns[f"rate.{name}"] = (count + 10.0 * own.mean()) / (total + 10.0)
        item_columns = {**columns, **dense_columns(items, data.items)}
        user_columns = dense_columns(users, data.users)
        self.item_names_ = np.array([*item_columns], object)
        self.user_names_ = np.array([f"query.{name}" for name in user_columns], object)
        self.item_columns_ = stacked(item_columns, data.n_items)
        self.user_columns_ = stacked(user_columns, data.n_users)

    def _fit_ranker(
        self, before: Interactions, after: Interactions, rng: np.random.Generator
    ) -> None:
        model = self.candidates_
        self._stats = item_stats(model.histories_)
        relevant = relevant_pairs(before, after)
        known = np.unique(relevant[0][before.user_counts[relevant[0]] > 0])
        users = np.sort(rng.permutation(known)[:N_USERS])
        lists = model.recommend_all(before.users[users], self.n_candidates, horizon=self.holdout)
        keys = np.unique(relevant[0] * np.int64(before.n_items) + relevant[1])
        hits = np.isin(users[:, None] * np.int64(before.n_items) + lists.number, keys)
        hits &= lists.number >= 0
        if hits.any(axis=1).sum() < 10:
            raise DataError(
                f"TwoStageRecommender.fit: {int(hits.any(axis=1).sum())} users took one of their "
                f"{self.n_candidates} candidates in the held-out events. Give more events, or "
                "more candidates."
            )
        table = self._table(model._backend.known(users), lists.number, lists.score)
        n_relevant = np.bincount(relevant[0], minlength=before.n_users)[users]
        drawn, weight = self._draw(hits, lists.number >= 0, rng)
        fold = rng.random(len(users)) < 0.2
        self._train(table, hits, drawn & ~fold[:, None], weight)
        second = self.ranker_.decision_function(self._matrix(table)).reshape(lists.number.shape)
        found = [
            ndcg(
                mixed(lists.number, lists.score, second, share)[fold], hits[fold], n_relevant[fold]
            )
            for share in SHARES
        ]
        best = int(np.argmax(found))
        self.share_ = float(SHARES[best])
        self.validation_ = {"first stage": found[0], "ranker": found[-1], "both": found[best]}
        self._train(table, hits, drawn, weight)

    def _draw(
        self, hits: BoolArray, listed: BoolArray, rng: np.random.Generator
    ) -> tuple[BoolArray, FloatArray]:
        """All relevant candidates and some of the others, and what each of them counts."""
        others = listed & ~hits & hits.any(axis=1, keepdims=True)
        order = np.argsort(np.where(others, rng.random(hits.shape), 2.0), axis=1)
        drawn = np.zeros_like(hits)
        np.put_along_axis(drawn, order[:, : self.n_negatives], True, axis=1)
        drawn &= others
        stands_for = others.sum(axis=1) / np.maximum(drawn.sum(axis=1), 1)
        return drawn | hits, np.where(hits, 1.0, stands_for[:, None])

    def _train(
        self, table: dict[str, FloatArray], hits: BoolArray, used: BoolArray, weight: FloatArray
    ) -> None:
        from rankwright.rankers.boosting.lambdamart import LambdaMART

        rows = np.flatnonzero(used.ravel())
        qid = np.repeat(np.arange(len(hits)), hits.shape[1])[rows]
        y, given = hits.ravel()[rows].astype(np.float64), weight.ravel()[rows]
        part = {name: column[rows] for name, column in table.items()}
        default = LambdaMART(n_estimators=100, random_state=0)
        ranker = default if self.ranker is None else clone(self.ranker)
        self._encoding = None
        if isinstance(self.features, FeatureSet):
            self._encoding = clone(self.features).fit(part).encoding_
        self.encoding_ = None if self._encoding is None else self._encoding.state()
        self.ranker_ = ranker.fit(self._matrix(part), y, qid=qid, sample_weight=given)
        more = () if self._encoding is None else self._encoding.feature_names
        self.feature_names_ = (*table, *more)

    def _matrix(self, table: dict[str, FloatArray]) -> FloatArray:
        columns = np.column_stack([*table.values()])
        if self._encoding is None:
            return columns
        return np.hstack([columns, self._encoding.encode(table)])

    def _table(
        self, rows: HistoryRows, number: NDArray[np.int64], score: NDArray[Any]
    ) -> dict[str, FloatArray]:
        """The features of the candidates of some users, a column of all their rows each."""
        blocks = [
            self._block(rows.take(np.arange(start, min(start + BLOCK, rows.n_rows))),
                        number[start : start + BLOCK], score[start : start + BLOCK])
            for start in range(0, rows.n_rows, BLOCK)
        ]  # fmt: skip
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    def _block(
        self, rows: HistoryRows, number: NDArray[np.int64], score: NDArray[Any]
    ) -> dict[str, FloatArray]:
        item = np.maximum(number, 0)
        rank = np.tile(np.arange(number.shape[1]), (len(number), 1))
        columns: dict[str, Any] = {"score": np.where(number >= 0, score, 0.0), "rank": rank}
        for name, scores in self.candidates_.model_.expert_scores(rows).items():
            own = np.take_along_axis(scores, item, axis=1)
            columns[f"score.{name}"] = own
            columns[f"rank.{name}"] = np.argsort(np.argsort(-own, axis=1, kind="stable"), axis=1)
        for name, values in self._stats.items():
            known = item < len(values)  # newer items have no events that these know
            columns[name] = np.where(known, values[np.where(known, item, 0)], 0.0)
        length = np.log1p(np.diff(rows.ptr))[:, None]
        columns["query.count"] = np.broadcast_to(length, number.shape)
        for name, values in zip(self.item_names_.tolist(), self.item_columns_.T, strict=True):
            known = item < len(values)
            columns[name] = np.where(known, values[np.where(known, item, 0)], np.nan)
        for name, values in zip(self.user_names_.tolist(), self.user_columns_.T, strict=True):
            own = values[rows.user] if len(rows.user) else np.full(rows.n_rows, np.nan)
            columns[name] = np.broadcast_to(own[:, None], number.shape)
        return {name: np.asarray(c, np.float64).ravel() for name, c in columns.items()}

    def _lists(self, rows: HistoryRows, n: int, selection: Selection) -> ListBlock:
        """The best items for some histories."""
        parts = []
        size = min(BLOCK, self.candidates_._backend.block_size)
        for start in range(0, rows.n_rows, size):
            block = rows.take(np.arange(start, min(start + size, rows.n_rows)))
            wide = max(n, self.n_candidates)
            first = self.candidates_._backend.lists(block, wide, selection)
            second = np.zeros(first.number.shape)
            if self.share_ > 0:
                table = self._block(block, first.number, first.score)
                second = self.ranker_.decision_function(self._matrix(table)).reshape(second.shape)
            parts.append(
                ordered(first.number, mixed(first.number, first.score, second, self.share_), n)
            )
        return ListBlock(*(np.concatenate(c) for c in zip(*parts, strict=True)))

    def recommend(
        self, user: Id, n: int = 10, *, exclude: Exclude = "taken", filter: Allow = None
    ) -> list[Recommendation]:
        """The best items for a user of the data, as :meth:`Recommender.recommend`.

        Parameters
        ----------
        user : id
        n : how many items
        exclude, filter : which items a list may hold
        """
        return self.recommend_all([user], n, exclude=exclude, filter=filter)[user]

    def recommend_all(
        self,
        users: Column | None = None,
        n: int = 10,
        *,
        exclude: Exclude = "taken",
        filter: Allow = None,
    ) -> TopLists:
        """Recommendations for many users (ids; None: all) at once.

        Parameters
        ----------
        users, n, exclude, filter : as in ``recommend``
        """
        check_n("recommend_all", n)
        check_is_fitted(self)
        first = self.candidates_
        ids = (self._data.users if users is None else as_ids(users, "users")).tolist()
        rows = first._backend.known(first._user_numbers(ids))
        selection = first._selection(exclude, filter, self.holdout)
        return TopLists(ids, self._data.items, [self._lists(rows, n, selection)])

    def recommend_new(
        self,
        session: Mapping[Id, float] | Sequence[Id],
        n: int = 10,
        *,
        exclude: Exclude = "taken",
        filter: Allow = None,
    ) -> list[Recommendation]:
        """The best items for a new user, who took these items.

        Parameters
        ----------
        session : the items taken, oldest first, or {item: weight}
        n, exclude, filter : as in ``recommend``
        """
        check_n("recommend_new", n)
        check_is_fitted(self)
        first = self.candidates_
        rows = cast("HistoryRows", first._new_history(session))
        selection = first._selection(exclude, filter, self.holdout)
        return next(self._lists(rows, n, selection).lists(self._data.items))

    def partial_fit(self, events: Interactions, y: None = None) -> Self:
        """Follow new events as :meth:`Recommender.partial_fit`; the ranker stays as it is."""
        check_is_fitted(self)
        self.candidates_.partial_fit(events)
        return self

    def _saved_as(self) -> TwoStageRecommender:
        """Files hold what features have learned instead of the features that were given."""
        saved = copy(self)
        saved.features = None
        return saved

    def _before_saving(self) -> None:
        """Files hold no pending work of updates."""
        self.candidates_._before_saving()

    def _loaded(self) -> None:
        """After loading: check that the parts fit together, and derive the rest."""
        data = self.candidates_.histories_
        self._stats = item_stats(data)
        self._encoding = None
        if self.encoding_ is not None:
            self._encoding = FittedFeatures.from_state(self.encoding_)
        if not 0.0 <= self.share_ <= 1.0:
            raise DataError(f"TwoStageRecommender.share_ is {self.share_}: 0 to 1 needed.")
        for kind, size in (("item", data.n_items), ("user", data.n_users)):
            shape = getattr(self, f"{kind}_columns_").shape
            if shape[0] > size or shape[1] != len(getattr(self, f"{kind}_names_")):
                raise DataError(f"TwoStageRecommender.{kind}_columns_ does not fit its names.")

    @classmethod
    def learned(cls) -> dict[str, Learned | Holds]:
        return {
            "candidates_": Holds((Recommender,)),
            "ranker_": Holds((Ranker,)),
            "encoding_": Holds((dict,), optional=True),
            "share_": real(),
            "validation_": Holds((dict,)),
            "feature_names_": Holds((tuple,)),
            "item_names_": texts("n_item_columns"),
            "user_names_": texts("n_user_columns"),
            "item_columns_": floats("n_items", "n_item_columns", finite=False),
            "user_columns_": floats("n_users", "n_user_columns", finite=False),
        }

    @property
    def _data(self) -> Histories:
        return self.candidates_.histories_


def item_stats(data: Histories) -> dict[str, FloatArray]:
    """How often, how recently and since when each item was taken."""
    assert data.time is not None
    last = float(data.time.max(initial=0.0))
    span = max(last - float(data.time.min(initial=last)), 1e-9)
    first_time, last_time = np.full(data.n_items, last), np.full(data.n_items, last - span)
    np.minimum.at(first_time, data.item, data.time)
    np.maximum.at(last_time, data.item, data.time)
    recent = np.bincount(data.item[data.share_later < RECENT], minlength=data.n_items)
    return {
        "count": np.log1p(data.item_counts),
        "recent": np.log1p(recent),
        "age": (last - first_time) / span,
        "idle": (last - last_time) / span,
    }


def dense_columns(features: Attributes | None, ids: NDArray[Any]) -> dict[str, FloatArray]:
    """The columns of attributes by name, NaN for ids without any."""
    if features is None:
        return {}
    table = features.rows_of(ids)
    names = features.names or [f"column {at}" for at in range(table.shape[1])]
    values = table.toarray()
    values[~np.isin(ids, features.ids)] = np.nan
    return dict(zip(names, values.T, strict=True))


def stacked(columns: dict[str, FloatArray], n_rows: int) -> FloatArray:
    return np.column_stack([*columns.values()]) if columns else np.zeros((n_rows, 0))


def standardized(scores: FloatArray, listed: BoolArray) -> FloatArray:
    """Scores of each list less their mean, over their standard deviation; 0 where there is none."""
    size = np.maximum(listed.sum(axis=1, keepdims=True), 1)
    values = np.where(listed, scores, 0.0).astype(np.float64)
    mean = values.sum(axis=1, keepdims=True) / size
    rest = np.where(listed, values - mean, 0.0)
    deviation = np.sqrt((rest**2).sum(axis=1, keepdims=True) / size)
    return np.asarray(rest / np.maximum(deviation, 1e-12))


def mixed(
    number: NDArray[np.int64], first: NDArray[Any], second: FloatArray, share: float
) -> FloatArray:
    """The final scores of candidates, -inf where there is none."""
    listed = number >= 0
    scores = (1.0 - share) * standardized(first, listed) + share * standardized(second, listed)
    return np.where(listed, scores, -np.inf)


def ordered(number: NDArray[np.int64], scores: FloatArray, n: int) -> ListBlock:
    """The n best candidates of each list; equal scores keep the order of the first stage."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    best = np.take_along_axis(number, order, axis=1)
    return ListBlock(best, np.where(best >= 0, np.take_along_axis(scores, order, axis=1), 0.0))


def ndcg(scores: FloatArray, hits: BoolArray, n_relevant: IntArray) -> float:
    """The mean NDCG@10 of lists in the order of these scores."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, : len(DISCOUNT)]
    gain = np.take_along_axis(hits, order, axis=1) @ DISCOUNT[: order.shape[1]]
    ideal = np.cumsum(DISCOUNT)[np.clip(n_relevant, 1, len(DISCOUNT)) - 1]
    return float((gain / ideal).mean()) if len(gain) else 0.0
