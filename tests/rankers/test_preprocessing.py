"""Scaling by query, written out; alone, in a pipeline and in a search. The polynomial map."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwright as rw
from rankwright.data.datasets.synthetic import make_ordinal
from rankwright.testing.inputs import make_problem

RULES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "minmax": lambda x: (x - x.min()) / (x.max() - x.min()) if np.ptp(x) else x * 0,
    "standard": lambda x: (x - x.mean()) / x.std() if np.ptp(x) else x * 0,
    "max": lambda x: x / np.abs(x).max() if np.abs(x).max() else x * 0,
}


@pytest.mark.parametrize("method", RULES)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 2)), min_size=1, max_size=12))
def test_each_query_is_scaled_by_itself(method: str, rows: list[tuple[int, int]]) -> None:
    x, qid = np.array(rows, dtype=float).T
    found = rw.QueryNormalizer(method=method).fit_transform(x[:, None], qid=qid)[:, 0]
    for query in np.unique(qid):
        wanted = RULES[method](x[qid == query])
        np.testing.assert_allclose(found[qid == query], wanted, atol=1e-12)


def test_an_abstention_stays_one_and_is_not_counted() -> None:
    X = [[1.0], [np.nan], [3.0], [np.nan]]
    scaled = rw.QueryNormalizer().fit_transform(X, qid=[0, 0, 0, 1])
    np.testing.assert_array_equal(scaled, [[0.0], [np.nan], [1.0], [np.nan]])


def test_the_letor_release_of_ohsumed_is_scaled_by_this_rule(
    real_data: Callable[..., object],
) -> None:
    raw = rw.read_letor(real_data("letor3-ohsumed/Feature-min/ALL/OHSUMED.txt.gz"))
    ours = rw.QueryNormalizer().fit_transform(raw.X, qid=raw.qid)
    theirs = rw.read_letor(real_data("letor3-ohsumed/QueryLevelNorm/Fold1/train.txt.gz"))
    place = {key: row for row, key in enumerate(zip(raw.qid, raw.docid, strict=True))}
    rows = [place[key] for key in zip(theirs.qid, theirs.docid, strict=True)]
    np.testing.assert_allclose(ours[rows], theirs.X, atol=2e-6)


def test_queries_reach_it_inside_a_pipeline_and_a_search() -> None:
    problem = make_problem()
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(rw.QueryNormalizer(), rw.RidgeRanker())
        folds = GroupKFold(3).set_split_request(groups="qid")
        grid = {"querynormalizer__method": ["minmax", "standard"], "ridgeranker__alpha": [0.0, 1.0]}
        search = GridSearchCV(pipeline, grid, cv=folds, error_score="raise")
        search.fit(problem.X, problem.y, qid=problem.qid)
        found = search.best_estimator_.decision_function(problem.X, qid=problem.qid)
    normalizer, ranker = (clone(step) for _, step in search.best_estimator_.steps)
    scaled = normalizer.fit_transform(problem.X, qid=problem.qid)
    ranker.fit(scaled, problem.y, qid=problem.qid)
    np.testing.assert_allclose(found, ranker.decision_function(scaled), rtol=1e-12)


@parametrize_with_checks(
    [rw.QueryNormalizer()],
    expected_failed_checks=lambda _: {
        "check_methods_subset_invariance": "a row is scaled by the other rows of its query"
    },
)
def test_query_normalizer_keeps_the_contract_of_a_transformer(
    estimator: object, check: Callable[[object], None]
) -> None:
    check(estimator)


@parametrize_with_checks([rw.rankers.PolynomialMap()])
def test_polynomial_map_keeps_the_contract_of_a_transformer(estimator: Any, check: Any) -> None:
    check(estimator)


def test_before_prank_it_is_the_kernel_and_it_can_be_saved(tmp_path: Path) -> None:
    sample = make_ordinal(400, random_state=0)
    pipeline = make_pipeline(rw.rankers.PolynomialMap(degree=2), rw.PRank()).fit(sample.X, sample.y)
    kernel = rw.KernelPRank(kernel="poly", degree=2, gamma=1.0).fit(sample.X, sample.y)
    wanted = kernel.predict(sample.X)
    np.testing.assert_array_equal(pipeline.predict(sample.X), wanted)
    rw.save(pipeline, tmp_path / "model.rw")
    np.testing.assert_array_equal(rw.load(tmp_path / "model.rw").predict(sample.X), wanted)
    np.testing.assert_array_equal(rw.load_scorer(tmp_path / "model.rw").predict(sample.X), wanted)
