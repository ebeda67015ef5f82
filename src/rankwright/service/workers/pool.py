"""The process that writes: it starts the workers, keeps them alike, and answers the rest."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.types import Message

from rankwright.service.api.security import Security
from rankwright.service.app import Service
from rankwright.service.log.store import StoreError
from rankwright.service.models import DeployedModel, ModelsState
from rankwright.service.server import STOP_SECONDS, describe_start
from rankwright.service.settings import Settings
from rankwright.service.workers.channel import (
    CONTEXT,
    READ,
    Channel,
    ConnectionCounts,
    SharedRateLimit,
    read_frame,
    socket_pair,
    write_frame,
)
from rankwright.service.workers.worker import (
    SharedState,
    WorkerSettings,
    message_of,
    run_worker,
)

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

READ_SECONDS = 0.01  # between two looks at what the workers have sent
START_SECONDS = 120.0  # until a worker listens
PREPARE_SECONDS = 30.0  # until a worker has a new state
PAUSE_SECONDS = 1.0  # before a worker that ended before it listened is started again
log = logging.getLogger("rankwright.service")


class Worker:
    """A worker's process, and what it has said."""

    def __init__(
        self, number: int, process: SpawnProcess, channel: Channel, requests: socket.socket
    ):
        self.number, self.process, self.channel = number, process, channel
        self.requests = requests
        self.sent: dict[str, DeployedModel] = {}  # the models that it has
        self.prepared, self.listening, self.gone = -1, False, False


class WorkerPool:
    """The workers of a service.

    A change of the models, tokens, experiments or of the role reaches all workers at one moment:
    they prepare the new state, say so, and then one shared number says that it counts. A worker
    that does not answer is replaced.

    Parameters
    ----------
    service : what writes
    listener : the socket that all workers accept connections of
    n_workers : how many
    rate : the rate limit that they share
    as_json : whether they log lines of JSON
    """

    def __init__(
        self,
        service: Service,
        listener: socket.socket,
        n_workers: int,
        rate: SharedRateLimit | None,
        as_json: bool = False,
    ) -> None:
        self.service, self.listener, self.rate, self.as_json = service, listener, rate, as_json
        self.generation = CONTEXT.RawValue("Q", 0)
        self.connections = ConnectionCounts(n_workers)
        self.workers: list[Worker] = []
        self.stopping = self._started = False
        self._reading = threading.RLock()
        self._publishing = threading.RLock()
        self._said = threading.Condition()
        self._selector = selectors.DefaultSelector()
        self._state = self._current(service.models.state)
        self._requests: Callable[[Worker], None] = lambda worker: None
        self._thread = threading.Thread(target=self._run, name="rankwright-workers", daemon=True)

    def start(self, requests: Callable[[Worker], None]) -> None:
        """Start the workers and wait until they listen."""
        self._requests = requests
        self.service.on_change(self.publish)
        self.service.store.before_unknown = self.drain
        self._thread.start()
        with self._publishing:
            for number in range(self.connections.n_processes):
                self._start(number)
        self._wait(
            lambda: self.ready or any(w.gone and not w.listening for w in self.workers),
            START_SECONDS,
        )
        if not self.ready:
            self.stop()
            raise OSError("a worker did not start; its messages are above.")
        self._started = True

    @property
    def ready(self) -> bool:
        return all(worker.listening for worker in self.workers)

    def publish(self, models: ModelsState | None = None) -> None:
        """Let all workers use the present state, from one moment on."""
        with self._publishing:
            self._state = self._current(models or self.service.models.state)
            generation = self.generation.value + 1
            for worker in self.workers:
                self._send(worker, generation)
            prepared = self._wait(
                lambda: all(w.prepared >= generation or w.gone for w in self.workers),
                PREPARE_SECONDS,
            )
            if not prepared:
                for worker in self.workers:
                    if worker.prepared < generation:
                        log.error("worker %s does not answer: it is replaced", worker.number)
                        worker.process.kill()
            self.generation.value = generation

    def drain(self) -> None:
        """Read what the workers have sent."""
        with self._reading:
            for worker in self.workers:
                self._read(worker)

    def stop(self) -> None:
        """Tell the workers to finish their requests, and wait for their end."""
        self.stopping = True
        self.listener.close()
        for worker in self.workers:
            worker.process.terminate()

    def join(self) -> None:
        deadline = time.monotonic() + STOP_SECONDS + 5
        for worker in self.workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self.drain()

    def _current(self, models: ModelsState) -> SharedState:
        service = self.service
        running = service.experiments.running()
        return SharedState(models, service.sessions.tokens, service.store.refusal, running)

    def _start(self, number: int) -> None:
        ours, theirs = socket_pair()
        takes, gives = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        started = WorkerSettings(
            number, replace(self.service.settings, token_file=None), self.listener, theirs, gives,
            self.generation, self.connections, self.rate, self.as_json,
        )  # fmt: skip
        process = CONTEXT.Process(target=run_worker, args=(started,), daemon=True)
        process.start()
        theirs.close()
        gives.close()
        takes.setblocking(False)
        worker = Worker(number, process, Channel(ours), takes)
        self.workers = [w for w in self.workers if w.number != number] + [worker]
        self._selector.register(ours, selectors.EVENT_READ, worker)
        self._requests(worker)
        self._send(worker, self.generation.value)

    def _send(self, worker: Worker, generation: int) -> None:
        models = self._state.models.models
        changed = {
            key: replace(served)  # without what was computed from it
            for key, served in models.items()
            if worker.sent.get(key) is not served
        }
        worker.sent = dict(models)
        names: Any = dict.fromkeys(models)  # the worker has them, or finds them in changed
        state = replace(self._state, models=replace(self._state.models, models=names))
        with contextlib.suppress(OSError):  # it is gone, and will be replaced
            worker.channel.send(None, pickle.dumps((generation, state, changed)))

    def _run(self) -> None:
        while not (self.stopping and not self._selector.get_map()):
            ready = self._selector.select(0.2)
            if ready and self.ready:  # events may wait: what needs them calls drain
                time.sleep(READ_SECONDS)
            for key, _ in ready:
                worker: Worker = key.data
                with self._reading:
                    self._read(worker)
                if worker.gone:
                    self._selector.unregister(worker.channel.socket)
                    worker.channel.close()
                    self._replace(worker)

    def _read(self, worker: Worker) -> None:
        events: list[Any] = []
        try:
            for message, content in worker.channel.read():
                if message[0] == "event":
                    events.append((*message[1:], content))
                else:
                    self._apply(worker, message)
        except (EOFError, OSError):
            worker.gone = True
            with self._said:
                self._said.notify_all()
        self._append(events)  # what a worker sent before it ended counts

    def _append(self, events: list[Any]) -> None:
        with contextlib.suppress(StoreError):  # the log says so elsewhere
            self.service.store.append_events(events)

    def _apply(self, worker: Worker, message: Any) -> None:
        kind, *values = message
        if kind == "report":
            metrics = self.service.metrics
            for path, status, seconds in values[0]:
                metrics.observe(path, status, *seconds)
            metrics.shadow_failures.inc(values[1])
            metrics.unknown_levels.inc(values[2])
        else:
            with self._said:
                if kind == "prepared":
                    worker.prepared = max(worker.prepared, values[0])
                else:
                    worker.listening = True
                self._said.notify_all()

    def _replace(self, worker: Worker) -> None:
        if self.stopping or not (self._started or worker.listening):
            return
        log.error("worker %s ended: it is replaced", worker.number)
        worker.process.join(1)
        self.connections.clear(worker.number)
        pause = 0.0 if worker.listening else PAUSE_SECONDS
        arguments = (worker.number, pause)
        threading.Thread(target=self._start_again, args=arguments, daemon=True).start()

    def _start_again(self, number: int, pause: float) -> None:
        time.sleep(pause)
        with self._publishing:
            if not self.stopping:
                self._start(number)

    def _wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        with self._said:
            return self._said.wait_for(condition, seconds)


