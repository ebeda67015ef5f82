"""Files that verbs read and write: which kind they are, and what is in them."""

from rankwright.cli.files.formats import tell_format
from rankwright.cli.files.items import (
    TableOptions,
    advice_on_words,
    describe,
    find_words,
    first_gap,
    read_items,
    remark_on_queries,
)
from rankwright.cli.files.pipes import at_hand, check_targets, write_answer, write_text
from rankwright.cli.files.ratings import RatingsOptions, read_ratings, tell_kind

__all__ = [
    "RatingsOptions",
    "TableOptions",
    "advice_on_words",
    "at_hand",
    "check_targets",
    "describe",
    "find_words",
    "first_gap",
    "read_items",
    "read_ratings",
    "remark_on_queries",
    "tell_format",
    "tell_kind",
    "write_answer",
    "write_text",
]
