"""Servers and clients for ``serve``: the service, the floor beside it, and raw HTTP."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

N_ITEMS, N_FEATURES = 100, 46


def floor_app() -> Any:
    """The least that any such service does: decode the body with msgspec, answer a constant."""
    import msgspec

    from rankwright.service.api.types import RankRequest

    decoder = msgspec.json.Decoder(RankRequest)
    items = [{"id": f"d{i:03}", "score": 0.123456789 * i, "rank": i + 1} for i in range(N_ITEMS)]
    body = msgspec.json.encode({"event": "0" * 24, "model": "floor", "items": items})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        message = await receive()
        parts = [message["body"]]
        while message.get("more_body"):
            message = await receive()
            parts.append(message["body"])
        decoder.decode(b"".join(parts))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


class Server:
    """A server in a process of its own; ``cpu`` is the processor time that it has used."""

    def __init__(self, command: list[str], folder: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *command, "--port", str(self.port)]
        start = time.perf_counter()
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stderr=subprocess.DEVNULL
        )
        atexit.register(self.process.kill)  # also if the run crashes; no effect once it has ended
        self.wait()
        self.seconds = time.perf_counter() - start

    @classmethod
    def service(cls, folder: str, *options: str) -> Server:
        return cls(["-m", "rankwright", "serve", *options], folder)

    @classmethod
    def floor(cls, folder: str) -> Server:
        here = str(Path(__file__).parents[1])
        options = ["--factory", "--app-dir", here, "--log-level", "critical", "--lifespan", "off"]
        return cls(["-m", "uvicorn", "benchmarks.serve_load:floor_app", *options], folder)

    def wait(self) -> None:
        """Wait until something answers."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.005)
        raise RuntimeError("the server does not start")

    def wait_until_ready(self) -> None:
        """Wait until the service is ready: its models are compiled."""
        request, deadline = (
            b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            time.monotonic() + 60,
        )
        while time.monotonic() < deadline:
            try:
                Connection(self.port).send(request)
                return
            except RuntimeError:  # not ready
                time.sleep(0.05)

    @property
    def cpu(self) -> float:
        """Of all threads. The ticks of /proc/PID/stat, 10 ms each, are too coarse for a round."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9

    @property
    def cpu_of_all(self) -> dict[str, float]:
        """The same for this process and for its workers together."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        children = [child for task in tasks for child in (task / "children").read_text().split()]
        found = {"first process": self.cpu, "workers": 0.0}
        for child in children:
            threads = Path(f"/proc/{child}/task").iterdir()
            ticks = (int((each / "schedstat").read_text().split()[0]) for each in threads)
            found["workers"] += sum(ticks) / 1e9
        return found

    @property
    def memory(self) -> int:
        """Resident bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def memory_of_all(self) -> tuple[int, int]:
        """Resident bytes and open files of this process and its workers."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        children = [child for task in tasks for child in (task / "children").read_text().split()]
        memory = n_files = 0
        for pid in (self.process.pid, *children):
            memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            n_files += len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return memory * os.sysconf("SC_PAGE_SIZE"), n_files

    def stop(self, how: int = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(60)


class Connection:
    """A keep-alive connection that sends ready-made requests."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> bytes:
        """Send a request; the body of the answer."""
        self.socket.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._receive()
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += self._receive()
        if b" 200 " not in head[:20] and b" 201 " not in head[:20]:
            raise RuntimeError(f"{head[:60]!r} {body[:300]!r}")
        return body

    def _receive(self) -> bytes:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def close(self) -> None:
        self.socket.close()


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    """A request as bytes."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def rank_body(random: np.random.Generator) -> dict[str, Any]:
    """100 documents with 46 features, as most clients would send them."""
    rows = random.standard_normal((N_ITEMS, N_FEATURES)).round(6)
    items = [{"id": f"d{i:03}", "features": row.tolist()} for i, row in enumerate(rows)]
    return {"query": "red shoes", "items": items}


def measure(server: Server, requests: list[bytes], n_requests: int, n_clients: int) -> Any:
    """Seconds of each request, and the server's processor time for one."""
    times: list[float] = []

    def work(number: int) -> None:
        connection = Connection(server.port)
        for i in range(number, n_requests, n_clients):
            start = time.perf_counter()
            connection.send(requests[i % len(requests)])
            times.append(time.perf_counter() - start)
        connection.close()

    before = server.cpu
    threads = [threading.Thread(target=work, args=(i,)) for i in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.array(times), (server.cpu - before) / n_requests


WRK = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = io.open("{body}"):read("*a")
"""

FEEDBACK = """
local number, body = 0, '{{"event":"{event}","id":"%d","grades":{{"d1":%d}}}}'
request = function()
  number = number + 1
  return wrk.format("POST", nil, {{["Content-Type"] = "application/json"}},
                    body:format(number, number % 5))
end
"""


def wrk(
    server: Server, folder: str, body: bytes, seconds: int, n_clients: int
) -> tuple[int, float]:
    """Load by Debian's ``wrk``: the requests that were answered, and its own CPU seconds."""
    path = Path(folder) / "body.json"
    path.write_bytes(body)
    return _wrk(server, folder, "/v1/rank", WRK.format(body=path), seconds, n_clients)


def wrk_feedback(
    server: Server, folder: str, event: str, seconds: int, n_clients: int
) -> tuple[int, float]:
    """The same with feedback on a list, each with an id of its own."""
    script = FEEDBACK.format(event=event)
    return _wrk(server, folder, "/v1/feedback", script, seconds, n_clients)


def _wrk(
    server: Server, folder: str, path: str, script: str, seconds: int, n_clients: int
) -> tuple[int, float]:
    lua, url = Path(folder) / "load.lua", f"http://127.0.0.1:{server.port}{path}"
    lua.write_text(script)
    command = ["wrk", "-t1", f"-c{n_clients}", f"-d{seconds}s", "-s", str(lua), url]
    before = os.times()
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = os.times()
    if "Non-2xx" in text or "Socket errors" in text:
        raise RuntimeError(text)
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    return int(text.split(" requests in ")[0].split()[-1]), used
