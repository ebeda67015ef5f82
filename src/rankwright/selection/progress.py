"""A line every ten seconds about long work."""

from __future__ import annotations

import sys
import time
from threading import Event, Thread
from typing import Self

SECONDS = 10.0


class Progress:
    """Prints what is being done to standard error every ten seconds, until the block ends.

    >>> with Progress(active=False) as progress:
    ...     progress.text = "training RankSVM: fold 1 of 5"
    """

    def __init__(self, active: bool) -> None:
        self.text = ""
        self._stop, self._start = Event(), time.perf_counter()
        self._thread = Thread(target=self._run, daemon=True) if active else None

    def _run(self) -> None:
        while not self._stop.wait(SECONDS):
            if self.text:
                seconds = time.perf_counter() - self._start
                print(f"{self.text} ({seconds:.0f} s so far)", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
