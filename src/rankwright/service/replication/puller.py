"""The replica's side: copy the log of a leader, keep up with it, and take its place."""

from __future__ import annotations

import http.client
import logging
import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from rankwright.exceptions import ParameterError, RankwrightError, Setting
from rankwright.service.api.problems import HttpProblem
from rankwright.service.log.backups import new_file
from rankwright.service.log.reader import LogReader
from rankwright.service.log.store import Store, locked
from rankwright.service.replication.leadership import (
    Leadership,
    ModelRow,
    Position,
    Shipment,
    apply_shipment,
    identity,
    leadership,
    missing_models,
    position,
    set_leadership,
)

if TYPE_CHECKING:
    from rankwright.service.app import Service

POLL_SECONDS = 5.0  # that the leader waits for something new
ANSWER_SECONDS = 20.0
FENCE_SECONDS = 3.0  # for a leader that may be gone
RETRY_SECONDS = 0.2
LEAD_SECONDS = 3.0  # that a store that led looks for a later leader
START_SECONDS = 30.0  # that a replica without a copy waits for its leader
BLOCK = 2**20
log = logging.getLogger("rankwright.service")


class LeaderError(RankwrightError, OSError):
    """The leader refused a request; ``status`` is that of its answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message, kind="leader")
        self.status = status


class LeaderClient:
    """Requests to a leader, over one connection."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ParameterError(Setting("replica_of", url), ": write http://HOST:PORT.")
        self.url, self._prefix = url.rstrip("/"), parts.path.rstrip("/")
        secure = parts.scheme == "https"
        self._kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._address = str(parts.hostname), parts.port
        self.token = token
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._connection: http.client.HTTPConnection | None = None

    def ask(
        self,
        method: str,
        path: str,
        seconds: float = ANSWER_SECONDS,
        to: Path | None = None,
        **options: str | float,
    ) -> bytes:
        """The body of an answer, or empty if it goes to a file."""
        target = f"{self._prefix}{path}?{urlencode(options)}" if options else self._prefix + path
        try:
            if self._connection is None:
                self._connection = self._kind(*self._address, timeout=seconds)
            self._connection.timeout = seconds
            if self._connection.sock is not None:
                self._connection.sock.settimeout(seconds)
            self._connection.request(method, target, headers=self._headers)
            answer = self._connection.getresponse()
            if to is None or answer.status != 200:
                body = answer.read()
            else:
                body = b""
                with to.open("wb") as file:
                    while block := answer.read(BLOCK):
                        file.write(block)
        except BaseException:
            self.close()
            raise
        if answer.status != 200:
            raise LeaderError(answer.status, f"{self.url}: {_detail(body)}")
        return body

    def pull(self, log: LogReader, wait: float) -> Shipment:
        """What this replica lacks."""
        own, since = leadership(log), position(log)
        body = self.ask(
            "GET",
            "/v1/replica/log",
            wait + ANSWER_SECONDS,
            store=identity(log),
            replica=f"{socket.gethostname()}:{log.path}"[-512:],
            term=own.run[0],
            run=own.run[1],
            last=since.last,
            revision=since.revision,
            wait=wait,
        )
        return msgspec.msgpack.decode(body, type=Shipment)

    def model(self, version: str) -> ModelRow:
        body = self.ask("GET", f"/v1/replica/models/{quote(version, safe='')}")
        return msgspec.msgpack.decode(body, type=ModelRow)

    def fence(self, term: int, store: str) -> Position:
        """Make the leader refuse writes; how far it is."""
        body = self.ask("POST", "/v1/replica/fence", FENCE_SECONDS, term=term, store=store)
        return msgspec.json.decode(body, type=Position)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def prepare(path: str, leader: LeaderClient) -> bool:
    """Make a store the beginning of its leader's log; whether the store leads already.

    A store that has other entries than the leader is moved away and copied again: entries of a
    leader that were not copied before another one was promoted are in the file that was moved.

    A store that was promoted in the place of this leader leads, unless the leader was promoted
    again since; so does one whose leader cannot be reached for a while.
    """
    path = os.path.realpath(path)
    start = time.monotonic()
    with locked(path):
        own = _own_leadership(path)
        while True:
            try:
                return _prepare(path, leader)
            except LeaderError as error:
                if error.status not in (429, 502, 503, 504):
                    raise
                fault: Exception = error
            except (OSError, http.client.HTTPException) as error:
                fault = error
            seconds = time.monotonic() - start
            if own is not None and own.replica_of is not None:
                return False
            if own is not None and own.promoted_from == leader.url and own.fenced is None:
                if seconds > LEAD_SECONDS:
                    return True
            elif seconds > START_SECONDS:
                raise OSError(
                    f"{leader.url} cannot be reached ({fault}), and there is no copy of its log. "
                    "Start the leader first."
                ) from fault
            time.sleep(RETRY_SECONDS)


def _own_leadership(path: str) -> Leadership | None:
    if not os.path.exists(path) or not os.path.getsize(path):
        return None
    reader = LogReader(path)
    try:
        return leadership(reader)
    finally:
        reader.close()


