"""Files that verbs read and write: which kind they are, and what is in them."""

from rankwright.cli.files.formats import tell_format
from rankwright.cli.files.items import (
    TableOptions,
    describe,
    first_gap,
    read_items,
    remark_on_queries,
)
from rankwright.cli.files.pipes import at_hand, check_targets, write_answer, write_text

__all__ = [
    "TableOptions",
    "at_hand",
    "check_targets",
    "describe",
    "first_gap",
    "read_items",
    "remark_on_queries",
    "tell_format",
    "write_answer",
    "write_text",
]
