"""Relevance from clicks: unbiased by arithmetic, safe by warning, one road for all rankers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import ClickSimulator, ImpressionLog, Items
from rankwright.exceptions import ClickBiasWarning, DegenerateDataWarning, FeedbackError
from rankwright.feedback import click_relevance, skip_above


def expected_log(users: ClickSimulator, scores: Any) -> tuple[ImpressionLog, Any]:
    """Each list once, and the probability of a click on each row."""
    log = users.sessions(scores, 400)
    _, first = np.unique(log.query[log.starts[:-1]], return_index=True)
    log = log.take(first)
    slope, offset = users.affine
    relevance = users.relevance[log.rows_in(users.items)]
    return log, slope[log.position - 1] * relevance + offset[log.position - 1]


def test_the_estimate_is_the_truth_when_clicks_are_their_probabilities(items: Items) -> None:
    """Sums of clicks are linear, so their mean may be put in the place of clicks."""
    users = ClickSimulator(items, [1.0, 0.6, 0.4, 0.3, 0.2], noise=0.1, trust=0.3)
    log, chance = expected_log(users, items.X[:, 0])
    object.__setattr__(log, "clicked", chance)
    slope, offset = users.affine
    found = click_relevance(log, items, slope, offset=offset, prior=0.0)
    shown = found.examined > 0
    assert found.relevance[shown] == pytest.approx(users.relevance[shown])


def test_trust_bias_needs_the_offset(items: Items) -> None:
    users = ClickSimulator(items, [1.0, 0.6, 0.4, 0.3, 0.2], trust=0.5)
    log = users.sessions(items.y + items.X[:, 0], 40_000)
    slope, offset = users.affine
    with_offset = click_relevance(log, items, slope, offset=offset)
    without = click_relevance(log, items, users.examination)
    shown = with_offset.examined > 0
    error = [
        np.abs(found.relevance[shown] - users.relevance[shown]).mean()
        for found in (with_offset, without)
    ]
    assert error[0] < 0.05
    assert error[1] > 2 * error[0]


def test_little_evidence_is_shrunk_to_the_mean_of_the_query(
    items: Items, scores: np.ndarray
) -> None:
    users = ClickSimulator(items, [1.0, 0.6, 0.4, 0.3, 0.2], {0: 0.2, 1: 0.3, 2: 0.5})
    log = users.sessions(scores, 150)
    raw = click_relevance(log, items, users.examination, prior=0.0)
    shrunk = click_relevance(log, items, users.examination)
    shown = raw.examined > 0
    truth = users.relevance[shown]
    assert np.mean((shrunk.relevance[shown] - truth) ** 2) < 0.6 * np.mean(
        (raw.relevance[shown] - truth) ** 2
    )
    never = ~shown
    assert never.any()
    assert shrunk.feedback.sample_weight[never].max() == 0


def test_grades_are_whole_and_keep_the_order(
    items: Items, users: ClickSimulator, scores: np.ndarray
) -> None:
    found = click_relevance(users.sessions(scores, 2000), items, users.examination)
    grades = found.grades(4)
    assert set(grades) <= {0, 1, 2, 3}
    order = np.argsort(found.relevance)
    assert (np.diff(grades[order]) >= 0).all()
    with pytest.raises(FeedbackError, match="two grades"):
        found.grades(1)


RANKERS = [
    rw.RankSVM(C=1.0),
    rw.RankBoost(n_estimators=30),
    rw.LambdaMART(n_estimators=20),
    rw.RankNet(max_iter=20, random_state=0),
    rw.OnlineKeepRank(),
    rw.BayesianPRank(),
    rw.RidgeRanker(),
]


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: type(ranker).__name__)
def test_every_ranker_learns_from_clicks_by_one_road(
    ranker: Any, items: Items, users: ClickSimulator
) -> None:
    logger = items.X[:, 1]
    log = users.sessions(logger, 6000)
    found = click_relevance(log, items, users.examination)
    model = found.fit(ranker, items.X)
    score = {
        name: rw.evaluate(s, items.y, qid=items.qid, measures=["NDCG@5"])["NDCG@5"]
        for name, s in (("logger", logger), ("model", model.decision_function(items.X)))
    }
    assert score["model"] > score["logger"]


def test_propensities_that_are_too_small_are_found_out(
    items: Items, users: ClickSimulator, scores: np.ndarray
) -> None:
    log = users.sessions(scores, 20_000)
    right = np.asarray(users.examination)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        click_relevance(log, items, right)
        click_relevance(log, items, np.sqrt(right))
        click_relevance(log, items)
    with pytest.warns(DegenerateDataWarning, match="reverses the logged order"):
        click_relevance(log, items, right**2.5)


def test_pairs_against_the_shown_order_warn_when_they_are_all_there_is(
    items: Items, users: ClickSimulator, scores: np.ndarray
) -> None:
    log = users.sessions(scores, 300)
    rows = log.rows_in(items)
    pairs = skip_above(rows, log.clicked, log.session, log.position)
    with pytest.warns(ClickBiasWarning, match="Use click_relevance"):
        rw.RankSVM().fit_feedback(items.X, pairs)
    with pytest.warns(ClickBiasWarning):
        rw.RankSVM().fit_feedback(items.X, 2.0 * pairs)
    grades = rw.Grades(items.y, items.qid)
    small = 0.1 * grades.total_weight / pairs.total_weight
    rw.RankSVM().fit_feedback(items.X, grades + small * pairs)  # no warning: judgments weigh more
    shuffled = users.sessions(scores, 300, experiment="shuffle")
    rows = shuffled.rows_in(items)
    fair = skip_above(rows, shuffled.clicked, shuffled.session, shuffled.position)
    rw.RankSVM().fit_feedback(items.X, fair)


def test_items_never_shown_stay_below_or_are_warned_of(items: Items) -> None:
    users = ClickSimulator(items, [1.0, 0.5])  # two of eight items are shown
    log = users.sessions(items.y, 500)
    with pytest.warns(ClickBiasWarning, match="75% of the items of these queries were never"):
        ignored = click_relevance(log, items, users.examination)
    assert ignored.feedback.sample_weight[ignored.examined == 0].max() == 0
    found = click_relevance(log, items, users.examination, unseen=0.1)
    assert set(found.weight) == {0.1, 1.0}
    lowest = np.full(items.n_queries, np.inf)
    np.minimum.at(lowest, items.queries.codes, np.where(found.weight == 1, found.relevance, 9.0))
    hidden = found.weight < 1
    assert (found.relevance[hidden] <= lowest[items.queries.codes[hidden]]).all()
    with pytest.warns(ClickBiasWarning, match=r"75% .* RankSVM\(normalize=None\) may still put"):
        found.fit(rw.RankSVM(), items.X)
    found.fit(rw.RankSVM(normalize="query"), items.X)  # no warning
    with pytest.raises(FeedbackError, match="from 0 to 1"):
        click_relevance(log, items, users.examination, unseen=2)


def test_errors_say_what_is_needed(items: Items, users: ClickSimulator) -> None:
    log = users.sessions(items.y, 30)
    with pytest.raises(FeedbackError, match="has 2 entries, but position 5"):
        click_relevance(log, items, [1.0, 0.5])
    with pytest.raises(FeedbackError, match="0 < p <= 1"):
        click_relevance(log, items, [1.0, 0.5, 0.0, 0.1, 0.1])
    with pytest.raises(FeedbackError, match="0 <= p < 1"):
        click_relevance(log, items, [1.0] * 5, offset=[1.0] * 5)
    quiet = ImpressionLog.from_arrays(log.queries[log.query], log.items[log.item], 0 * log.clicks,
                                      session=log.session)  # fmt: skip
    with pytest.warns(DegenerateDataWarning, match="no click"):
        found = click_relevance(quiet, items)
    assert found.grades().max() == 0
