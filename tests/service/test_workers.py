"""Several scoring processes on one port and one that writes: one service to its clients."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from tests.service.processes import Server
from tests.service.test_shutdown import started
from tests.service.test_who_may_do_what import OPEN, PAGES, STRANGERS, WALK, is_unsafe, refused

import rankwright as rw
from rankwright.client import Client, ServiceError
from rankwright.service import Settings, create_app
from rankwright.service.api.problems import HttpProblem
from rankwright.service.log.checking import check_store
from rankwright.service.workers import pool as pool_module
from rankwright.service.workers.channel import (
    Channel,
    ConnectionCounts,
    SharedRateLimit,
    socket_pair,
)
from rankwright.service.workers.pool import WorkerPool

ADMIN, RANK = "a" * 32, "r" * 32
TOKENS = f"shop {RANK} rank\nboss {ADMIN} admin\n"
ITEMS = [{"id": f"d{i}", "features": [float(i), 1.0]} for i in range(3)]


def model_file(folder, name, sign):
    """A model that ranks by the first feature, or against it."""
    path = folder / f"{name}.rw"
    rw.save(rw.RidgeRanker().fit(np.array([[0.0, 1.0], [1.0, 1.0]]), [0, 1][::sign]), path)
    return path.read_bytes()


def workers_of(server):
    """Process ids of the workers."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
            command = (entry.parent / "cmdline").read_text()
        except OSError:
            continue
        if int(fields[1]) == server.process.pid and "spawn_main" in command:
            found.append(int(entry.parent.name))
    return found


def runs(pid):
    """Whether a process has not ended; one that its parent has not waited for has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    (folder / "tokens").write_text(TOKENS)
    options = ["--workers", "2", "--demo", "--port", "0", "--token-file", "tokens"]
    server = Server(folder, *options)
    server.wait_until_ready()
    server.folder = folder
    yield server
    server.stop()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The same without tokens."""
    folder = tmp_path_factory.mktemp("demo")
    server = Server(folder, "--workers", "2", "--demo", "--port", "0")
    yield server
    server.stop()


def test_feedback_finds_the_list_of_another_worker(server):
    ranker, writer = Client(server.url, token=ADMIN), Client(server.url, token=ADMIN)
    rows = [{"id": f"d{i}", "features": [i / 7] * 10} for i in range(3)]
    for number in range(200):  # two connections, most likely to two workers
        event = ranker.rank(rows, query=f"q{number}")["event"]
        assert writer.feedback(event, clicks=["d1"])["duplicate"] is False
    kinds = Counter(line["kind"] for line in writer.log())
    assert kinds == {"event": 200, "feedback": 200}
    deadline = time.monotonic() + 10
    counted = 'rankwright_requests_total{path="/v1/rank",status="200"} 200.0'
    while counted not in writer.metrics() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert counted in writer.metrics()
    ranker.close()
    writer.close()


def test_rights_are_those_of_one_process(server):
    def status(method, path, token=None, **more):
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.request(method, server.url + path, headers=headers, **more).status_code

    rank = {"items": [{"id": "a", "features": [0.0] * 10}]}
    assert status("POST", "/v1/rank", json=rank) == 401
    assert status("POST", "/v1/rank", "x" * 32, json=rank) == 401
    assert status("POST", "/v1/rank", RANK, json=rank) == 200
    assert status("GET", "/v1/log", RANK) == 403
    assert status("GET", "/v1/log", ADMIN) == 200
    assert status("GET", "/nothing", ADMIN) == 404
    assert status("POST", "/v1/models", RANK, content=b"x" * 100) == 403
    assert status("POST", "/v1/models", ADMIN, content=b"x" * 2**20) == 422
    (server.folder / "tokens").write_text(f"boss {ADMIN} admin\n")
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 10
    while status("POST", "/v1/rank", RANK, json=rank) == 200 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert {status("POST", "/v1/rank", RANK, json=rank) for _ in range(20)} == {401}
    (server.folder / "tokens").write_text(TOKENS)
    server.process.send_signal(signal.SIGHUP)
    while status("POST", "/v1/rank", RANK, json=rank) != 200 and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.parametrize("who", [*STRANGERS, "rank", "admin"])
