"""A table as a shop has it: from its file to scores that are equal wherever they are computed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_shop
from rankwright.data.validation import validate
from rankwright.features import TableEncoder

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.UnknownLevelWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("shop")
    shop = make_shop(60, random_state=0)
    n = 4 * shop.n_rows // 5
    shop.take(slice(0, n)).write(path / "shop.csv")
    shop.take(slice(n, shop.n_rows)).write(path / "new.csv")
    train = shop.take(slice(0, n))
    left_out = ("query", "product", "grade", "orders_after")
    X = {name: column for name, column in train.items() if name not in left_out}
    ranker = rw.LambdaMART(n_estimators=10, random_state=0)
    model = rw.RankPipeline([("encode", TableEncoder()), ("rank", ranker)])
    rw.save(model.fit(X, train["grade"], qid=train["query"]), path / "shop.rw")
    return path


def test_a_leak_is_reported_and_left_out_by_one_command(folder):
    findings = validate(folder / "shop.csv")
    found = {finding.rule: finding for finding in findings}
    assert found["one feature alone"].columns == ("orders_after",)
    assert found["known too late"].columns == ("orders_after",)
    assert findings.columns == ["orders_after"]
    honest = validate(folder / "shop.csv", drop=["orders_after"])
    assert honest.columns == []


def test_an_id_that_is_kept_as_a_feature_is_reported(folder):
    findings = validate(folder / "shop.csv", kinds={"row_id": "number"}, drop=["orders_after"])
    assert findings.columns == ["row_id"]


def test_scores_are_equal_wherever_they_are_computed(folder, tmp_path):
    onnx = pytest.importorskip("onnxruntime")
    lightgbm = pytest.importorskip("lightgbm")
    model = rw.load(folder / "shop.rw")
    scorer = rw.load_scorer(folder / "shop.rw")
    new = rw.read_items(folder / "new.csv", drop=["orders_after"], like=scorer)
    expected = model.decision_function(new.X)
    assert len(np.unique(expected)) > 100
    words = [sys.executable, "-m", "rankwright", "predict", "shop.rw", "new.csv"]
    printed = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert [float(line) for line in printed.splitlines()] == expected.tolist()
    np.testing.assert_array_equal(scorer.decision_function(new.X), expected)
    for target in ("onnx", "lightgbm"):
        rw.export(model, tmp_path / target, to=target)
    session = onnx.InferenceSession(str(tmp_path / "onnx"))
    name = session.get_inputs()[0].name
    kind = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    [scores] = session.run(None, {name: new.X.astype(kind)})
    np.testing.assert_allclose(scores.ravel(), expected, rtol=1e-6)
    booster = lightgbm.Booster(model_file=str(tmp_path / "lightgbm"))
    np.testing.assert_array_equal(booster.predict(new.X), expected)
