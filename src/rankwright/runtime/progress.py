"""Progress of long work: bars in a terminal, plain lines elsewhere, always on standard error.

A terminal holds one live display, so the process owns it: work within work adds a row to the
display that is shown. Elsewhere nothing is printed in the first ten seconds, then a line every ten.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, RLock, Thread
from typing import Any

SECONDS = 10.0  # between two lines where there is no terminal

_lock = RLock()
_tasks: list[Work] = []  # what is being done, the outermost first
_interruption = ""  # of the innermost task
_display: Display | None = None


class Work:
    """Work that takes time: what it is, how far it is, and a note such as the best score so far."""

    def __init__(self, title: str | Callable[[], str], total: int | None, unit: str) -> None:
        self.title, self.total, self.unit = title, total, unit
        self.done = 0
        self.note = ""
        self.shown = False
        self._row: Any = None  # of rich, while the terminal shows it

    def update(self, done: int | None = None, note: str | None = None) -> None:
        """Set how much is done and what is said beside it; None leaves it as it is."""
        if done is not None:
            self.done = done
        if note is not None:
            self.note = note
        with _lock:
            if _display is not None:
                _display.refresh(self)

    def name(self) -> str:
        return self.title() if callable(self.title) else self.title

    def count(self) -> str:
        return f"{self.done:,} of {self.total:,} {self.unit}".rstrip() if self.total else ""

    def remark(self) -> str:
        return _interruption if _interruption and _tasks and _tasks[-1] is self else self.note

    def __str__(self) -> str:
        return ", ".join(part for part in (self.name(), self.count(), self.remark()) if part)


@contextmanager
def task(
    title: str | Callable[[], str], total: int | None = None, *, unit: str = "", active: bool = True
) -> Iterator[Work]:
    """Show a task until the block ends; without ``active`` nothing is shown.

    Parameters
    ----------
    title : str, or function that returns one
        What is being done. A function is asked again whenever the task is shown.
    total : int or None
        The number of steps; None if it is not known.
    unit : str
        What is counted, such as "users".

    Examples
    --------
    >>> with task("training RankSVM", 5, unit="folds") as work:
    ...     work.update(1, note="best NDCG@10 0.41")
    ...     print(work)
    training RankSVM, 1 of 5 folds, best NDCG@10 0.41
    """
    work = Work(title, total, unit)
    if not active:
        yield work
        return
    _begin(work)
    try:
        yield work
    finally:
        _end(work)


def say(line: str) -> None:
    """Print a line to standard error, above the bars if there are any."""
    with _lock:
        if _display is not None:
            _display.say(line)
        else:
            print(line, file=sys.stderr, flush=True)


def interrupt(why: str) -> None:
    """Show beside the innermost task what it waits for, until this is called with an empty text."""
    global _interruption
    with _lock:
        _interruption = why
        if _display is not None and _tasks:
            _display.refresh(_tasks[-1])


def is_terminal() -> bool:
    """Whether bars can be drawn; TERM=dumb asks for plain lines."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _begin(work: Work) -> None:
    global _display
    work.shown = True
    with _lock:
        _tasks.append(work)
        if _display is None:
            _display = Bars() if is_terminal() else Lines()
        _display.refresh(work)


def _end(work: Work) -> None:
    global _display
    with _lock:
        _tasks.remove(work)
        display = _display
        assert display is not None
        display.remove(work)
        is_last = not _tasks
        if is_last:
            _display = None
    if is_last:
        display.close()  # without the lock, which the thread of Lines may want


class Lines:
    """Where there is no terminal: a line every ten seconds that says what all tasks are at."""

    def __init__(self) -> None:
        self._stop, self._start = Event(), time.perf_counter()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(SECONDS):
            with _lock:
                text = "; ".join(filter(None, map(str, _tasks)))
            if text:
                seconds = time.perf_counter() - self._start
                print(f"{text} ({seconds:.0f} s so far)", file=sys.stderr, flush=True)

    def refresh(self, work: Work) -> None: ...

    def remove(self, work: Work) -> None: ...

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


class Bars:
    """Rows with a bar, counts, the time so far and left, and the note in color."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
        from rich.table import Column
        from rich.text import Text

        class Seconds(ProgressColumn):
            """The time so far, and the time left if it can be told."""

            def render(self, task: Any) -> Text:
                left = task.time_remaining
                more = f", {left:.0f} s left" if left else ""
                return Text(f"{task.elapsed or 0:.0f} s{more}", style="cyan")

        whole = Column(no_wrap=True)
        last = Column(no_wrap=True, overflow="ellipsis")
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=whole),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[count]}", markup=False, table_column=whole),
            Seconds(table_column=whole),
            TextColumn("{task.fields[note]}", style="bold green", markup=False, table_column=last),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,  # results may go to a pipe
        )
        self._progress.start()

    def refresh(self, work: Work) -> None:
        if not work.shown:
            return
        fields: dict[str, Any] = {"count": work.count(), "note": work.remark()}
        if work._row is None:
            work._row = self._progress.add_task(work.name(), total=work.total, **fields)
        self._progress.update(work._row, completed=work.done, description=work.name(), **fields)

    def remove(self, work: Work) -> None:
        self._progress.remove_task(work._row)

    def say(self, line: str) -> None:
        self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._progress.stop()


Display = Bars | Lines