def test_every_endpoint_needs_the_rights_that_it_needs_in_one_process(server, who):
    headers = STRANGERS.get(who, {"authorization": f"Bearer {who[0] * 32}"})
    wrong = []
    with httpx.Client(base_url=server.url) as client:
        for endpoint, needed in WALK.items():
            may = needed is OPEN or needed == who or who == "admin"
            if endpoint in PAGES and is_unsafe(endpoint):
                may = False
            if refused(client, endpoint, headers) is may:
                wrong.append(endpoint)
    assert wrong == []


def test_a_worker_tells_a_browser_what_is_wrong(demo):
    """Workers have no pages; asking one for a page of a problem was an error of its own."""
    headers = {"accept": "text/html", "host": "other.example"}
    answers = [httpx.get(f"{demo.url}/healthz", headers=headers) for _ in range(4)]
    assert {answer.status_code for answer in answers} == {421}
    assert all(answer.json()["status"] == 421 for answer in answers)


def test_a_refusal_arrives_while_a_worker_still_forwards_the_body(server):
    found, body = Counter(), b"x" * 3 * 2**20
    with httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {RANK}"}) as client:
        for _ in range(150):  # it answered 503 for 3 to 5 of a hundred
            found[client.post("/v1/models", content=body).status_code] += 1
    assert found == {403: 150}


def test_an_activation_reaches_all_workers_at_one_moment(demo, tmp_path):
    admin = Client(demo.url)
    versions = [
        admin.upload(model_file(tmp_path, name, sign), name)["version"]
        for name, sign in (("up", 1), ("down", -1))
    ]
    admin.activate(versions[0])
    stop, faults = threading.Event(), []
    begun = seen = 0  # activations that were asked for, and that an answer has shown

    def ask():
        nonlocal seen
        with Client(demo.url) as client:
            while not stop.is_set():
                known = seen
                model = client.rank(ITEMS)["model"]
                if model == versions[(known + 1) % 2]:  # a later one, or one that was replaced
                    if begun == known:
                        faults.append((known, model))
                    seen = max(seen, known + 1)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for number in range(1, 21):
        begun = number
        admin.activate(versions[number % 2])
        seen = max(seen, number)
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    admin.close()
    assert faults == []


def test_a_worker_that_is_killed_is_replaced_and_the_service_goes_on(tmp_path):
    server = Server(tmp_path, "--workers", "2", "--learn", "PRank", "--port", "0")
    with Client(server.url, retries=8) as client:
        for number in range(30):
            event = client.rank(ITEMS)["event"]
            client.feedback(event, id=str(number), grades={"d1": number % 5})
            if number == 10:
                os.kill(workers_of(server)[0], signal.SIGKILL)
        deadline = time.monotonic() + 60
        while not client.ready() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(workers_of(server)) == 2
    assert server.stop() == 0
    report = check_store(tmp_path / "feedback.db")
    assert report.faults == []
    assert report.ranker is not None


def test_a_service_whose_workers_do_not_start_says_so_and_ends(tmp_path, monkeypatch):
    """It started them again without a pause for two minutes."""
    service = create_app(Settings(store=str(tmp_path / "feedback.db"), demo=True)).service
    monkeypatch.setattr(pool_module, "run_worker", os._exit)  # which wants a number, and fails
    started = []
    monkeypatch.setattr(WorkerPool, "_start", counted(WorkerPool._start, started))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        workers = WorkerPool(service, listener, 2, None)
        with pytest.raises(OSError, match="did not start"):
            workers.start(lambda worker: worker.requests.close())
        workers.join()
    service.close()
    assert len(started) == 2


