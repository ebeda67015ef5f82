"""The log: durable, in order, once each, and deleted on request."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import apsw
import numpy as np
import pytest

from rankwright.exceptions import DataError, ParameterError
from rankwright.service import read_entries
from rankwright.service.log.entries import Event, LoggedFeedback, encode
from rankwright.service.log.store import Store


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "feedback.db")
    yield store
    store.close()


def shown(query="q", ids=("a", "b"), features=None):
    scores = np.arange(len(ids), 0, -1.0)
    rows = b"" if features is None else np.asarray(features, "<f8").tobytes()
    return encode(Event(query, "m", list(ids), scores.tobytes(), rows))


def test_entries_come_back_in_order_and_once_each(store):
    futures = [store.append("judgment", f"j{i}", encode({"i": i})) for i in range(1000)]
    again = [store.append("judgment", f"j{i}", encode({"i": -1})) for i in range(0, 1000, 3)]
    assert [f.result().duplicate for f in futures] == [False] * 1000
    assert all(f.result().duplicate for f in again)
    assert [f.result().seq for f in again] == [f.result().seq for f in futures[::3]]
    assert [entry.key for entry in store.entries()] == [f"j{i}" for i in range(1000)]
    assert [entry.key for entry in store.entries(after=997)] == ["j997", "j998", "j999"]


def test_an_event_is_known_before_and_after_its_commit(store):
    store.append_event("e1", shown(), user="u")
    assert store.event("e1").user == "u"
    store.append("feedback", "e1/1", encode(LoggedFeedback("1", clicks=["a"])), event="e1").result()
    store.recent.clear()
    assert store.event("e1").kind == "event"
    assert store.event("e1/1") is None  # a key of another kind
    assert [entry.kind for entry in store.entries()] == ["event", "feedback"]


def test_read_entries_yields_plain_objects(store):
    store.append_event("e1", shown(features=[[1.0, np.nan], [2.0, 3.0]]), user="u")
    body = encode(LoggedFeedback("1", grades={"a": 2.0}))
    store.append("feedback", "e1/1", body, event="e1", user="u").result()
    event, feedback = read_entries(store.path)
    assert event["items"][0] == {"id": "a", "rank": 1, "score": 2.0, "features": [1.0, None]}
    assert (event["kind"], event["query"], event["user"], event["model"]) == (
        "event",
        "q",
        "u",
        "m",
    )
    assert feedback["grades"] == {"a": 2.0}
    assert (feedback["kind"], feedback["event"], feedback["id"]) == ("feedback", "e1", "1")


def test_entries_of_a_user_are_deleted_also_from_the_file(store):
    for user in ("anna", "bert"):
        store.append_event(f"e-{user}", shown(query=f"secret of {user}"), user=user)
        body = encode(LoggedFeedback("1", clicks=["a"]))
        store.append("feedback", f"{user}/1", body, event=f"e-{user}", user=user).result()
    assert store.delete_user("anna") == 2
    assert {entry.user for entry in store.entries()} == {"bert"}
    assert store.event("e-anna") is None
    store.close()  # the last connection merges the WAL into the file
    content = Path(store.path).read_bytes()
    assert b"secret of bert" in content
    assert b"secret of anna" not in content


def test_old_entries_are_deleted_up_to_a_place_and_numbers_are_never_reused(store):
    for i in range(4):
        store.append("judgment", f"j{i}", encode({})).result()
    assert store.delete_before(time.time() + 1, last_seq=3) == 3
    assert [entry.key for entry in store.entries()] == ["j3"]
    assert store.delete_before(time.time() + 1) == 1
    assert store.append("judgment", "j4", encode({})).result().seq == 5


def test_the_file_is_for_its_owner_only_and_for_one_service(store):
    assert stat.S_IMODE(os.stat(store.path).st_mode) == 0o600
    with pytest.raises(ParameterError, match="in use by another service"):
        Store(store.path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look like one" * 100)
    with pytest.raises(DataError, match="not a log"):
        Store(path)
    with pytest.raises(DataError, match="not a log"):
        list(read_entries(path))
    with pytest.raises(FileNotFoundError, match="no such log"):
        list(read_entries(tmp_path / "none.db"))


def test_a_write_that_fails_is_reported_and_the_others_are_kept(store):
    good = store.append("judgment", "j1", encode({}))
    bad = store.write(lambda db: db.execute("INSERT INTO nothing VALUES(1)"))
    other = store.append("judgment", "j2", encode({}))
    with pytest.raises(OSError, match="cannot be written"):
        bad.result()
    assert not good.result().duplicate
    assert not other.result().duplicate
    assert [entry.key for entry in store.entries()] == ["j1", "j2"]


def test_a_deletion_that_waits_for_a_reader_keeps_nobody_from_writing(tmp_path):
    store = Store(tmp_path / "feedback.db")
    for number in range(20):
        store.append("feedback", f"e/{number}", b"x", user="ann").result()
    reader = apsw.Connection(str(tmp_path / "feedback.db"))  # a backup, say
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM log").fetchall()
    deletion = threading.Thread(target=store.delete_user, args=("ann",))
    deletion.start()
    slowest, deadline = 0.0, time.monotonic() + 1.5
    while time.monotonic() < deadline:
        start = time.monotonic()
        store.append("feedback", f"f/{start}", b"x").result()
        slowest = max(slowest, time.monotonic() - start)
    assert deletion.is_alive()
    reader.execute("COMMIT")
    deletion.join()
    assert slowest < 1  # it was 5 seconds
    store.close()
    assert b"ann" not in (tmp_path / "feedback.db").read_bytes()
