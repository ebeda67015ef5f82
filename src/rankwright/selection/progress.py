"""A line every ten seconds about long work."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Self

SECONDS = 10.0


class Progress:
    """Prints what is being done to standard error every ten seconds, until the block ends.

    >>> with Progress(active=False) as progress:
    ...     progress.text = "training RankSVM: fold 1 of 5"
    """

    def __init__(self, active: bool) -> None:
        self.text = ""
        self.rounds: dict[int, int] = {}  # of boosting, by the object that is trained
        self._stop, self._start = Event(), time.perf_counter()
        self._thread = Thread(target=self._run, daemon=True) if active else None

    def _run(self) -> None:
        while not self._stop.wait(SECONDS):
            if self.text:
                seconds = time.perf_counter() - self._start
                rounds = "".join(f", round {number}" for number in self.rounds.values())
                print(f"{self.text}{rounds} ({seconds:.0f} s so far)", file=sys.stderr, flush=True)

    @contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """Show the rounds of a ranker, if it can tell them without being slowed down."""
        if self._thread is None or not hasattr(model, "warm_start") or model.callbacks:
            yield
            return
        model.callbacks = [lambda told: self.rounds.update({id(model): told.number})]
        try:
            yield
        finally:
            model.callbacks = None
            self.rounds.pop(id(model), None)

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
