"""A bar that shows how far training is, where somebody may be watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(
    title: str, n_steps: int, wanted: bool | None = None
) -> Iterator[Callable[[int, str], None]]:
    """Give a function ``show(step, note)``; it draws only if standard error is a terminal.

    Parameters
    ----------
    wanted : bool or None
        False: never draw. None and True: draw on a terminal, never into a file or a log.

    Examples
    --------
    >>> with progress_bar("RankBoost", 3) as show:
    ...     show(1, "bound 0.5")
    """
    if wanted is False or not sys.stderr.isatty():
        yield lambda step, note: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    words = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining()
    bar = Progress(
        *words, TextColumn("{task.fields[note]}"), console=Console(stderr=True), transient=True
    )
    with bar:
        task = bar.add_task(title, total=n_steps, note="")
        yield lambda step, note: bar.update(task, completed=step, note=note)