def serve_with_workers(
    app: Security[Service],
    settings: Settings,
    listener: socket.socket,
    note: Callable[[str], object],
    as_json: bool = False,
) -> None:
    """Serve with several processes until this one is told to stop."""
    rate = app.rate if isinstance(app.rate, SharedRateLimit) else None
    pool = WorkerPool(app.service, listener, settings.workers, rate, as_json)
    app.service.pool = pool
    asyncio.run(_serve(app, pool, note))


async def _serve(app: Security[Service], pool: WorkerPool, note: Callable[[str], object]) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    running: set[asyncio.Task[None]] = set()

    def take(worker: Worker) -> None:
        """Answer the requests that a worker forwards."""
        try:
            while True:
                _, numbers, _, _ = socket.recv_fds(worker.requests, 1, 1)
                if not numbers:
                    raise EOFError
                task = loop.create_task(_answer(app, socket.socket(fileno=numbers[0])))
                running.add(task)
                task.add_done_callback(running.discard)
        except BlockingIOError:
            return
        except (EOFError, OSError):
            loop.remove_reader(worker.requests)
            worker.requests.close()

    def follow(worker: Worker) -> None:
        loop.call_soon_threadsafe(loop.add_reader, worker.requests, take, worker)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, app.service.reload_tokens)
    await asyncio.to_thread(pool.start, follow)
    describe_start(app.service, pool.listener.getsockname()[1], note)
    await stop.wait()
    app.service.begin_stop()
    pool.stop()
    await asyncio.to_thread(pool.join)
    if running:
        await asyncio.wait(running, timeout=1.0)


async def _answer(app: Security[Service], connection: socket.socket) -> None:
    """Answer one forwarded request."""
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        about = await read_frame(reader)
        if about is None:
            return
        pairs = [(name, value) for name, value in about["headers"]]
        scope = {**about, "headers": pairs, "client": tuple(about["client"]) or None,
                 "server": tuple(about["server"]) or None, "asgi": {"version": "3.0"},
                 "root_path": "", "state": {}}  # fmt: skip

        async def receive() -> Message:
            return message_of(await read_frame(reader))

        async def send(message: Message) -> None:
            write_frame(writer, message)
            await writer.drain()

        with contextlib.suppress(ConnectionError):
            await app(scope, receive, send)
        # A close now would reset the worker's end while it still sends the body, and the answer
        # would be lost with it: the worker closes first, once it has all.
        with contextlib.suppress(OSError):
            writer.write_eof()
            while await reader.read(READ):
                pass
    except Exception:
        log.exception("a forwarded request failed")
    finally:
        writer.close()
