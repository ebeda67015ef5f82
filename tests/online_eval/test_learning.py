"""From a log to a better ranker: every candidate form, every way to the propensities."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.cli.systems import compare_models_on_log
from rankwright.data import ClickSimulator, Items, make_queries
from rankwright.exceptions import DataError, DegenerateDataWarning, FeedbackError, ParameterError
from rankwright.online_eval import learn_from_log

GAMMA = [1.0, 0.6, 0.4, 0.3, 0.2]


@pytest.fixture(scope="module")
def items() -> Items:
    sample = make_queries(60, docs_per_query=6, n_features=4, n_grades=3, random_state=0).items
    return Items(sample.X, sample.y, sample.qid, np.arange(len(sample)).astype(str))


@pytest.fixture(scope="module")
def users(items: Items) -> ClickSimulator:
    return ClickSimulator(items, GAMMA)


def ndcg(items: Items, scores: Any) -> float:
    return float(rw.evaluate(scores, items.y, qid=items.qid, measures=["NDCG@5"])["NDCG@5"])


@pytest.mark.parametrize(
    "ranker", [rw.RankSVM(C=1.0), rw.BayesianPRank(), [rw.RankSVM(C=0.1), rw.RidgeRanker()]]
)
def test_the_model_is_better_than_what_was_shown(
    ranker: Any, items: Items, users: ClickSimulator
) -> None:
    logger = items.X[:, 0]
    found = learn_from_log(users.sessions(logger, 12_000), items, ranker, propensity=GAMMA)
    assert found.method == "given"
    assert found.comparison is not None
    assert found.comparison.better() == found.name
    assert ndcg(items, found.model.decision_function(items.X)) > ndcg(items, logger)


def test_propensities_come_from_moved_items_or_from_features(
    items: Items, users: ClickSimulator
) -> None:
    for experiment, method in (("swap", "harvest"), (None, "regression_em")):
        log = users.sessions(items.X[:, 0], 8000, experiment=experiment)
        found = learn_from_log(log, items, rw.RankSVM(C=1.0))
        assert found.method == method
        assert np.abs(found.propensity - GAMMA).mean() < 0.12


def test_models_are_compared_on_a_log_whose_items_keep_their_positions(
    items: Items, users: ClickSimulator
) -> None:
    log = users.sessions(items.X[:, 0], 8000)
    models = {"old": rw.RidgeRanker().fit(items.X, items.X[:, 0], qid=items.qid)}
    models["new"] = rw.RidgeRanker().fit(items.X, items.y, qid=items.qid)
    with pytest.warns(DegenerateDataWarning, match="has the same position"):
        found = compare_models_on_log(models, log, lambda model: items)
    assert found.better() == "new"


@pytest.mark.parametrize("clicks, share", [(0, "no"), (1, "every")])
def test_a_log_without_clicked_or_without_skipped_items_is_refused(
    clicks: int, share: str, items: Items
) -> None:
    assert items.docid is not None
    log = rw.ImpressionLog.from_arrays(items.qid, items.docid, np.full(len(items), clicks))
    with pytest.raises(DataError, match=f"{share} item of the log was clicked"):
        learn_from_log(log, items)


def test_judgments_outweigh_clicks(items: Items, users: ClickSimulator) -> None:
    log = users.sessions(items.X[:, 0], 2000)
    against = rw.Qrels.from_arrays(items.qid, items.docid, 2 - items.y)
    options: Any = {"propensity": GAMMA, "judgments": against}
    judged = learn_from_log(log, items, rw.RankSVM(), weight=0.01, **options)
    clicked = learn_from_log(log, items, rw.RankSVM(), weight=100.0, **options)
    assert ndcg(items, judged.model.decision_function(items.X)) < 0.5
    assert ndcg(items, clicked.model.decision_function(items.X)) > 0.7
    with pytest.raises(FeedbackError, match="cannot learn from a sum"):
        learn_from_log(log, items, rw.PRank(), **options)
    other = rw.Qrels.from_arrays(["x"], ["y"], [1])
    with pytest.raises(DataError, match="none of the judged documents"):
        learn_from_log(log, items, rw.RankSVM(), propensity=GAMMA, judgments=other)


def test_sessions_with_unknown_items_are_left_out(items: Items, users: ClickSimulator) -> None:
    log = users.sessions(items.X[:, 0], 3000)
    known = items.take(np.arange(items.n_items) % 30 != 0)
    with pytest.warns(DegenerateDataWarning, match="have no features"):
        found = learn_from_log(log, known, rw.RankSVM(), propensity=GAMMA)
    assert found.comparison is not None
    assert found.comparison.logged.n < 600


def test_few_queries_are_not_held_out(items: Items) -> None:
    few = items.take(items.queries.codes < 3)
    log = ClickSimulator(few, GAMMA).sessions(few.X[:, 0], 500)
    assert learn_from_log(log, few, rw.RankSVM(), propensity=GAMMA).comparison is None


def test_missing_features_go_to_a_ranker_that_takes_them(
    items: Items, users: ClickSimulator
) -> None:
    X = np.array(items.X)
    X[3, 1] = np.nan
    holes = Items(X, items.y, items.qid, items.docid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = learn_from_log(users.sessions(X[:, 0], 1000), holes, propensity=GAMMA)
    assert found.name == "RankBoost"
    with pytest.raises(ParameterError, match="give a ranker"):
        learn_from_log(users.sessions(X[:, 0], 100), holes, "RankBoost", propensity=GAMMA)
