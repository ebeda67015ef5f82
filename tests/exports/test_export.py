"""What export takes, refuses and says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeRegressor

import rankwright as rw
from exports.random_models import KINDS, additive, trees
from rankwright.data.datasets.synthetic import make_engines
from rankwright.exports.forest import Branch, Forest, Leaf, ceiling32, floor32, without_categories
from rankwright.exports.form import form_of
from rankwright.exports.target import Options
from rankwright.exports.writer import TARGETS, support
from rankwright.scoring.kernel import KernelExpansion

N = 200


@pytest.fixture(scope="module")
def rows() -> Any:
    return np.random.default_rng(0).normal(size=(N, 4))


@pytest.fixture(scope="module")
def grades(rows: Any) -> Any:
    return np.clip(np.round(rows @ [1.0, 0.5, -0.5, 0.0] + 1), 0, 3)


QID = np.repeat(np.arange(10), N // 10)


@pytest.mark.parametrize(
    "ranker",
    [
        rw.RankBoost(n_estimators=10),
        rw.RankSVM(),
        rw.RidgeRanker(),
        rw.RankNet(max_iter=3, random_state=0),
        rw.FRank(n_estimators=5),
        rw.PRank(),
        rw.VotedPRank(),
        rw.MPRank(kernel="rbf"),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
def test_trained_rankers_are_exported_wherever_they_fit(
    ranker: Any, rows: Any, grades: Any, tmp_path: Path
) -> None:
    model = sklearn.base.clone(ranker).fit(rows, grades, qid=QID)
    held = [to for to in TARGETS if support(model, to).level == "exact"]
    assert "onnx" in held
    for to in held:
        certificate = rw.export(model, tmp_path / "m.out", to, check=rw.Items(rows, grades))
        assert certificate.rows == N
        assert certificate.pairs_reversed_beyond_bound == 0


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), MinMaxScaler(clip=True)])
def test_scalers_are_folded_into_thresholds_to_the_last_bit(
    scaler: Any, rows: Any, grades: Any, tmp_path: Path
) -> None:
    holes = np.where(np.random.default_rng(1).random(rows.shape) < 0.1, np.nan, rows * 30 + 5)
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = rw.RankBoost(n_estimators=15).set_fit_request(qid=True)
        model = make_pipeline(scaler, ranker).fit(holes, grades, qid=QID)
        assert rw.export(model, tmp_path / "m.txt", "lightgbm").largest_difference == 0.0


def test_a_loaded_model_file_is_exported_as_well(rows: Any, grades: Any, tmp_path: Path) -> None:
    model = rw.RankBoost(n_estimators=5).fit(rows, grades, qid=QID)
    rw.save(model, tmp_path / "model.rw")
    for loaded in (rw.load(tmp_path / "model.rw"), rw.load_scorer(tmp_path / "model.rw")):
        rw.export(loaded, tmp_path / "m.onnx", "onnx")
        again = rw.load(tmp_path / "m.onnx")
        np.testing.assert_allclose(
            again.decision_function(rows), model.decision_function(rows), rtol=0, atol=1e-13
        )
        assert again.feature_names == ("feature_1", "feature_2", "feature_3", "feature_4")


def test_a_learned_fusion_has_the_engines_positions_as_features(tmp_path: Path) -> None:
    sample = make_engines(40, random_state=0)
    fusion = rw.LearnedFusion(rw.RankBoost(n_estimators=20)).fit(sample.runs, sample.qrels)
    certificate = rw.export(fusion, tmp_path / "fusion.json", "opensearch")
    assert tuple(certificate.features) == fusion.engines_
    assert certificate.missing == "model"


def test_feature_names_of_the_training_data_are_kept(
    rows: Any, grades: Any, tmp_path: Path
) -> None:
    import pandas as pd

    frame = pd.DataFrame(rows, columns=["bm25", "price", "clicks", "age"])
    model = rw.RankSVM().fit(frame, grades, qid=QID)
    assert rw.export(model, tmp_path / "m.json", "solr").features[0] == "bm25"
    certificate = rw.export(model, tmp_path / "m.sql", "sql", feature_names=list("abcd"))
    assert certificate.features == list("abcd")


def test_a_model_scaled_by_query_takes_one_query_per_batch(
    rows: Any, grades: Any, tmp_path: Path
) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = rw.RankBoost(n_estimators=5).set_fit_request(qid=True)
        model = make_pipeline(rw.QueryNormalizer(), ranker).fit(rows, grades, qid=QID)
        items = rw.Items(rows, grades, qid=QID)
        assert rw.export(model, tmp_path / "m.onnx", "onnx", check=items).pairs_reversed == 0
        with pytest.raises(rw.ParameterError, match=r"within a query.*Targets that hold it: onnx"):
            rw.export(model, tmp_path / "m.json", "opensearch")


def test_the_grade_is_the_second_output(rows: Any, grades: Any, tmp_path: Path) -> None:
    import onnxruntime

    model = rw.PRank().fit(rows, grades, qid=QID)
    assert rw.export(model, tmp_path / "m.onnx", "onnx").grades_equal is True
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["score", "grade"]
    np.testing.assert_array_equal(session.run(["grade"], {"X": rows})[0], model.predict(rows))
    assert {entry.domain: entry.version for entry in _opsets(tmp_path / "m.onnx")} == {
        "": 21,
        "ai.onnx.ml": 5,
    }


def _opsets(path: Path) -> Any:
    import onnx

    return onnx.load(path).opset_import


def test_an_intercept_that_solr_cannot_hold_needs_a_word(tmp_path: Path) -> None:
    model = KINDS["linear with intercept"](np.random.default_rng(0))
    with pytest.raises(rw.ParameterError, match="allow_order_only=True"):
        rw.export(model, tmp_path / "m.json", "solr")
    certificate = rw.export(model, tmp_path / "m.json", "solr", allow_order_only=True)
    assert certificate.status == "order only"
    assert certificate.constant == -model.intercept
    assert certificate.pairs_reversed == 0


@pytest.mark.parametrize(
    "options, fault",
    [
        ({"to": "lucene"}, "to='lucene': use one of elasticsearch"),
        ({"to": "onnx", "dialect": "sqlite"}, "onnx has no such option; it is for sql"),
        ({"to": "sql", "constant": 1.0}, "it is for elasticsearch, opensearch"),
        ({"to": "sql", "dialect": "oracle"}, "use one of duckdb, postgresql, sqlite"),
        ({"to": "sql", "missing": "mean"}, "use one of model, zero, never"),
        ({"to": "opensearch", "constant": float("nan")}, "give a finite number"),
        ({"to": "sql", "feature_names": ["a"]}, "1 names, 1 of them distinct, for a model of"),
        ({"to": "sql", "feature_names": ["a", "a"]}, "2 names, 1 of them distinct"),
        ({"to": "sql", "check": np.zeros((3, 7))}, r"rows of shape \(3, 7\)"),
        (
            {"to": "lightgbm", "feature_names": ["a b", "c"]},
            "in feature names, as in 'a b'",
        ),
        ({"to": "ranklib"}, "missing='never'"),
    ],
)
def test_what_is_wrong_is_refused(options: dict[str, Any], fault: str, tmp_path: Path) -> None:
    model = next(
        model
        for model in (trees(np.random.default_rng(seed)) for seed in range(99))
        if model.n_inputs == 2 and not form_of(model).forest.missing_is_zero  # type: ignore[union-attr]
    )
    with pytest.raises(rw.ParameterError, match=fault):
        rw.export(model, tmp_path / "m", **options)
    assert list(tmp_path.iterdir()) == []


def test_check_rows_with_holes_need_a_model_that_takes_them(tmp_path: Path) -> None:
    model, X = KINDS["linear"](np.random.default_rng(0)), np.full((2, 5), np.nan)
    X = X[:, : model.n_features]
    with pytest.raises(rw.ParameterError, match="some features are missing"):
        rw.export(model, tmp_path / "m.sql", "sql", check=X)
    assert rw.export(model, tmp_path / "m.sql", "sql", check=X, missing="zero").rows == 2


def test_models_that_do_not_score_rows_are_refused(tmp_path: Path) -> None:
    trees = rw.RankBoost(n_estimators=1, estimator=DecisionTreeRegressor(max_depth=1))
    trees.fit([[0.0], [1.0]], [0, 1])
    for model in (rw.RankBoost(), StandardScaler(), rw.Recommender(), trees):
        fault = "does not score rows, is not fitted, or has estimators that are not of rankwright"
        with pytest.raises(rw.ParameterError, match=fault):
            rw.export(model, tmp_path / "m.sql", "sql")


@pytest.mark.parametrize(
    "step", [RobustScaler(), FunctionTransformer()], ids=lambda step: type(step).__name__
)
def test_a_pipeline_with_a_step_that_no_target_holds_is_refused(
    step: Any, rows: Any, grades: Any, tmp_path: Path
) -> None:
    model = rw.RankPipeline([("step", step), ("ranker", rw.RankSVM())]).fit(rows, grades, qid=QID)
    with pytest.raises(rw.ParameterError, match=f"no target holds the step {type(step).__name__}"):
        rw.export(model, tmp_path / "m.sql", "sql")


def test_a_refusal_says_what_the_target_holds_and_which_targets_hold_the_model(
    rows: Any, grades: Any, tmp_path: Path
) -> None:
    network = rw.RankNet(max_iter=1, random_state=0).fit(rows, grades, qid=QID)
    for to in ("elasticsearch", "opensearch", "xgboost", "ranklib"):
        assert "holds linear models and trees only" in support(network, to).reason
    assert "holds trees only" in support(network, "lightgbm").reason
    pytest.importorskip("onnxruntime")
    rw.export(network, tmp_path / "m.onnx", "onnx")
    with pytest.raises(rw.ParameterError, match="Targets that hold it: none"):
        rw.export(rw.load(tmp_path / "m.onnx"), tmp_path / "m.sql", "sql")


@pytest.mark.parametrize("to", ["elasticsearch", "opensearch"])
def test_a_certificate_says_if_scores_are_negative_where_the_engine_refuses_them(
    to: str, rows: Any, grades: Any, tmp_path: Path
) -> None:
    model = rw.RankSVM().fit(rows, grades, qid=QID)
    assert "refuses negative scores" in str(rw.export(model, tmp_path / "m.json", to))
    for options in ({"check": rows}, {"constant": 100.0}):
        certificate = rw.export(model, tmp_path / "m.json", to, **options)
        assert certificate.lowest_score >= 0
        assert "negative" not in str(certificate)


def test_an_expression_that_is_too_long_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    small: KernelExpansion = KINDS["kernel expansion"](rng)
    kernel = type(small.kernel)("rbf")
    model = KernelExpansion(kernel, rng.normal(size=(6000, 10)), rng.normal(size=6000))
    with pytest.raises(rw.ParameterError, match="1,000,000 characters"):
        rw.export(model, tmp_path / "m.sql", "sql", dialect="sqlite")
    larger = KernelExpansion(kernel, rng.normal(size=(20_000, 10)), rng.normal(size=20_000))
    with pytest.raises(rw.ParameterError, match="4,000,000 characters"):
        rw.export(larger, tmp_path / "m.sql", "sql")
    assert rw.export(model, tmp_path / "m.onnx", "onnx").pairs_reversed == 0


@pytest.mark.parametrize("dialect", ["duckdb", "postgresql", "sqlite"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_a_kernel_model_in_sql_is_as_long_as_its_support(
    kernel: str, dialect: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    function = type(KINDS["kernel expansion"](rng).kernel)(kernel, gamma=0.01, degree=2)
    model = KernelExpansion(function, rng.normal(size=(100, 60)), rng.normal(size=100))
    certificate = rw.export(model, tmp_path / "m.sql", "sql", dialect=dialect)
    assert certificate.largest_difference < 1e-10
    assert (tmp_path / "m.sql").stat().st_size < 40 * model.support.size


def test_a_long_sum_does_not_exceed_the_depth_of_databases(tmp_path: Path) -> None:
    n = 3000
    model = KINDS["linear"](np.random.default_rng(0))
    wide = type(model)(np.random.default_rng(1).normal(size=n))
    X = np.random.default_rng(2).normal(size=(3, n))
    certificate = rw.export(wide, tmp_path / "m.sql", "sql", check=X, dialect="duckdb")
    assert certificate.pairs_reversed == 0


def test_float32_thresholds_decide_as_doubles_do() -> None:
    rng = np.random.default_rng(0)
    for t in [*rng.normal(size=300), 0.0, 1e300, -1e300, 1e-310, 16777217.0]:
        near = np.float32(np.clip(t, -3e38, 3e38))
        for x in (near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9))):
            assert (float(x) > t) == (float(x) > floor32(t))
            assert (float(x) > t) == (not float(x) < ceiling32(t))


def walk(node: Any, row: Any) -> float:
    while isinstance(node, Branch):
        x = row[node.feature]
        up = node.default if np.isnan(x) else node.is_high(float(x))
        node = node.high if up else node.low
    return float(node.value)


CATEGORICAL = [
    Forest((Branch(0, 0.0, Leaf(1.0), Leaf(2.0), default, (1.0, 2.0, 40.0)),))
    for default in (False, True)
] + [
    Forest(
        (
            Branch(
                1, 0.0, Branch(0, 0.5, Leaf(-1.0), Leaf(4.0), True),
                Branch(0, 0.0, Leaf(1.0), Leaf(2.0), True, (0.0, 3.0)), True, (2.0, 33.0),
            ),
            Leaf(0.25),
        )
    )
]  # fmt: skip


@pytest.mark.parametrize("forest", CATEGORICAL)
def test_categories_are_tests_of_membership_or_chains_of_thresholds(forest: Forest) -> None:
    values = [np.nan, -1.0, 0.0, 1.0, 2.0, 3.0, 33.0, 40.0, 41.0, 99.0]
    X = np.array([[a, b] for a in values for b in values])
    exact = [sum(walk(tree, row) for tree in forest.trees) for row in X]
    chained = without_categories(forest)
    assert not chained.has_categories
    for row in X:
        assert [walk(tree, row) for tree in chained.trees] == [
            walk(tree, row) for tree in forest.trees
        ]
    form = _form_with(forest)
    for name in ("lightgbm", "onnx", "sql", "vespa", "xgboost", "solr", "elasticsearch"):
        target = TARGETS[name]
        options = Options("m", "m", constant=0.0)
        files = target.write(form, options)
        found = target.read(files, X, form, options).scores
        np.testing.assert_allclose(found, exact, rtol=1e-6, err_msg=name)


def _form_with(forest: Forest) -> Any:
    from dataclasses import replace

    model = next(m for m in map(additive, map(np.random.default_rng, range(99))) if m.n_inputs == 2)
    return replace(form_of(model), body=forest)


def test_lambdamart_with_categories_is_exported_everywhere(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=400), rng.integers(0, 8, 400), rng.normal(size=400)])
    X[rng.random(X.shape) < 0.1] = np.nan
    lift = np.array([0, 3, 0, 2, 0, 0, 1, 3])[np.nan_to_num(X[:, 1]).astype(int)]
    y = np.clip(lift + (X[:, 0] > 0), 0, 4)
    model = rw.LambdaMART(n_estimators=8, max_leaf_nodes=6, categorical_features=[1])
    model.fit(X, y, qid=np.repeat(np.arange(20), 20))
    assert form_of(model).forest.has_categories  # type: ignore[union-attr]
    for to in TARGETS:
        if to == "ranklib":  # it takes a missing feature as 0
            continue
        certificate = rw.export(model, tmp_path / "m.out", to, check=X)
        assert certificate.pairs_reversed_beyond_bound == 0
        rw.export(model, tmp_path / "m.out", to)
    assert rw.export(model, tmp_path / "m.txt", "lightgbm").largest_difference == 0.0
    rw.export(model, tmp_path / "m.txt", "ranklib", missing="zero")


def test_the_certificate_is_honest_about_its_reader(tmp_path: Path) -> None:
    model = KINDS["linear"](np.random.default_rng(0))
    readers = {to: rw.export(model, tmp_path / "m", to).reader for to in ("opensearch", "vespa")}
    assert "plugin not run" in readers["opensearch"]
    assert "Vespa itself not run" in readers["vespa"]
    text = json.loads((tmp_path / "m.certificate.json").read_text())
    assert text["sha256"] == _sha(tmp_path / "m")


def _sha(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_exported_python_module_needs_the_standard_library_only(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
    model = rw.PRank().fit(X, y)
    path = tmp_path / "score.py"
    rw.export(model, path, "python", feature_names=['a "b"', "c\n"], missing="never")
    code = "from score import grade, score; import json, sys; rows = json.loads(sys.argv[1])"
    code += "; print(json.dumps([[score(row), grade(row)] for row in rows]))"
    rows = json.dumps([{'a "b"': a, "c\n": c} for a, c in X.tolist()])
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, rows], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    scores, grades = np.array(json.loads(done.stdout)).T
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-12)
    np.testing.assert_array_equal(grades, model.predict(X))
