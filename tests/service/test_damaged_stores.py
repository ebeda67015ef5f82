"""A store that is damaged, incomplete or opened twice: the service says so and does not guess."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import closing
from pathlib import Path

import apsw
import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_queries
from rankwright.exceptions import DataError, ModelFileError, ParameterError, RankwrightError
from rankwright.service import Settings, create_app
from rankwright.service.log.entries import Event, LoggedFeedback, describe, encode
from rankwright.service.log.reader import LogReader
from rankwright.service.log.store import Store

BINARY = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two files of linear models."""
    folder = tmp_path_factory.mktemp("models")
    sample = make_queries(20, n_features=3, random_state=0)
    for name, sign in (("first", 1), ("second", -1)):
        model = rw.RidgeRanker().fit(sign * sample.X, sample.y, qid=sample.qid)
        rw.save(model, folder / f"{name}.rw")
    return folder


def upload(client, path, activate=False):
    answer = client.request(
        "POST", "/v1/models", params={"name": path.stem, "activate": activate},
        content=path.read_bytes(), headers=BINARY,
    )  # fmt: skip
    assert answer.status_code == 201, answer.text
    return answer.json()["version"]


def versions(client):
    return {model["version"] for model in client.get("/v1/models").json()["models"]}


def test_an_upload_that_races_with_a_delete_is_there_or_not_in_store_and_list_alike(serve, models):
    client, content = serve(), (models / "first.rw").read_bytes()
    service = client.service.models
    version = service.upload(content, "first", "upload").version
    stop = threading.Event()

    def delete():
        while not stop.is_set():
            if version in {info.version for info in service.infos()}:
                try:
                    service.delete(version)
                except RankwrightError:
                    continue

    thread = threading.Thread(target=delete)
    thread.start()
    for _ in range(30):
        service.upload(content, "first", "upload")
    stop.set()
    thread.join()
    rows = client.service.store.select("SELECT version FROM models")
    assert {row[0] for row in rows} == {info.version for info in service.infos()} & {version}


def test_a_store_whose_active_model_is_gone_is_refused(serve, models):
    client = serve()
    upload(client, models / "first.rw")
    version = upload(client, models / "second.rw", activate=True)
    path = client.service.store.path
    client.close()
    with closing(apsw.Connection(path)) as db:
        db.execute("DELETE FROM models WHERE version = ?", (version,))
    with pytest.raises(ModelFileError, match=f"{version}' was active") as caught:
        serve()
    assert caught.value.kind == "missing"
    assert serve(models=(str(models / "second.rw"),)).get("/readyz").status_code in (200, 503)


def test_a_file_that_is_not_given_again_is_not_replaced_in_silence(serve, models):
    client = serve(models=(str(models / "first.rw"),))
    upload(client, models / "second.rw")
    client.close()
    with pytest.raises(ModelFileError, match="give its file"):
        serve()
    again = serve(models=(str(models / "first.rw"),))
    assert again.service.models.active("rank").name == "first"


def test_a_ranker_that_learned_is_not_replaced_in_silence(serve, models):
    client = serve(learn="PRank")
    upload(client, models / "second.rw")
    client.close()
    with pytest.raises(ModelFileError, match="--learn"):
        serve()


