"""A bar that shows how far training is, where somebody may be watching."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

__all__ = ["progress_bar"]

PATIENCE = 1.0  # seconds before a bar is worth drawing


@contextmanager
def progress_bar(
    title: str, n_steps: int, wanted: bool | None = None
) -> Iterator[Callable[[int, str], None]]:
    """Give a function ``show(step, note)``; it draws only if standard error is a terminal.

    Parameters
    ----------
    wanted : bool or None
        False: never draw. True: draw at once. None: draw when it has taken a second. A bar is
        never drawn into a file or a log.

    Examples
    --------
    >>> with progress_bar("RankBoost", 3) as show:
    ...     show(1, "bound 0.5")
    """
    if wanted is False or not sys.stderr.isatty():
        yield lambda step, note: None
        return
    start = time.monotonic() + (0.0 if wanted else PATIENCE)
    with ExitStack() as stack:
        drawn: list[Callable[[int, str], None]] = []

        def show(step: int, note: str) -> None:
            if not drawn and time.monotonic() >= start:
                drawn.append(_bar(stack, title, n_steps))
            for draw in drawn:
                draw(step, note)

        yield show


def _bar(stack: ExitStack, title: str, n_steps: int) -> Callable[[int, str], None]:
    """A bar that is taken away when the stack closes."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    columns += [Remaining(), TextColumn("{task.fields[note]}")]
    bar = stack.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
    task = bar.add_task(title, total=n_steps, note="")
    return lambda step, note: bar.update(task, completed=step, note=note)
