"""The lock of a ranker that changes in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

Method = TypeVar("Method", bound=Callable[..., Any])

_locks: WeakKeyDictionary[Any, RLock] = WeakKeyDictionary()
_new_lock = RLock()


def state_lock(ranker: object) -> RLock:
    """The lock of a ranker that changes in place, held while it learns or scores.

    Locks are kept apart from the objects, which are copied and pickled.
    """
    lock = _locks.get(ranker)
    if lock is None:
        with _new_lock:
            lock = _locks.setdefault(ranker, RLock())
    return lock


def exclusive(method: Method) -> Method:
    """A method that runs while no other thread learns from or scores with the same object."""

    @wraps(method)
    def locked(self: Any, *args: Any, **options: Any) -> Any:
        with state_lock(self):
            return method(self, *args, **options)

    return locked  # type: ignore[return-value]