def test_threads_that_end_leave_no_file_open(serve):
    client = serve()
    client.rank([[0.0] * 10])

    def read():
        list(client.service.store.entries())

    for turn in range(30):
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        if turn == 5:
            before = len(os.listdir("/proc/self/fd"))
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_link_to_a_store_is_the_same_store(tmp_path):
    store = Store(tmp_path / "feedback.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "feedback.db")
    with pytest.raises(ParameterError, match="in use"):
        Store(tmp_path / "link.db")
    store.close()


class FullDisk:
    """A connection that cannot write."""

    in_transaction = False

    def execute(self, *arguments):
        raise apsw.FullError("database or disk is full")


def test_a_store_that_cannot_be_written_is_told_without_its_path(serve):
    client = serve()
    event = client.rank([[0.0] * 10])["event"]
    client.service.store.flush()
    writer = client.service.store._writer
    client.service.store._writer = FullDisk()
    answer = client.post("/v1/feedback", {"event": event, "id": "1", "grades": {"a0": 1}})
    ready = client.get("/readyz")
    client.service.store._writer = writer
    assert (answer.status_code, ready.status_code) == (503, 503)
    assert "feedback.db" not in answer.text + ready.text


# Damage: what is done to a store that holds lists, feedback, a model and a snapshot.


@pytest.fixture(scope="module")
def whole(tmp_path_factory, models):
    """The bytes of a store."""
    path = tmp_path_factory.mktemp("whole") / "feedback.db"
    app = create_app(Settings(store=str(path), learn="PRank", models=(str(models / "first.rw"),)))
    app.service.models.upload((models / "second.rw").read_bytes(), "second", "upload")
    store, rows = app.service.store, np.ones((300, 3))
    for number in range(60):
        ids = [f"d{i}" for i in range(300)]
        body = encode(Event("q", "m", ids, np.zeros(300).tobytes(), rows.tobytes()))
        store.append_event(f"e{number}", body)
        feedback = encode(LoggedFeedback("1", grades={"d0": float(number % 5)}))
        store.append("feedback", f"e{number}/1", feedback, event=f"e{number}").result()
    app.service.close()
    return path.read_bytes()


def sql(text):
    def damage(path):
        with closing(apsw.Connection(str(path))) as db:
            db.execute(text)

    return damage


def noise(start, size=512):
    """Random bytes somewhere; a fraction is a place in the file."""

    def damage(path):
        content = bytearray(path.read_bytes())
        place = int(start * len(content)) if isinstance(start, float) else start
        content[place : place + size] = np.random.default_rng(place).bytes(size)
        path.write_bytes(content)

    return damage


def cut(share):
    return lambda path: os.truncate(path, int(share * path.stat().st_size))


DAMAGES = {
    "empty header": noise(0, 100),
    "schema page": noise(14_384, 2000),
    **{f"noise at {place:g}": noise(place) for place in (0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95)},
    "zeros": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "half": cut(0.5),
    "most": cut(0.9),
    "a byte": cut(1e-9),
    "no log": sql("DROP TABLE log"),
    "no state": sql("DROP TABLE state"),
    "another log": sql("DROP TABLE log; CREATE TABLE log(a, b)"),
    "another column": sql("ALTER TABLE models RENAME COLUMN about TO stuff"),
    "state: models": sql("UPDATE state SET value = x'ff' WHERE name = 'models'"),
    "state: experiments": sql("INSERT OR REPLACE INTO state VALUES('experiments', x'01')"),
    "state: live": sql("UPDATE state SET value = x'92c0c0' WHERE name = 'live'"),
    "state: sessions": sql("INSERT OR REPLACE INTO state VALUES('ended_sessions', x'c1')"),
    "a model": sql("UPDATE models SET file = x'00112233'"),
    "about a model": sql("UPDATE models SET about = x'c1'"),
    "an event": sql("UPDATE log SET body = x'c1' WHERE key = 'e30'"),
    "short features": sql("UPDATE log SET body = substr(body, 1, 500) WHERE key = 'e30'"),
    "feedback": sql("UPDATE log SET body = x'81a2' WHERE key = 'e30/1'"),
    "another kind": sql("UPDATE log SET kind = 'x' WHERE key = 'e30'"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_store_is_refused_or_not_ready_and_never_a_bug(whole, models, tmp_path, name):
    path = tmp_path / "feedback.db"
    path.write_bytes(whole)
    DAMAGES[name](path)
    settings = Settings(store=str(path), learn="PRank", models=(str(models / "first.rw"),))
    try:
        app = create_app(settings)
    except (DataError, ModelFileError):
        return
    service = app.service
    while service._checking.is_alive() or service._warming.is_alive():
        time.sleep(0.01)
    faults = service.faults()
    entries = [describe(entry) for entry in service.store.entries()] if not faults else []
    service.close()
    if name == "a byte":  # an empty file is a new store
        return
    # Noise that hits nothing but unused bytes or the value of a feature cannot be noticed.
    assert faults or ([entry["kind"] for entry in entries] == ["event", "feedback"] * 60)


def test_a_damaged_entry_does_not_break_off_the_log(serve):
    client = serve()
    for _ in range(3):
        client.rank([[0.0] * 10])
    client.service.store.write(
        lambda db: db.execute("UPDATE log SET body = x'c1' WHERE seq = 2")
    ).result()
    lines = [json.loads(line) for line in client.get("/v1/log").text.splitlines()]
    assert [line["kind"] for line in lines] == ["event", "damaged", "event"]
    log = LogReader(client.service.store.path)
    assert len(list(log.entries())) == 3
    log.close()
    assert Path(log.path).exists()