def counted(function, calls):
    def call(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return call


def test_workers_end_with_the_process_that_writes(tmp_path):
    server = Server(tmp_path, "--workers", "2", "--demo", "--port", "0")
    pids = workers_of(server)
    assert len(pids) == 2
    server.stop(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(map(runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(runs, pids))


def test_workers_answer_what_was_sent_before_they_end(tmp_path):
    server = Server(tmp_path, "--workers", "2", "--demo", "--port", "0")
    faults, _, threads = started(server.port)
    time.sleep(0.3)
    assert server.stop(signal.SIGTERM) == 0
    for thread in threads:
        thread.join()
    assert sum(fault != "refused" for fault in faults) <= 2


def test_a_live_ranker_reaches_the_workers(tmp_path):
    server = Server(tmp_path, "--workers", "2", "--learn", "PRank", "--port", "0")
    with Client(server.url) as client:
        for number in range(20):
            event = client.rank(ITEMS)["event"]
            client.feedback(event, id=str(number), grades={"d0": 0, "d1": 3, "d2": 5})
        deadline = time.monotonic() + 20
        while client.rank(ITEMS)["items"][0]["id"] != "d2" and time.monotonic() < deadline:
            time.sleep(0.05)
        with pytest.raises(ServiceError) as error:
            client.rank(ITEMS, model="nothing")
        assert error.value.status == 404
        answers = [client.rank(ITEMS)["items"][0]["id"] for _ in range(10)]
    server.stop()
    assert set(answers) == {"d2"}


def test_processes_share_one_rate_limit():
    limit = SharedRateLimit(2.0)
    other = SharedRateLimit(2.0, table=limit.table, lock=limit.lock)
    for each in (limit, other, limit, other):
        each.check("shop")
    with pytest.raises(HttpProblem) as error:
        other.check("shop")
    assert error.value.status == 429
    limit.check("another")


def test_processes_count_connections_together():
    counts = ConnectionCounts(2)
    assert [counts.add(process, "1.2.3.4", 1) for process in (0, 1, 0)] == [1, 2, 3]
    counts.clear(0)
    assert counts.add(1, "1.2.3.4", -1) == 0


def test_the_process_with_the_fewest_connections_accepts_the_next_one():
    counts = ConnectionCounts(3)
    counts.begin(0)
    assert counts.is_behind(0)  # the others do not accept yet
    counts.begin(1)
    counts.accept(0)
    assert [counts.is_behind(process) for process in range(3)] == [False, True, False]


def test_a_channel_gives_whole_messages_and_says_when_the_other_end_is_gone():
    ours, theirs = map(Channel, socket_pair())
    contents = [bytes([n]) * size for n, size in enumerate((0, 1, 70_000, 3, 5_000_000, 17))]
    got = []

    def read():
        while len(got) < len(contents):
            got.extend(theirs.read())

    reader = threading.Thread(target=read)
    reader.start()
    for number, content in enumerate(contents):
        ours.send((number, "x"), content)
    reader.join()
    assert got == [([number, "x"], content) for number, content in enumerate(contents)]
    assert list(theirs.read()) == []
    ours.close()
    with pytest.raises(EOFError):
        list(theirs.read())
    theirs.close()


def test_what_a_worker_sent_before_it_ended_is_logged():
    ours, theirs = socket.socketpair()
    worker = SimpleNamespace(channel=Channel(ours), gone=False)
    sender = Channel(theirs)
    sender.send(("event", 1.0, "e1", None), b"body")
    sender.close()
    appended = []
    store = SimpleNamespace(append_events=appended.extend)
    pool = SimpleNamespace(service=SimpleNamespace(store=store), _said=threading.Condition())
    pool._append = lambda events: WorkerPool._append(pool, events)
    WorkerPool._read(pool, worker)
    worker.channel.close()
    assert worker.gone
    assert [event[1] for event in appended] == ["e1"]
