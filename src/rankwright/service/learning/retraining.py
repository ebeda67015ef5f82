"""Train a batch ranker on the log, and compare it with the active model on held-out events."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rankwright as rw
from rankwright.data.queries import split_queries
from rankwright.exceptions import DataError, RankwrightError
from rankwright.metrics.scores import Scores
from rankwright.metrics.significance import randomization
from rankwright.rankers.base import Ranker
from rankwright.rankers.preprocessing import with_encoding
from rankwright.service.models import DeployedModel


class Retrained(NamedTuple):
    """A ranker trained on all graded items, and the mean measure of both on held-out queries."""

    model: Any
    new: float | None
    active: float | None
    p_value: float | None
    n_train: int
    n_test: int


def retrain(
    items: rw.Items,
    ranker: Ranker,
    served: DeployedModel | None,
    *,
    measure: str = "NDCG@10",
    test_size: float = 0.2,
    random_state: int = 0,
) -> Retrained:
    """Train on a part of the queries, compare on the others, then train on all.

    Parameters
    ----------
    items : graded items, see :func:`rankwright.service.learning.labels.items_from_log`
    ranker : a ranker that is not fitted
    served : the active model; it is not compared if it has other features
    measure : what is compared
    test_size : the share of queries that is held out
    """
    if items.n_queries < 2:
        raise DataError(
            f"the log has {items.n_queries} graded query; two are needed to train and compare."
        )
    rows = split_queries(items.qid, test_size=test_size, random_state=random_state)
    train, test = items.take(rows.train), items.take(rows.test)
    ranker.fit(train.X, train.y, qid=train.qid)
    new = rw.evaluate(ranker.decision_function(test.X), test.y, test.qid, [measure])
    old = _scores_of(served, test)
    compared = None if old is None else rw.evaluate(old, test.y, test.qid, [measure])
    ranker.fit(items.X, items.y, qid=items.qid)
    return Retrained(
        with_encoding(ranker, _encoded_as(items, served)),
        _mean(new),
        None if compared is None else _mean(compared),
        None if compared is None else _p_value(new, compared, random_state),
        train.n_queries,
        test.n_queries,
    )


def _encoded_as(items: rw.Items, served: DeployedModel | None) -> rw.Items:
    """The items with the encoding of the active model, if it gave them their features."""
    encoding = None if served is None else served.encoding or served.feature_set
    same = encoding is not None and encoding.feature_names == items.feature_names
    return replace(items, encoding=encoding) if same else items


def file_of(model: object) -> bytes:
    """A model as the bytes of its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.rw"
        rw.save(model, path)
        return path.read_bytes()


def _scores_of(served: DeployedModel | None, test: rw.Items) -> Any:
    """The scores of the active model; None if it cannot score these rows."""
    if served is None or served.model is None:
        return None
    X, names = test.X, test.feature_names
    if served.features is not None and names is not None:
        column = {str(name): number for number, name in enumerate(names)}
        if not set(served.features) <= set(column):
            return None
        X = X[:, [column[name] for name in served.features]]
    try:
        return served.model.decision_function(X, qid=test.qid)
    except RankwrightError:
        return None


def _mean(scores: Scores) -> float | None:
    mean: float | None = next(iter(scores.to_dict().values()))
    return mean


def _p_value(new: Scores, old: Scores, random_state: int) -> float | None:
    """The p-value of a paired randomization test over the held-out queries."""
    measure = new.measures[0]
    values = [scores.per_query(measure) for scores in (new, old)]
    counted = ~np.isnan(values[0]) & ~np.isnan(values[1])
    if counted.sum() < 2:
        return None
    first, second = (scores[counted] for scores in values)
    return float(randomization(first, second, random_state=random_state))
