"""A leader and its replica: one log, one that writes, nothing acknowledged lost."""

from __future__ import annotations

import signal
import threading
import time

import httpx
import numpy as np
import pytest
from tests.service.processes import Server, refused

import rankwright as rw
from rankwright.client import Client, ServiceError
from rankwright.service.log.checking import check_store, digest
from rankwright.service.log.reader import LogReader
from rankwright.service.replication.leadership import (
    Leadership,
    identity,
    position,
    ranges_of,
)

LEARN = ("--learn", "PRank", "--grades", "0-4", "--snapshot-every", "20")
ITEMS = [{"id": f"d{i}", "features": [i / 7.0, 1.0 - i / 5.0]} for i in range(4)]


class Pair:
    """A leader and a replica in folders of their own, on ports that stay the same."""

    def __init__(self, folder, *options):
        self.folder, self.options, self.clients = folder, options, []
        for name in ("a", "b"):
            (folder / name).mkdir()
        self.servers = {"a": self.start("a")}
        self.servers["b"] = self.start("b", "--replica-of", self.servers["a"].url)
        self.ports = {name: server.port for name, server in self.servers.items()}
        self["a"].wait_until_ready()
        self["b"].wait_until_ready()

    def start(self, name, *more, port=0):
        options = (*LEARN, *self.options, *more, "--port", str(port))
        return Server(self.folder / name, *options)

    def restart(self, name, *more):
        """Start again, on the port that it had."""
        self.servers[name] = self.start(name, *more, port=self.ports[name])
        return self[name]

    def __getitem__(self, name):
        return self.servers[name]

    def client(self, name, **more):
        self.clients.append(Client(self[name].url, timeout=30, **more))
        return self.clients[-1]

    def store(self, name):
        return self.folder / name / "feedback.db"

    def digest(self, name):
        log = LogReader(self.store(name))
        try:
            return digest(log)
        finally:
            log.close()

    def wait_until_equal(self, seconds=30):
        deadline = time.monotonic() + seconds
        while self.digest("a") != self.digest("b") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.digest("a") == self.digest("b")

    def stop(self):
        for client in self.clients:
            client.close()
        for server in self.servers.values():
            server.stop(signal.SIGKILL)


@pytest.fixture
def pair(tmp_path):
    pairs = []

    def start(*options):
        pairs.append(Pair(tmp_path, *options))
        return pairs[-1]

    yield start
    for each in pairs:
        each.stop()


def teach(client, number, n_lists=1):
    """Rank and grade lists; the keys of what was acknowledged."""
    keys = []
    for i in range(n_lists):
        event = client.rank(ITEMS, query=f"q{number}-{i}")["event"]
        if event:
            client.feedback(event, id=str(number), grades={"d1": i % 5, "d2": 0})
            keys.append(f"{event}/{number}")
    return keys


def keys_of(path):
    log = LogReader(path)
    try:
        return [entry.key for entry in log.entries(("feedback",))]
    finally:
        log.close()


