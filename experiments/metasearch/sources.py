"""Engines' lists with judgments: LETOR 4.0 rank aggregation and TREC Robust 2003."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

import rankwright as rw
from rankwright.exceptions import DatasetError

SOURCES = {
    "letor4-mq2008-agg": "MQ2008-agg, 25 engines",
    "letor4-mq2007-agg": "MQ2007-agg, 21 engines",
    "trec-robust03": "TREC Robust 2003, the first 100 of each of 17 runs",
}
DEPTH = 100
AP = {"letor4-mq2008-agg": "AP", "letor4-mq2007-agg": "AP", "trec-robust03": f"AP@{DEPTH}"}


@dataclass(frozen=True)
class Engines:
    """Runs with qrels; queries without a relevant document are left out."""

    title: str
    runs: list[rw.Run]
    qrels: rw.Qrels
    features: str  # what LearnedFusion looks at
    measures: tuple[str, ...]  # what is tested for significance


def load(name: str, n_queries: int | None = None) -> Engines:
    """One source; ``n_queries`` keeps the first so many of its queries."""
    try:
        data = rw.load_dataset(name)
    except DatasetError as error:
        sys.exit(f"{name} is needed; set RANKWRIGHT_DATA to the folder that has it. {error}")
    if isinstance(data, rw.Items):
        # The value is the place in the engine's whole list, of which only judged documents are
        # here: minus the value is the score, and the feature, of the run.
        runs, qrels, features = runs_of(data), _qrels_of(data), "none"
    else:
        runs = [run.top(DEPTH) for run in data.runs.values()]
        qrels, features = data.qrels, "position"
    measures = ("AverageRank(cap=31)", AP[name], "NDCG@10", "Top@10")
    relevant = np.unique(qrels.query[qrels.grade > 0])[:n_queries]
    judged = qrels.take(np.isin(qrels.query, relevant))
    return Engines(SOURCES[name], runs, judged, features, measures)


def runs_of(items: rw.Items) -> list[rw.Run]:
    """A run per column of places (1 = top, NaN = unlisted)."""
    runs = []
    for column in range(items.X.shape[1]):
        listed = np.flatnonzero(~np.isnan(items.X[:, column]))
        place = items.X[listed, column]
        name = f"engine {column + 1}"
        runs.append(rw.Run.from_arrays(items.qid[listed], items.docid[listed], -place, name))
    return runs


def _qrels_of(items: rw.Items) -> rw.Qrels:
    return rw.Qrels.from_arrays(items.qid, items.docid, items.y.astype(np.int64))
