"""Backups: made under load, shipped in parts, restored to a moment, checked by replay, repaired."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import apsw
import numpy as np
import pytest

from rankwright.cli.app import main
from rankwright.exceptions import DataError, ParameterError
from rankwright.service import Settings, create_app
from rankwright.service.log import backups
from rankwright.service.log.checking import check_store, digest, repair
from rankwright.service.log.entries import Event, LoggedFeedback, encode
from rankwright.service.log.reader import LogReader
from rankwright.service.log.store import Store

GRADES = (0.0, 1.0, 2.0, 3.0, 4.0)


def fill(store, n, start=0):
    """Lists and their feedback; the last one is on the disk."""
    random = np.random.default_rng(start)
    ids = ["a", "b", "c"]
    for number in range(start, start + n):
        rows = random.standard_normal((3, 3))
        body = encode(Event("q", "m", ids, rows[:, 0].tobytes(), rows.tobytes()))
        store.append_event(f"e{number}", body, user=f"u{number % 3}")
        feedback = encode(LoggedFeedback("1", grades={"a": float(number % 5)}))
        last = store.append("feedback", f"e{number}/1", feedback, event=f"e{number}")
    last.result()


@pytest.fixture
def service(tmp_path):
    settings = Settings(store=str(tmp_path / "feedback.db"), learn="PRank", grades=GRADES,
                        snapshot_every=10)  # fmt: skip
    service = create_app(settings).service
    yield service
    service.close()


def digest_of(path, last=None):
    log = LogReader(path)
    try:
        return digest(log, last)
    finally:
        log.close()


def test_a_backup_under_load_is_a_prefix_of_the_log(service, tmp_path):
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            fill(service.store, 20, start=number)
            number += 20

    thread = threading.Thread(target=write)
    thread.start()
    target = tmp_path / "backup.db"
    for turn in range(4):
        time.sleep(0.1)
        done = backups.backup(service.store.path, target)
        assert done.incremental == (turn > 0)
        assert done.digest == digest_of(service.store.path, done.digest.last)
        assert done.added > 0
    stop.set()
    thread.join()
    service.store.flush()
    backups.backup(service.store.path, target)
    restored = backups.restore(target, tmp_path / "restored.db")
    assert restored == digest_of(service.store.path)
    service.close()
    backups.backup(service.store.path, target)
    reports = [check_store(path) for path in (service.store.path, target)]
    assert reports[0] == reports[1]
    assert not reports[0].faults
    assert reports[0].ranker is not None


def test_deletions_models_and_state_are_shipped(service, tmp_path):
    target = tmp_path / "backup.db"
    fill(service.store, 9)
    backups.backup(service.store.path, target)
    service.store.delete_user("u1")
    fill(service.store, 3, start=9)
    service.store.write(lambda db: db.execute("INSERT INTO state VALUES('x', x'01')")).result()
    row = ("v", 1.0, b"", b"")
    service.store.write(lambda db: db.execute("INSERT INTO models VALUES(?,?,?,?)", row)).result()
    assert backups.backup(service.store.path, target).digest == digest_of(service.store.path)
    log = LogReader(target)
    assert log.state("x") == b"\x01"
    assert log.select("SELECT * FROM models") == [row]
    log.close()
    service.store.write(lambda db: db.execute("DELETE FROM models")).result()
    backups.backup(service.store.path, target)
    log = LogReader(target)
    assert log.select("SELECT * FROM models") == []
    log.close()


def test_a_backup_of_another_store_is_not_overwritten(service, tmp_path):
    other = create_app(Settings(store=str(tmp_path / "other.db"))).service
    fill(other.store, 2)
    target = tmp_path / "backup.db"
    backups.backup(other.store.path, target)
    other.close()
    with pytest.raises(ParameterError, match="another store"):
        backups.backup(service.store.path, target)
    with pytest.raises(ParameterError, match="its own backup"):
        backups.backup(service.store.path, service.store.path)
    with pytest.raises(ParameterError, match="exists"):
        backups.restore(target, service.store.path)
    (tmp_path / "notes.txt").write_text("text" * 500)
    with pytest.raises(DataError):
        backups.backup(tmp_path / "notes.txt", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_a_store_is_restored_to_a_moment(service, tmp_path):
    for part in range(3):
        fill(service.store, 10, start=10 * part)
        time.sleep(0.02)
    service.close()
    target, entries = tmp_path / "backup.db", list(LogReader(service.store.path).entries())
    backups.backup(service.store.path, target)
    moment = entries[39].time
    found = backups.restore(target, tmp_path / "restored.db", until=moment)
    kept = [entry for entry in entries if entry.time <= moment]
    assert found == digest_of(service.store.path, kept[-1].seq)
    again = create_app(Settings(store=str(tmp_path / "restored.db"), learn="PRank", grades=GRADES))
    deadline = time.monotonic() + 60
    while not again.service.learner.ready and time.monotonic() < deadline:
        time.sleep(0.01)
    again.service.close()
    report = check_store(tmp_path / "restored.db")
    assert not report.faults  # so the ranker is what the log teaches
    assert again.service.learner.live.progress.last_seq <= kept[-1].seq


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux")
def test_a_disk_that_is_full_is_an_error_and_the_backup_is_as_before(tmp_path):
    target, store = tmp_path / "backup.db", Store(tmp_path / "feedback.db")
    fill(store, 50)
    before = backups.backup(store.path, target).digest
    fill(store, 3000, start=50)
    store.close()
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({os.path.getsize(target) + 50_000},) * 2); "
        "sys.argv[0] = 'rankwright'; from rankwright.cli.app import main; main()"
    )
    for name in (str(target), str(tmp_path / "new.db")):
        command = [sys.executable, "-c", script, "backup", store.path, name]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 5, done.stderr
    assert digest_of(target) == before
    assert not (tmp_path / "new.db").exists()


def run(capsys, monkeypatch, *words):
    """Exit code and output of a command."""
    monkeypatch.setattr("sys.argv", ["rankwright", *map(str, words)])
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code
    return code, capsys.readouterr()


def test_the_commands(service, tmp_path, capsys, monkeypatch):
    fill(service.store, 5)
    store, target = service.store.path, tmp_path / "backup.db"
    code, said = run(capsys, monkeypatch, "backup", store, target, "--json")
    made = json.loads(said.out)
    assert (code, made["entries"], made["incremental"]) == (0, 10, False)
    code, said = run(capsys, monkeypatch, "restore", target, tmp_path / "new.db",
                     "--until", "2020-01-01T00:00")  # fmt: skip
    assert code == 0
    assert "0 entries" in said.out
    code, said = run(capsys, monkeypatch, "restore", target, tmp_path / "new.db")
    assert code == 2
    code, said = run(capsys, monkeypatch, "restore", target, "x.db", "--until", "soon")
    assert code == 2
    assert "--until soon" in said.err
    code, said = run(capsys, monkeypatch, "check-store", target, "--json")
    found = json.loads(said.out)
    assert (code, found["digest"]["sha256"], found["faults"]) == (0, made["sha256"], [])
    with apsw.Connection(str(target)) as db:
        db.execute("UPDATE log SET body = x'c1' WHERE seq = 3")
    code, said = run(capsys, monkeypatch, "check-store", target)
    assert code == 1
    assert "entry 3" in said.out
    code, said = run(capsys, monkeypatch, "check-store", target, "--repair", tmp_path / "r.db")
    assert code == 0
    assert "lost: entry 3" in said.out
    assert run(capsys, monkeypatch, "check-store", tmp_path / "none.db")[0] == 5


def test_repair_keeps_what_is_readable(tmp_path):
    path = tmp_path / "feedback.db"
    store = Store(path)
    fill(store, 600)
    store.close()
    with apsw.Connection(str(path)) as db:
        pages = "SELECT pageno FROM dbstat WHERE name = 'log' AND pagetype = 'leaf'"
        page = [number for (number,) in db.execute(pages)][2]
    content = bytearray(path.read_bytes())
    content[16384 * (page - 1) : 16384 * page] = b"\xff" * 16384
    path.write_bytes(content)
    made = repair(path, tmp_path / "repaired.db")
    assert made.lost
    assert 600 < made.entries < 1200
    report = check_store(tmp_path / "repaired.db")
    assert not report.faults
    assert report.digest.entries == made.entries
    with pytest.raises(ParameterError, match="exists"):
        repair(path, tmp_path / "repaired.db")
    Store(tmp_path / "repaired.db").close()


@pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="only root can give files away")
def test_what_root_restores_belongs_to_the_owner_of_the_folder(tmp_path):
    store = Store(tmp_path / "feedback.db")
    fill(store, 3)
    store.close()
    backups.backup(tmp_path / "feedback.db", tmp_path / "backup.db")
    folder = tmp_path / "service"
    folder.mkdir()
    os.chown(folder, 10001, 10001)
    backups.restore(tmp_path / "backup.db", folder / "feedback.db")
    check_store(folder / "feedback.db")
    backups.backup(folder / "feedback.db", tmp_path / "backup.db")
    Store(folder / "new.db").close()
    names = {path.name: path.stat().st_uid for path in folder.iterdir()}
    assert {"feedback.db", "feedback.db-lock", "new.db", "new.db-lock"} <= set(names)
    assert set(names.values()) == {10001}
