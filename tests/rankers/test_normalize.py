"""normalize="query": the ranker alone does what QueryNormalizer and the ranker do together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import rankwright as rw
from rankwright.exceptions import MissingQueryWarning
from rankwright.feedback.pairs import Pairs
from rankwright.testing.problems import make_problem

PROBLEM = make_problem()
SCALED = rw.QueryNormalizer().fit_transform(PROBLEM.X, qid=PROBLEM.qid)
RANKERS = [
    rw.RankSVM(),
    rw.RankNet(max_iter=5, random_state=0),
    rw.LargeMarginOrdinal(),
    rw.KeepRank(),
    rw.OnlineKeepRank(),
]


@pytest.fixture(params=RANKERS, ids=repr)
def ranker(request: Any) -> Any:
    return request.param


def alone(ranker: Any) -> Any:
    return clone(ranker).set_params(normalize="query")


def test_it_equals_normalizing_first(ranker: Any) -> None:
    wanted = clone(ranker).fit(SCALED, PROBLEM.y, qid=PROBLEM.qid)
    found = alone(ranker).fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    one, other = found.decision_function(PROBLEM.X, PROBLEM.qid), wanted.decision_function(SCALED)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found.predict(PROBLEM.X, PROBLEM.qid), wanted.predict(SCALED))
    np.testing.assert_array_equal(
        found.rank(PROBLEM.X, PROBLEM.qid), wanted.rank(SCALED, PROBLEM.qid)
    )
    assert found.score(PROBLEM.X, PROBLEM.y, PROBLEM.qid) == wanted.score(
        SCALED, PROBLEM.y, PROBLEM.qid
    )


def test_it_is_inside_the_saved_model(ranker: Any, tmp_path: Path) -> None:
    model = alone(ranker).fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    rw.save(model, tmp_path / "model.rw")
    wanted = model.decision_function(PROBLEM.X, PROBLEM.qid)
    for again in (rw.load(tmp_path / "model.rw"), rw.load_scorer(tmp_path / "model.rw")):
        np.testing.assert_array_equal(again.decision_function(PROBLEM.X, PROBLEM.qid), wanted)


def test_scores_without_queries_warn(ranker: Any) -> None:
    model = alone(ranker).fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    with pytest.warns(MissingQueryWarning, match="Pass qid"):
        model.decision_function(PROBLEM.X)


def test_queries_are_routed_to_predict_in_a_pipeline(ranker: Any) -> None:
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline("passthrough", alone(ranker))
        pipeline.fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
        found = pipeline.predict(PROBLEM.X, qid=PROBLEM.qid)
    wanted = alone(ranker).fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    np.testing.assert_array_equal(found, wanted.predict(PROBLEM.X, PROBLEM.qid))


def test_pairs_are_told_their_queries() -> None:
    pairs = Pairs([0, 1, 12], [3, 4, 14])
    found = rw.RankSVM(normalize="query").fit_feedback(PROBLEM.X, pairs, qid=PROBLEM.qid)
    wanted = rw.RankSVM().fit_feedback(SCALED, pairs)
    np.testing.assert_array_equal(found.coef_, wanted.coef_)


def test_a_stream_of_whole_queries_equals_one_fit() -> None:
    model = rw.OnlineKeepRank(normalize="query")
    for query in range(6):
        part = PROBLEM.take(PROBLEM.qid == query)
        model.partial_fit(part.X, part.y, classes=[0, 1, 2], qid=part.qid)
    wanted = rw.OnlineKeepRank(normalize="query").fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    np.testing.assert_allclose(
        model.decision_function(PROBLEM.X, PROBLEM.qid),
        wanted.decision_function(PROBLEM.X, PROBLEM.qid),
        atol=1e-10,
    )
