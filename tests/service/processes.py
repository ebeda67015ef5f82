"""``rankwright serve`` in a process of its own, without the two seconds of imports at each start.

The processes are forked from one that has imported the service, by ``multiprocessing``'s fork
server. They are as real as others: they have a folder, sockets and standard error of their own, and
``kill -9`` ends them at once. A few tests start the command itself (``fresh=True``).
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import multiprocessing
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx

SHORT_WAITS = {  # seconds that a test need not wait as long as an operator
    "rankwright.service.replication.leader.PEER_SECONDS": 0.5,
    "rankwright.service.replication.puller.LEAD_SECONDS": 0.5,
    "rankwright.service.replication.puller.RETRY_SECONDS": 0.02,
}
# Windows has no fork: the command itself is started there, with the waits of an operator.
_can_fork = "forkserver" in multiprocessing.get_all_start_methods()
_forks = multiprocessing.get_context("forkserver" if _can_fork else "spawn")
if _can_fork:
    _forks.set_forkserver_preload(["tests.service.preloaded"])


def _end_with(tests):
    """End when the process of the tests is gone, which may have been killed."""
    if hasattr(os, "pidfd_open"):
        select.select([os.pidfd_open(tests)], [], [])
        os._exit(1)


def _serve(words, folder, environment, errors, constants, tests):
    """What a forked process runs."""
    threading.Thread(target=_end_with, args=(tests,), daemon=True).start()
    os.dup2(errors.fileno(), 2)
    errors.close()
    os.chdir(folder)
    os.environ.update(environment)
    for name, value in constants.items():
        module, _, constant = name.rpartition(".")
        module = importlib.import_module(module)
        assert hasattr(module, constant)
        setattr(module, constant, value)
    sys.argv = ["rankwright", "serve", *words]
    from rankwright.cli import main

    main()


class Forked:
    """What these tests use of ``subprocess.Popen``, for a process of the fork server."""

    def __init__(self, words, folder, environment, constants):
        reader, writer = _forks.Pipe(duplex=False)
        arguments = (list(words), str(folder), environment, writer, constants, os.getpid())
        self._process = _forks.Process(target=_serve, args=arguments)
        self._process.start()
        writer.close()
        self.stderr = os.fdopen(os.dup(reader.fileno()), "r")
        reader.close()
        self.pid = self._process.pid
        atexit.register(self.send_signal, signal.SIGKILL)  # multiprocessing waits for its end

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def poll(self):
        return self._process.exitcode

    def wait(self, seconds=None):
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("rankwright serve", seconds)
        return self._process.exitcode

    @property
    def returncode(self):
        return self._process.exitcode


def _started(words, folder, constants, fresh=False, environment=None, **popen):
    if _can_fork and not (fresh or environment is not None or popen):
        return Forked(words, folder, dict(os.environ), constants)
    command = [sys.executable, "-m", "rankwright", "serve", *words]
    return subprocess.Popen(
        command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment, **popen
    )


def refused(folder, *options):
    """The exit code of a service that does not start, and what it said."""
    process = _started(options, folder, {})
    said = process.stderr.read()
    process.stderr.close()
    return process.wait(60), said


class Server:
    """A service that runs, and what it has written to standard error.

    ``environment`` or options of ``subprocess.Popen`` start the command itself, as ``fresh`` does.
    """

    def __init__(
        self, folder, *options, environment=None, fresh=False, constants=SHORT_WAITS, **popen
    ):
        self.process = _started(options, folder, constants, fresh, environment, **popen)
        self.lines = []
        for line in self.process.stderr:
            self.lines.append(line)
            if "serving on" in line:
                break
        address = re.search(r"http://[^:]+:(\d+)", "".join(self.lines))
        if address is None:
            self.process.wait(60)
        assert address, "".join(self.lines)
        self.url, self.port = address[0], int(address[1])
        self._drain = threading.Thread(target=self._read, daemon=True)
        self._drain.start()

    def _read(self):
        self.lines.extend(self.process.stderr)

    def connect(self, sent=b"", source="127.0.0.1"):
        connection = socket.create_connection(("127.0.0.1", self.port), 20, (source, 0))
        connection.sendall(sent)
        return connection

    def wait_until_ready(self):
        deadline = time.monotonic() + 120
        with httpx.Client(base_url=self.url) as client:
            while client.get("/readyz").status_code != 200 and time.monotonic() < deadline:
                time.sleep(0.02)

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(how)
        self.process.wait(60)
        self._drain.join(10)
        self.process.stderr.close()
        return self.process.returncode
