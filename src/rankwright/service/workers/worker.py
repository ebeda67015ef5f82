"""A worker: a process that accepts connections, scores lists, and forwards everything else."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import pickle
import select
import signal
import socket
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import uvicorn
from starlette.types import Message, Receive, Scope, Send

from rankwright.service.api.candidates import ItemReader
from rankwright.service.api.operations import OPERATIONS
from rankwright.service.api.problems import HttpProblem, send_problem
from rankwright.service.api.routing import Api
from rankwright.service.api.security import Security, Sessions, Tokens
from rankwright.service.api.types import RankRequest
from rankwright.service.connections import Connection, Limits
from rankwright.service.corpora import Corpora
from rankwright.service.experiments import Experiment
from rankwright.service.models import DeployedModel, ModelsState, ModelView, warm_up
from rankwright.service.server import DrainingServer, uvicorn_config
from rankwright.service.settings import Settings, tracing_of
from rankwright.service.workers.channel import (
    Channel,
    ConnectionCounts,
    SharedRateLimit,
    read_frame,
    write_frame,
)

log = logging.getLogger("rankwright.service")
SCORED = ("/v1/rank", "/v1/recommend", "/v1/fuse")
DEFER_SECONDS = 0.002  # that a worker leaves a connection to one that has fewer
REPORT_SECONDS = 0.2  # between two reports of what was answered
SENT_SCOPE = ("type", "http_version", "method", "path", "scheme")


@dataclass(frozen=True)
class SharedState:
    """What all processes of a service use from the same moment on."""

    models: ModelsState
    tokens: Tokens
    refusal: str | None
    experiment: Experiment | None


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker is started with."""

    number: int
    settings: Settings
    listener: socket.socket
    channel: socket.socket
    requests: socket.socket  # takes one end of a pair of sockets for each forwarded request
    generation: Any  # shared: the number of the state that counts
    connections: ConnectionCounts
    rate: SharedRateLimit | None
    as_json: bool


class WorkerStore:
    """Sends what was shown to the process that writes."""

    refusal: str | None = None

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def append_event(self, event: str, body: bytes, user: str | None = None) -> None:
        self._channel.send(("event", time.time(), event, user), body)


class WorkerExperiments:
    """The experiment that runs, if one does."""

    running: Experiment | None = None

    def choose(self, request: RankRequest) -> Experiment | None:
        running = self.running
        takes_part = running is not None and request.model is None and running.takes_part(request)
        return running if takes_part else None


class _WorkerCounter:
    """A counter that is added to that of the process that writes."""

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount


class WorkerMetrics:
    """What was answered since the last report."""

    def __init__(self) -> None:
        self.answered = defaultdict[tuple[str, int], list[float]](list)
        self.shadow_failures, self.unknown_levels = _WorkerCounter(), _WorkerCounter()

    def observe(self, path: str, status: int, seconds: float) -> None:
        self.answered[path, status].append(seconds)

    def report(self) -> tuple[str, list[tuple[str, int, list[float]]], float, float] | None:
        failures, unknown = self.shadow_failures, self.unknown_levels
        if not self.answered and not failures.value and not unknown.value:
            return None
        answered = [(path, status, times) for (path, status), times in self.answered.items()]
        message = "report", answered, failures.value, unknown.value
        self.answered.clear()
        failures.value, unknown.value = 0.0, 0.0
        return message


class WorkerService:
    """A :class:`~rankwright.service.api.scoring.ScoringService` whose state another process has."""

    def __init__(self, started: WorkerSettings, channel: Channel) -> None:
        self.settings, self._shared = started.settings, started.generation
        self.models, self.reader, self.metrics = ModelView(), ItemReader(), WorkerMetrics()
        self.store, self.sessions = WorkerStore(channel), Sessions(b"", Tokens())
        self.corpora, self.experiments = Corpora(started.settings.documents), WorkerExperiments()
        self._generation, self._prepared = -1, dict[int, SharedState]()

    def prepare(self, generation: int, state: SharedState) -> None:
        """Keep a state until it counts."""
        self._prepared[generation] = state

    def known(self) -> ModelsState:
        """The models of the latest state."""
        return self._prepared[max(self._prepared)].models if self._prepared else ModelsState()

    def update(self) -> None:
        """Use the state that counts now."""
        generation = self._shared.value
        if generation != self._generation and generation in self._prepared:
            state = self._prepared[generation]
            self.models.switch(state.models)
            self.sessions.tokens, self.store.refusal = state.tokens, state.refusal
            self.experiments.running, self._generation = state.experiment, generation
            for old in [number for number in self._prepared if number < generation]:
                del self._prepared[old]

    def model_for(self, request: RankRequest) -> DeployedModel:
        return self.models.find(request.model, "rank")

    def scores(self, scope: Scope) -> bool:
        """Whether a request is answered here."""
        if scope["path"] == "/healthz":
            return True
        if scope["path"] not in SCORED or scope["method"] != "POST":
            return False
        has_token = any(name == b"authorization" for name, _ in scope["headers"])
        if self.sessions.tokens.principals and not has_token:
            return False  # a session, which only the process that writes knows
        return not self.models.state.waits_for_features


