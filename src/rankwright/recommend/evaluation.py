"""Evaluation of recommenders: splits, measures of rated items and of top-n lists, comparisons."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.interactions import Interactions
from rankwright.data.behavior.ratings import Ratings, columns_by_role
from rankwright.data.inputs import columns_of
from rankwright.data.queries import Seed, Split, need_a_share
from rankwright.data.vocabulary import as_column, as_ids
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    ParameterError,
    RankwrightWarning,
)
from rankwright.metrics.evaluation import evaluate
from rankwright.recommend.events.histories import extended
from rankwright.recommend.lists import TopLists
from rankwright.recommend.ratings.base import RatingRows
from rankwright.recommend.ratings.per_user import ReferenceUsers, abstains, prepared
from rankwright.recommend.recommender import Recommender
from rankwright.recommend.reports import (
    ReportComparison,
    TopNReport,
    compare_reports,
    report_of,
)
from rankwright.runtime import map_blocks, n_threads, single_threaded_blas

# Disagreement, and three measures of the top-rated items (Freund et al., 6.2.4), as expectations
# over random order of ties.
PAPER_MEASURES = ("Disagreement", "AP(rel=max)", "PROT(rel=max)", "Coverage(rel=max)")
FEW = 10  # times n: a smaller catalog makes measures look good whatever the order


def split_ratings(ratings: Ratings, *, test_size: float = 0.1, random_state: Seed = None) -> Split:
    """Hold out a random share of all ratings (a user may be on either side or both).

    >>> ratings = Ratings.from_arrays([1, 1, 2, 2], [7, 8, 7, 8], [5, 4, 3, 2])
    >>> split_ratings(ratings, test_size=0.25, random_state=0).test
    array([2])
    """
    n_test = _n_test(ratings, test_size)
    shuffled = np.random.default_rng(random_state).permutation(len(ratings))
    return Split(np.sort(shuffled[n_test:]), np.sort(shuffled[:n_test]))


def split_by_time(ratings: Ratings | Interactions, *, test_size: float = 0.1) -> Split:
    """Hold out the latest ratings; of equal times the later in the order given.

    >>> ratings = Ratings.from_arrays([1, 1, 2], [7, 8, 7], [5, 4, 3], time=[30, 10, 20])
    >>> split_by_time(ratings, test_size=0.4).test
    array([0])
    """
    if ratings.time is None:
        raise DataError("split_by_time: these data have no time. Read them with a time column.")
    n_test = _n_test(ratings, test_size)
    order = np.argsort(ratings.time, kind="stable")
    return Split(np.sort(order[:-n_test]), np.sort(order[-n_test:]))


def _n_test(ratings: Ratings | Interactions, test_size: float) -> int:
    need_a_share(test_size)
    if len(ratings) < 2:
        raise DataError(f"{len(ratings)} ratings cannot be split: give two or more.")
    return min(max(round(test_size * len(ratings)), 1), len(ratings) - 1)


def leave_last_out(data: Interactions | Ratings, n: int = 1) -> Split:
    """Hold out the last new items of each user, by time or else by the order of rows.

    The test part of a user starts with the first event of the n-th last item that was new to the
    user; later events are repeats of it, of later items or of earlier ones. The training part is
    what came before. A user with no more than n items stays in training.

    >>> events = Interactions([1, 1, 2, 1], [7, 8, 7, 9], time=[3, 1, 2, 2])
    >>> leave_last_out(events).test
    array([0])
    >>> events = Interactions([1, 1, 1, 1], ["a", "b", "b", "a"])  # b was the last to be new
    >>> leave_last_out(events).test
    array([1, 2, 3])
    """
    if not isinstance(n, int) or n < 1:
        raise ParameterError(f"leave_last_out(n={n!r}): n must be an integer >= 1.", parameter="n")
    time = np.zeros(len(data)) if data.time is None else data.time
    order = np.lexsort((np.arange(len(data)), time, data.user))
    user = data.user[order]
    keys = user * np.int64(data.n_items) + data.item[order]
    is_new = np.zeros(len(data), bool)
    is_new[np.unique(keys, return_index=True)[1]] = True
    n_new = np.bincount(user[is_new], minlength=data.n_users)
    seen = np.cumsum(is_new) - (np.cumsum(n_new) - n_new)[user]  # new items of the user so far
    in_test = np.zeros(len(data), bool)
    in_test[order] = (seen > (n_new - n)[user]) & (n_new > n)[user]
    return Split(np.flatnonzero(~in_test), np.flatnonzero(in_test))


def density_bins(
    ratings: Ratings, edges: Sequence[int] = (10, 20, 40, 60, 100)
) -> dict[str, IntArray]:
    """Group users (numbers) by how many ratings they gave.

    ``edges`` are ascending numbers; the default gives the paper's bins, 10-20, 21-40, .., 101+.

    >>> ratings = Ratings.from_arrays(np.repeat([1, 2, 3], [2, 5, 9]), np.arange(16), np.ones(16))
    >>> density_bins(ratings, (2, 4, 8))
    {'2-4': array([0]), '5-8': array([1]), '9+': array([2])}
    """
    if len(edges) < 2 or any(a >= b for a, b in itertools.pairwise(edges)):
        raise ParameterError(
            f"edges={tuple(edges)}: give two or more ascending numbers.", parameter="edges"
        )
    low = [edges[0], *(edge + 1 for edge in edges[1:])]
    names = [f"{first}-{last}" for first, last in zip(low[:-1], edges[1:], strict=True)]
    bins = np.searchsorted(low, ratings.user_counts, side="right") - 1
    return {name: np.flatnonzero(bins == n) for n, name in enumerate([*names, f"{low[-1]}+"])}


def evaluate_ratings(
    recommender: Recommender,
    ratings: Ratings,
    split: Split,
    measures: str | Iterable[Any] = ("Disagreement",),
) -> Any:
    """Fit the training rows, score the test rows, :func:`rankwright.evaluate` users as queries.

    Only the test items of a user are ranked. Where that is fewer than twice the cutoff of a
    measure for most users, random order scores high as well: a warning says how high. Rank the
    whole catalog with :func:`evaluate_top_n`.
    """
    model, test = recommender.fit(ratings.take(split.train)), ratings.take(split.test)
    scores = evaluate(model.predict_ratings(test), test.value, test.user, measures)
    _warn_of_few_candidates(test, list(scores))
    return scores


def _warn_of_few_candidates(test: Ratings, measures: list[str]) -> None:
    sizes = test.user_counts[test.user_counts > 0]
    typical = float(np.median(sizes)) if len(sizes) else 0.0
    cutoffs = {name: name.rpartition("@")[2] for name in measures}
    few = [
        name
        for name, cutoff in cutoffs.items()
        if typical < 2 or (cutoff.isdigit() and typical < 2 * int(cutoff))
    ]
    if few:
        chance = evaluate(np.zeros(len(test)), test.value, test.user, few)
        values = ", ".join(f"{name} {float(chance[name]):.4f}" for name in few)
        warnings.warn(
            f"evaluate_ratings ranks only the test items: {typical:g} for the median user. Random "
            f"order scores {values}. Rank the whole catalog with evaluate_top_n.",
            RankwrightWarning,
            stacklevel=3,
        )


@overload
def compare(
    ratings: Ratings,
    split: Split,
    rankers: Mapping[str, Any],
    targets: ArrayLike,
    reference: ArrayLike,
    measures: str | Iterable[Any] = PAPER_MEASURES,
    missing: Mapping[str, str] | None = None,
) -> dict[str, Any]: ...


@overload
def compare(
    ratings: TopNReport, split: TopNReport, *, random_state: int = 0
) -> ReportComparison: ...


def compare(
    ratings: Ratings | TopNReport, split: Split | TopNReport, *protocol: Any, **options: Any
) -> Any:
    """Compare two reports of top-n lists, paired by user, or rankers by the paper's protocol.

    ``compare(first, second)`` takes two reports of :func:`evaluate_top_n` or
    :func:`evaluate_lists` and gives a :class:`ReportComparison`: the means of the second less
    those of the first over the users in both, with 95 % bootstrap intervals (``random_state``
    seeds them).

    ``compare(ratings, split, rankers, targets, reference, measures, missing)`` is the protocol of
    the RankBoost paper: train and test each ranker for each target user.
    """
    if isinstance(ratings, TopNReport):
        if not isinstance(split, TopNReport):
            raise DataError(
                f"compare got a report and {type(split).__name__}: give two reports of "
                "evaluate_top_n or evaluate_lists."
            )
        return compare_reports(ratings, split, *protocol, **options)
    if isinstance(split, TopNReport):
        raise DataError("compare got ratings and a report: give two reports, or a Split.")
    return _compare_rankers(ratings, split, *protocol, **options)


def _compare_rankers(
    ratings: Ratings,
    split: Split,
    rankers: Mapping[str, Any],
    targets: ArrayLike,
    reference: ArrayLike,
    measures: str | Iterable[Any] = PAPER_MEASURES,
    missing: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The paper's protocol: train and test each ranker for each target user.

    Features are all ratings of the reference users, training rows or not, because they belong to
    other users. Grades are the target user's training rows; the user's test rows are ranked. A
    user without two different training ratings gets equal scores.

    Parameters
    ----------
    ratings : all ratings
    split : training and test rows, such as ``split_within_users(ratings.user)``
    rankers : name -> ranker, pipeline, or None for random order
    targets, reference : numbers of users; a target that is also a reference does not see itself
    measures : measures or their names
    missing : name -> how missing ratings are filled (see ReferenceUsers.rows); default: abstain if
        the ranker can, else the median

    Returns
    -------
    results : name -> scores of :func:`rankwright.evaluate`, target users as queries
    """
    targets = _user_numbers(ratings, targets, "targets")
    table = ReferenceUsers(ratings, _user_numbers(ratings, reference, "reference"))
    train, test = (RatingRows.by_user(ratings.take(rows)) for rows in (split.train, split.test))
    fill = {
        name: "abstain" if ranker is None or abstains(ranker) else "median"
        for name, ranker in rankers.items()
    }
    fill.update(missing or {})

    def block(users: IntArray) -> dict[str, list[FloatArray]]:
        scores: dict[str, list[FloatArray]] = {name: [] for name in rankers}
        for user in users.tolist():
            rated, value = train.row(user)
            items = np.concatenate([rated, test.row(user)[0]])
            rows = {how: table.rows(items, how, user) for how in set(fill.values())}
            for name, ranker in rankers.items():
                X_train, X_test = np.split(rows[fill[name]], [len(rated)])
                if ranker is None or len(X_test) == 0 or len(value) == 0 or np.ptp(value) == 0:
                    scores[name].append(np.zeros(len(X_test)))
                else:
                    model = prepared(ranker, table).fit(X_train, value)
                    scores[name].append(model.decision_function(X_test))
        return scores

    # Compute what threads share before they start.
    _ = table.mean, table.norm, table.count, table.median, table.deviation, table._table
    size = max(1, -(-len(targets) // (8 * n_threads())))
    blocks = [targets[start : start + size] for start in range(0, len(targets), size)]
    # The threads work on different users. Filters of warnings are global, so they are set here.
    with single_threaded_blas(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        parts = map_blocks(block, blocks)
    index, _, grades = test.rows(targets)
    measures = measures if isinstance(measures, str) else list(measures)
    scores = {
        name: np.concatenate([values for part in parts for values in part[name]])
        for name in rankers
    }
    return {name: evaluate(s, grades, targets[index], measures) for name, s in scores.items()}


def _user_numbers(ratings: Ratings, users: ArrayLike, name: str) -> IntArray:
    numbers = np.asarray(users)
    whole = numbers.ndim == 1 and len(numbers) > 0 and numbers.dtype.kind in "iu"
    if not whole or numbers.min() < 0 or numbers.max() >= ratings.n_users:
        raise DataError(
            f"compare({name}=...): give one or more numbers of users, positions in "
            f"ratings.users (0 .. {ratings.n_users - 1}), for example from density_bins."
        )
    return numbers.astype(np.int64)


def evaluate_top_n(
    recommender: Recommender,
    data: Interactions,
    split: str | Split = "last",
    n: int = 10,
    *,
    test_size: float = 0.1,
    horizon: str | None = None,
    random_state: int = 0,
    **fit: Any,
) -> TopNReport:
    """Fit on one part of the events, and rank the whole catalog for the users of the other.

    Parameters
    ----------
    recommender : a Recommender
    data : Interactions
    split : "last" (the last new item of each user, see :func:`leave_last_out`), "time" (the last
        ``test_size`` of all events) or a Split, such as ``leave_out(data.user)`` for a random
        event of each user
    n : length of the lists
    horizon : "next", "period" or None
        What the lists are for, as in ``Recommender.recommend``; None is "period" if the whole test
        part is later than the training part, else "next".
    random_state : seed of the bootstrap
    **fit : passed to ``fit``, such as ``item_features``

    Returns
    -------
    report : TopNReport
        ``HitRate``, ``Recall``, ``NDCG``, ``MRR`` (of the relevant items: those taken in the test
        part and not before), ``ItemCoverage`` (share of the catalog in any list), ``Novelty``
        (mean bits, -log2 of the share of users), ``Diversity`` (1 - mean cosine of two items of a
        list) and ``PopularityBias`` (users of the listed items over users of the relevant ones).
    """
    if not isinstance(data, Interactions):
        raise DataError(
            f"evaluate_top_n got {type(data).__name__}: it takes Interactions. Make them of "
            "ratings with Interactions.from_ratings(ratings, at_least=4)."
        )
    last = split == "last"
    if isinstance(split, str):
        if split not in ("last", "time"):
            raise ParameterError(
                f'split={split!r}: use "last", "time" or a Split.', parameter="split"
            )
        split = leave_last_out(data) if last else split_by_time(data, test_size=test_size)
    train, test = data.take(split.train), data.take(split.test)
    model = clone(recommender).fit(train, **fit)
    relevant = relevant_pairs(train, test)
    users = np.unique(relevant[0])
    if len(users) == 0:
        raise DataError("evaluate_top_n: no user took a new item in the test part.")
    if train.n_items < FEW * n:
        warnings.warn(
            f"evaluate_top_n: {train.n_items} items for lists of {n}: random order scores high as "
            "well. Compare with the column of random order.",
            RankwrightWarning,
            stacklevel=2,
        )
    if horizon is None and train.time is not None and test.time is not None and len(train):
        horizon = "period" if test.time.min() >= train.time.max() else "next"
    lists = model.recommend_all(train.users[users], n, horizon=horizon).number
    left_out = _left_out(data, test, users, last=last)
    return report_of(lists, users, train, relevant, random_state=random_state, left_out=left_out)


def _left_out(
    data: Interactions, test: Interactions, users: IntArray, *, last: bool
) -> dict[str, int]:
    """Why users with events are not evaluated."""
    evaluated = np.isin(np.arange(data.n_users), users)
    tested = np.bincount(test.user, minlength=data.n_users) > 0
    reasons = {
        "with one item only" if last else "without events in the test part": ~tested,
        "who took only items of the training part again": tested & ~evaluated,
    }
    known = data.user_counts > 0
    counts = {why: int((known & rows).sum()) for why, rows in reasons.items()}
    return {why: count for why, count in counts.items() if count}


def relevant_pairs(train: Interactions, test: Interactions) -> tuple[IntArray, IntArray]:
    """Users and items of the test part, each pair once, without those of the training part."""
    keys = [part.user * np.int64(part.n_items) + part.item for part in (train, test)]
    new = np.setdiff1d(keys[1], keys[0])
    return new // train.n_items, new % train.n_items


def evaluate_lists(
    lists: Any,
    test: Interactions,
    *,
    train: Interactions,
    n: int | None = None,
    random_state: int = 0,
) -> TopNReport:
    """Measures of lists that any library made, as those of :func:`evaluate_top_n`.

    Relevant are the items that a user took in ``test`` and not in ``train``. Ids are matched, so
    the two parts need not share users and items. A user of ``test`` without a list counts as one
    with an empty list, and the report says how many there are.

    Parameters
    ----------
    lists : mapping of user ids to item ids, best first (or to Recommendation, or pairs of item and
        score); or a data frame with the columns of users and items and with ``rank``
        or ``score`` (without them, rows are best first)
    test, train : Interactions
    n : length of the lists; None takes that of the longest one
    random_state : seed of the bootstrap

    Examples
    --------
    >>> train = Interactions(["ann", "bob", "bob"], ["Heat", "Heat", "Alien"])
    >>> test = Interactions(["ann", "bob"], ["Alien", "Casino"])
    >>> report = evaluate_lists({"ann": ["Alien", "Casino"], "bob": ["Up"]}, test, train=train)
    >>> report["HitRate@2"], report["MRR@2"]
    (0.5, 0.5)
    """
    for name, part in (("test", test), ("train", train)):
        if not isinstance(part, Interactions):
            raise DataError(
                f"evaluate_lists({name}=...) got {type(part).__name__}: it takes Interactions."
            )
    ids = _as_item_ids(lists)
    longest = max(map(len, ids.values()), default=0)
    if longest == 0:
        raise DataError("evaluate_lists got no lists: give items for one user or more.")
    n = longest if n is None else n
    train, test = _over_all_ids(train, test)
    relevant = relevant_pairs(train, test)
    users = np.unique(relevant[0])
    if len(users) == 0:
        raise DataError("evaluate_lists: no user took a new item in the test part.")
    names = train.users[users].tolist()
    numbers = _list_numbers([ids.get(user, [])[:n] for user in names], names, train, n)
    n_without = sum(user not in ids for user in names)
    notes = []
    if n_without:
        notes.append(f"{n_without:,} users have no list, which counts as an empty one")
    if n_other := len(ids) - (len(names) - n_without):
        notes.append(f"{n_other:,} lists are of users who took nothing new in the test part")
    left_out = _left_out(test, test, users, last=False)
    return report_of(
        numbers, users, train, relevant, random_state=random_state, left_out=left_out,
        notes=tuple(notes),
    )  # fmt: skip


def _as_item_ids(lists: Any) -> dict[Any, list[Any]]:
    """Item ids by user, best first."""
    if not isinstance(lists, Mapping) or {"user", "item"} <= set(lists):
        columns = columns_by_role(lists, {"user": None, "item": None})
        names = columns_of(lists)
        order = np.arange(len(columns["user"]))
        if "rank" in names:
            order = np.argsort(np.asarray(names["rank"]), kind="stable")
        elif "score" in names:
            order = np.argsort(-as_column(names["score"], "score", len(order)), kind="stable")
        ids: dict[Any, list[Any]] = {}
        user, item = (as_ids(columns[role], role)[order].tolist() for role in ("user", "item"))
        for one, taken in zip(user, item, strict=True):
            ids.setdefault(one, []).append(taken)
        return ids
    if isinstance(lists, TopLists):
        items = lists.catalog
        return {
            user: items[row[row >= 0]].tolist()
            for user, row in zip(lists.users, lists.number, strict=True)
        }
    return {user: [_item_of(entry) for entry in best] for user, best in lists.items()}


def _item_of(entry: object) -> Any:
    if isinstance(entry, tuple) and len(entry) == 2:  # an item and its score
        entry = entry[0]
    return entry.item() if isinstance(entry, np.generic) else entry


def _over_all_ids(train: Interactions, test: Interactions) -> tuple[Interactions, Interactions]:
    """Both parts over the users and items of both."""
    if train.users is test.users and train.items is test.items:
        return train, test
    users, user = extended(train.user_vocabulary, test.users)
    items, item = extended(train.item_vocabulary, test.items)
    columns = (test.weight, test.time)
    return (
        Interactions.from_numbers(users, items, train.user, train.item, train.weight, train.time),
        Interactions.from_numbers(users, items, user[test.user], item[test.item], *columns),
    )


def _list_numbers(
    lists: list[list[Any]], users: list[Any], train: Interactions, n: int
) -> NDArray[np.int64]:
    """Lists as numbers of items, -1 for none; items of no event get numbers behind the others."""
    known = {item: number for number, item in enumerate(train.items.tolist())}
    numbers = np.full((len(lists), n), -1, np.int64)
    for row, items in enumerate(lists):
        if len(set(items)) < len(items):
            twice = next(item for at, item in enumerate(items) if item in items[:at])
            raise DataError(
                f"evaluate_lists: the list of user {users[row]!r} has item {twice!r} twice. Give "
                "each item once."
            )
        numbers[row, : len(items)] = [known.setdefault(item, len(known)) for item in items]
    return numbers
