"""Stores of every version open, keep what they hold, and serve; newer ones are refused."""

from __future__ import annotations

import gzip
import hashlib
import json
from contextlib import closing
from pathlib import Path

import apsw
import numpy as np
import pytest

from rankwright.exceptions import DataError
from rankwright.service import Settings, create_app
from rankwright.service.log import store as stores
from rankwright.service.log.reader import APPLICATION_ID, VERSION, LogReader
from rankwright.service.log.store import Store

MUSEUM = sorted((Path(__file__).parent / "stores").glob("*.db.gz"))
LEARN = {"learn": "BayesianPRank", "grades": (0.0, 1.0, 2.0, 3.0, 4.0)}


def pragma(path, name):
    with closing(apsw.Connection(str(path))) as db:
        return db.execute(f"PRAGMA {name}").get


@pytest.fixture(params=MUSEUM, ids=[path.name.removesuffix(".db.gz") for path in MUSEUM])
def old(request, tmp_path):
    """A store of the museum, and what is known about it."""
    path = tmp_path / "feedback.db"
    path.write_bytes(gzip.decompress(request.param.read_bytes()))
    return path, json.loads(Path(str(request.param).replace(".db.gz", ".json")).read_text())


def test_the_museum_has_every_version():
    assert len(MUSEUM) == VERSION + 1


def test_an_old_store_is_migrated_and_keeps_what_it_holds(old):
    path, facts = old
    entries = list(LogReader(path).entries())
    assert len(entries) == facts["entries"]
    store = Store(path)
    assert list(store.entries()) == entries
    assert hashlib.sha256(store.state("live")).hexdigest() == facts["live"]
    store.close()
    assert (pragma(path, "user_version"), pragma(path, "application_id")) == (
        VERSION,
        APPLICATION_ID,
    )
    Store(path).close()  # once more, as a store of this version


def test_an_old_store_serves_as_before(old):
    path, facts = old
    service = create_app(Settings(store=str(path), **LEARN)).service
    served = service.models.active("rank")
    assert served.version == facts["active"]
    scores = served.model.decision_function(np.array(facts["rows"]))
    np.testing.assert_allclose(scores, facts["scores"], rtol=1e-12)
    assert service.experiments.find("trial").running
    service._checking.join()
    assert service.damage is None
    service.close()


def test_a_new_store_has_the_version(tmp_path):
    Store(tmp_path / "feedback.db").close()
    assert pragma(tmp_path / "feedback.db", "user_version") == VERSION
    assert pragma(tmp_path / "feedback.db", "application_id") == APPLICATION_ID


def test_a_newer_store_is_refused_with_advice_and_not_touched(tmp_path):
    path = tmp_path / "feedback.db"
    Store(path).close()
    with closing(apsw.Connection(str(path))) as db:
        db.execute(f"PRAGMA user_version={VERSION + 1}")
    before = path.read_bytes()
    for open_it in (Store, lambda path: list(LogReader(path).entries())):
        with pytest.raises(DataError, match="Upgrade") as caught:
            open_it(path)
        assert caught.value.kind == "newer"
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_refused(tmp_path):
    path = tmp_path / "photos.db"
    with closing(apsw.Connection(str(path))) as db:
        db.execute("CREATE TABLE photos(name); PRAGMA application_id=7")
    with pytest.raises(DataError, match="not a log"):
        Store(path)


def test_a_migration_that_fails_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "feedback.db"
    path.write_bytes(gzip.decompress(MUSEUM[0].read_bytes()))
    monkeypatch.setattr(stores, "MIGRATIONS", ("CREATE TABLE new(x); SELECT nothing FROM nowhere",))
    with pytest.raises(DataError):
        Store(path)
    monkeypatch.undo()
    assert pragma(path, "user_version") == 0
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'new'").get == 0
