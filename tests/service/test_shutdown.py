"""How a service starts, ends, is replaced, and what it says about each request."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import sys
import threading
import time

import pytest
from tests.service.processes import Server

from rankwright.runtime import logs

RANK = json.dumps(
    {"query": "q", "items": [{"id": f"d{i}", "features": [i / 7] * 10} for i in range(3)]}
)
HEADERS = {"content-type": "application/json"}


def ask(port, faults, stop, keep_alive):
    """Rank until told to stop; note every answer that did not come."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not stop.is_set():
        try:
            connection.request("POST", "/v1/rank", RANK, HEADERS)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                faults.append(answer.status)
            if answer.will_close or not keep_alive:
                connection.close()
        except ConnectionRefusedError:
            faults.append("refused")
            break
        except OSError as error:
            faults.append(repr(error))
            connection.close()
    connection.close()


def started(port, n_threads=4):
    faults, stop = [], threading.Event()
    threads = [
        threading.Thread(target=ask, args=(port, faults, stop, number % 2 == 0))
        for number in range(n_threads)
    ]
    for thread in threads:
        thread.start()
    return faults, stop, threads


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_service_that_is_told_to_stop_answers_what_was_sent(tmp_path):
    for _ in range(2):
        server = Server(tmp_path, "--demo", "--port", "0")
        faults, _, threads = started(server.port)
        time.sleep(0.3)
        server.stop(signal.SIGTERM)
        for thread in threads:
            thread.join()
        # The kernel may have accepted one more connection, which the service never saw.
        assert "refused" in faults
        assert sum(fault != "refused" for fault in faults) <= 1


def with_socket(listener, folder, *options):
    """A service that inherits a socket as systemd passes it: file descriptor 3."""

    def place():
        os.dup2(listener.fileno(), 3)
        os.set_inheritable(3, True)

    environment = {**os.environ, "LISTEN_FDS": "1"}
    return Server(
        folder, "--demo", *options, environment=environment, preexec_fn=place, close_fds=False
    )


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_new_process_takes_over_the_socket_without_a_failed_request(tmp_path):
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    port = listener.getsockname()[1]
    server = with_socket(listener, tmp_path)
    assert server.port == port
    faults, stop, threads = started(port)
    later = []
    starting = threading.Thread(target=lambda: later.append(with_socket(listener, tmp_path)))
    starting.start()
    time.sleep(1.0)  # the new process waits for the store
    assert not later
    server.stop(signal.SIGTERM)
    starting.join()
    time.sleep(0.3)
    stop.set()
    for thread in threads:
        thread.join()
    later[0].stop()
    listener.close()
    assert faults == []


def test_a_socket_for_another_process_is_left_alone(monkeypatch):
    from rankwright.service import server

    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_PID", "1")
    assert server._inherited() is None


def test_an_answer_belongs_to_the_trace_of_its_request(client):
    trace, span = "a" * 32, "b" * 16
    answer = client.get("/v1/models", headers={"traceparent": f"00-{trace}-{span}-01"})
    version, found, ours, flags = answer.headers["traceparent"].split("-")
    assert (version, found, flags) == ("00", trace, "01")
    assert ours != span
    for bad in ("nonsense", f"00-{'0' * 32}-{span}-01", f"ff-{trace}-{span}-01"):
        assert "traceparent" not in client.get("/healthz", headers={"traceparent": bad}).headers


def test_log_lines_are_json(tmp_path):
    server = Server(tmp_path, "--demo", "--port", "0", "--log-format", "json")
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    trace = f"00-{'c' * 32}-{'d' * 16}-00"
    connection.request("POST", "/v1/rank", RANK, {**HEADERS, "traceparent": trace})
    assert connection.getresponse().read()
    connection.close()
    server.stop()
    lines = [json.loads(line) for line in server.lines]
    assert any("serving on" in line["message"] for line in lines)
    request = next(line for line in lines if line["logger"] == "rankwright.access")
    assert (request["method"], request["path"], request["status"]) == ("POST", "/v1/rank", 200)
    assert request["trace_id"] == "c" * 32
    assert request["principal"] == "local"
    assert request["seconds"] > 0


def test_an_error_in_json_has_its_traceback():
    import logging

    stream, logger = io.StringIO(), logging.Logger("test")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    logger.addHandler(handler)
    try:
        raise ValueError("no\nnewline")
    except ValueError:
        logger.exception("it failed")
    line = json.loads(stream.getvalue())
    assert (line["level"], line["message"]) == ("error", "it failed")
    assert "ValueError: no" in line["exception"]
