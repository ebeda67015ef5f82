"""What rankers declare of their scores is what the targets of exports find in them."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import rankwright as rw
from contract.instances import INSTANCES
from rankwright.exports.writer import TARGETS, support
from rankwright.rankers.deployment import holds
from rankwright.scoring.kinds import HOLDS
from rankwright.testing.inputs import make_problem

PROBLEM = make_problem()
MORE = [
    make_pipeline(StandardScaler(), rw.RankSVM()),
    make_pipeline(MinMaxScaler(clip=True), rw.RankSVM()),
    make_pipeline(MinMaxScaler(clip=True), rw.RankBoost(n_estimators=5)),
    make_pipeline(StandardScaler(), rw.RankNet(max_iter=5, random_state=0)),
    make_pipeline(StandardScaler(), rw.MPRank(kernel="rbf")),
    make_pipeline(rw.rankers.PolynomialMap(), rw.RankSVM()),
    make_pipeline(rw.QueryNormalizer(), rw.RankBoost(n_estimators=5)),
    make_pipeline(rw.rankers.VSIMFeature(), rw.RankBoost(n_estimators=5)),
    make_pipeline(rw.rankers.OnlineScaler(), rw.PRank()),
    make_pipeline(StandardScaler(), rw.RankEnsemble([rw.RankSVM(), rw.RidgeRanker()])),
    rw.RankSVM(normalize="query"),
    rw.RankEnsemble([rw.RankSVM(), rw.RidgeRanker()]),
    rw.RankEnsemble([rw.RankSVM(), make_pipeline(MinMaxScaler(clip=True), rw.RankSVM())]),
    rw.RankEnsemble([rw.LambdaMART(n_estimators=3), rw.RankBoost(n_estimators=3), rw.FRank()]),
    rw.RankEnsemble([rw.PRank(), rw.MulticlassPerceptron()]),
    rw.RankEnsemble([rw.VotedPRank(), rw.VSIM(over="rated")]),
]


def test_the_table_has_every_target() -> None:
    assert HOLDS.keys() == TARGETS.keys()


@pytest.mark.filterwarnings("ignore::rankwright.exceptions.RankwrightWarning")
@pytest.mark.parametrize("model", [*INSTANCES, *MORE], ids=repr)
def test_a_ranker_declares_what_the_targets_find(model: Any) -> None:
    declared = {to: holds(to, model) for to in TARGETS}
    qid = {} if hasattr(model, "steps") else {"qid": PROBLEM.qid}
    fitted = clone(model).fit(PROBLEM.X, PROBLEM.y, **qid)
    found = {to: support(fitted, to, missing="never").level != "no" for to in TARGETS}
    assert declared == found
    assert {to: holds(to, fitted) for to in TARGETS} == found


def test_a_class_counts_with_its_defaults() -> None:
    assert holds("lightgbm", rw.LambdaMART)
    assert not holds("solr", rw.KeepRank)


def test_an_ensemble_of_fitted_models_is_judged_by_them() -> None:
    X, y = PROBLEM.X, PROBLEM.y
    trees = rw.LambdaMART(n_estimators=2).fit(X, y)
    assert holds("lightgbm", rw.RankEnsemble.from_fitted([trees, trees]))
    mixed = rw.RankEnsemble.from_fitted([trees, rw.RankSVM().fit(X, y)])
    assert [to for to in TARGETS if holds(to, mixed)] == ["vespa", "onnx", "sql", "python"]


class Stranger(rw.Ranker):
    def _fit(self, X: Any, feedback: Any) -> None: ...

    def _scorer(self) -> Any: ...


def test_a_ranker_that_declares_nothing_is_held_by_none() -> None:
    assert not any(holds(to, Stranger()) for to in TARGETS)
