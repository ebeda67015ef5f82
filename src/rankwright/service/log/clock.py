"""The time of the log, by which no entry gets old when the clock of the machine is set."""

from __future__ import annotations

import time

STEP_SECONDS = 1.0  # that the clock may go back without being set


class Clock:
    """Wall-clock time, checked against the seconds that have really passed since the start.

    An entry is stamped no earlier, and judged by its age no later, than the clock at the start plus
    the seconds since then. So whatever the clock is set to while a service runs, forward or back,
    and however often, an entry is never deleted before its time.
    """

    def __init__(self) -> None:
        self._begin = time.time() - time.monotonic()

    def stamp(self, moment: float | None = None) -> float:
        """The time of an entry that is written now, or was made at a moment just before."""
        moment, counted = time.time() if moment is None else moment, self._counted()
        return moment if moment > counted - STEP_SECONDS else counted

    def now(self) -> float:
        """The time by which ages are measured."""
        return min(time.time(), self._counted())

    def _counted(self) -> float:
        return self._begin + time.monotonic()