def test_a_replica_has_the_leaders_log_models_and_ranker(pair, tmp_path):
    both = pair()
    leader, replica = both.client("a"), both.client("b")
    teach(leader, 1, 50)
    rw.save(rw.RidgeRanker().fit(np.eye(2), [0, 1]), tmp_path / "m.rw")
    version = leader.upload((tmp_path / "m.rw").read_bytes(), "m", activate=True)["version"]
    both.wait_until_equal()
    deadline = time.monotonic() + 20
    while replica.models()["active"] != leader.models()["active"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert replica.models()["active"] == {"rank": version}
    ranked = replica.rank(ITEMS, query="x")
    assert ranked["event"] == ""  # a replica logs nothing
    assert [item["id"] for item in ranked["items"]] == [
        item["id"] for item in leader.rank(ITEMS, query="x")["items"]
    ]
    assert replica.replication()["role"] == "replica"
    assert leader.replication()["role"] == "leader"
    while list(leader.replication()["replicas"].values()) != [0] and time.monotonic() < deadline:
        time.sleep(0.05)  # the log has an entry of the ranking above
    assert list(leader.replication()["replicas"].values()) == [0]
    for name in ("a", "b"):
        both[name].stop()
    rankers = [check_store(both.store(name)) for name in ("a", "b")]
    assert rankers[0].faults == rankers[1].faults == []
    assert rankers[0].ranker == rankers[1].ranker is not None


def test_a_replica_refuses_writes_and_names_its_leader(pair):
    both = pair()
    event = both.client("a").rank(ITEMS)["event"]
    both.wait_until_equal()
    for call in (
        lambda c: c.feedback(event, clicks=["d1"]),
        lambda c: c.delete_user("u"),
        lambda c: c.rollback(),
        lambda c: c.activate("live"),
    ):
        with pytest.raises(ServiceError) as error:
            call(both.client("b", retries=0))
        assert error.value.status == 503
    answer = httpx.post(
        f"{both['b'].url}/v1/feedback", json={"event": event, "id": "1", "clicks": ["d1"]}
    )
    assert answer.status_code == 503
    assert both["a"].url in answer.json()["detail"]


def test_what_a_user_wants_deleted_is_deleted_on_the_replica_too(pair):
    both = pair()
    client = both.client("a")
    for user in ("u", "v"):
        event = client.rank(ITEMS, user=user)["event"]
        client.feedback(event, grades={"d1": 3})
    both.wait_until_equal()
    assert client.delete_user("u")["deleted"] == 2
    both.wait_until_equal()
    assert {line["user"] for line in both.client("b").log() if line["kind"] == "event"} == {"v"}
    for name in ("a", "b"):
        both[name].stop()
    first, second = (check_store(both.store(name)) for name in ("a", "b"))
    assert first.ranker == second.ranker
    assert first.faults == second.faults == []


def test_a_promoted_replica_leads_and_the_old_leader_is_fenced(pair):
    both = pair()
    old, new = both.client("a", retries=0), both.client("b")
    known = teach(old, 1, 20)
    promoted = new.promote()
    assert promoted["fenced"]
    assert promoted["term"] == 1
    assert new.promote()["term"] == 1  # a second request changes nothing
    assert set(known) <= set(keys_of(both.store("b")))
    with pytest.raises(ServiceError) as error:
        old.feedback(known[0].split("/")[0], clicks=["d1"])
    assert error.value.status == 503
    assert not old.ready()
    assert old.replication()["role"] == "fenced"
    assert teach(new, 2, 3)
    both["a"].stop()
    fenced = both.restart("a")  # it stays fenced
    assert not both.client("a").ready()
    fenced.stop()
    both.restart("a", "--replica-of", both["b"].url)  # and follows if it is told to
    both.wait_until_equal()
    assert both.client("a").replication()["role"] == "replica"


def test_a_leader_that_was_gone_during_the_promotion_is_fenced_when_it_is_back(pair):
    both = pair()
    known = teach(both.client("a"), 1, 10)
    both.wait_until_equal()
    both["a"].stop(signal.SIGKILL)
    promoted = both.client("b").promote()
    assert not promoted["fenced"]
    both.restart("a")
    client = both.client("a", retries=0)
    with pytest.raises(ServiceError) as error:  # it waits for word of its replica, then is fenced
        client.feedback(known[0].split("/")[0], clicks=["d1"])
    assert error.value.status == 503
    deadline = time.monotonic() + 10
    while client.replication()["role"] != "fenced" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert client.replication()["role"] == "fenced"
    both["b"].stop()
    both.restart("b", "--replica-of", both["a"].url)  # as its unit file says: it leads all the same
    assert both.client("b").replication()["role"] == "leader"


def test_a_store_of_a_replica_does_not_lead_by_itself(pair):
    both = pair()
    both["b"].stop()
    code, said = refused(both.folder / "b", *LEARN, "--port", "0")
    assert code == 2
    assert f"--replica-of {both['a'].url}" in said


def test_entries_that_no_replica_had_are_moved_away_when_their_leader_follows(pair):
    both = pair()
    teach(both.client("a"), 1, 5)
    both.wait_until_equal()
    both["b"].stop()
    lost = teach(both.client("a"), 2, 3)
    both["a"].stop(signal.SIGKILL)
    both.restart("b", "--replica-of", both["a"].url)
    both.client("b").promote()
    teach(both.client("b"), 3, 1)
    both.restart("a", "--replica-of", both["b"].url)
    both.wait_until_equal()
    (moved,) = (both.folder / "a").glob("feedback.db.diverged-*[0-9]")
    assert set(lost) <= set(keys_of(moved))


def test_writes_wait_for_the_replica_if_asked_to(pair):
    both = pair("--ack", "replica")
    client = both.client("a", retries=0)
    assert teach(client, 1, 5)
    event = client.rank(ITEMS)["event"]
    both["b"].process.send_signal(signal.SIGSTOP)
    waiting = []

    def send():
        with Client(both["a"].url, timeout=30, retries=0) as other:
            waiting.append(other.feedback(event, clicks=["d1"]))

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    thread.join(1.0)
    assert thread.is_alive()  # on the leader's disk, and not acknowledged
    both["b"].process.send_signal(signal.SIGCONT)
    thread.join(10)
    assert waiting[0]["duplicate"] is False
    assert f"{event}/{waiting[0]['id']}" in keys_of(both.store("b"))


def test_a_leader_that_stops_answers_the_replicas_that_wait(serve):
    client = serve()
    store = client.service.store
    about = {"store": identity(store), "replica": "r", "wait": 10, "term": 0, "run": 0}
    about |= {"last": position(store).last, "revision": position(store).revision}
    timer = threading.Timer(0.3, client.loop.call_soon_threadsafe, (client.service.begin_stop,))
    timer.start()
    start = time.monotonic()
    assert client.get("/v1/replica/log", params=about).status_code == 200
    assert 0.2 < time.monotonic() - start < 8
    timer.join()


def test_kills_of_leader_and_replica_lose_nothing_acknowledged(tmp_path):
    from tests.service.failovers import run

    found = run(tmp_path, 4, seed=0)
    assert found["faults"] == []
    assert 1 <= found["promotions"] <= 3


def test_runs_say_which_part_of_two_logs_is_the_same():
    first = Leadership().next_run(10)
    second = first.next_run(30, promoted=True)
    assert second.shares((0, 1), 30, 40)
    assert not second.shares((0, 1), 31, 40)  # written by a leader that was replaced
    assert not second.shares((1, 0), 41, 40)  # this store lost its end
    assert first.shares((0, 0), 10, 20)
    assert list(ranges_of([])) == []
