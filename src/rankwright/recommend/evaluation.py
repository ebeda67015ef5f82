"""Evaluation of recommenders: splits of ratings, groups of users, comparisons of rankers."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.interactions import Interactions
from rankwright.data.behavior.ratings import Ratings
from rankwright.data.queries import Seed, Split, need_a_share
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    ParameterError,
    RankwrightWarning,
)
from rankwright.metrics.evaluation import evaluate
from rankwright.parallel import map_blocks, n_threads, single_threaded_blas
from rankwright.recommend.models.base import Table
from rankwright.recommend.models.per_user import ReferenceUsers, abstains, prepared

# Disagreement, and three measures of the top-rated items (Freund et al., 6.2.4), as expectations
# over random order of ties.
PAPER_MEASURES = ("Disagreement", "AP(rel=max)", "PROT(rel=max)", "Coverage(rel=max)")


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


def assess(
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
    measures = [measures] if isinstance(measures, str) else list(measures)
    model, test = recommender.fit(ratings.take(split.train)), ratings.take(split.test)
    found = evaluate(model.predict_ratings(test), test.value, test.user, measures)
    _warn_of_few_candidates(test, measures)
    return found


def _warn_of_few_candidates(test: Ratings, measures: list[Any]) -> None:
    sizes = test.user_counts[test.user_counts > 0]
    typical = float(np.median(sizes)) if len(sizes) else 0.0
    cutoffs = {str(m): int(str(m).rpartition("@")[2]) for m in measures if _has_cutoff(m)}
    few = [name for name, cutoff in cutoffs.items() if typical < 2 * cutoff]
    few = [str(m) for m in measures] if typical < 2 else few
    if few:
        chance = evaluate(np.zeros(len(test)), test.value, test.user, few)
        values = ", ".join(f"{name} {float(chance[name]):.4f}" for name in few)
        warnings.warn(
            f"assess ranks only the test items: {typical:g} for the median user. Random order "
            f"scores {values}. Rank the whole catalog with evaluate_top_n.",
            RankwrightWarning,
            stacklevel=3,
        )


def _has_cutoff(measure: Any) -> bool:
    return str(measure).rpartition("@")[2].isdigit()


def compare_rankers(
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
    ratings, split : all ratings; training and test rows, such as ``halve_users(ratings.user)``
    rankers : name -> ranker, pipeline, or None for random order
    targets, reference : numbers of users; a target that is also a reference does not see itself
    measures : measures or their names
    missing : name -> how missing ratings are filled (see ReferenceUsers.rows); default: abstain if
        the ranker can, else the median

    Returns
    -------
    results : name -> scores of :func:`rankwright.evaluate`, target users as queries
    """
    measures = [measures] if isinstance(measures, str) else list(measures)
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
    results = {}
    for name in rankers:
        scores = np.concatenate([values for part in parts for values in part[name]])
        results[name] = evaluate(scores, grades, targets[index], measures)
    return results


def _user_numbers(ratings: Ratings, users: Any, name: str) -> IntArray:
    numbers = np.asarray(users)
    whole = numbers.ndim == 1 and len(numbers) > 0 and numbers.dtype.kind in "iu"
    if not whole or numbers.min() < 0 or numbers.max() >= ratings.n_users:
        raise DataError(
            f"compare_rankers({name}=...): give one or more numbers of users, positions in "
            f"ratings.users (0 .. {ratings.n_users - 1}), for example from density_bins."
        )
    return numbers.astype(np.int64)


def _n_test(ratings: Ratings | Interactions, test_size: float) -> int:
    need_a_share(test_size)
    if len(ratings) < 2:
        raise DataError(f"{len(ratings)} ratings cannot be split: give two or more.")
    return min(max(round(test_size * len(ratings)), 1), len(ratings) - 1)
