"""The Dask engine: tasks on the workers of a cluster, and recovery from failures."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet

from rankwright.distributed.base import Engine, Handles, aligned, merged_pieces, split_pieces
from rankwright.exceptions import ClusterError

PATIENCE = 20.0  # seconds without a scheduler before a fit gives up
POLL = 2.0  # seconds between looks at the connection
INSTALL = 'pip install "rankwright[cluster]"'


class DaskEngine(Engine):
    """A Dask cluster. Every value is the result of a task, so a lost worker only costs time.

    Values from this process are sent inside tasks, through the scheduler. For more than a few GB,
    use files that the workers can read.

    Parameters
    ----------
    client : distributed.Client
    """

    is_cluster = True
    _announced: ClassVar[WeakKeyDictionary[Any, str]] = WeakKeyDictionary()

    def __init__(self, client: Any, *, owned: bool = False) -> None:
        self.client, self._owned = client, owned
        self._started: WeakSet[Any] = WeakSet()
        self.name = _address(client)
        if client not in self._announced:
            self._announced[client] = client.dashboard_link
            print(f"rankwright: cluster {self.name}, dashboard {client.dashboard_link}",
                  file=sys.stderr)  # fmt: skip

    @property
    def threads(self) -> int:  # type: ignore[override]
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return max(1, sum(int(worker["nthreads"]) for worker in workers.values()))

    def _apply(self, function: Any, *arguments: Any) -> Any:
        self._check()
        future = self.client.submit(function, *arguments, pure=False, key=_key(arguments))
        self._started.add(future)
        return future

    def broadcast(self, value: Any) -> Any:
        from dask import config

        with config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"}):
            return self._apply(_identity, _Boxed(value))

    def exchange(self, handles: Handles, split: Any, merge: Any, n_values: int) -> Handles:
        n = self.n_blocks
        parts = [self._apply(split_pieces, split, block, n) for block in handles.blocks]
        blocks = [
            self._apply(
                merged_pieces, merge, i, n, *(self._apply(_item, part, i) for part in parts)
            )
            for i in range(n)
        ]
        return Handles(tuple(blocks), (n_values // n,) * n)

    def adopt(self, delayed: Sequence[Any]) -> Handles:
        futures = self.client.compute(list(delayed))
        return Handles(tuple(self._apply(_listed, f) for f in futures), (1,) * len(futures))

    def _collect(self, blocks: Sequence[Any]) -> list[Any]:
        from distributed import CancelledError, KilledWorker

        try:
            self._wait(list(blocks))
            return list(self.client.gather(list(blocks)))
        except KilledWorker as error:
            raise ClusterError(
                f"{self.name}: several workers died running the same task ({error}). "
                "The usual cause is memory: give workers more, or use more workers."
            ) from error
        except CancelledError as error:
            raise self._gone() from error
        except (OSError, RuntimeError, ValueError):
            self._check()  # else it is the error of a task
            raise

    def _wait(self, blocks: list[Any]) -> None:
        """Wait for tasks, and look at the connection from time to time."""
        from distributed import wait

        lost: float | None = None
        while True:
            self._check()
            try:
                with self.client.as_current():
                    wait(blocks, timeout=POLL)
                return
            except TimeoutError:
                lost = None if self.client.status == "running" else lost or time.monotonic()
                if lost is not None and time.monotonic() - lost > PATIENCE:
                    raise self._gone() from None

    def _check(self) -> None:
        if self.client.status in ("closed", "closing"):
            raise self._gone()

    def _gone(self) -> ClusterError:
        return ClusterError(
            f"{self.name}: the scheduler is gone or the client was closed during the fit. "
            "Start the cluster again and repeat the fit."
        )

    def cancel(self) -> None:
        futures = list(self._started)
        self._started.clear()
        if futures and self.client.status == "running":
            self.client.cancel(futures, force=True)

    def joblib(self, n_jobs: int | None) -> Any:
        from joblib import parallel_config

        return parallel_config("dask", client=self.client, n_jobs=n_jobs or -1)

    def close(self) -> None:
        if self._owned:
            self.client.close()


class _Boxed:
    """A value that Dask passes on as it is, without a look inside."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _identity(box: _Boxed) -> Any:
    return aligned(box.value, writable=True)


def _listed(value: Any) -> list[Any]:
    return [value]


def _item(values: Any, index: int) -> Any:
    return values[index]


def _key(arguments: tuple[Any, ...]) -> str:
    """The name of a task; the dashboard groups tasks by its beginning."""
    names = [getattr(a, "__name__", "") for a in arguments[:1]]
    return f"rankwright-{names[0] if names and names[0] else 'value'}-{uuid4().hex}"


def _address(client: Any) -> str:
    return str(client.scheduler.address if client.scheduler else "dask")


def connect(address: str) -> Any:
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"rankwright.engine({address!r}) needs {error.name}, which is not installed: {INSTALL}",
            name=error.name,
        ) from None
    try:
        return Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"rankwright.engine({address!r}): no scheduler answers ({error}). Start one with "
            "'dask scheduler', or use 'local:4'."
        ) from error
