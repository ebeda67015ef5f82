"""What the experiments on clicks share: graded sets, loggers, attention curves, scores."""

from __future__ import annotations

import argparse
import json
import os
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rankwright as rw
from rankwright.data import ClickSimulator, ImpressionLog, Items
from rankwright.exceptions import ClickBiasWarning, DegenerateDataWarning

RESULTS = Path(__file__).parents[1] / "_results"
FILES = {
    "MQ2008": "letor4-mq2008/Fold1/{}.txt.gz",
    "OHSUMED": "letor3-ohsumed/QueryLevelNorm/Fold1/{}.txt.gz",
    "MSLR sample": "mslr-web-sample/msn1.fold1.{}.5k.txt.gz",
}
# Features (from 0) that serve as logging rankers; OHSUMED's second one is its best feature.
LOGGERS = {"MQ2008": (24, 14), "OHSUMED": (40, 10), "MSLR sample": (109, 25)}
ATTENTION = {  # of position 1, 2, ..., 10
    "1 / position": 1.0 / np.arange(1, 11),
    "1 / sqrt(position)": np.arange(1, 11) ** -0.5,
    "0.8 ** position": 0.8 ** np.arange(10),
}


class Task(NamedTuple):
    """A graded set: queries whose lists are shown, and queries to measure on."""

    name: str
    train: Items
    test: Items

    def ndcg(self, scores: Any) -> float:
        return float(rw.evaluate(scores, self.test.y, self.test.qid, ["NDCG@10"])["NDCG@10"])

    def logger_ndcg(self, feature: int) -> float:
        return self.ndcg(self.test.X[:, feature])

    def model_ndcg(self, model: Any) -> float:
        return self.ndcg(model.decision_function(self.test.X, self.test.qid))

    def fit(self, feedback: Any, ranker: Any = None) -> float:
        """NDCG@10 on the test queries after learning; the feedback has the same total weight."""
        model = rw.RankSVM(C=1.0, normalize="query") if ranker is None else ranker
        if type(model).takes(rw.feedback.Mixture) and feedback.total_weight > 0:
            feedback = feedback * (100.0 / feedback.total_weight)
        return self.model_ndcg(model.fit_feedback(self.train.X, feedback, qid=self.train.qid))


@cache
def load(name: str) -> Task:
    folder = Path(os.environ["RANKWRIGHT_DATA"])
    parts = [rw.read_letor(folder / FILES[name].format(part)) for part in ("train", "test")]
    ids = np.array([f"d{row}" for row in range(parts[0].n_items)])
    return Task(name, replace(parts[0], docid=ids), parts[1])


def simulate(
    task: Task, feature: int, gamma: Any, n_sessions: int, seed: int, **options: Any
) -> tuple[ClickSimulator, ImpressionLog]:
    """Users of a logging ranker; 5 % of the examined irrelevant items are clicked."""
    users = ClickSimulator(task.train, gamma, noise=0.05)
    scores = task.train.X[:, feature]
    return users, users.sessions(scores, n_sessions, random_state=seed, **options)


class Warned:
    """Whether a block warned that what is learned may be reversed."""

    def __enter__(self) -> Warned:
        self._catch = warnings.catch_warnings(record=True)
        self._seen = self._catch.__enter__()
        warnings.simplefilter("always")
        return self

    def __exit__(self, *error: Any) -> None:
        self._catch.__exit__(*error)
        kinds = ClickBiasWarning, DegenerateDataWarning
        self.said = any(issubclass(one.category, kinds) for one in self._seen or ())


def options(argv: list[str], **more: Any) -> Any:
    """The parsed options: ``--quick`` runs a few trials."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args(argv)


def write(name: str, content: Any) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def spread(values: list[float]) -> str:
    """Mean and standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.3f} +- {error:.3f}"
