"""Random models of every kind, written and read back by the real readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwright as rw
from exports.random_models import KINDS, additive, trees
from rankwright.exports.certificate import certify, generated_rows
from rankwright.exports.form import form_of
from rankwright.exports.target import Options
from rankwright.exports.writer import TARGETS
from rankwright.scoring import Additive, Trees

SEEDS = st.integers(0, 2**32 - 1)
OPTIONS = Options("model", "model")
FORESTS = [additive, lambda rng: trees(rng, infinite=True)]
DIALECTS = ["duckdb", "postgresql", "sqlite"]


def hard_rows(scorer: Any) -> Any:
    """Rows at every threshold and ± 1 ulp, NaN, infinite and denormal values."""
    X, _ = generated_rows(form_of(scorer))
    rng = np.random.default_rng(1)
    wild = rng.choice([np.inf, -np.inf, 5e-324, -1e-310, 1e308, np.nan, 0.0], (60, X.shape[1]))
    return np.vstack([X, wild])


@pytest.mark.parametrize("build", FORESTS, ids=["steps", "trees"])
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_lightgbm_and_treelite_score_to_the_last_bit(
    build: Any, seed: int, tmp_path_factory: Any
) -> None:
    import lightgbm
    import treelite

    scorer: Additive | Trees = build(np.random.default_rng(seed))
    text = TARGETS["lightgbm"].write(form_of(scorer), OPTIONS)[""].decode()
    X = hard_rows(scorer)
    X[np.abs(X) < 1.1e-35] = 0.0  # as LightGBM reads them
    found = lightgbm.Booster(model_str=text).predict(X, raw_score=True, num_threads=1)
    np.testing.assert_array_equal(found, scorer.decision_function(X))
    path = tmp_path_factory.mktemp("treelite") / "model.txt"
    path.write_text(text)
    loaded = treelite.frontend.load_lightgbm_model(path)
    finite = X[~np.isinf(X).any(axis=1)]
    read = treelite.gtil.predict(loaded, finite, nthread=1, pred_margin=True).ravel()
    np.testing.assert_array_equal(read, scorer.decision_function(finite))


@pytest.mark.parametrize("build", FORESTS, ids=["steps", "trees"])
@settings(max_examples=4, deadline=None)
@given(seed=SEEDS)
def test_onnx_scores_to_the_last_bit_in_the_reference_evaluator(build: Any, seed: int) -> None:
    from onnx.reference import ReferenceEvaluator

    scorer = build(np.random.default_rng(seed))
    raw = TARGETS["onnx"].write(form_of(scorer), OPTIONS)[""]
    X = np.random.default_rng(0).permutation(hard_rows(scorer))[:60]
    found = ReferenceEvaluator(raw).run(None, {"X": X})[0]
    np.testing.assert_array_equal(found, scorer.decision_function(X))


@pytest.mark.parametrize("build", FORESTS, ids=["steps", "trees"])
@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_onnxruntime_takes_infinite_and_denormal_values(build: Any, seed: int) -> None:
    scorer = build(np.random.default_rng(seed))
    form, target = form_of(scorer), TARGETS["onnx"]
    X = hard_rows(scorer)
    found = target.read(target.write(form, OPTIONS), X, form, OPTIONS).scores
    np.testing.assert_allclose(found, scorer.decision_function(X), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=6, deadline=None)
@given(seed=SEEDS)
def test_sql_takes_infinite_and_denormal_values(dialect: str, seed: int) -> None:
    for build in (additive, trees):
        scorer = build(np.random.default_rng(seed))
        form, target = form_of(scorer), TARGETS["sql"]
        options = OPTIONS._replace(dialect=dialect)
        X = hard_rows(scorer)
        found = target.read(target.write(form, options), X, form, options).scores
        np.testing.assert_array_equal(found, scorer.decision_function(X))


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_xgboost_and_its_readers_reverse_no_pair(seed: int, tmp_path_factory: Any) -> None:
    import treelite
    import xgboost

    scorer = trees(np.random.default_rng(seed))
    form, target = form_of(scorer), TARGETS["xgboost"]
    files = target.write(form, OPTIONS)
    assert certify(form, target, files, OPTIONS, "exact").pairs_reversed_beyond_bound == 0
    X = generated_rows(form)[0].astype(np.float32)
    exact = scorer.decision_function(X.astype(np.float64))
    bound = 2.0**-22 * (len(scorer.root) + 1) * (np.abs(scorer.weight).sum() * 5 + 1)
    loaded = treelite.frontend.from_xgboost_json(files[""].decode())
    read = treelite.gtil.predict(loaded, X, nthread=1, pred_margin=True).ravel()
    np.testing.assert_allclose(read, exact, rtol=0, atol=bound)
    booster = xgboost.Booster(model_file=bytearray(files[""]))
    again = xgboost.Booster(model_file=booster.save_raw("ubj"))
    names = list(form.names)
    rows = xgboost.DMatrix(X, feature_names=names, nthread=1)
    read = again.predict(rows, output_margin=True)
    np.testing.assert_allclose(read, exact, rtol=0, atol=bound)


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_exported_exactly_or_refused(kind: str, to: str, tmp_path: Path) -> None:
    for seed, missing in enumerate(("model", "zero", "never", "model")):
        model = KINDS[kind](np.random.default_rng([seed, len(kind)]))
        path = tmp_path / "model.out"
        if TARGETS[to].support(form_of(model, missing=missing)).level != "exact":
            with pytest.raises(rw.ParameterError, match="Targets that hold it: "):
                rw.export(model, path, to, missing=missing)
            continue
        certificate = rw.export(model, path, to, missing=missing)
        assert certificate.largest_difference <= certificate.bound
        assert certificate.pairs_reversed_beyond_bound == 0
        assert certificate.grades_equal is not False
        written = json.loads((tmp_path / "model.certificate.json").read_text())
        assert written == certificate.to_dict()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_dialect_scores_what_sql_holds(kind: str, dialect: str, tmp_path: Path) -> None:
    model = KINDS[kind](np.random.default_rng(5))
    if TARGETS["sql"].support(form_of(model)).level == "exact":
        certificate = rw.export(model, tmp_path / "score.sql", "sql", dialect=dialect)
        assert certificate.pairs_reversed == 0


def test_a_file_that_scores_otherwise_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TARGETS["sql"]
    write = type(target).write

    def wrong(self: Any, form: Any, options: Any) -> Any:
        return {"": write(self, form, options)[""].replace(b"(", b"1.0e0 + (", 1)}

    monkeypatch.setattr(type(target), "write", wrong)
    with pytest.raises(rw.DataError, match="does not reproduce the scores"):
        rw.export(KINDS["linear"](np.random.default_rng(0)), tmp_path / "a.sql", "sql")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", range(1012, 1018))
def test_xgboost_finds_the_children_of_deep_trees(seed: int) -> None:
    """Its reader takes the right child to follow the left one."""
    scorer = KINDS["categorical trees"](np.random.default_rng(seed))
    form, target = form_of(scorer), TARGETS["xgboost"]
    files = target.write(form, OPTIONS)
    assert certify(form, target, files, OPTIONS, "exact").pairs_reversed_beyond_bound == 0
    for tree in json.loads(files[""])["learner"]["gradient_booster"]["model"]["trees"]:
        pairs = zip(tree["left_children"], tree["right_children"], strict=True)
        assert all(right == left + 1 for left, right in pairs if left >= 0)
