"""Evaluation of recommenders: splits, measures of rated items and of top-n lists, comparisons."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.interactions import Interactions
from rankwright.data.behavior.ratings import Ratings
from rankwright.data.queries import Seed, Split, leave_out, need_a_share
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    ParameterError,
    RankwrightWarning,
)
from rankwright.metrics.evaluation import evaluate
from rankwright.recommend.lists import user_cosines
from rankwright.recommend.ratings.base import Table
from rankwright.recommend.ratings.per_user import ReferenceUsers, abstains, prepared
from rankwright.runtime import map_blocks, n_threads, single_threaded_blas

# Disagreement, and three measures of the top-rated items (Freund et al., 6.2.4), as expectations
# over random order of ties.
PAPER_MEASURES = ("Disagreement", "AP(rel=max)", "PROT(rel=max)", "Coverage(rel=max)")
N_RESAMPLES = 1000
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
    """Hold out the last events of each user, by time or else by their order.

    >>> events = Interactions([1, 1, 2, 1], [7, 8, 7, 9], time=[3, 1, 2, 2])
    >>> leave_last_out(events).test
    array([0])
    """
    time = np.arange(len(data)) if data.time is None else data.time
    return leave_out(data.user, n, time=time)


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
        raise ParameterError(f"edges={tuple(edges)}: give two or more ascending numbers.")
    low = [edges[0], *(edge + 1 for edge in edges[1:])]
    names = [f"{first}-{last}" for first, last in zip(low[:-1], edges[1:], strict=True)]
    bins = np.searchsorted(low, ratings.user_counts, side="right") - 1
    return {name: np.flatnonzero(bins == n) for n, name in enumerate([*names, f"{low[-1]}+"])}


def evaluate_ratings(
    recommender: Any,
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


def compare(
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
    train, test = (Table.by_user(ratings.take(rows)) for rows in (split.train, split.test))
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


def _user_numbers(ratings: Ratings, users: Any, name: str) -> IntArray:
    numbers = np.asarray(users)
    whole = numbers.ndim == 1 and len(numbers) > 0 and numbers.dtype.kind in "iu"
    if not whole or numbers.min() < 0 or numbers.max() >= ratings.n_users:
        raise DataError(
            f"compare({name}=...): give one or more numbers of users, positions in "
            f"ratings.users (0 .. {ratings.n_users - 1}), for example from density_bins."
        )
    return numbers.astype(np.int64)


@dataclass(frozen=True)
class Estimate:
    """A mean over users with its 95 % bootstrap interval, and the value of random order."""

    value: float
    low: float
    high: float
    random: float | None = None


@dataclass(frozen=True)
class TopNReport:
    """Measures of lists over the whole catalog; prints as a table.

    Attributes
    ----------
    n : length of the lists
    n_users : evaluated users: those who took a new item in the test part
    measures : name -> Estimate
    parts : the same of "warm users", "cold users" (no training events), "warm items" and "cold
        items" (only such items count as relevant), with the number of users
    per_user : name -> (n_users,) values
    """

    n: int
    n_users: int
    measures: dict[str, Estimate]
    parts: dict[str, tuple[int, dict[str, Estimate]]]
    per_user: dict[str, FloatArray]

    def __getitem__(self, name: str) -> float:
        return self.measures[name].value

    def __str__(self) -> str:
        head = f"{self.n_users:,} users, each list from the whole catalog"
        lines = [f"{head:<46}{'value':>9}{'95 % interval':>20}{'random':>9}"]
        lines += [_line(name, estimate) for name, estimate in self.measures.items()]
        for part, (n_users, measures) in self.parts.items():
            lines.append(f"{part} ({n_users:,} users)")
            lines += [_line("  " + name, estimate) for name, estimate in measures.items()]
        return "\n".join(lines)


def _line(name: str, estimate: Estimate) -> str:
    interval = "" if np.isnan(estimate.low) else f"{estimate.low:.4f} .. {estimate.high:.4f}"
    chance = "" if estimate.random is None else f"{estimate.random:.4f}"
    return f"{name:<46}{estimate.value:>9.4f}{interval:>20}{chance:>9}"


def evaluate_top_n(
    recommender: Any,
    data: Interactions,
    split: str | Split = "last",
    n: int = 10,
    *,
    test_size: float = 0.1,
    random_state: int = 0,
    **fit: Any,
) -> TopNReport:
    """Fit on one part of the events, and rank the whole catalog for the users of the other.

    Parameters
    ----------
    recommender : a Recommender
    data : Interactions
    split : "last" (the last event of each user; without times the last row), "time" (the last
        ``test_size`` of all events) or a Split, such as ``leave_out(data.user)`` for a random
        event of each user
    n : length of the lists
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
    if isinstance(split, str):
        if split not in ("last", "time"):
            raise ParameterError(f'split={split!r}: use "last", "time" or a Split.')
        last = split == "last"
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
    lists = model.recommend_all(train.users[users], n).number
    return evaluate_lists(lists, users, train, relevant, random_state=random_state)


