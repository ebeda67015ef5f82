"""Models of other libraries: equal scores, and nothing but clear errors from damaged files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import DataError, ModelFileError
from rankwright.persist.foreign import decode_ubjson, foreign_kind

GROUPS = [20] * 5
QID = np.repeat(np.arange(5), 20)
N_DAMAGED = 2000


@pytest.fixture(scope="module")
def rows() -> Any:
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[::7, 0] = np.nan
    return X


@pytest.fixture(scope="module")
def grades(rows: Any) -> Any:
    return (np.nan_to_num(rows) @ [1.0, -0.5, 0.3] > 0).astype(int) + (rows[:, 1] > 0)


def more_rows(rows: Any) -> Any:
    rng = np.random.default_rng(1)
    return np.vstack([rows, rng.normal(scale=2.0, size=(300, 3))])


@pytest.fixture(scope="module")
def folder(rows: Any, grades: Any, tmp_path_factory: Any) -> Path:
    """One small file of each library."""
    import catboost
    import lightgbm
    import xgboost

    folder: Path = tmp_path_factory.mktemp("foreign")
    data = lightgbm.Dataset(rows, label=grades, group=GROUPS)
    quiet = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    options = {"objective": "lambdarank", "num_leaves": 5, **quiet}
    lightgbm.train(options, data, 4).save_model(folder / "lightgbm.txt")
    matrix = xgboost.DMatrix(rows, label=grades, nthread=1)
    matrix.set_group(GROUPS)
    options = {"objective": "rank:pairwise", "max_depth": 3, "nthread": 1}
    booster = xgboost.train(options, matrix, 3)
    booster.save_model(folder / "xgboost.json")
    booster.save_model(folder / "xgboost.ubj")
    ranker = catboost.CatBoostRanker(
        iterations=3, depth=3, thread_count=1, verbose=0, allow_writing_files=False
    )
    ranker.fit(rows, grades, group_id=QID)
    ranker.save_model(folder / "catboost.cbm")
    model = rw.RankBoost(n_estimators=6).fit(rows, grades, qid=QID)
    rw.export(model, folder / "rankboost.txt", "ranklib", missing="zero")
    trees = rw.RankBoost(estimator=rw.TreeRanking(min_samples_leaf=5), n_estimators=3)
    trees.fit(rows, grades, qid=QID)
    rw.export(trees, folder / "mart.txt", "ranklib", missing="zero")
    rw.export(trees, folder / "onnx.onnx", "onnx")
    return folder


def test_lightgbm_scores_to_the_last_bit(folder: Path, rows: Any) -> None:
    import lightgbm

    X = more_rows(rows)
    exact = lightgbm.Booster(model_file=folder / "lightgbm.txt").predict(X, raw_score=True)
    model = rw.load(folder / "lightgbm.txt")
    assert model.kind == "LightGBM"
    assert model.n_features == 3
    np.testing.assert_array_equal(model.decision_function(X), exact)
    np.testing.assert_array_equal(
        rw.load_scorer(folder / "lightgbm.txt").decision_function(X), exact
    )


@pytest.mark.parametrize(
    "options",
    [
        {"use_missing": False},
        {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        {"boosting": "dart", "drop_rate": 0.5},
        {"objective": "binary"},
    ],
    ids=str,
)
def test_other_models_of_lightgbm(
    options: dict[str, Any], rows: Any, grades: Any, tmp_path: Path
) -> None:
    import lightgbm

    y = np.minimum(grades, 1) if options.get("objective") == "binary" else grades
    base = {"objective": "lambdarank", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    data = lightgbm.Dataset(rows, label=y, group=GROUPS)
    booster = lightgbm.train({**base, **options}, data, 5)
    booster.save_model(tmp_path / "m.txt")
    X = more_rows(rows)
    found = rw.load(tmp_path / "m.txt").decision_function(X)
    exact = booster.predict(X, raw_score=options.get("boosting") != "rf")
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["xgboost.json", "xgboost.ubj"])
def test_xgboost_scores_to_float32(name: str, folder: Path, rows: Any) -> None:
    import xgboost

    X = more_rows(rows)
    booster = xgboost.Booster(model_file=folder / name)
    exact = booster.predict(xgboost.DMatrix(X, nthread=1), output_margin=True)
    np.testing.assert_allclose(rw.load(folder / name).decision_function(X), exact, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"booster": "dart", "rate_drop": 0.5},
        {"objective": "binary:logistic"},
        {"booster": "gblinear", "objective": "reg:squarederror"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_other_models_of_xgboost(
    options: dict[str, Any], rows: Any, grades: Any, tmp_path: Path
) -> None:
    import xgboost

    y = np.minimum(grades, 1)
    X = np.nan_to_num(rows)
    matrix = xgboost.DMatrix(X, label=y, nthread=1)
    booster = xgboost.train({"max_depth": 3, "nthread": 1, **options}, matrix, 4)
    booster.save_model(tmp_path / "m.json")
    exact = booster.predict(matrix, output_margin=True)
    np.testing.assert_allclose(rw.load(tmp_path / "m.json").decision_function(X), exact, atol=1e-6)


def test_categories_of_lightgbm_and_xgboost(rows: Any, grades: Any, tmp_path: Path) -> None:
    import lightgbm
    import xgboost

    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 40, 100), rows[:, 1]])
    y = np.where(X[:, 0] % 3 == 0, 2, grades)
    options = {"objective": "lambdarank", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 3,
               "min_data_per_group": 2, "cat_smooth": 1}  # fmt: skip
    data = lightgbm.Dataset(X, label=y, group=GROUPS, categorical_feature=[0])
    booster = lightgbm.train(options, data, 5)
    booster.save_model(tmp_path / "m.txt")
    assert "cat_threshold" in (tmp_path / "m.txt").read_text()
    X[::9, 0], X[1::9, 0] = np.nan, 77
    found = rw.load(tmp_path / "m.txt").decision_function(X)
    np.testing.assert_array_equal(found, booster.predict(X, raw_score=True))
    X[1::9, 0] = 3
    matrix = xgboost.DMatrix(X, label=y, feature_types=["c", "float"], nthread=1)
    matrix.set_group(GROUPS)
    options = {"objective": "rank:pairwise", "max_depth": 3, "max_cat_to_onehot": 1, "nthread": 1}
    model = xgboost.train(options, matrix, 3)
    model.save_model(tmp_path / "m.json")
    assert '"categories":[' in (tmp_path / "m.json").read_text()
    exact = model.predict(matrix, output_margin=True)
    np.testing.assert_allclose(rw.load(tmp_path / "m.json").decision_function(X), exact, atol=1e-6)


def test_catboost_scores_to_the_last_bit(folder: Path, rows: Any) -> None:
    import catboost

    X = more_rows(rows)
    exact = catboost.CatBoost().load_model(folder / "catboost.cbm").predict(X)
    np.testing.assert_array_equal(rw.load(folder / "catboost.cbm").decision_function(X), exact)


def test_ranklib_takes_a_missing_feature_as_zero(folder: Path, rows: Any) -> None:
    model = rw.load(folder / "rankboost.txt")
    filled = np.nan_to_num(rows)
    np.testing.assert_array_equal(model.decision_function(rows), model.decision_function(filled))
    wider = np.hstack([filled, filled])
    np.testing.assert_array_equal(model.decision_function(wider), model.decision_function(filled))


RANKLIB = """## LambdaMART
## No. of trees = 2
<ensemble>
	<tree id="1" weight="0.1">
		<split>
			<feature> 2 </feature>
			<threshold> 0.5 </threshold>
			<split pos="left">
				<output> -1.5 </output>
			</split>
			<split pos="right">
				<feature> 1 </feature>
				<threshold> 3.0 </threshold>
				<split pos="left"><output> 2.0 </output></split>
				<split pos="right"><output> 4.0 </output></split>
			</split>
		</split>
	</tree>
