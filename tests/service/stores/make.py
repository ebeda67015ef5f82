"""Write a store of the present version for the museum: ``python tests/service/stores/make.py``.

It holds lists, feedback, judgments that were taken back, an experiment, an uploaded model that is
active, and a ranker that learned. The names of its files are the version; files are never changed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import tempfile
from pathlib import Path

import apsw
import numpy as np

import rankwright as rw
from rankwright.service import Settings, create_app
from rankwright.service.api.types import ExperimentRequest
from rankwright.service.learning.retraining import file_of
from rankwright.service.log.entries import Event, Judgment, LoggedFeedback, encode

HERE = Path(__file__).parent
LEARN, GRADES = "BayesianPRank", (0.0, 1.0, 2.0, 3.0, 4.0)


def main() -> None:
    random = np.random.default_rng(0)
    path = Path(tempfile.mkdtemp()) / "feedback.db"
    service = create_app(
        Settings(store=str(path), learn=LEARN, grades=GRADES, snapshot_every=10)
    ).service
    X, y = random.standard_normal((40, 3)), np.arange(40) % 5
    model = rw.RidgeRanker().fit(X, y, qid=np.repeat(np.arange(4), 10))
    version = service.models.upload(file_of(model), "ridge", "upload").version
    service.models.activate(version)
    service.experiments.create(
        ExperimentRequest(name="trial", models=["x", "y"]), ["live", version]
    )
    store = service.store
    for number in range(30):
        rows, ids = random.standard_normal((4, 3)), ["a", "b", "c", "d"]
        body = encode(Event(f"q{number}", version, ids, rows[:, 0].tobytes(), rows.tobytes()))
        store.append_event(f"e{number}", body, user=f"user {number % 3}")
        grades = dict(zip(ids, random.integers(0, 5, 4).astype(float).tolist(), strict=True))
        feedback = encode(LoggedFeedback("1", grades=grades, clicks=["a"]))
        store.append("feedback", f"e{number}/1", feedback, event=f"e{number}").result()
        given = {"query": "q", "documents": (f"d{number % 7}",), "features": [rows[0].tolist()]}
        judgment = Judgment("judge", "grades", value=float(number % 5), **given)
        store.append("judgment", f"j{number}", encode(judgment), user="ann").result()
        if number % 4 == 0:
            undo = Judgment("undo", "grades", of=f"j{number}")
            store.append("judgment", f"u{number}", encode(undo), user="ann").result()
    service.close()
    with apsw.Connection(str(path)) as db:
        number = db.execute("PRAGMA user_version").get
        live = db.execute("SELECT value FROM state WHERE name = 'live'").get
        n_entries = db.execute("SELECT count(*) FROM log").get
    facts = {
        "entries": n_entries,
        "active": version,
        "scores": model.decision_function(X[:5]).tolist(),
        "rows": X[:5].tolist(),
        "live": hashlib.sha256(live).hexdigest(),
    }
    (HERE / f"version_{number}.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    (HERE / f"version_{number}.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(f"version {number}: {n_entries} entries", file=sys.stderr)


if __name__ == "__main__":
    main()
