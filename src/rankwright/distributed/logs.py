"""Log lines of fits on engines: what happens at which stage, on which process, in which round.

They are records of the logger ``rankwright.cluster`` with fields. ``dask worker ADDRESS --preload
rankwright.distributed.logs`` writes those of a worker as JSON to standard error, with Dask's own.
"""

from __future__ import annotations

import logging
from typing import Any

from rankwright.runtime.logs import log_as_json

CLUSTER = logging.getLogger("rankwright.cluster")


def note(stage: str, message: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log a message with its fields, none of which may hold data."""
    CLUSTER.log(level, message, extra={"fields": {"stage": stage, **fields}})


def dask_setup(worker: object) -> None:
    """Write the log lines of a worker's process as JSON; Dask calls it."""
    log_as_json()
    dask = logging.getLogger("distributed")
    dask.handlers[:], dask.propagate = [], True