</ensemble>
"""


@pytest.mark.parametrize(
    "text, expected",
    [
        (RANKLIB, [-0.15, 0.2, 0.4]),
        ("## Linear Regression\n## Lambda = 1.0E-10\n0:0.5 1:1.0 2:-2.0\n", [0.5, -0.5, 3.5]),
        ("## Coordinate Ascent\n## Restart = 5\n1:0.25 2:0.5\n", [0.5, 0.75, 1.75]),
        ("## RankBoost\n1:0.5:2.0 2:0.5:1.0\n", [2.0, 3.0, 3.0]),
    ],
)
def test_ranklib_by_hand(text: str, expected: list[float], tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(text)
    X = [[1.0, 0.5], [1.0, 1.0], [5.0, 1.0]]
    found = rw.load(tmp_path / "m.txt").decision_function(X)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_onnx_is_read_in_its_own_precision(folder: Path, rows: Any, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    model = rw.load(folder / "onnx.onnx")
    assert np.isfinite(model.decision_function(rows)).all()
    helper, single = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)],
        "sum",
        [helper.make_tensor_value_info("x", single, [None, 3])],
        [helper.make_tensor_value_info("y", single, [None, 1])],
        [onnx.numpy_helper.from_array(np.array([1]), "axes")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(made, tmp_path / "sum.onnx")
    found = rw.load(tmp_path / "sum.onnx").decision_function([[0.5, 1.0, 2.0]])
    assert found.tolist() == [3.5]


def test_a_foreign_model_stands_in_the_same_table(
    folder: Path, rows: Any, grades: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rankwright.cli.systems import EvaluationData, load_system

    data = tmp_path / "test.txt"
    rw.write_letor(rw.Items(np.nan_to_num(rows), grades, qid=QID), data)
    judged = EvaluationData(data)
    for name in ("lightgbm.txt", "xgboost.json", "catboost.cbm", "rankboost.txt", "onnx.onnx"):
        system = load_system(folder / name)
        assert 0.3 < judged.evaluate(system, ["NDCG@10"])["NDCG@10"] <= 1.0


def mutations(raw: bytes, n: int) -> Iterator[bytes]:
    """Cut, flipped, deleted, repeated and inserted bytes, and changed numbers."""
    rng = np.random.default_rng(0)
    numbers = [match.span() for match in re.finditer(rb"-?\d+", raw)]
    for i in range(n):
        place, size = int(rng.integers(len(raw))), int(rng.integers(1, 40))
        kind = i % 6
        if kind == 0:
            yield raw[:place]
        elif kind == 1:
            changed = bytearray(raw)
            for spot in rng.integers(0, len(raw), int(rng.integers(1, 9))):
                changed[spot] = int(rng.integers(256))
            yield bytes(changed)
        elif kind == 2:
            yield raw[:place] + raw[place + size :]
        elif kind == 3:
            yield raw[:place] + raw[place : place + size] * 2 + raw[place + size :]
        elif kind == 4:
            yield raw[:place] + rng.bytes(size) + raw[place:]
        else:
            start, stop = numbers[int(rng.integers(len(numbers)))]
            word = rng.choice(
                [b"-1", b"0", b"2147483647", b"99999999999999999999", b"nan", b"1e999"]
            )
            yield raw[:start] + word + raw[stop:]


FILES = ["lightgbm.txt", "xgboost.json", "xgboost.ubj", "rankboost.txt", "mart.txt", "catboost.cbm",
         "onnx.onnx"]  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_an_error_and_never_a_crash(
    name: str, folder: Path, rows: Any, tmp_path: Path
) -> None:
    raw, path = (folder / name).read_bytes(), tmp_path / name
    n_read, n_files = 0, N_DAMAGED // 2 if name in ("mart.txt", "rankboost.txt") else N_DAMAGED
    for damaged in mutations(raw, n_files):
        path.write_bytes(damaged)
        try:
            model = rw.load(path)
            scores = model.decision_function(np.nan_to_num(rows[:, : model.n_features]))
        except (ModelFileError, DataError):
            continue
        assert np.isfinite(scores).all()
        n_read += 1
    assert n_read < n_files


HOSTILE: dict[str, Callable[[str], str]] = {
    "a cycle": lambda text: re.sub(r"left_child=\S+", "left_child=0", text, count=1),
    "a child out of range": lambda t: re.sub(r"right_child=\S+", "right_child=9999", t, count=1),
    "a feature out of range": lambda t: re.sub(
        r"split_feature=\S+", "split_feature=99", t, count=1
    ),
    "several classes": lambda text: text.replace("num_class=1", "num_class=3"),
    "linear trees": lambda text: text.replace("is_linear=0", "is_linear=1"),
    "a huge width": lambda text: text.replace("max_feature_idx=2", "max_feature_idx=999999999999"),
    "infinite leaves": lambda text: re.sub(r"leaf_value=\S+", "leaf_value=inf", text, count=1),
    "no end": lambda text: text.partition("end of trees")[0],
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_of_lightgbm_are_refused(
    change: Callable[[str], str], folder: Path, tmp_path: Path
) -> None:
    text = (folder / "lightgbm.txt").read_text()
    changed = change(text)
    assert changed != text
    (tmp_path / "m.txt").write_text(changed)
    with pytest.raises(ModelFileError, match="a LightGBM model, but"):
        rw.load(tmp_path / "m.txt")


def test_a_file_above_the_limit_is_not_read(folder: Path) -> None:
    with pytest.raises(ModelFileError, match="the limit is 100"):
        rw.load(folder / "lightgbm.txt", max_bytes=100)


def test_kinds_are_told_by_content(folder: Path, tmp_path: Path) -> None:
    expected = {"lightgbm.txt": "lightgbm", "xgboost.ubj": "xgboost", "mart.txt": "ranklib"}
    for name, kind in expected.items():
        assert foreign_kind(folder / name) == kind
    (tmp_path / "a.txt").write_text("1 qid:1 1:0.5\n")
    assert foreign_kind(tmp_path / "a.txt") is None


def test_ubjson_agrees_with_json() -> None:
    raw = b"{U\x01a[i\x01I\x01\x00l\x00\x00\x00\x02d\x3f\x80\x00\x00]U\x01b{U\x01cSU\x02hi}}"
    assert decode_ubjson(raw) == {"a": [1, 256, 2, 1.0], "b": {"c": "hi"}}


def test_a_damaged_catboost_file_is_read_alike_every_time(tmp_path: Path) -> None:
    """What one file leaves in the memory of its reader does not change how the next is read."""
    catboost = pytest.importorskip("catboost")
    rng = np.random.default_rng(0)
    made = catboost.CatBoost({"iterations": 5, "verbose": False, "train_dir": str(tmp_path)})
    made.fit(rng.random((50, 4)), rng.random(50)).save_model(str(tmp_path / "good.cbm"))
    raw, path = (tmp_path / "good.cbm").read_bytes(), tmp_path / "m.cbm"
    for seed in (268, 452, 728):
        rng, damaged = np.random.default_rng(seed), bytearray(raw)
        for spot in rng.integers(0, len(raw), int(rng.integers(1, 4))):
            damaged[spot] = int(rng.integers(256))
        path.write_bytes(damaged)
        answers = set()
        for _ in range(8):
            try:
                answers.add(str(rw.load(path)))
            except ModelFileError as error:
                answers.add(str(error))
        assert len(answers) == 1
