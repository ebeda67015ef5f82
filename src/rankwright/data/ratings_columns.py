"""Which column of a table holds the user, the item, the value and the time of a rating."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rankwright.exceptions import DataError

__all__ = ["column_of", "usual_place"]

# Names as they are commonly written, in lower case and without signs between the words.
_USUAL_NAMES = {
    "user": ("user", "userid", "uid", "customer", "customerid", "reviewer", "reviewerid"),
    "item": (
        *("item", "itemid", "iid", "movie", "movieid", "film", "filmid", "product", "productid"),
        *("book", "bookid", "isbn", "asin", "joke", "jokeid"),
    ),
    "value": ("value", "rating", "score", "stars", "points", "bookrating", "overall"),
    "time": ("time", "timestamp", "unixreviewtime"),
}


def usual_place(role: str, names: Sequence[str]) -> int | None:
    """The place of the column with a usual name for this role, or None.

    >>> usual_place("item", ["userId", "movie_id", "rating"])
    1
    """
    plain = [re.sub(r"[^a-z]", "", name.lower()) for name in names]
    return next((plain.index(name) for name in _USUAL_NAMES[role] if name in plain), None)


def column_of(table: Mapping[str, Any], role: str, name: str | None) -> Any:
    """The column of that name, or (None) the one with a usual name for this role."""
    place = usual_place(role, list(table)) if name is None else None
    name = list(table)[place] if place is not None else name
    if name is None or name not in table:
        wanted = f"for the {role}" if name is None else repr(name)
        raise DataError(
            f"the frame has no column {wanted}; it has {list(table)}. Give {role}=name."
        )
    return table[name]
