"""The protocol of the LETOR folds: train, choose on validation, measure on test, five times."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import rankwright as rw
from rankwright.exceptions import DatasetError, RankwrightWarning

RESULTS = Path(__file__).parents[1] / "_results"
PLACES = range(1, 11)
MEASURES = ["AP", *(f"P@{n}" for n in PLACES), *(f"NDCG@{n}" for n in PLACES)]
# Not to be had any more from their publisher; read from RANKWRIGHT_DATA when a user has them.
BY_HAND = {"letor3-td2003": "TD2003", "letor3-td2004": "TD2004"}


@dataclass(frozen=True)
class System:
    """A ranker and the parameters that are chosen on validation queries."""

    name: str
    ranker: Any
    space: dict[str, list[Any]]


@dataclass(frozen=True)
class Outcome:
    """One system on one fold."""

    params: dict[str, Any]
    valid: float
    seconds: float
    n_bytes: int
    scores: np.ndarray  # of the test rows


def load_fold(name: str, fold: int) -> Any:
    """Training, validation and test part of a fold."""
    if name not in BY_HAND:
        return rw.load_dataset(name, fold=fold)
    folder = Path(name, "QueryLevelNorm", f"Fold{fold}")
    here = Path(os.environ.get("RANKWRIGHT_DATA", ".")) / folder
    parts = {}
    for part in ("train", "vali", "test"):
        found = [path for path in here.glob(f"{part}*.txt*") if path.suffix in (".txt", ".gz")]
        if not found:
            raise DatasetError(
                f"{BY_HAND[name]} is not here: no {folder / part}.txt in the folder that "
                "RANKWRIGHT_DATA names"
            )
        parts[part] = rw.read_letor(found[0])
    return type("Fold", (), parts)


def run_system(
    system: System, data: Any, measure: str, like: str | None = None, n_jobs: int = 1
) -> Outcome:
    """Choose on validation, train once more for the time, score the test rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankwrightWarning)
        search = rw.tune(
            system.ranker, system.space, data.train, data.vali, measure, like=like, n_jobs=n_jobs
        )
        start = time.process_time()  # others may use the machine too
        model = clone(search.best_estimator_).fit(data.train.X, data.train.y, qid=data.train.qid)
        seconds = time.process_time() - start
    scores = model.decision_function(data.test.X, qid=data.test.qid)
    return Outcome(
        search.best_params_,
        search.trials_.best.value,
        seconds,
        model_size(model),
        np.asarray(scores),
    )


def model_size(model: Any) -> int:
    """Bytes of the saved model."""
    if hasattr(model, "model_bytes"):  # a peer
        return int(model.model_bytes())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.rw"
        rw.save(model, path)
        return path.stat().st_size


def run_folds(
    name: str, systems: list[System], measure: str, like: str | None, n_folds: int = 5
) -> tuple[dict[str, list[Outcome]], list[Any]]:
    """Every system on every fold; the test parts beside."""
    outcomes: dict[str, list[Outcome]] = {system.name: [] for system in systems}
    tests = []
    for fold in range(1, n_folds + 1):
        data = load_fold(name, fold)
        tests.append(data.test)
        for system in systems:
            outcome = run_system(system, data, measure, like)
            outcomes[system.name].append(outcome)
            print(
                f"  {name} fold {fold} {system.name}: {outcome.params} "
                f"{measure} on validation {outcome.valid:.4f}, {outcome.seconds:.1f} s",
                file=sys.stderr,
                flush=True,
            )
    return outcomes, tests


def by_fold(outcomes: list[Outcome], tests: list[Any], like: str | None) -> list[dict[str, float]]:
    """Means of every measure, fold by fold."""
    return [
        dict(rw.evaluate(outcome.scores, test.y, test.qid, MEASURES, like=like))
        for outcome, test in zip(outcomes, tests, strict=True)
    ]


def pooled(outcomes: list[Outcome], tests: list[Any], measures: list[str], like: str | None) -> Any:
    """All test queries together (each is tested in one fold)."""
    return rw.evaluate(
        np.concatenate([outcome.scores for outcome in outcomes]),
        np.concatenate([test.y for test in tests]),
        np.concatenate([test.qid for test in tests]),
        measures,
        like=like,
    )


def save(name: str, content: Any) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1, default=str))
    print(f"written: experiments/_results/{name}.json", file=sys.stderr)


def load(name: str, wanted: bool) -> dict[str, Any]:
    """What an earlier run has written, if that is wanted."""
    path = RESULTS / f"{name}.json"
    return dict(json.loads(path.read_text())) if wanted and path.exists() else {}
