"""Recommendations for users of the data and for new users, with explanations."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray
from rankwright.data.features import Features
from rankwright.data.interactions import Interactions
from rankwright.data.ratings import Ratings, first_twice
from rankwright.data.vocabulary import Vocabulary, as_ids
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    ParameterError,
    RankwrightWarning,
)
from rankwright.kernel_cache import announce_compilation
from rankwright.parallel import map_blocks, n_threads, single_threaded_blas
from rankwright.rankers import schema
from rankwright.rankers.schema import Holds, texts
from rankwright.recommend.blend import Blend, predict_rows
from rankwright.recommend.experts.histories import Histories, Rows
from rankwright.recommend.explanations import (
    EventExplanation,
    Explanation,
    Liked,
    Recommendation,
    Taken,
    Viewer,
    as_list,
)
from rankwright.recommend.lists import POOL, Lists, Selection, with_progress, write_lists
from rankwright.recommend.models.base import Table
from rankwright.recommend.models.popularity import ItemMeans
from rankwright.recommend.per_user import RANKER, PerUser
from rankwright.recommend.topn import CELLS, TopN


class Recommender(BaseEstimator):  # type: ignore[misc]
    """Recommend items to users by what other users took or rated (collaborative filtering).

    From **Interactions** (clicks, purchases) it ranks the whole catalog for each user: several
    experts, combined by weights learned on held-out time (see ``rankwright.recommend.topn``).

    From **Ratings** it orders items by how high a user would rate them. With a ``ranker``, that is
    a ranking problem for each user: rows are items, features are the ratings of reference users,
    grades are the user's own ratings. A reference user who did not rate an item abstains; rankers
    without abstention get the median of that user's ratings instead. Without one (``ranker=None``)
    several rating models are combined as features of one ranker (see
    ``rankwright.recommend.blend``), which is better, and faster for many users.

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
        For interactions; see ``rankwright.recommend.experts``. None takes all of them.
    holdout : "both", "next" or "period", default "both"
        For interactions, what the experts are weighed by: the last item of each user (what comes
        next in a session), all items of the last tenth of the events (what a user takes in the
        coming time), or both, of which the next item counts a quarter. Without times it is "next".
    random_state : int, RandomState or None

    Attributes
    ----------
    ``ratings_`` : Ratings
        The training data, or
    ``histories_`` : Histories
        what each user took.
    ``model_`` : Blend, PerUser or TopN
    ``titles_`` : (n_items,) texts or None

    Examples
    --------
    >>> from rankwright.data.synthetic import make_ratings
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
        "random_state": schema.random_state(),
    }

    def __init__(
        self,
        *,
        ranker: Any = None,
        n_reference: int = 1000,
        reference: str = "random",
        experts: list[Any] | None = None,
        holdout: str = "both",
        random_state: Any = None,
    ) -> None:
        self.ranker = ranker
        self.n_reference = n_reference
        self.reference = reference
        self.experts = experts
        self.holdout = holdout
        self.random_state = random_state

    def fit(
        self, data: Ratings | Interactions, y: Any = None, *, item_features: Features | None = None
    ) -> Self:
        """Learn from ratings (each pair of user and item may occur once) or from interactions.

        ``item_features`` (with interactions) describe the catalog: items like those a user took
        score higher, and items that nobody took yet can be recommended. Their titles are shown in
        explanations.
        """
        for name, constraint in self._constraints.items():
            constraint.check(type(self).__name__, name, getattr(self, name))
        announce_compilation("recommend")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        for name in ("ratings_", "histories_", "titles_"):
            if hasattr(self, name):
                delattr(self, name)
        if isinstance(data, Interactions):
            return self._fit_events(data, item_features, seed)
        if item_features is not None:
            raise ParameterError(
                "Recommender.fit(item_features=...): features are used with interactions. Make "
                "them of the ratings: Interactions.from_ratings(ratings)."
            )
        return self._fit_ratings(data, seed)

    def _fit_ratings(self, ratings: Ratings, seed: int) -> Self:
        self.ratings_ = _check_ratings(ratings, type(self).__name__)
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
        self.model_ = model.fit(ratings)
        self._prepare()
        return self

    def _fit_events(self, events: Interactions, features: Features | None, seed: int) -> Self:
        if self.ranker is not None:
            raise ParameterError(
                "Recommender(ranker=...) learns from ratings. Leave it out for interactions."
            )
        if len(events) == 0:
            raise DataError("Recommender.fit got no events: there is nothing to learn from.")
        histories = Histories.of(events)
        if features is not None:
            histories = histories.with_items(features.ids)
            if features.titles is not None:
                self.titles_ = features.titles_of(histories.items)
        self.histories_ = histories
        self.model_ = TopN(self.experts, self.holdout, seed).fit(histories, features)
        return self

    def partial_fit(self, events: Interactions, y: Any = None) -> Self:
        """Follow new events of known or new users and items; ``recommend`` reflects them at once.

        Counts, neighbors and histories are exact: as after ``fit`` with all events. EASE is exact
        but for rounding. Factors of known items and the weights of the experts are those of the
        last ``fit``; ``model_.n_new_events_`` counts the events since then. ``refit`` fits the
        experts again and keeps their weights; ``fit`` learns the weights too.
        """
        if not isinstance(events, Interactions):
            raise DataError(
                f"partial_fit got {type(events).__name__}: it takes Interactions. A recommender of "
                "ratings is fitted again."
            )
        if not hasattr(self, "model_"):
            return self.fit(events)
        if not hasattr(self, "histories_"):
            raise DataError("partial_fit: this recommender was fitted on ratings; fit it again.")
        if len(events):
            self.histories_, users = self.histories_.merged(events)
            self.model_.update(self.histories_, users, len(events))
            if hasattr(self, "titles_"):
                fresh = self.histories_.items[len(self.titles_) :]
                texts = np.array([str(item) for item in fresh.tolist()], object)
                self.titles_ = np.concatenate([self.titles_, texts])
        return self

    def refit(self) -> Self:
        """Fit the experts again on all events so far; their weights stay (``fit`` learns them)."""
        if not isinstance(self.model_, TopN):
            raise DataError("refit: this recommender was fitted on ratings; call fit.")
        self.model_.refit()
        return self

    def _prepare(self) -> None:
        self._by_user = Table.by_user(self.ratings_)
        self._rated_items = np.flatnonzero(self.ratings_.item_counts > 0)
        self._low, self._high = self.ratings_.value.min(), self.ratings_.value.max()
        # Ties are broken by average rating, then by number of ratings.
        bias = ItemMeans().fit(self.ratings_).item_bias_
        order = np.lexsort((-self.ratings_.item_counts, -bias))
        self._popularity = np.empty(len(order), np.int64)
        self._popularity[order] = np.arange(len(order))

    def _loaded(self) -> None:
        """After loading: check that the parts fit together, and derive the rest."""
        for ids in (self._data.users, self._data.items):
            Vocabulary(as_ids(ids))
        if (isinstance(self.model_, TopN)) != hasattr(self, "histories_"):
            raise DataError("Recommender.model_ does not fit its data.")
        self.model_.prepare(self._data)
        if hasattr(self, "ratings_"):
            _check_ratings(self.ratings_, type(self).__name__)
            self._prepare()

    @classmethod
    def learned(cls) -> dict[str, Any]:
        return {
            "ratings_": Holds((Ratings,), optional=True),
            "histories_": Holds((Histories,), optional=True),
            "model_": Holds((Blend, PerUser, TopN)),
            "titles_": texts("n_items", optional=True),
        }

    @property
    def data_(self) -> Ratings | Interactions:
        """The training data; of events, each pair of user and item once."""
        data = self._data
        return data.events() if isinstance(data, Histories) else data

    @property
    def _data(self) -> Any:
        check_is_fitted(self)
        return self.histories_ if hasattr(self, "histories_") else self.ratings_

    def scores(self, user: Any, items: Any = None) -> FloatArray:
        """Scores of some items (ids; None: all) for a user of the data (an id) or a new user
        ({item: rating}, or the items taken, oldest first). Higher is better."""
        rated, value, number = self._ratings_of(user)
        return self._scores(rated, value, self._item_numbers(items), number)

    def predict_ratings(self, ratings: Ratings) -> FloatArray:
        """A score for each row of other ratings of the same users and items, see Ratings.take."""
        known = self._data
        if hasattr(self, "histories_"):
            raise DataError("predict_ratings: this recommender was fitted on interactions.")
        same = np.array_equal(known.users, ratings.users)
        if not (same and np.array_equal(known.items, ratings.items)):
            raise DataError(
                "predict_ratings: these ratings have other users or items than those of fit. "
                "Split one Ratings with take(train) and take(test), without compact()."
            )
        with single_threaded_blas():  # the threads work on different users
            return predict_rows(
                lambda user, items: self._scores(*self._by_user.row(user), items, user), ratings
            )

    def recommend(
        self, user: Any, n: int = 10, *, exclude: Any = "taken", filter: Any = None
    ) -> list[Recommendation]:
        """The best items for a user of the data, among those the user has not taken or rated.

        Parameters
        ----------
        user : id
        n : how many items
        exclude : "taken", None (taken items may come again), or ids to leave out as well
        filter : a :class:`~rankwright.recommend.lists.Filter`, the only ids allowed, a function of
            an id, or None
        """
        _check_n("recommend", n)
        history = self._ratings_of_known(user)
        return self._lists([history], n, self._selection(exclude, filter))[0]

    def recommend_new(
        self, ratings: Any, n: int = 10, *, exclude: Any = "taken", filter: Any = None
    ) -> list[Recommendation]:
        """The best items for a new user; nothing is retrained.

        ``ratings`` are {item: rating}; with interactions the items taken, oldest first, or {item:
        weight}. A rating far outside the scale of the data is used as it is, with a warning.
        """
        _check_n("recommend_new", n)
        if not isinstance(ratings, Mapping) and (
            hasattr(self, "ratings_") or isinstance(ratings, str) or not np.iterable(ratings)
        ):
            raise DataError(
                f"recommend_new got {type(ratings).__name__}: give a dict {{item: rating, ...}}, "
                "or with interactions a list of items."
            )
        history = self._ratings_of(ratings if isinstance(ratings, Mapping) else list(ratings))
        return self._lists([history], n, self._selection(exclude, filter))[0]

    def recommend_all(
        self,
        users: Any = None,
        n: int = 10,
        *,
        exclude: Any = "taken",
        filter: Any = None,
        output: Any = None,
        progress: Any = False,
    ) -> Any:
        """Recommendations for many users (ids; None: all) at once, on all cores.

        Parameters
        ----------
        users, n, exclude, filter : as in ``recommend``
        output : path or None
            Write the lists to this JSON Lines (``.jsonl``) or Parquet (``.parquet``) file, a block
            of users at a time, and return their number.
        progress : True for a bar on stderr, or a function of (users done, all users)

        Returns
        -------
        lists : dict of user id -> list of Recommendation, or the number of users written
        """
        _check_n("recommend_all", n)
        ids = (self._data.users if users is None else as_ids(users, "users")).tolist()
        histories = self._known_histories(ids)
        lists = self._stream(ids, histories, n, self._selection(exclude, filter))
        if progress:
            lists = with_progress(lists, len(ids), progress)
        return dict(lists) if output is None else write_lists(lists, output)

    def _known_histories(self, ids: list[Any]) -> list[tuple[IntArray, FloatArray, int]]:
        """What users of the data rated or took; an unknown user is refused."""
        data = self._data
        for user in ids:
            if not (isinstance(user, Hashable) and user in data.user_vocabulary):
                self._ratings_of_known(user)  # raises the error
        numbers = data.user_vocabulary.numbers(ids).tolist() if ids else []
        rows = self._by_user if hasattr(self, "ratings_") else data.rows
        return [(*rows.row(number), number) for number in numbers]

    def _stream(self, ids: list[Any], histories: list[Any], n: int, chosen: Selection) -> Lists:
        """Lists of users, a block at a time."""
        if hasattr(self, "histories_"):
            size = max(1, min(256, CELLS // self._data.n_items))
        else:
            size = 16 * n_threads()
        for start in range(0, len(ids), size):
            block = slice(start, start + size)
            yield from zip(ids[block], self._lists(histories[block], n, chosen), strict=True)

    def _lists(self, histories: list[Any], n: int, chosen: Selection) -> list[list[Recommendation]]:
        if hasattr(self, "histories_"):
            return self._event_lists(histories, n, chosen)
        if len(histories) == 1:
            return [self._rating_list(histories[0], n, chosen)]
        with single_threaded_blas():  # the threads work on different users
            return map_blocks(lambda history: self._rating_list(history, n, chosen), histories)

    def _rating_list(self, history: Any, n: int, chosen: Selection) -> list[Recommendation]:
        rated, value, number = history
        items = self._rated_items[chosen.allowed[self._rated_items]]
        items = items[~np.isin(items, rated)] if chosen.exclude_taken else items
        scores = self._scores(rated, value, items, number)
        order = np.lexsort((self._popularity[items], -scores))
        order = order if chosen.filter.max_per_category else order[: POOL * n]
        picked = chosen.pick(items[order], scores[order], n)
        place = np.searchsorted(items, picked)
        return as_list(self._data.items[picked].tolist(), scores[place].tolist())

    def _event_lists(
        self, histories: list[Any], n: int, chosen: Selection
    ) -> list[list[Recommendation]]:
        sizes = [len(items) for items, _, _ in histories]
        ptr = np.cumsum([0, *sizes])
        items = np.concatenate([items for items, _, _ in histories]).astype(np.int32)
        weight = np.concatenate([weight for _, weight, _ in histories]).astype(np.float32)
        scores = self.model_.scores(Rows(ptr, items, weight))
        scores[:, ~(chosen.allowed & self.model_.known_items())] = -np.inf
        if chosen.exclude_taken:
            scores[np.repeat(np.arange(len(sizes)), sizes), items] = -np.inf
        pool = n if chosen.is_plain else POOL * n
        if chosen.filter.max_per_category is not None:
            pool = scores.shape[1]
        best = self.model_.best(scores, min(pool, scores.shape[1]))
        lists = []
        for row, ranked in zip(scores, best, strict=True):
            picked = ranked[ranked >= 0]
            picked = chosen.pick(picked, row[picked], n)
            ids = self.histories_.items[picked].tolist()
            lists.append(as_list(ids, row[picked].tolist()))
        return lists

    def _selection(self, exclude: Any, filter: Any) -> Selection:
        return Selection(self._data.item_vocabulary, exclude, filter, self._similarities)

    def _similarities(self, items: IntArray) -> FloatArray:
        """Cosines of the users of some items."""
        data = self._data
        user, item = data.user, data.item
        place = np.full(data.n_items, -1, np.int64)
        place[items] = np.arange(len(items))
        used = place[item] >= 0
        from scipy.sparse import csr_array

        ones, shape = np.ones(int(used.sum())), (len(items), data.n_users)
        table = csr_array((ones, (place[item[used]], user[used])), shape=shape)
        size = np.sqrt(np.maximum(np.asarray(table.sum(axis=1)).ravel(), 1.0))
        return np.asarray((table @ table.T).toarray() / size[:, None] / size[None, :])

    def similar_items(self, item: Any, n: int = 10) -> list[Recommendation]:
        """The items most like an item: taken by the same users, or rated by them alike.

        With interactions the score is that of a user who took only this item, without the
        popularity experts; with ratings it is the cosine of the users who rated both.
        """
        _check_n("similar_items", n)
        data, number = self._data, int(self._item_numbers([item])[0])
        others = np.flatnonzero((data.item_counts > 0) & (np.arange(data.n_items) != number))
        scores = self._likeness(number)[others]
        order = np.lexsort((-data.item_counts[others], -scores))[:n]
        ids = data.items[others[order]].tolist()
        return as_list(ids, scores[order].tolist())

    def _likeness(self, number: int) -> FloatArray:
        """How like an item all items are: by the experts, or else the cosine of their users."""
        data = self._data
        if hasattr(self, "histories_") and any(e.personal for e in self.model_.experts_):
            rows = Rows(np.array([0, 1]), np.array([number], np.int32), np.ones(1, np.float32))
            return np.asarray(self.model_.scores(rows, personal=True)[0], np.float64)
        users = data.user[data.item == number]
        common = np.bincount(data.item[np.isin(data.user, users)], minlength=data.n_items)
        size = np.maximum(data.item_counts, 1) * max(len(users), 1)
        return np.asarray(common / np.sqrt(size))

    def explain(self, user: Any, item: Any, n: int = 5) -> Any:
        """Why an item has its score for a user (an id, or what a new user rated or took).

        Returns
        -------
        explanation : Explanation or EventExplanation
            Prints as text. From interactions: the part of each expert, and the items taken that add
            most. From ratings: ``viewers``, the most similar users who rated the item, and
            ``ratings``, the user's own, with what each adds (how far the score falls without it).
            From a ``ranker``: ``viewers``, the reference users whose ratings of the item change its
            score most.
        """
        _check_n("explain", n)
        rated, value, number = self._ratings_of(user)
        items = self._item_numbers([item])
        if hasattr(self, "histories_"):
            return self._explain_events(rated, value, item, n)
        if self.ratings_.item_counts[items[0]] == 0:
            raise DataError(f"explain: nobody rated item {item!r}, so nothing is known about it.")
        score = float(self._scores(rated, value, items, number)[0])
        reasons = self.model_.explain(rated, value, int(items[0]), number, n)
        first = np.argsort(-np.abs(reasons.weight), kind="stable")[:n]
        users = self.ratings_.users[reasons.users[first]].tolist()
        own = self.ratings_.items[rated[reasons.rated]].tolist()
        points, weight = reasons.points[first].tolist(), reasons.weight[first].tolist()
        viewers = tuple(map(Viewer, users, points, weight))
        liked = tuple(map(Liked, own, value[reasons.rated].tolist(), reasons.added.tolist()))
        agreement = self.model_.weight_is_agreement
        middle = float(self.ratings_.value.mean()) if agreement else None
        return Explanation(item, score, viewers, liked, agreement, middle)

    def _explain_events(self, taken: Any, weight: Any, item: Any, n: int) -> EventExplanation:
        number = int(self._item_numbers([item])[0])
        items = taken.astype(np.int32)
        score = float(self._scores(taken, weight, np.array([number]), -1)[0])
        found = self.model_.parts(items, weight, number)
        personal = [p for name, p in found.items() if not name.startswith("Popularity")]
        added = np.sum(personal, axis=0) if personal and len(items) else np.zeros(len(items))
        first = [at for at in np.argsort(-added, kind="stable")[:n] if added[at] > 0]
        ids = self.histories_.items[taken[first]].tolist() if first else []
        titles = {}
        if hasattr(self, "titles_"):
            named = [number, *(int(taken[at]) for at in first)]
            keys = self.histories_.items[named].tolist()
            titles = dict(zip(keys, self.titles_[named].tolist(), strict=True))
        parts = {name: float(part.sum()) for name, part in found.items()}
        reasons = tuple(map(Taken, ids, added[first].tolist()))
        return EventExplanation(item, score, parts, reasons, titles)

    def to_columns(self, lists: Mapping[Any, list[Recommendation]]) -> dict[str, list[Any]]:
        """Lists of ``recommend_all`` as columns: ``pandas.DataFrame(model.to_columns(lists))``."""
        rows = [(u, k, r.item, r.score) for u, best in lists.items() for k, r in enumerate(best, 1)]
        names = ("user", "rank", "item", "score")
        columns: dict[str, list[Any]] = {
            name: [row[at] for row in rows] for at, name in enumerate(names)
        }
        if hasattr(self, "titles_"):
            numbers = self._data.item_vocabulary.numbers(columns["item"]) if rows else []
            columns["title"] = [self.titles_[number] for number in numbers]
        return columns

    def _scores(
        self, rated: IntArray, value: FloatArray, items: IntArray, number: int
    ) -> FloatArray:
        if hasattr(self, "histories_"):
            rows = Rows(np.array([0, len(rated)]), rated.astype(np.int32), value.astype(np.float32))
            return np.asarray(self.model_.scores(rows)[0, items], np.float64)
        scores: FloatArray = self.model_.scores(rated, value, items, number)
        if scores.shape != items.shape:
            raise ParameterError(
                f"Recommender(ranker={self.ranker!r}): decision_function returns shape "
                f"{scores.shape} for {len(items)} items. Use a ranker, which gives one score each."
            )
        if not np.isfinite(scores).all():
            raise DataError(
                "Recommender: a score overflows. A rating is far outside the scale of the data, or "
                "the model file holds such values. Give ratings on the scale of the data."
            )
        return scores

    def _ratings_of(self, user: Any) -> tuple[IntArray, FloatArray, int]:
        """Rated items, ratings and number of a user of the data, or (-1) of a new user."""
        if isinstance(user, list) and hasattr(self, "histories_"):
            user = dict.fromkeys(user, 1.0)
        if not isinstance(user, Mapping):
            return self._ratings_of_known(user)
        check_is_fitted(self)
        for item, rating in user.items():
            if not schema.number().test(rating):
                raise DataError(f"item {item!r} is rated {rating!r}, not a finite number.")
        value = np.array(list(user.values()), dtype=np.float64)
        if not len(value):
            return np.zeros(0, np.int64), value, -1
        rated = self._item_numbers(list(user))
        if hasattr(self, "histories_"):
            if (value <= 0).any():
                bad = list(user)[int(np.argmax(value <= 0))]
                raise DataError(f"item {bad!r} has the weight {user[bad]!r}: give weights > 0.")
            return rated, value, -1
        low, high = self._low, self._high
        # Some tolerance, because the data need not contain the ends of their scale.
        outside = np.maximum(low - value, value - high) > 0.5 * (high - low)
        if outside.any() and high > low:
            at = int(np.argmax(outside))
            warnings.warn(
                f"Recommender: item {list(user)[at]!r} is rated {value[at]:g}, and the ratings of "
                f"the data lie in {low:g} .. {high:g}. Give ratings on the same scale.",
                RankwrightWarning,
                stacklevel=3,
            )
        return rated, value, -1

    def _ratings_of_known(self, user: Any) -> tuple[IntArray, FloatArray, int]:
        data = self._data
        if not (isinstance(user, Hashable) and user in data.user_vocabulary):
            raise DataError(
                f"user {user!r} is not one of the {data.n_users} users of the data, such "
                f"as {data.users[:1].tolist()[0]!r}. For a new user call "
                "recommend_new({item: rating, ...})."
            )
        number = int(data.user_vocabulary.numbers([user])[0])
        rows = self._by_user if hasattr(self, "ratings_") else data.rows
        return *rows.row(number), number

    def _item_numbers(self, items: Any) -> IntArray:
        data = self._data
        if items is None:
            return np.arange(data.n_items)
        ids, known = as_ids(items, "items"), data.item_vocabulary
        for item in ids.tolist():
            if not (isinstance(item, Hashable) and item in known):
                raise DataError(
                    f"item {item!r} is not one of the {data.n_items} items of the data, "
                    f"such as {data.items[:1].tolist()[0]!r}. Leave it out: nobody rated "
                    "it."
                )
        return np.asarray(known.numbers(ids))


def _check_ratings(ratings: Any, owner: str) -> Ratings:
    if not isinstance(ratings, Ratings):
        raise DataError(
            f"{owner}.fit got {type(ratings).__name__}: it takes Ratings or Interactions. Make "
            "them with read_ratings or Ratings.from_frame, read_interactions or "
            "Interactions.from_frame."
        )
    if len(ratings) == 0:
        raise DataError(f"{owner}.fit got no ratings: there is nothing to learn from.")
    twice = first_twice(ratings)
    if twice is not None:
        user, item = ratings.users[ratings.user[twice[0]]], ratings.items[ratings.item[twice[0]]]
        raise DataError(
            f"{owner}.fit: user {user} rated item {item} in row {twice[1]} and again in row "
            f'{twice[0]}. Read the ratings with duplicates="last" or "mean".'
        )
    return ratings


def _check_n(method: str, n: Any) -> None:
    if not schema.at_least(1).test(n):
        raise ParameterError(f"{method}(n={n!r}): n must be an integer >= 1.")
