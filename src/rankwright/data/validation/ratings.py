"""Rules on ratings: pairs of user and item, values, users."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.ratings import Ratings, first_twice
from rankwright.data.validation.rules import Fault, Lines, Rule, all_equal, count


def _check_pairs(ratings: Ratings, lines: Lines) -> Fault | None:
    repeat = first_twice(ratings)
    if repeat is None:
        return None
    row, earlier = repeat
    before = "before" if lines is None else f"on line {lines[earlier]}"
    user, item = ratings.users[ratings.user[row]], ratings.items[ratings.item[row]]
    fix = "remove one, or say which counts: duplicates='first', 'last' or 'mean'"
    return "FAIL", f"user {user} rated item {item} {before} already", row, fix


def _check_values(ratings: Ratings, lines: Lines) -> Fault | None:
    if np.unique(ratings.value).size > 1:
        return None
    reason = f"every rating is {ratings.value[0]:g}: there is no order to learn"
    return "FAIL", reason, None, "check that this is the column of the ratings: value='NAME'"


def _check_single_ratings(ratings: Ratings, lines: Lines) -> Fault | None:
    single = ratings.user_counts == 1
    if not single.any():
        return None
    row, user, share = _first_user(ratings, single)
    reason = f"user {user} gave a single rating ({share})"
    return "WARN", reason, row, "little can be learned about such users"


def _check_equal_ratings(ratings: Ratings, lines: Lines) -> Fault | None:
    equal = all_equal(ratings.value, ratings.user, ratings.n_users) & (ratings.user_counts > 1)
    if not equal.any():
        return None
    row, user, share = _first_user(ratings, equal)
    reason = f"user {user} rated everything {ratings.value[row]:g} ({share})"
    return "WARN", reason, row, "such users tell nothing about order: remove them"


def _first_user(ratings: Ratings, chosen: NDArray[np.bool_]) -> tuple[int, Any, str]:
    """A row of the first of the chosen users, the user's id, and how many are chosen."""
    user = int(np.argmax(chosen))
    share = f"{count(chosen)} of {ratings.n_users:,} users"
    return int(np.argmax(ratings.user == user)), ratings.users[user], share


RATING_RULES: list[Rule] = [
    ("pairs", "no user rated an item twice", _check_pairs),
    ("values", "more than one value", _check_values),
    ("ratings per user", "every user gave several ratings", _check_single_ratings),
    ("values differ per user", "users with several ratings tell items apart", _check_equal_ratings),
]
