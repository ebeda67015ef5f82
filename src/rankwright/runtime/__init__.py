"""What the process owns, because numba, BLAS and the machine force it to: threads, locks, memory.

Nothing here changes a result. Each module holds one thing, and the reason why it is not an object
that callers pass around:

``threads``   how many threads to use, and pools of them; ``one_thread`` is a context variable,
              because a candidate of a search must reach every loop below it
``blas``      one BLAS thread while a ranker is trained: the number belongs to the process, so
              blocks in several threads share one limit
``locks``     the lock of a ranker that learns in place; kept apart from the object, which is
              copied and pickled
``memory``    what can still be allocated, and the error before too much is
``progress``  bars of long work: a terminal has one live display, which work within work shares
``logs``      log lines as JSON: handlers belong to the process
``engines``   the engine of ``with rankwright.engine(...)``, a context variable like ``one_thread``
``kernels``   ``njit`` with a cache of compiled code; only modules of kernels import it, as it
              imports numba

Nothing here knows about forks: a child that is forked while a thread of its parent trains may find
locks of that thread (of numba, of BLAS, of Python 3.11's ``cached_property``) and wait forever: 5
of 24 children did, forked while six threads trained, where handlers that took the locks of numba
and walked all classes let none hang. The guide says not to; start workers with "spawn" or
"forkserver", or before training.
"""

from rankwright.runtime.blas import single_threaded_blas
from rankwright.runtime.engines import (
    active_engine,
    current_engine,
    is_path,
    map_jobs,
    read_here,
)
from rankwright.runtime.locks import exclusive, state_lock
from rankwright.runtime.memory import available_memory, parse_bytes, require_memory
from rankwright.runtime.threads import (
    FEW_ROWS,
    Team,
    map_blocks,
    n_threads,
    one_thread,
    ranges,
)

__all__ = [
    "FEW_ROWS",
    "Team",
    "active_engine",
    "available_memory",
    "current_engine",
    "exclusive",
    "is_path",
    "map_blocks",
    "map_jobs",
    "n_threads",
    "one_thread",
    "parse_bytes",
    "ranges",
    "read_here",
    "require_memory",
    "single_threaded_blas",
    "state_lock",
]
