"""Recommendations for users of the data and for new users, with explanations."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from types import UnionType
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import Column, FloatArray, Id, IntArray
from rankwright.data.behavior.attributes import Attributes, SideFeatures, as_features
from rankwright.data.behavior.interactions import Interactions
from rankwright.data.behavior.ratings import Ratings
from rankwright.data.behavior.times import check_unit
from rankwright.data.vocabulary import Vocabulary, as_ids
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    ParameterError,
    RankwrightWarning,
)
from rankwright.rankers import schema
from rankwright.rankers.foreign_names import ExplainsParameters, explains_names
from rankwright.rankers.schema import Holds, real, texts
from rankwright.recommend.events.content import ItemContent, UserMeans
from rankwright.recommend.events.histories import Histories, HistoryRows
from rankwright.recommend.events.topn import EventBackend, TopN
from rankwright.recommend.explanations import Recommendation, SimilarUser, as_list
from rankwright.recommend.lists import (
    Allow,
    Blocks,
    Exclude,
    ListBlock,
    Selection,
    TopLists,
    with_progress,
    write_lists,
)
from rankwright.recommend.ratings.blend import (
    Blend,
    RatingBackend,
    check_ratings,
    predict_rows,
    with_ids,
)
from rankwright.recommend.ratings.per_user import RANKER, PerUser, caller_level
from rankwright.runtime import active_engine, current_engine, map_jobs, single_threaded_blas

SMALL = 50_000  # pairs of users and items below which experts follow every event at once
REFRESH = 0.002  # share of new events after which experts follow in larger data
MAX_HALVES = 20.0  # half-lives after which an event counts nothing more, or nothing less


class Recommender(ExplainsParameters, BaseEstimator):  # type: ignore[misc]
    """Recommend items to users by what other users took or rated (collaborative filtering).

    From **Interactions** (clicks, purchases) it ranks the whole catalog for each user: several
    experts, combined by weights learned on held-out time (``rankwright.recommend.events.topn``).

    From **Ratings** it orders items by how high a user would rate them. With a ``ranker``, that is
    a ranking problem for each user: rows are items, features are the ratings of reference users,
    grades are the user's own ratings. A reference user who did not rate an item abstains; rankers
    without abstention get the median of that user's ratings instead. Without one (``ranker=None``)
    several rating models are combined as features of one ranker (see
    ``rankwright.recommend.ratings.blend``), which is better, and faster for many users.

    A user without events gets the most taken items. A user without preferences (no rating, one
    rating, all ratings equal) gets the items with the best average ratings; with a ``ranker`` there
    is also a DegenerateDataWarning. Items that nobody took or rated are never recommended, unless
    features of items are given. Of equal scores the item with the better average rating comes
    first, then the one with more ratings; with events the item with more users.

    Parameters
    ----------
    ranker : a ranker, a pipeline that ends in one, or None, default None
        For ratings. Where its own ``random_state`` is None, that of the recommender seeds it.
    n_reference : int >= 1, default 1000
        Number of reference users (with ``ranker``); all, if there are fewer.
    reference : "random", "dense" or "similar", default "random"
        Random users, those with most ratings, or for each user the most similar ones.
    experts : list of experts or None, default None
        For interactions; see ``rankwright.recommend.events``. None takes those that suit the size
        of the data; experts that add nothing are dropped.
    holdout : "both", "next" or "period", default "both"
        For interactions, what the experts are weighed by: the last item of each user (what comes
        next in a session), all items of the last tenth of the events (what a user takes in the
        coming time), or both: then ``recommend(horizon=...)`` chooses. Without times it is "next".
    combiner : "auto", "search" or "ranksvm", default "auto"
        For interactions, how the experts are weighed: a search for a high NDCG@10 of the held-out
        items, from equal weights ("search") or from those of a RankSVM. The weights are never worse
        than the best expert there.
    event_weights : mapping of event types to weights, or None, default None
        For interactions with types, such as ``{"view": 1, "purchase": 5, "dislike": -1}``; 0 drops
        the events of a type. None takes each event with its own weight.
    half_life : number > 0 or None, default None
        For interactions, the time after which an event counts half, in the units of their times
        (seconds, if times were dates). None lets all events count alike, but for the experts
        that follow time by themselves.
    exploration : number from 0 to 1, default 0
        For interactions, the share of the places of a list, the last ones, that go to items with
        fewer than five users: those with the best scores, drawn by a hash of the user and the
        item. So cold items get the events from which others learn.
    random_state : int, RandomState or None

    Attributes
    ----------
    ``ratings_`` : Ratings
        The training data, or
    ``histories_`` : Histories
        what each user took.
    ``model_`` : Blend, PerUser or TopN
    ``titles_`` : (n_items,) texts or None
    ``now_`` : float, with ``half_life``: the time of the last event of ``fit``
    ``content_`` : ItemContent, with ratings and features of items
    ``user_content_`` : UserMeans, with ratings and features of users

    Examples
    --------
    >>> from rankwright.data.datasets.synthetic import make_ratings
    >>> ratings = make_ratings(60, 40, random_state=0).ratings
    >>> model = Recommender(random_state=0).fit(ratings)
    >>> user = ratings.users[0]
    >>> [len(model.recommend(user, n=3)), len(model.recommend_new({ratings.items[2]: 5}, n=2))]
    [3, 2]
    >>> events = Interactions.from_ratings(ratings, at_least=3)
    >>> len(Recommender(random_state=0).fit(events).recommend(user, n=3))
    3
    """

    _constraints: ClassVar = {
        **PerUser._constraints,
        "ranker": schema.optional(RANKER),
        "experts": TopN._constraints["experts"],
        "holdout": TopN._constraints["holdout"],
        "combiner": TopN._constraints["combiner"],
        "event_weights": schema.optional(schema.instance_of("a mapping", Mapping)),
        "half_life": schema.optional(schema.positive()),
        "exploration": schema.between(0.0, 1.0),
        "random_state": schema.random_state(),
    }

    def __init__(
        self,
        *,
        ranker: BaseEstimator | None = None,
        n_reference: int = 1000,
        reference: str = "random",
        experts: list[Any] | None = None,
        holdout: str = "both",
        combiner: str = "auto",
        event_weights: Mapping[Any, float] | None = None,
        half_life: float | None = None,
        exploration: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.ranker = ranker
        self.n_reference = n_reference
        self.reference = reference
        self.experts = experts
        self.holdout = holdout
        self.combiner = combiner
        self.event_weights = event_weights
        self.half_life = half_life
        self.exploration = exploration
        self.random_state = random_state

    @explains_names
    def fit(
        self,
        data: Ratings | Interactions,
        y: None = None,
        *,
        item_features: Attributes | None = None,
        user_features: Attributes | None = None,
    ) -> Self:
        """Learn from ratings (each pair of user and item may occur once) or from interactions.

        Parameters
        ----------
        data : Ratings or Interactions
        item_features : Attributes, data frame or None
            They describe the catalog. Items that nobody took or rated yet can be recommended: they
            get the scores of the known items most like them. With interactions, items like those a
            user took score higher as well. Titles are shown in explanations.
        user_features : Attributes, data frame or None
            They describe users: what users with the same features take, or rate higher than
            others do, scores higher. Users without events or ratings get lists by their features.
        """
        for name, constraint in self._constraints.items():
            constraint.check(type(self).__name__, name, getattr(self, name))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        for name in ("ratings_", "histories_", "titles_", "content_", "user_content_", "now_"):
            if hasattr(self, name):
                delattr(self, name)
        given = (item_features, user_features)
        features = SideFeatures(*(None if f is None else as_features(f) for f in given))
        if isinstance(data, Interactions):
            self._fit_events(data, features, seed)
        else:
            self._fit_ratings(data, features, seed)
        if features.items is not None and features.items.titles is not None:
            self.titles_ = features.items.titles_of(self._data.items)
        self._set_backend()
        return self

    def _fit_ratings(self, ratings: Ratings, features: SideFeatures, seed: int) -> None:
        ratings = check_ratings(ratings)
        if features.users is not None and self.ranker is not None:
            raise ParameterError(
                "Recommender(ranker=...).fit(user_features=...): scores of a ranker have a scale "
                "of their own, to which nothing can be added. Leave one of the two out.",
                parameter="ranker",
            )
        ratings = with_ids(ratings, features)
        if features.items is not None:
            self.content_ = ItemContent().fit(Histories.of_ratings(ratings), features.items)
        if features.users is not None:
            self.user_content_ = UserMeans().fit(Histories.of_ratings(ratings), features.users)
        self.ratings_ = ratings
        if np.ptp(ratings.value) == 0:
            warnings.warn(
                "Recommender: all ratings are equal, so they contain no preferences: every item "
                "gets the same score, and the items with most ratings come first. To learn from "
                "what was rated, fit Interactions.from_ratings(ratings).",
                DegenerateDataWarning,
                stacklevel=3,
            )
        model: Any = Blend(random_state=seed)
        if self.ranker is not None:
            model = PerUser(self.ranker, self.n_reference, self.reference, seed)
        with active_engine(None):  # models of ratings are small: they are fitted here
            self.model_ = model.fit(ratings)

    def _fit_events(self, events: Interactions, features: SideFeatures, seed: int) -> None:
        if self.ranker is not None:
            raise ParameterError(
                "Recommender(ranker=...) learns from ratings. Leave it out for interactions.",
                parameter="ranker",
            )
        if len(events) == 0:
            raise DataError("Recommender.fit got no events: there is nothing to learn from.")
        if self.half_life is not None and events.time is not None:
            self.now_ = float(events.time.max())
        events = self._weighted(events)
        weighted = self.event_weights is not None or self.half_life is not None
        histories = replace(Histories.of(events), weighted=weighted)
        if features.items is not None:
            histories = histories.with_items(features.items.ids)
        if features.users is not None:
            histories = histories.with_users(features.users.ids)
        self.histories_ = histories
        self.model_ = TopN(self.experts, self.holdout, self.combiner, seed).fit(histories, features)

    def _set_backend(self) -> None:
        titles = getattr(self, "titles_", None)
        self._pending: list[Interactions] = []
        self._backend: Any = (
            EventBackend(self.histories_, self.model_, titles, self.exploration)
            if self._is_events
            else RatingBackend(self.ratings_, self.model_, self._contents(), titles)
        )

    def _contents(self) -> tuple[Any, Any]:
        return getattr(self, "content_", None), getattr(self, "user_content_", None)

    def partial_fit(self, events: Interactions, y: None = None) -> Self:
        """Follow new events of known or new users and items; ``recommend`` reflects them at once.

        The histories of users follow each event, in milliseconds. What the experts know of items
        follows when 0.2 % of the data are new, with new users, items or dislikes, and in data of
        fewer than 50,000 pairs of users and items at once. Then counts and neighbors are exact, as
        after ``fit`` with all events, and EASE is exact but for rounding. Factors of known items
        and the weights of the experts are those of the last ``fit``; ``model_.n_new_events_``
        counts the events since then. ``refit`` fits the experts again and keeps their weights;
        ``fit`` learns the weights too.

        Sessions count if the events of the last ``fit`` had some, and are ignored otherwise; an
        event without one goes on with the user's last session.
        """
        if not isinstance(events, Interactions):
            raise DataError(
                f"partial_fit got {type(events).__name__}: it takes Interactions. A recommender of "
                "ratings is fitted again."
            )
        if not hasattr(self, "model_"):
            return self.fit(events)
        if not self._is_events:
            raise DataError("partial_fit: this recommender was fitted on ratings; fit it again.")
        if len(events):
            events = self._weighted(events)
            _warn_of_other_ids(self.histories_, events)
            if not self._add_to_users(events):
                self._merge(events)
            self.model_.n_new_events_ += len(events)
        return self

    def _add_to_users(self, events: Interactions) -> bool:
        """Let only the histories of users follow, if these events are like those before.

        That is enough for their next lists. Experts follow when ``REFRESH`` of the data are new,
        or with new users, new items and dislikes; small data follow at once.
        """
        data = self.histories_
        n_pending = len(events) + sum(map(len, self._pending))
        if len(data) < SMALL or n_pending > REFRESH * len(data):
            return False
        if (data.time is None) != (events.time is None) or (events.weight <= 0).any():
            return False
        user = data.user_vocabulary.numbers(events.users[events.user], unknown=-1)
        item = data.item_vocabulary.numbers(events.items[events.item], unknown=-1)
        if (user < 0).any() or (item < 0).any():
            return False
        if data.disliked is not None and np.isin(user, data.disliked[:, 0]).any():
            return False
        if events.time is not None and data.time is not None:
            check_unit(events.time, "time", data.time[:1])
        self._backend.add(events, user, item)
        self._pending.append(events)
        return True

    def _merge(self, *more: Interactions) -> None:
        """Let the experts follow the events that only the histories of users have so far.

        If the events are refused, everything stays as it was.
        """
        pending = [*self._pending, *more]
        if not pending:
            return
        histories, changed = self.histories_, []
        # Together, one part without sessions would take them from all others.
        for _, run in groupby(pending, key=lambda part: part.session is None):
            parts = list(run)
            events = parts[0] if len(parts) == 1 else Interactions.concat(parts)
            histories, users = histories.merged(events)
            changed.append(users)
        self._pending, self.histories_ = [], histories
        self.model_.update(histories, np.unique(np.concatenate(changed)))
        if hasattr(self, "titles_"):
            fresh = self.histories_.items[len(self.titles_) :]
            texts = np.array([str(item) for item in fresh.tolist()], object)
            self.titles_ = np.concatenate([self.titles_, texts])
        self._set_backend()

    def _weighted(self, events: Interactions) -> Interactions:
        """Events with the weights of their types and ages."""
        if self.event_weights is not None:
            events = events.weighted(self.event_weights)
        if self.half_life is None:
            return events
        if events.time is None:
            raise DataError("Recommender(half_life=...): these events have no times.")
        age = np.clip((self.now_ - events.time) / self.half_life, -MAX_HALVES, MAX_HALVES)
        return events.with_weights(events.weight * np.exp2(-age))

    def refit(self) -> Self:
        """Fit the experts again on all events so far; their weights stay (``fit`` learns them)."""
        check_is_fitted(self)
        if not isinstance(self.model_, TopN):
            raise DataError("refit: this recommender was fitted on ratings; call fit.")
        self._merge()
        self.model_.refit()
        return self

    def _refit_with(self, events: Interactions) -> None:
        """Fit the experts again with more events of the same users and items; weights stay."""
        self.histories_, _ = self.histories_.merged(self._weighted(events))
        self.model_.refit(self.histories_)
        self._set_backend()

    def _loaded(self) -> None:
        """After loading: check that the parts fit together, and derive the rest."""
        for ids in (self._data.users, self._data.items):
            Vocabulary(as_ids(ids))
        if isinstance(self.model_, TopN) != self._is_events:
            raise DataError("Recommender.model_ does not fit its data.")
        self.model_.prepare(self._data)
        if hasattr(self, "ratings_"):
            check_ratings(self.ratings_)
            for content in self._contents():
                if content is not None:
                    content.prepare(Histories.of_ratings(self.ratings_))
        self._set_backend()

    def _before_saving(self) -> None:
        """Files hold no pending work of updates."""
        if isinstance(getattr(self, "model_", None), TopN):
            self._merge()
            self.model_.flush()

    @classmethod
    def learned(cls) -> dict[str, Any]:
        return {
            "ratings_": Holds((Ratings,), optional=True),
            "histories_": Holds((Histories,), optional=True),
            "model_": Holds((Blend, PerUser, TopN)),
            "titles_": texts("n_items", optional=True),
            "content_": Holds((ItemContent,), optional=True),
            "user_content_": Holds((UserMeans,), optional=True),
            "now_": real(optional=True),
        }

    @property
    def _is_events(self) -> bool:
        return hasattr(self, "histories_")

    @property
    def data_(self) -> Ratings | Interactions:
        """The training data; of events, each pair of user and item once."""
        check_is_fitted(self)
        self._merge()
        data = self._data
        return data.events() if isinstance(data, Histories) else data

    @property
    def _data(self) -> Any:
        check_is_fitted(self)
        return self.histories_ if self._is_events else self.ratings_

    def expert_scores(self, user: Id, items: Column | None = None) -> dict[str, FloatArray]:
        """Scores of each expert, by its name, for a user of the data (an id) or a new one.

        They are those of some items (ids; None: all), each divided by the root mean square over
        the catalog: what the weights of the experts multiply. Only with interactions.
        """
        history = self._history(user)
        if not self._is_events:
            raise DataError("expert_scores: this recommender was fitted on ratings.")
        numbers = self._item_numbers(items)
        return {
            name: np.asarray(scores[0, numbers], np.float64)
            for name, scores in self.model_.expert_scores(history).items()
        }

    def scores(self, user: Id, items: Column | None = None) -> FloatArray:
        """Scores of some items (ids; None: all) for a user of the data (an id) or a new user
        ({item: rating}, or the items taken, oldest first). Higher is better."""
        history = self._history(user)
        scores: FloatArray = self._backend.scores(history, self._item_numbers(items))
        return scores

    def predict_ratings(self, ratings: Ratings) -> FloatArray:
        """A score for each row of other ratings of the same users and items, see Ratings.take."""
        known = self._data
        if self._is_events:
            raise DataError("predict_ratings: this recommender was fitted on interactions.")
        # Features may have added users and items after those of the ratings.
        same = np.array_equal(known.users[: ratings.n_users], ratings.users)
        if not (same and np.array_equal(known.items[: ratings.n_items], ratings.items)):
            raise DataError(
                "predict_ratings: these ratings have other users or items than those of fit. "
                "Split one Ratings with take(train) and take(test), without compact()."
            )
        backend = self._backend
        with single_threaded_blas():  # the threads work on different users
            return predict_rows(
                lambda user, items: backend.scores(backend.known([user]), items), ratings
            )

    @explains_names
    def recommend(
        self,
        user: Id,
        n: int = 10,
        *,
        exclude: Exclude = "taken",
        filter: Allow = None,
        horizon: str | None = None,
    ) -> list[Recommendation]:
        """The best items for a user of the data, among those the user has not taken or rated.

        Parameters
        ----------
        user : id
        n : how many items
        exclude : "taken", None (taken items may come again), or ids to leave out as well
        filter : a :class:`~rankwright.recommend.lists.Filter`, the only ids allowed, a function of
            an id, or None
        horizon : "next", "period" or None
            With interactions, what the list is for: what the user takes next, such as in a visit
            that goes on, or takes in the coming time, such as in a mail. None is "next", unless
            ``holdout="period"``.
        """
        check_n("recommend", n)
        selection = self._selection(exclude, filter, horizon)
        best: ListBlock = self._backend.lists(self._known(user), n, selection)
        return next(best.lists(self._data.items))

    def _selection(self, exclude: Exclude, filter: Allow, horizon: str | None) -> Selection:
        if horizon is not None and not self._is_events:
            raise ParameterError(
                f"horizon={horizon!r} is for interactions; this recommender was fitted on ratings.",
                parameter="horizon",
            )
        return Selection(self._data, exclude, filter, horizon)

    def _known(self, user: Id) -> Any:
        numbers = self._user_numbers([user])
        return self._backend.known(numbers)

    @explains_names
    def recommend_new(
        self,
        ratings: Any,
        n: int = 10,
        *,
        exclude: Exclude = "taken",
        filter: Allow = None,
        horizon: str | None = None,
    ) -> Any:
        """The best items for a new user, or for several at once; nothing is retrained.

        Parameters
        ----------
        ratings : {item: rating}, or with interactions the items taken, oldest first, or {item:
            weight}
            A list of these gives a list of lists; a mapping of names to these gives TopLists. Of an
            item that is taken twice the last place counts, and the weights add up, as for known
            users. Items that are not in the data are left out of a session with a warning. A
            rating far outside the scale of the data is used as it is, with a warning.
        n, exclude, filter, horizon : as in ``recommend``
        """
        check_n("recommend_new", n)
        check_is_fitted(self)
        selection = self._selection(exclude, filter, horizon)
        if not _is_batch(ratings, list | Mapping if self._is_events else Mapping):
            return next(self._new_lists([ratings], n, selection).lists(self._data.items))
        if isinstance(ratings, Mapping):
            names, given = list(ratings), list(ratings.values())
            return TopLists(names, self._data.items, [self._new_lists(given, n, selection)])
        return list(self._new_lists(ratings, n, selection).lists(self._data.items))

    def _new_lists(self, sessions: Any, n: int, selection: Selection) -> ListBlock:
        histories = [self._new_history(session) for session in sessions]
        if not self._is_events:
            blocks = [self._backend.lists(history, n, selection) for history in histories]
            return ListBlock(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))
        size = self._backend.block_size
        parts = [
            self._backend.lists(HistoryRows.stacked(histories[start : start + size]), n, selection)
            for start in range(0, len(histories), size)
        ]
        return ListBlock(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _new_history(self, ratings: Any) -> Any:
        if not isinstance(ratings, Mapping) and (
            not self._is_events or isinstance(ratings, str) or not np.iterable(ratings)
        ):
            raise DataError(
                f"recommend_new got {type(ratings).__name__}: give a dict {{item: rating, ...}}, "
                "or with interactions a list of items."
            )
        return self._history(ratings if isinstance(ratings, Mapping) else list(ratings))

    @explains_names
    def recommend_all(
        self,
        users: Column | None = None,
        n: int = 10,
        *,
        exclude: Exclude = "taken",
        filter: Allow = None,
        horizon: str | None = None,
        output: str | os.PathLike[str] | None = None,
        progress: Callable[[int, int], object] | bool = False,
    ) -> Any:
        """Recommendations for many users (ids; None: all) at once, on all cores.

        Parameters
        ----------
        users, n, exclude, filter, horizon : as in ``recommend``
        output : path or None
            Write the lists to this JSON Lines (``.jsonl``) or Parquet (``.parquet``) file, a block
            of users at a time, and return their number.
        progress : True for a bar on stderr, or a function of (users done, all users)

        Returns
        -------
        lists : TopLists, a mapping of user ids to lists of Recommendation; or the number of users
            written
        """
        check_n("recommend_all", n)
        ids = (self._data.users if users is None else as_ids(users, "users")).tolist()
        numbers = self._user_numbers(ids)
        blocks = self._blocks(ids, numbers, n, self._selection(exclude, filter, horizon))
        if progress:
            blocks = with_progress(blocks, len(ids), progress)
        if output is not None:
            return write_lists(blocks, self._data, output, getattr(self, "titles_", None))
        lists = [block for _, block in blocks] or [ListBlock.of([], [], n)]
        return TopLists(ids, self._data.items, lists)

    def _blocks(self, ids: list[Any], numbers: IntArray, n: int, selection: Selection) -> Blocks:
        """Lists of users, a block at a time."""
        backend, size = self._backend, self._backend.block_size
        cuts = [slice(start, start + size) for start in range(0, len(ids), size)]
        histories = (backend.known(numbers[cut]) for cut in cuts)
        blocks: Iterable[ListBlock]
        if current_engine() is not None:
            blocks = map_jobs(_lists_of, list(histories), backend, n, selection)
        else:
            blocks = (backend.lists(history, n, selection) for history in histories)
        for cut, block in zip(cuts, blocks, strict=True):
            yield ids[cut], block

    def similar_items(self, item: Id, n: int = 10) -> list[Recommendation]:
        """The items most like an item: taken by the same users, or rated by them alike.

        With interactions the score is that of a user who took only this item, without the
        popularity experts; with ratings it is the cosine of the users who rated both.
        """
        check_n("similar_items", n)
        data, number = self._data, int(self._item_numbers([item])[0])
        others = np.flatnonzero((data.item_counts > 0) & (np.arange(data.n_items) != number))
        scores = self._backend.similar(number)[others]
        order = np.lexsort((-data.item_counts[others], -scores))[:n]
        ids = data.items[others[order]].tolist()
        return as_list(ids, scores[order].tolist())

    def similar_users(self, user: Id, n: int = 10) -> list[SimilarUser]:
        """The users most like a user of the data (an id) or a new one (as in ``recommend_new``).

        The score is the cosine of what they took, where an item of m of the N users counts
        log(1 + N / m); with ratings it is the cosine of the ratings less each user's mean.
        """
        check_n("similar_users", n)
        check_is_fitted(self)
        found = self._backend.similar_users(self._history(user), n)
        ids = self._data.users[[number for number, _ in found]].tolist() if found else []
        return [SimilarUser(name, score) for name, (_, score) in zip(ids, found, strict=True)]

    def explain(self, user: Id, item: Id, n: int = 5) -> Any:
        """Why an item has its score for a user (an id, or what a new user rated or took).

        Returns
        -------
        explanation : RatingExplanation or EventExplanation
            Prints as text. From interactions: the part of each expert, and the items taken that add
            most. From ratings: ``viewers``, the most similar users who rated the item, and
            ``ratings``, the user's own, with what each adds (how far the score falls without it).
            From a ``ranker``: ``viewers``, the reference users whose ratings of the item change its
            score most.
        """
        check_n("explain", n)
        history = self._history(user)
        return self._backend.explain(history, int(self._item_numbers([item])[0]), n)

    def to_columns(self, lists: Mapping[Any, list[Recommendation]]) -> dict[str, list[Any]]:
        """Lists of ``recommend_all`` as columns: ``pandas.DataFrame(model.to_columns(lists))``."""
        rows = [(u, k, r.item, r.score) for u, best in lists.items() for k, r in enumerate(best, 1)]
        names = ("user", "rank", "item", "score")
        columns: dict[str, list[Any]] = {
            name: [row[at] for row in rows] for at, name in enumerate(names)
        }
        if hasattr(self, "titles_"):
            titles = self.titles(columns["item"])
            columns["title"] = [titles[item] for item in columns["item"]]
        return columns

    def to_records(
        self,
        lists: Mapping[Any, list[Recommendation]],
        *,
        explain: bool = False,
        new: Mapping[Any, Any] | None = None,
    ) -> dict[str, list[dict[str, Any]]]:
        """Lists of ``recommend_all`` as records with rank, item, score and title, by user.

        ``explain`` adds "why". ``new`` has the ratings of users who are not in the data.
        """
        columns = self.to_columns(lists)
        if explain:
            pairs = zip(columns["user"], columns["item"], strict=True)
            histories = new or {}
            columns["why"] = [str(self.explain(histories.get(u, u), item)) for u, item in pairs]
        records: dict[str, list[dict[str, Any]]] = {str(user): [] for user in lists}
        for values in zip(*columns.values(), strict=True):
            record = dict(zip(columns, values, strict=True))
            records[str(record.pop("user"))].append(record)
        return records

    def titles(self, items: Iterable[Any]) -> dict[Any, str]:
        """The titles of some items (ids); empty if ``fit`` got none."""
        ids = list(dict.fromkeys(items))
        if not hasattr(self, "titles_") or not ids:
            return {}
        return dict(zip(ids, self.titles_[self._item_numbers(ids)].tolist(), strict=True))

    def _history(self, user: Any) -> Any:
        """What a user of the data (an id) or a new user (a mapping, or items taken) has."""
        if isinstance(user, list) and self._is_events:
            user = _counted(user)
        if not isinstance(user, Mapping):
            return self._known(user)
        check_is_fitted(self)
        for item, rating in user.items():
            if not schema.number().test(rating):
                raise DataError(f"item {item!r} is rated {rating!r}, not a finite number.")
        if self._is_events:
            user = self._known_part(user)
        value = np.array(list(user.values()), dtype=np.float64)
        items = self._item_numbers(list(user)) if len(value) else np.zeros(0, np.int64)
        return self._backend.new(items, value, user)

    def _known_part(self, session: Mapping[Any, float]) -> Mapping[Any, float]:
        """The items of a session that are in the data; a warning names the others."""
        known = self._data.item_vocabulary
        unknown = [i for i in session if not (isinstance(i, Hashable) and i in known)]
        if not unknown:
            return session
        example = self._data.items[:1].tolist()[0]
        warnings.warn(
            f"{len(unknown)} of {len(session)} items of the session are not in the data and are "
            f"left out, such as {unknown[0]!r}; ids are such as {example!r}.",
            RankwrightWarning,
            stacklevel=caller_level(),
        )
        return {item: weight for item, weight in session.items() if item not in unknown}

    def _user_numbers(self, ids: list[Any]) -> IntArray:
        data = self._data
        for user in ids:
            known = isinstance(user, Hashable) and user in data.user_vocabulary
            if isinstance(user, list | tuple | np.ndarray) and not known:
                raise DataError(
                    "one user is needed here, not several.",
                    fix="Call recommend_all(users) for the lists of several.",
                )
            if not known:
                raise DataError(
                    f"user {user!r} is not one of the {data.n_users} users of the data, such "
                    f"as {data.users[:1].tolist()[0]!r}. For a new user call "
                    f"recommend_new({'[item, ...]' if self._is_events else '{item: rating, ...}'})."
                )
        return np.asarray(data.user_vocabulary.numbers(ids) if ids else np.zeros(0, np.int64))

    def _item_numbers(self, items: Column | None) -> IntArray:
        data = self._data
        if items is None:
            return np.arange(data.n_items)
        ids, known = as_ids(items, "items"), data.item_vocabulary
        for item in ids.tolist():
            if not (isinstance(item, Hashable) and item in known):
                raise DataError(
                    f"item {item!r} is not one of the {data.n_items} items of the data, "
                    f"such as {data.items[:1].tolist()[0]!r}. Leave it out: nobody "
                    f"{'took' if self._is_events else 'rated'} it."
                )
        return np.asarray(known.numbers(ids))


def _is_batch(ratings: object, kinds: UnionType | type) -> bool:
    """Whether these are the histories of several new users, which are no ids and no numbers."""
    if isinstance(ratings, Mapping):
        return any(isinstance(one, kinds) for one in ratings.values())
    return isinstance(ratings, list) and any(isinstance(one, kinds) for one in ratings)


def _counted(items: list[Any]) -> dict[Any, float]:
    """How often each item was taken, in the order of their last places."""
    counts: dict[Any, float] = {}
    for item in items:
        counts[item] = counts.pop(item, 0.0) + 1.0
    return counts


def _lists_of(histories: Any, backend: Any, n: int, selection: Selection) -> ListBlock:
    """Lists of some users, made by a worker."""
    best: ListBlock = backend.lists(histories, n, selection)
    return best


def _warn_of_other_ids(known: Histories, events: Interactions) -> None:
    """Texts after numbers, or numbers after texts, are nearly always a mistake: "7" is not 7."""
    for kind in ("users", "items"):
        old, new = (getattr(data, kind)[:1].tolist()[0] for data in (known, events))
        if isinstance(old, str) != isinstance(new, str):
            warnings.warn(
                f"partial_fit: ids of {kind} are such as {old!r} in fit and such as {new!r} now. "
                "A number and a text are two ids; if they mean the same, convert one of them. "
                "A model file holds ids of one type.",
                RankwrightWarning,
                stacklevel=3,
            )


def check_n(method: str, n: object) -> None:
    if not schema.at_least(1).test(n):
        raise ParameterError(f"{method}(n={n!r}): n must be an integer >= 1.", parameter="n")
