"""What learns from a stream: one thread at a time; warnings about the order and scale of rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exceptions import StreamWarning

FEW_ROWS = 50  # below which neither order nor scale says much
MOST_RATIO = 1e3

Method = TypeVar("Method", bound=Callable[..., Any])
_LOCKS: WeakKeyDictionary[Any, RLock] = WeakKeyDictionary()
_MAKING = RLock()


def state_lock(ranker: Any) -> RLock:
    """The lock of a ranker that changes in place: whoever learns or scores holds it.

    Locks are kept apart from the objects, which are copied and pickled.
    """
    lock = _LOCKS.get(ranker)
    if lock is None:
        with _MAKING:
            lock = _LOCKS.setdefault(ranker, RLock())
    return lock


def exclusive(method: Method) -> Method:
    """A method that runs while no other thread learns from or scores with the same object."""

    @wraps(method)
    def locked(self: Any, *args: Any, **options: Any) -> Any:
        with state_lock(self):
            return method(self, *args, **options)

    return locked  # type: ignore[return-value]


def _forget_locks() -> None:
    """After a fork: a thread of the parent, which the child does not have, may hold a lock."""
    global _MAKING
    _MAKING = RLock()
    _LOCKS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


def warn_of_sorted_grades(ranker: Any, y: FloatArray) -> None:
    """Warn if equal grades arrive in one block each, as in a file sorted by grade.

    The last block then undoes what the others taught.
    """
    if ranker.shuffle or len(y) < FEW_ROWS:
        return
    n_grades, n_blocks = len(np.unique(y)), 1 + int(np.count_nonzero(np.diff(y)))
    if 1 < n_grades == n_blocks <= len(y) // 2:
        warnings.warn(
            f"{type(ranker).__name__} learns from rows in the order given, and these are sorted by "
            f"grade ({len(y)} rows in {n_blocks} blocks of equal grades). Set shuffle=True, or "
            "shuffle the rows before partial_fit.",
            StreamWarning,
            stacklevel=5,
        )


def warn_of_scales(ranker: Any, X: Any) -> None:
    """Warn if the largest absolute values of two columns differ by more than a thousand."""
    if X.shape[0] < FEW_ROWS:
        return
    if isinstance(X, np.ndarray):
        column, size = np.arange(X.shape[1]), np.maximum(X.max(axis=0), -X.min(axis=0))
    else:
        column, place = np.unique(X.indices, return_inverse=True)
        size = np.zeros(len(column))
        np.maximum.at(size, place, np.abs(X.data))
    column, size = column[size > 0], size[size > 0]
    if not len(size):
        return
    low, high = int(np.argmin(size)), int(np.argmax(size))
    if size[high] > MOST_RATIO * size[low]:
        warnings.warn(
            f"{type(ranker).__name__}: column {column[high]} holds values up to "
            f"{size[high]:.3g}, column {column[low]} only up to {size[low]:.3g}. An online "
            "ranker hardly learns from the smaller ones: scale the columns, "
            "make_pipeline(OnlineScaler(), ...) or StandardScaler.",
            StreamWarning,
            stacklevel=5,
        )