def relevant_pairs(train: Interactions, test: Interactions) -> tuple[IntArray, IntArray]:
    """Users and items of the test part, each pair once, without those of the training part."""
    keys = [part.user * np.int64(part.n_items) + part.item for part in (train, test)]
    new = np.setdiff1d(keys[1], keys[0])
    return new // train.n_items, new % train.n_items


def evaluate_lists(
    lists: NDArray[np.int64],
    users: IntArray,
    train: Interactions,
    relevant: tuple[IntArray, IntArray],
    *,
    random_state: int = 0,
) -> TopNReport:
    """Measures of lists (numbers of items, best first, -1 for none) of some users (numbers)."""
    n, rng = lists.shape[1], np.random.default_rng(random_state)
    hits, n_relevant = _hits(lists, users, relevant)
    pairs = np.unique(train.user * np.int64(train.n_items) + train.item)
    n_items = max(train.n_items, int(lists.max(initial=0)) + 1)
    counts = np.bincount(pairs % train.n_items, minlength=n_items)
    n_taken = np.bincount(pairs // train.n_items, minlength=train.n_users)[users]
    relevance = _relevance(hits, n_relevant)
    measures = _estimates(relevance, n, rng)
    for name, value in _chance(n_relevant, train.n_items - n_taken, n).items():
        measures[f"{name}@{n}"] = replace(measures[f"{name}@{n}"], random=value)
    beyond = _beyond_relevance(lists, users, relevant, train, counts)
    measures |= _estimates(beyond, n, rng)
    coverage = len(np.unique(lists[lists >= 0])) / max(int((counts > 0).sum()), 1)
    measures[f"ItemCoverage@{n}"] = Estimate(coverage, np.nan, np.nan)
    parts = {}
    warm_user, warm_item = n_taken > 0, counts[relevant[1]] > 0
    for name, rows in (("warm users", warm_user), ("cold users", ~warm_user)):
        if rows.any() and not rows.all():
            values = {key: column[rows] for key, column in relevance.items()}
            parts[name] = int(rows.sum()), _estimates(values, n, rng)
    for name, kept in (("warm items", warm_item), ("cold items", ~warm_item)):
        if kept.any() and not kept.all():
            part = relevant[0][kept], relevant[1][kept]
            rows = np.isin(users, part[0])
            values = _relevance(*_hits(lists[rows], users[rows], part))
            parts[name] = int(rows.sum()), _estimates(values, n, rng)
    return TopNReport(n, len(users), measures, parts, relevance | beyond)


def _hits(lists: Any, users: IntArray, relevant: Any) -> tuple[NDArray[np.bool_], IntArray]:
    """Which places of the lists hold a relevant item, and how many there are for each user."""
    width = np.int64(max(int(lists.max(initial=0)), int(relevant[1].max(initial=0))) + 2)
    keys = relevant[0] * width + relevant[1]
    hits = np.isin(users[:, None] * width + lists, keys) & (lists >= 0)
    n_relevant = np.bincount(relevant[0], minlength=int(users.max(initial=0)) + 1)[users]
    return hits, n_relevant


def _relevance(hits: Any, n_relevant: IntArray) -> dict[str, FloatArray]:
    n = hits.shape[1]
    discount = 1.0 / np.log2(np.arange(2, n + 2))
    ideal = np.cumsum(discount)[np.minimum(n_relevant, n) - 1]
    first = np.where(hits.any(axis=1), hits.argmax(axis=1), n)
    return {
        "HitRate": hits.any(axis=1).astype(np.float64),
        "Recall": hits.sum(axis=1) / n_relevant,
        "NDCG": hits @ discount / ideal,
        "MRR": np.where(first < n, 1.0 / (first + 1.0), 0.0),
    }


def _chance(n_relevant: IntArray, n_candidates: IntArray, n: int) -> dict[str, float]:
    """Expected measures of a random order of the items that a user has not taken."""
    candidates = np.maximum(n_candidates, n_relevant)
    length = np.minimum(n, candidates)
    discount = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, n + 2)))])
    ideal = discount[np.minimum(n_relevant, n)]
    share = n_relevant / candidates
    # The chance that no relevant item is among the first k of a random order.
    rank = np.arange(n)[None, :]
    left = np.maximum(candidates[:, None] - n_relevant[:, None] - rank, 0.0)
    none = np.cumprod(left / np.maximum(candidates[:, None] - rank, 1.0), axis=1)
    first = np.diff(none, axis=1, prepend=1.0)
    return {
        "HitRate": float((1.0 - none[:, -1]).mean()),
        "MRR": float((-first / (rank + 1)).sum(axis=1).mean()),
        "Recall": float((length / candidates).mean()),
        "NDCG": float((share * discount[length] / ideal).mean()),
    }


