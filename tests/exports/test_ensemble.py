"""An ensemble goes to every target that can add up its members; others name the members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import rankwright as rw
from rankwright.exports.writer import TARGETS
from rankwright.scoring import Linear
from rankwright.testing.inputs import make_problem

PROBLEM = make_problem(n_queries=20)
FIT: dict[str, Any] = {"X": PROBLEM.X, "y": PROBLEM.y, "qid": PROBLEM.qid}


def trees(seed: int = 0) -> rw.LambdaMART:
    return rw.LambdaMART(n_estimators=8, min_samples_leaf=2, subsample=0.5, random_state=seed)


def scaled(ranker: Any, scaler: Any = None) -> rw.RankPipeline:
    return rw.RankPipeline([("scale", scaler or StandardScaler()), ("rank", ranker)])


BAGS = rw.RankEnsemble([trees(1), trees(2), rw.RankBoost(n_estimators=10)], weights=[1, 2, 3])
LINES = rw.RankEnsemble([scaled(rw.RankSVM()), rw.RidgeRanker()])
MIXED = rw.RankEnsemble(
    [("bag", rw.RankEnsemble([trees(1), trees(2)])), ("svm", scaled(rw.RankSVM()))], weights=[3, 1]
)
RICH = rw.RankEnsemble(
    [
        ("trees", trees()),
        ("net", scaled(rw.RankNet(max_iter=5, random_state=0))),
        ("deep", rw.RankNet(hidden_layer_sizes=(3, 2), max_iter=5, random_state=0)),
        ("kernel", scaled(rw.MPRank(kernel="rbf"))),
        ("clipped", scaled(rw.RankSVM(), MinMaxScaler(clip=True))),
    ]
)


@pytest.mark.parametrize("to", TARGETS)
def test_an_ensemble_of_trees_and_thresholds_goes_to_every_target(to: str, tmp_path: Path) -> None:
    model = BAGS.fit(**FIT)
    certificate = rw.export(model, tmp_path / "model", to, missing="never")
    assert certificate.status == "exact"
    assert certificate.pairs_reversed_beyond_bound == 0
    assert certificate.model == "RankEnsemble"


def test_lightgbm_scores_a_bag_as_the_weighted_sum_of_its_members(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    model = rw.RankEnsemble([trees(1), trees(2)], weights=[1, 3]).fit(**FIT)
    rw.export(model, tmp_path / "model.txt", "lightgbm")
    booster = lightgbm.Booster(model_file=tmp_path / "model.txt")
    assert booster.num_trees() == 16
    found = booster.predict(PROBLEM.X, raw_score=True, num_threads=1)
    np.testing.assert_array_equal(found, model.decision_function(PROBLEM.X))


@pytest.mark.parametrize("to", [to for to in TARGETS if to != "lightgbm"])
def test_an_ensemble_of_linear_models_is_one_linear_model(to: str, tmp_path: Path) -> None:
    model = LINES.fit(**FIT)
    certificate = rw.export(model, tmp_path / "model", to, allow_order_only=True)
    assert certificate.status == ("order only" if to == "solr" else "exact")


@pytest.mark.parametrize("to", ["onnx", "sql", "vespa", "python"])
@pytest.mark.parametrize("model", [MIXED, RICH], ids=["linear and trees", "all"])
def test_a_sum_of_kinds_goes_where_sums_go(model: Any, to: str, tmp_path: Path) -> None:
    certificate = rw.export(model.fit(**FIT), tmp_path / "model", to)
    assert certificate.status == "exact"
    assert certificate.largest_difference < 1e-10


def test_the_file_of_an_ensemble_is_exported_as_the_ensemble(tmp_path: Path) -> None:
    rw.save(MIXED.fit(**FIT), tmp_path / "model.rw")
    readers = {rw.load: "'svm'", rw.load_scorer: "'term 2'"}  # a scorer knows no names
    for read, name in readers.items():
        model = read(tmp_path / "model.rw")
        assert rw.export(model, tmp_path / "model.onnx", "onnx").status == "exact"
        with pytest.raises(rw.ParameterError, match=name):
            rw.export(model, tmp_path / "model.txt", "lightgbm")


def test_an_ensemble_behind_steps_is_exported_with_them(tmp_path: Path) -> None:
    model = scaled(rw.RankEnsemble([trees(), rw.RankSVM()])).fit(PROBLEM.X, PROBLEM.y)
    assert rw.export(model, tmp_path / "model.sql", "sql").status == "exact"
    steps = [("query", rw.QueryNormalizer()), ("rank", rw.RankEnsemble([trees(), rw.RankSVM()]))]
    model = rw.RankPipeline(steps).fit(**FIT)
    assert rw.export(model, tmp_path / "model.onnx", "onnx").status == "exact"


REFUSALS = [
    (MIXED, "elasticsearch", "cannot add up different kinds.*'bag'.*'svm'"),
    (MIXED, "lightgbm", r"cannot hold the members 'svm' \(linear\)"),
    (RICH, "solr", "cannot hold the members 'kernel'.*'clipped'"),
    (LINES, "lightgbm", "'rankpipeline' .*'ridgeranker'"),
]


@pytest.mark.parametrize("model, to, words", REFUSALS)
def test_a_refusal_names_the_members_and_deploy_to(
    model: Any, to: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(rw.ParameterError, match=words) as caught:
        rw.export(model.fit(**FIT), tmp_path / "model", to)
    assert f'AutoRanker(deploy_to="{to}")' in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_members_without_weight_do_not_stand_in_the_way(tmp_path: Path) -> None:
    model = rw.RankEnsemble([trees(), rw.KeepRank()], weights=[1, 0]).fit(**FIT)
    assert rw.export(model, tmp_path / "model.txt", "lightgbm").status == "exact"


def test_a_sum_of_two_lines_is_a_line() -> None:
    (only,) = LINES.fit(**FIT)._scorer().merged.terms
    assert isinstance(only, Linear)
