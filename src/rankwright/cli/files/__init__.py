"""Files that verbs read and write: which kind they are, and what is in them."""

from rankwright.cli.files.formats import tell_format
from rankwright.cli.files.items import TableOptions, read_items
from rankwright.cli.files.pipes import at_hand, write_text

__all__ = ["TableOptions", "at_hand", "read_items", "tell_format", "write_text"]
