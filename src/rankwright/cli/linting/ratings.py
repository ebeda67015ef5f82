"""Rules on ratings: pairs, values, users."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.cli.linting.findings import Finding, Found, all_equal, many, state
from rankwright.data.ratings import Ratings, first_twice

Lines = NDArray[np.int64] | None


def check_ratings(ratings: Ratings, lines: Lines) -> Iterator[Finding]:
    """Every rule on one file of ratings; ``lines`` are those of the ratings, where known."""
    return state(((rule, check(ratings, lines)) for rule, check in _CONSTRAINTS.items()), _KEPT)


def _pairs(ratings: Ratings, lines: Lines) -> Found:
    twice = first_twice(ratings)
    if twice is None:
        return None
    row, earlier = twice
    before = "before" if lines is None else f"on line {int(lines[earlier])}"
    user, item = ratings.users[ratings.user[row]], ratings.items[ratings.item[row]]
    reason = f"user {user} rated item {item} {before} already"
    fix = "remove one, or say which counts: recommend --duplicates first, last or mean"
    return "FAIL", reason, _line(lines, row), fix


def _values(ratings: Ratings, lines: Lines) -> Found:
    if np.unique(ratings.value).size > 1:
        return None
    reason = f"every rating is {ratings.value[0]:g}: there is no order to learn"
    return "FAIL", reason, None, "check that this is the column of the ratings (--rating-column)"


def _single(ratings: Ratings, lines: Lines) -> Found:
    found = _first_user(ratings, ratings.user_counts == 1)
    if found is None:
        return None
    row, user, share = found
    reason = f"user {user} gave one single rating ({share})"
    return "WARN", reason, _line(lines, row), "little can be learned about such users"


def _flat(ratings: Ratings, lines: Lines) -> Found:
    equal = all_equal(ratings.value, ratings.user, ratings.n_users)
    found = _first_user(ratings, equal & (ratings.user_counts > 1))
    if found is None:
        return None
    row, user, share = found
    reason = f"user {user} rated everything {ratings.value[row]:g} ({share})"
    return "WARN", reason, _line(lines, row), "such users tell nothing about order: leave them out"


def _first_user(ratings: Ratings, odd: NDArray[np.bool_]) -> tuple[int, Any, str] | None:
    """A row of the first of these users, the user's id, and how many there are."""
    if not odd.any():
        return None
    user = int(np.argmax(odd))
    row = int(np.argmax(ratings.user == user))
    return row, ratings.users[user], f"{many(odd)} of {ratings.n_users:,} users"


def _line(lines: Lines, row: int) -> int | None:
    return None if lines is None else int(lines[row])


_CONSTRAINTS: dict[str, Callable[[Ratings, Lines], Found]] = {
    "pairs": _pairs,
    "values": _values,
    "ratings per user": _single,
    "values differ per user": _flat,
}
_KEPT = {
    "pairs": "no user rated an item twice",
    "values": "more than one value",
    "ratings per user": "every user gave several ratings",
    "values differ per user": "every user who gave several ratings tells some apart",
}