class WorkerApp:
    """The ASGI application of a worker."""

    def __init__(self, started: WorkerSettings, service: WorkerService) -> None:
        self.service, self._requests = service, started.requests
        settings = started.settings
        local = tuple(op for op in OPERATIONS if op.path in (*SCORED, "/healthz"))
        api = Api(service, local, _no_page, service.metrics.observe)
        self.security = Security(
            api,
            sessions=service.sessions,
            hosts=settings.hosts(),
            max_body=settings.max_body,
            rate=started.rate,
            images=settings.images,
            proxies=settings.trusted_proxies,
            tracing=tracing_of(settings),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self.service.update()
        if self.service.scores(scope):
            await self.security(scope, receive, send)
        else:
            await self.forward(scope, receive, send)

    async def forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the process that writes answer."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._requests, [b"r"], [theirs.fileno()])
        reader, writer = await asyncio.open_connection(sock=ours)
        about = {name: scope[name] for name in SENT_SCOPE}
        lists = {name: list(scope[name] or ()) for name in ("headers", "client", "server")}
        raw = {name: scope.get(name, b"") for name in ("raw_path", "query_string")}
        write_frame(writer, {**about, **lists, **raw})
        pumping = asyncio.ensure_future(_pump(receive, writer))
        started = False
        try:
            while (message := await read_frame(reader)) is not None:
                started = True
                await send(message)
        finally:
            pumping.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await pumping
            writer.close()
        if not started:
            log.warning("%s %s was not answered", scope["method"], scope["path"])
            await send_problem(send, HttpProblem(503, "The service is stopping.", retry_after="1"))


async def _pump(receive: Receive, writer: asyncio.StreamWriter) -> None:
    """Send the body of a request as it comes."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            writer.close()
            return
        write_frame(writer, {"body": message["body"], "more_body": message["more_body"]})
        await writer.drain()


async def _no_page(scope: Scope, receive: Receive, send: Send) -> None:
    raise HttpProblem(404, "There is nothing here.")


class _WorkerServer(DrainingServer):
    """Uvicorn's server in a worker; the one with the fewest connections accepts the next one."""

    def __init__(
        self, config: uvicorn.Config, limits: Limits, started: WorkerSettings, channel: Channel
    ) -> None:
        super().__init__(config, limits)
        self._channel = channel
        self._listener, self._number = started.listener, started.number
        self._connections = started.connections
        self._accepting: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        self._listener.setblocking(False)
        self._connections.begin(self._number)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)
        self._channel.send(("listening",))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self.should_exit = True
        await super().shutdown(sockets)

    def _accept(self, waited: bool = False) -> None:
        loop = asyncio.get_running_loop()
        if self.should_exit:
            return
        if waited:
            loop.add_reader(self._listener, self._accept)
        elif not self._connections.is_behind(self._number):  # the others first, if they can
            loop.remove_reader(self._listener)
            loop.call_later(DEFER_SECONDS, self._accept, True)
            return
        with contextlib.suppress(BlockingIOError, ConnectionError):
            connection, _ = self._listener.accept()
            self._connections.accept(self._number)
            made = loop.create_task(loop.connect_accepted_socket(self._protocol, connection))
            self._accepting.add(made)
            made.add_done_callback(self._accepting.discard)

    async def on_tick(self, counter: int) -> bool:
        if counter % round(10 * REPORT_SECONDS) == 0:
            self.report()
        return await super().on_tick(counter)

    def report(self) -> None:
        """Say what was answered."""
        message = self.config.app.service.metrics.report()
        if message is not None:
            self._channel.send(message)


def run_worker(started: WorkerSettings) -> None:
    """The main function of a worker's process."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if started.as_json:
        from rankwright.runtime.logs import log_as_json

        log_as_json()
    channel = Channel(started.channel)
    service = WorkerService(started, channel)
    first = threading.Event()
    reading = threading.Thread(target=_follow, args=(channel, service, first), daemon=True)
    reading.start()
    first.wait()
    limits = Limits(started.settings, partial(started.connections.add, started.number))
    config = uvicorn_config(WorkerApp(started, service), partial(Connection, limits))
    gc.collect()
    gc.freeze()
    with started.listener as listener:
        server = _WorkerServer(config, limits, started, channel)
        server.run([listener])
    with contextlib.suppress(OSError):
        server.report()
    if config.app.security.tracing is not None:
        config.app.security.tracing.close()


def _follow(channel: Channel, service: WorkerService, first: threading.Event) -> None:
    """Prepare each state that comes, and say so; end with the process that writes."""
    try:
        while True:
            select.select([channel.socket], [], [])
            for _, content in channel.read():
                generation, state, changed = pickle.loads(content)
                for served in changed.values():
                    warm_up(served)
                models = {**service.known().models, **changed}
                kept = {key: models[key] for key in state.models.models}
                service.prepare(
                    generation, replace(state, models=replace(state.models, models=kept))
                )
                channel.send(("prepared", generation))
                first.set()
    except (EOFError, OSError):
        os._exit(1)  # nobody writes: nothing may be answered


def message_of(frame: Any) -> Message:
    """A body part that was forwarded."""
    if frame is None:
        return {"type": "http.disconnect"}
    return {"type": "http.request", **frame}
