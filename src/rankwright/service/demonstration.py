"""Models and a log of generated users, so that every page and call of the service has content."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import rankwright as rw
from rankwright.data.datasets.synthetic import make_engines, make_queries, make_ratings
from rankwright.service.app import Settings
from rankwright.service.log.entries import Event, Feedback, encode
from rankwright.service.log.store import Store

N_QUERIES, N_FEATURES = 300, 10


def demo_settings(folder: str, random_state: int = 0) -> Settings:
    """Settings of a service with generated models and users, in a folder.

    A linear ranker, 50 boosted stumps, a recommender and a learned fusion are served; a
    BayesianPRank learns from the grades that simulated users gave to 300 lists.
    """
    sample = make_queries(
        N_QUERIES, docs_per_query=10, n_features=N_FEATURES, random_state=random_state
    )
    engines = make_engines(40, random_state=random_state)
    train = sample.qid < 30
    X, y, qid = sample.X[train], sample.y[train], sample.qid[train]
    models = {
        "linear": rw.Regression().fit(X, y, qid=qid),
        "boosted": rw.RankBoost(n_estimators=50).fit(X, y, qid=qid),
        "films": rw.Recommender(random_state=random_state).fit(
            make_ratings(80, 60, random_state=random_state).ratings
        ),
        "engines": rw.LearnedFusion().fit(engines.runs, engines.qrels),
    }
    paths = [str(Path(folder) / f"{name}.rw") for name in models]
    for model, path in zip(models.values(), paths, strict=True):
        rw.save(model, path)
    store = str(Path(folder) / "feedback.db")
    _write_log(store, sample, rw.load_scorer(paths[0]))
    return Settings(models=tuple(paths), store=store, learn="BayesianPRank")


def _write_log(path: str, sample: rw.data.datasets.synthetic.QuerySample, scorer: object) -> None:
    """Lists in the order of a model, and the grades of a user for each."""
    store = Store(path)
    futures = []
    for query in range(N_QUERIES):
        rows = np.flatnonzero(sample.qid == query)
        scores = scorer.decision_function(sample.X[rows])  # type: ignore[attr-defined]
        order = np.argsort(-scores, kind="stable")
        ids = [f"d{row}" for row in rows[order]]
        features = sample.X[rows[order]].tobytes()
        body = encode(Event(f"query {query}", "linear", ids, scores[order].tobytes(), features))
        event, user = f"demo-{query}", f"user {query % 20}"
        store.append_event(event, body, user)
        grades = dict(zip(ids, sample.y[rows[order]].astype(float).tolist(), strict=True))
        feedback = encode(Feedback("1", grades=grades))
        futures.append(store.append("feedback", f"{event}/1", feedback, event=event, user=user))
    for future in futures:
        future.result()
    store.close()