def _beyond_relevance(
    lists: Any, users: IntArray, relevant: Any, train: Any, counts: IntArray
) -> dict[str, FloatArray]:
    """Novelty, diversity and popularity bias of each list."""
    shown = lists >= 0
    n_shown = np.maximum(shown.sum(axis=1), 1)
    taken_by = np.maximum(counts, 1)[np.maximum(lists, 0)] * shown
    share = np.where(shown, taken_by / max(train.n_users, 1), 1.0)
    mean_shown = taken_by.sum(axis=1) / n_shown
    n_users = int(users.max(initial=0)) + 1
    total = np.bincount(relevant[0], counts[relevant[1]], n_users)[users]
    size = np.bincount(relevant[0], minlength=n_users)[users]
    return {
        "Novelty": -np.log2(share).sum(axis=1) / n_shown,
        "Diversity": _diversity(lists, train, len(counts)),
        "PopularityBias": mean_shown / np.maximum(total / size, 1.0),
    }


def _diversity(lists: Any, train: Any, n_items: int) -> FloatArray:
    """1 - the mean cosine (of their users) of two items of a list."""
    shown = lists >= 0
    items, index = np.unique(np.maximum(lists, 0), return_inverse=True)
    index = index.reshape(lists.shape)
    cosine = user_cosines(train, items, n_items)
    np.fill_diagonal(cosine, 0.0)
    pairs = cosine[index[:, :, None], index[:, None, :]]
    both = shown[:, :, None] & shown[:, None, :]
    n_shown = shown.sum(axis=1)
    n_pairs = np.maximum(n_shown * (n_shown - 1), 1)
    return np.asarray(1.0 - (pairs * both).sum(axis=(1, 2)) / n_pairs)


def _estimates(values: dict[str, FloatArray], n: int, rng: Any) -> dict[str, Estimate]:
    size = len(next(iter(values.values())))
    columns = np.stack(list(values.values()), axis=1)
    means = [  # in parts: there may be many users
        rng.multinomial(size, np.full(size, 1.0 / size), 50) @ columns / size
        for _ in range(N_RESAMPLES // 50)
    ]
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975], axis=0)
    return {
        f"{name}@{n}": Estimate(float(column.mean()), float(low[at]), float(high[at]))
        for at, (name, column) in enumerate(values.items())
    }
