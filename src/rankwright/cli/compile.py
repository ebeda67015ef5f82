"""``rankwright compile``: compile the loops of the rankers ahead of their first use."""

from __future__ import annotations

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt


def compile(
    *,
    family: list[str] = [],  # noqa: B006
    processes: opt.Count | None = None,
    json: opt.Json = False,
) -> None:
    """Compile the loops of every ranker once, as for a container image.

    Compiled code is kept in the folder NUMBA_CACHE_DIR, or next to the
    package. Later trainings load it instead of compiling for 5 to 25 s.

    rankwright compile
    NUMBA_CACHE_DIR=/opt/kernels rankwright compile --family boosting

    Parameters
    ----------
    family
        Only boosting, online, recommend, gradient, neighbors, keeprank, magnitude or readers; may
        be repeated.
    processes
        How many processes compile at the same time; by default one for each core.
    """
    seconds = rw.compile_kernels(family or None, n_processes=processes, note=console.note)
    if json:
        console.print_json({name: round(value, 1) for name, value in seconds.items()})
    else:
        print(f"{len(seconds)} families compiled: {sum(seconds.values()):.0f} s of CPU")