def _prepare(path: str, leader: LeaderClient) -> bool:
    if (own := _own_leadership(path)) is not None:
        reader = LogReader(path)
        try:
            shipment = leader.pull(reader, 0.0)
        except LeaderError as error:
            if error.status == 409:
                raise ParameterError(
                    f"{path} is not a copy of the log at {leader.url}.", fix="Use another store."
                ) from error
            raise
        finally:
            reader.close()
        if shipment.leadership.run[0] < own.run[0]:  # it was replaced by this store
            return True
        if not shipment.diverged:
            return False
        moved = f"{path}.diverged-{int(time.time())}"
        for ending in ("", "-wal", "-shm"):
            if os.path.exists(path + ending):
                os.replace(path + ending, moved + ending)
        log.warning("the log differs from that of the leader: moved it to %s", moved)
    with new_file(path) as copy:
        leader.ask("GET", "/v1/replica/store", 600.0, Path(copy))
    return False


class LogPuller:
    """A thread that copies what the leader writes, until this replica is promoted.

    Parameters
    ----------
    service : the replica
    leader : where the log comes from
    """

    def __init__(self, service: Service, leader: LeaderClient) -> None:
        self.service, self.leader, self.store = service, leader, service.store
        self.running, self.ready = True, False
        self.behind, self.contact = 0, time.monotonic()
        self.error: str | None = None
        self._identity = identity(self.store)
        self._lock = threading.Lock()  # of what is applied
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rankwright-pull", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        with self._lock:
            self.running = False

    def _run(self) -> None:
        while self.running and not self._stop.is_set():
            try:
                self._step(self.leader, POLL_SECONDS if self.ready else 0.0)
                self.error = None
            except (OSError, http.client.HTTPException, RankwrightError) as error:
                if self.error is None:
                    log.warning("the leader's log cannot be copied: %s", error)
                self.error = str(error)
                self._stop.wait(RETRY_SECONDS)
            except Exception as error:
                self.error = str(error)
                log.exception("copying the leader's log failed; it is tried again")
                self._stop.wait(RETRY_SECONDS)
        self.leader.close()

    def _step(self, leader: LeaderClient, wait: float) -> Position:
        """Copy once; how far the leader is."""
        own, since = leadership(self.store), position(self.store)
        shipment = leader.pull(self.store, wait)
        if shipment.diverged:
            raise LeaderError(409, "its log is another one: restart this replica to copy it again.")
        state = shipment.state is not None
        models = [
            leader.model(version)
            for version in (missing_models(self.store, shipment.models) if state else ())
        ]
        with self._lock:
            if not self.running or position(self.store) != since:  # promoted meanwhile
                return shipment.position
            if state:
                self.service.learner.stop()
            try:
                url = leader.url
                run = shipment.leadership.run
                if shipment.entries or state or run != own.run or own.replica_of != url:
                    self.store.write(lambda db: apply_shipment(db, shipment, models, url)).result()
            finally:
                if state:
                    self.service.reload()
        here = position(self.store)
        self.behind, self.contact = shipment.position.last - here.last, time.monotonic()
        self.ready = self.ready or here.reaches(shipment.position)
        return shipment.position

    def promote(self) -> Leadership:
        """Lead: fence the old leader, copy what it still has, begin a new term.

        If the old leader cannot be reached, it is told as soon as it can be.
        """
        own = leadership(self.store)
        old = LeaderClient(self.leader.url, self.leader.token)
        term, unfenced = own.run[0] + 1, None
        try:
            target = old.fence(term, self._identity)
            while not position(self.store).reaches(target):
                self._step(old, 0.0)
        except LeaderError as error:
            raise HttpProblem(409, f"The leader refused to be replaced: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            log.warning("%s cannot be reached (%s): promoted without it", old.url, error)
            unfenced = old.url
        finally:
            old.close()
        with self._lock:
            self.running = False
            own = msgspec.structs.replace(
                leadership(self.store).next_run(position(self.store).last, promoted=True),
                fenced=None,
                replicated=False,
                replica_of=None,
                promoted_from=old.url,
                unfenced=unfenced,
            )
            set_leadership(self.store, own)
            self.store.refuse_writes(None)
        self._stop.set()
        self.service.promoted()
        if unfenced is not None:
            fence_later(self.store, self.leader)
        return own


def fence_later(store: Store, leader: LeaderClient) -> None:
    """Tell an old leader that it was replaced, as soon as it can be reached."""
    threading.Thread(target=_fence, args=(store, leader), daemon=True).start()


def _fence(store: Store, leader: LeaderClient) -> None:
    own = leadership(store)
    old = LeaderClient(leader.url, leader.token)  # a connection of its own
    while not store.closed:
        try:
            old.fence(own.run[0], identity(store))
        except LeaderError as error:
            if error.status == 409:
                log.error("%s was not fenced: %s", old.url, error)
                return
        except (OSError, http.client.HTTPException):
            pass
        else:
            log.warning("%s was fenced", old.url)
            set_leadership(store, msgspec.structs.replace(leadership(store), unfenced=None))
            return
        time.sleep(RETRY_SECONDS)


def _detail(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["detail"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
