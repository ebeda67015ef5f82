"""Tables of learned rows that grow without being copied at every row."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["with_room"]


def with_room(view: Any, wanted: int, *, exact: bool = False) -> Any:
    """A table of at least (``exact``: just) ``wanted`` rows that begins with those of ``view``.

    It is the table behind the view when that is large enough, else a copy twice as large.

    >>> table = with_room(np.zeros((3, 2)), 5)
    >>> table.shape, with_room(table[:4], 6) is table, with_room(table[:4], 9).shape
    ((6, 2), True, (9, 2))
    """
    base = view.base
    if (
        isinstance(base, np.ndarray)
        and base.flags.writeable
        and view.flags.c_contiguous
        and view.ctypes.data == base.ctypes.data
        and (base.dtype, base.shape[1:]) == (view.dtype, view.shape[1:])
        and (len(base) == wanted if exact else len(base) >= wanted)
    ):
        return base
    table = np.zeros((wanted if exact else max(wanted, 2 * len(view)), *view.shape[1:]), view.dtype)
    table[: len(view)] = view
    return table
