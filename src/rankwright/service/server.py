"""The service on a socket: how it listens, says where it is, and ends without losing a request."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import uvicorn
from starlette.types import ASGIApp

from rankwright.exceptions import ParameterError
from rankwright.runtime.logs import log_as_json
from rankwright.service.api.security import is_loopback
from rankwright.service.connections import Connection, Limits
from rankwright.service.logs import note as note_as_json
from rankwright.service.settings import Settings

if TYPE_CHECKING:
    from rankwright.service.app import Service

STOP_SECONDS = 10
DRAIN_SECONDS = 1.0  # until connections without a request are closed
TAKE_OVER_SECONDS = 120.0  # that a process with an inherited socket waits for the store
FIRST_SOCKET = 3
SWEEP_TICKS = 5  # tenths of a second


def serve(
    settings: Settings,
    port: int = 8000,
    *,
    note: Callable[[str], object] | None = None,
    log_format: Literal["text", "json"] = "text",
) -> None:
    """Serve until the process is told to stop (SIGINT, SIGTERM); what was learned is kept.

    Parameters
    ----------
    settings : what to serve
    port : 0 for any free port
    note : a function that prints a line; by default to standard error
    log_format : "json" logs a line of JSON for each request and each message
    """
    from rankwright.service.app import create_app  # scikit-learn, which a worker does not need

    if log_format == "json":
        log_as_json()
        note = note or note_as_json
    note = note or (lambda text: print(text, file=sys.stderr, flush=True))
    inherited = _inherited()
    with inherited or _listen(settings.host, port) as listener:
        app = create_app(settings, wait=0.0 if inherited is None else TAKE_OVER_SECONDS)
        service = app.service
        try:
            gc.collect()
            gc.freeze()  # what is loaded now stays: no collection has to look at it again
            if settings.workers > 1:
                from rankwright.service.workers.pool import serve_with_workers

                serve_with_workers(app, settings, listener, note, log_format == "json")
                return
            limits = Limits(settings)
            config = uvicorn_config(app, partial(Connection, limits))
            _Server(config, limits, service, note).run([listener])
        finally:
            service.close()


def uvicorn_config(app: ASGIApp, http: Callable[..., Connection]) -> uvicorn.Config:
    """How uvicorn runs, in the only process or in a worker."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=http,
        timeout_graceful_shutdown=STOP_SECONDS,
        ws="none",
    )


def _inherited() -> socket.socket | None:
    """The socket that systemd, or whoever started this process, listens on already.

    See sd_listen_fds(3): LISTEN_FDS is 1, the socket is file descriptor 3.
    """
    n_sockets = os.environ.pop("LISTEN_FDS", "")
    for_process = os.environ.pop("LISTEN_PID", str(os.getpid()))
    if n_sockets in ("", "0") or for_process != str(os.getpid()):
        return None
    if n_sockets != "1":
        raise ParameterError(f"LISTEN_FDS={n_sockets}: one socket is needed.")
    return socket.socket(fileno=FIRST_SOCKET)


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens, or an error that says why there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        fix = "Stop what uses it, or use another port."
        raise OSError(f"{host}:{port}: {error.strerror or error}. {fix}") from error


class DrainingServer(uvicorn.Server):  # type: ignore[misc]
    """Uvicorn's server within limits, which ends without losing a request."""

    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self.limits = limits

    async def on_tick(self, counter: int) -> bool:
        if counter % SWEEP_TICKS == 0:
            self.limits.sweep()
        return bool(await super().on_tick(counter))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what was sent, also by connections that nobody has accepted yet."""
        assert sockets is not None
        listeners = [listener.dup() for listener in sockets]
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        for listener in listeners:  # nothing runs between the last accept and the end of the socket
            listener.setblocking(False)
            waiting = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    waiting.append(listener.accept()[0])
            listener.close()
            for original in sockets:
                original.close()
            for connection in waiting:
                await loop.connect_accepted_socket(self._protocol, connection)
        self.limits.draining = True
        for each in list(self.limits.connections):
            each.drain()
        deadline = loop.time() + DRAIN_SECONDS
        while self.limits.connections and loop.time() < deadline:
            await asyncio.sleep(0.02)
        await super().shutdown([])
        self._captured_signals.clear()  # a stop that was asked for is a success: exit code 0

    def _protocol(self) -> Any:
        return self.config.http_protocol_class(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


class _Server(DrainingServer):
    """The server of the only process, which says where it is once it listens."""

    def __init__(
        self,
        config: uvicorn.Config,
        limits: Limits,
        service: Service,
        note: Callable[[str], object],
    ) -> None:
        super().__init__(config, limits)
        self.service, self.note = service, note

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.service.begin_stop()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.servers:
            return
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, self.service.reload_tokens)
        describe_start(self.service, self.servers[0].sockets[0].getsockname()[1], self.note)


def describe_start(service: Service, port: int, note: Callable[[str], object]) -> None:
    """Say what is served, and where."""
    settings, models = service.settings, service.models
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    if models.note:
        note(models.note)
    for task, version in models.active_versions().items():
        note(f"{task}: {version}")
    local = ["this machine only"] if is_loopback(settings.host) else []
    access = ", ".join(local + ["a token is needed"] * bool(settings.tokens.principals))
    note(f"log: {settings.store}; access: {access}")
    pages = "dashboard: /, judging: /judge, API: /api"
    note(f"serving on http://{host}:{port} ({pages}; stop with Ctrl-C)")
