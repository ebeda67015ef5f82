"""The leader's side: what replicas ask for, what they have confirmed, and being fenced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from rankwright.exceptions import ParameterError
from rankwright.service.api.problems import HttpProblem
from rankwright.service.api.routing import BINARY, Call, Reply
from rankwright.service.api.types import FenceAnswer, PromoteAnswer, ReplicationInfo
from rankwright.service.log.backups import copy_store
from rankwright.service.replication.leadership import (
    Leadership,
    Position,
    identity,
    leadership,
    position,
    read_model,
    set_leadership,
    ship,
)

if TYPE_CHECKING:
    from rankwright.service.app import Service
    from rankwright.service.log.store import Store
    from rankwright.service.replication.puller import LogPuller

ACK_SECONDS = 10.0  # that a write waits for a replica
PEER_SECONDS = 3.0  # that a leader with a replica waits at its start for word of it
LIVE_SECONDS = 30.0  # since its last request that a replica counts
MOST_WAIT = 10.0  # seconds that a request for the log waits for something new
TICK_SECONDS = 0.25  # between two looks for entries that nobody waits for
BLOCK = 2**20
WAITS = "this service had a replica, and waits for word of it before it accepts writes."
FENCED = "another service was promoted and leads now: send writes to that one."


class Replication:
    """Whether this service leads, and how far its replicas are.

    Parameters
    ----------
    store : the log
    ack : "replica" if writes are acknowledged when a replica has them, too
    puller : what copies the log of a leader, on a replica
    """

    def __init__(self, store: Store, ack: str, puller: LogPuller | None) -> None:
        self.store, self.ack, self.puller = store, ack, puller
        self.identity = identity(store)
        self._positions: dict[str, tuple[Position, float]] = {}  # of each replica
        self._waiting: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends = False
        store.on_commit(self._committed)

    @property
    def role(self) -> Literal["leader", "replica", "waiting", "fenced"]:
        if self.puller is not None and self.puller.running:
            return "replica"
        if self.store.refusal is None:
            return "leader"
        return "waiting" if self.store.refusal == WAITS else "fenced"

    def info(self) -> ReplicationInfo:
        own, here = leadership(self.store), position(self.store)
        now, puller = time.monotonic(), self.puller
        replicas = {
            name: max(0, here.last - at.last)
            for name, (at, seen) in self._positions.items()
            if now - seen < LIVE_SECONDS
        }
        following = puller is not None and puller.running
        return ReplicationInfo(
            self.role,
            own.run[0],
            here.last,
            here.revision,
            own.replica_of,
            puller.behind if following and puller is not None else 0,
            round(now - puller.contact, 3) if following and puller is not None else 0.0,
            replicas,
        )

    def check_store(self, sent: str) -> None:
        if sent != self.identity:
            raise HttpProblem(409, "This is another store than the one that was asked for.")

    # What replicas ask for.

    async def poll(self, name: str, run: tuple[int, int], since: Position, wait: float) -> bytes:
        """What a replica lacks, once there is something; this confirms all that it has."""
        own = leadership(self.store)
        if run[0] > own.run[0]:
            await asyncio.to_thread(self.fence, run[0])
        elif self.store.refusal == WAITS and run[0] == own.run[0]:
            self.store.refuse_writes(None)  # the replica follows: nobody was promoted
        if not own.replicated and self.store.refusal is None:
            await asyncio.to_thread(
                set_leadership, self.store, msgspec.structs.replace(own, replicated=True)
            )
        self._positions[name] = since, time.monotonic()
        self._wake()
        deadline = time.monotonic() + min(wait, MOST_WAIT)
        while True:
            woken = asyncio.Event()
            self._waiting.add(woken)
            try:
                shipment = await asyncio.to_thread(ship, self.store, run, since)
                left = 0.0 if self._ends else deadline - time.monotonic()
                same_run = shipment.leadership.run == run
                if shipment.position != since or shipment.diverged or not same_run or left <= 0:
                    return msgspec.msgpack.encode(shipment)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, TICK_SECONDS)):
                        await woken.wait()
            finally:
                self._waiting.discard(woken)

    def end_polls(self) -> None:
        """Answer the replicas that wait: the service stops."""
        self._ends = True
        self._wake()

    def fence(self, term: int) -> Position:
        """Accept no more writes, for good; how far this store is."""
        if self.role == "replica":
            return position(self.store)
        self.store.refuse_writes(FENCED)
        own = leadership(self.store)
        if (own.fenced or 0) < term:
            set_leadership(self.store, msgspec.structs.replace(own, fenced=term))
        self.store.flush()
        return position(self.store)

    # What writes wait for.

    async def confirm(self) -> None:
        """Wait until the replicas have what this store has now."""
        target = await asyncio.to_thread(position, self.store)
        deadline = time.monotonic() + ACK_SECONDS
        while not self._has(target):
            left = deadline - time.monotonic()
            if left <= 0 or self.store.refusal is not None:
                raise HttpProblem(
                    503,
                    "It is on this disk, and no replica has confirmed it. Send it again.",
                    retry_after="1",
                )
            woken = asyncio.Event()
            self._waiting.add(woken)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, 1.0)):
                    await woken.wait()
            self._waiting.discard(woken)

    def _has(self, target: Position) -> bool:
        """Whether a replica has confirmed a position, and all that live have."""
        now = time.monotonic()
        live = [at for at, seen in self._positions.values() if now - seen < LIVE_SECONDS]
        return bool(live) and all(at.reaches(target) for at in live)

    def _committed(self) -> None:
        """In the thread of the writer."""
        if self._waiting and self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # the loop ends
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._loop = asyncio.get_running_loop()
        for woken in self._waiting:
            woken.set()


def begin_to_lead(store: Store) -> None:
    """At the start of a leader: a new run, if a replica has to be told from this store."""
    own = leadership(store)
    if own.replica_of is not None:
        raise ParameterError(
            f"{store.path} is a replica of {own.replica_of}.",
            fix=f"Start it with --replica-of {own.replica_of}, and promote it with "
            "POST /v1/promote if it is to lead.",
        )
    if own.fenced is not None:
        store.refuse_writes(FENCED)
    elif own.replicated:
        set_leadership(store, own.next_run(position(store).last))
        store.refuse_writes(WAITS)
        threading.Thread(target=_stop_waiting, args=(store,), daemon=True).start()


def _stop_waiting(store: Store) -> None:
    time.sleep(PEER_SECONDS)
    if store.refusal == WAITS:
        store.refuse_writes(None)


# Operations.


async def replica_log(service: Service, call: Call) -> Reply:
    options = call.query()
    service.replication.check_store(options["store"])
    since = Position(options["last"], options["revision"])
    run = (options["term"], options["run"])
    body = await service.replication.poll(options["replica"], run, since, options["wait"])
    return Reply(body, BINARY)


async def replica_model(service: Service, call: Call) -> Reply:
    row = await asyncio.to_thread(read_model, service.store, call.path["version"])
    if row is None:
        raise HttpProblem(404, f"There is no model {call.path['version'][:80]!r} in the store.")
    return Reply(msgspec.msgpack.encode(row), BINARY)


async def replica_store(service: Service, call: Call) -> Reply:
    folder = os.path.dirname(service.store.path)
    path = await asyncio.to_thread(_copied, service.store.path, folder)
    return Reply(_blocks(path), BINARY)


def _copied(store: str, folder: str) -> Path:
    number, name = tempfile.mkstemp(prefix=".rankwright-", dir=folder)
    os.close(number)
    try:
        copy_store(store, name)
    except BaseException:
        os.unlink(name)
        raise
    return Path(name)


async def _blocks(path: Path) -> AsyncIterator[bytes]:
    try:
        with path.open("rb") as file:
            path.unlink()
            while block := await asyncio.to_thread(file.read, BLOCK):
                yield block
    finally:
        path.unlink(missing_ok=True)


async def fence(service: Service, call: Call) -> FenceAnswer:
    options, own = call.query(), leadership(service.store)
    service.replication.check_store(options["store"])
    if options["term"] <= own.run[0]:
        raise HttpProblem(409, f"This store is of term {own.run[0]}, which is not earlier.")
    at = await asyncio.to_thread(service.replication.fence, options["term"])
    return FenceAnswer(at.last, at.revision)


def replication_info(service: Service, call: Call) -> ReplicationInfo:
    return service.replication.info()


async def promote(service: Service, call: Call) -> PromoteAnswer:
    """Let a replica lead; a leader leads already."""
    replication = service.replication
    if replication.role == "replica" and replication.puller is not None:
        own: Leadership = await asyncio.to_thread(replication.puller.promote)
    else:
        own = leadership(service.store)
        if own.fenced is not None:
            raise HttpProblem(409, "Another service leads. Start this one with --replica-of.")
        service.store.refuse_writes(None)
    last = await asyncio.to_thread(position, service.store)
    return PromoteAnswer(own.run[0], last.last, own.unfenced is None)
