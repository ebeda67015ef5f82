"""save and load: what comes back is what was saved."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from sklearn import config_context
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

import rankwright as rw
from rankwright.exceptions import ModelFileError

SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    StandardScaler(with_mean=False, with_std=False),
    MinMaxScaler(),
    MinMaxScaler(feature_range=(-1, 2), clip=True),
    MaxAbsScaler(),
    *([MaxAbsScaler(clip=True)] if "clip" in MaxAbsScaler().get_params() else []),
    rw.QueryNormalizer(method="standard"),
    "passthrough",
]


def same(left: Any, right: Any) -> bool:
    return np.array_equal(left, right) and left.dtype == right.dtype


def test_a_loaded_ranker_has_the_parameters_attributes_and_scores_of_the_saved_one(
    regression: Any, rows: np.ndarray, round_trip: Callable[[Any], tuple[Any, Any]]
) -> None:
    loaded, scorer = round_trip(regression)
    assert type(loaded) is rw.RidgeRanker
    assert loaded.get_params() == regression.get_params()
    assert set(vars(loaded)) == set(vars(regression))
    assert same(loaded.coef_, regression.coef_)
    assert same(loaded.decision_function(rows), regression.decision_function(rows))
    assert same(scorer.decision_function(rows), regression.decision_function(rows))


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
def test_a_pipeline_scores_the_same_to_the_last_bit_after_loading(
    scaler: Any,
    rows: np.ndarray,
    grades: np.ndarray,
    round_trip: Callable[[Any], tuple[Any, Any]],
) -> None:
    model = make_pipeline(scaler, rw.RidgeRanker(alpha=0.1)).fit(rows, grades)
    loaded, scorer = round_trip(model)
    test = np.random.default_rng(0).normal(size=(500, 4)) * 3
    assert type(loaded) is Pipeline
    assert same(loaded.decision_function(test), model.decision_function(test))
    assert same(scorer.decision_function(test), model.decision_function(test))
    assert same(scorer.predict(test), model.predict(test))


def test_a_pipeline_that_scales_by_query_gets_the_queries_in_every_form(
    rows: np.ndarray,
    grades: np.ndarray,
    qid: np.ndarray,
    round_trip: Callable[[Any], tuple[Any, Any]],
) -> None:
    with config_context(enable_metadata_routing=True):
        model = make_pipeline(rw.QueryNormalizer(), rw.RidgeRanker()).fit(rows, grades, qid=qid)
        loaded, scorer = round_trip(model)
        expected = model.decision_function(rows, qid=qid)
        assert same(loaded.decision_function(rows, qid=qid), expected)
        assert same(scorer.decision_function(rows, qid), expected)
        assert not same(scorer.decision_function(rows), expected)


class NewerScaler(StandardScaler):
    """What a later scikit-learn may bring: a parameter that files do not know."""

    def __init__(self, *, copy=True, with_mean=True, with_std=True, ddof=0):  # type: ignore[no-untyped-def]
        super().__init__(copy=copy, with_mean=with_mean, with_std=with_std)
        self.ddof = ddof


def test_a_parameter_of_a_later_scikit_learn_is_left_out_while_it_has_its_default(
    monkeypatch: pytest.MonkeyPatch,
    rows: np.ndarray,
    grades: np.ndarray,
    round_trip: Callable[[Any], tuple[Any, Any]],
) -> None:
    NewerScaler.__name__ = "StandardScaler"
    monkeypatch.setattr("sklearn.preprocessing.StandardScaler", NewerScaler)
    model = make_pipeline(NewerScaler(), rw.RidgeRanker()).fit(rows, grades)
    assert same(round_trip(model)[1].predict(rows), model.predict(rows))
    with pytest.raises(rw.ParameterError, match="no parameter 'ddof'"):
        round_trip(make_pipeline(NewerScaler(ddof=1), rw.RidgeRanker()).fit(rows, grades))


def test_pipelines_may_hold_pipelines(
    rows: np.ndarray, grades: np.ndarray, round_trip: Callable[[Any], tuple[Any, Any]]
) -> None:
    inner = make_pipeline(StandardScaler(), MaxAbsScaler())
    model = make_pipeline(inner, rw.RidgeRanker()).fit(rows, grades)
    loaded, scorer = round_trip(model)
    assert same(loaded.predict(rows), model.predict(rows))
    assert same(scorer.predict(rows), model.predict(rows))


def test_a_loaded_model_is_its_own_master(regression: Any, saved: Path) -> None:
    loaded = rw.load(saved)
    loaded.coef_ += 1.0
    assert same(rw.load(saved).coef_, regression.coef_)


def test_a_transformer_alone_is_saved_but_has_no_scores(tmp_path: Path, rows: np.ndarray) -> None:
    path = tmp_path / "normalizer.rw"
    rw.save(rw.QueryNormalizer(method="max").fit(rows), path)
    assert rw.load(path).method == "max"
    with pytest.raises(ModelFileError, match=r"QueryNormalizer.*Use rankwright\.load"):
        rw.load_scorer(path)


def test_any_safetensors_reader_lists_the_arrays(regression: Any, saved: Path) -> None:
    arrays = safetensors.numpy.load_file(saved)
    assert list(arrays) == ["model.coef_"]
    assert same(arrays["model.coef_"], regression.coef_)


def test_an_array_that_model_and_scorer_share_is_stored_once(
    tmp_path: Path, rows: np.ndarray
) -> None:
    wide = np.random.default_rng(0).normal(size=(5, 20_000))
    path = tmp_path / "wide.rw"
    rw.save(rw.RidgeRanker(alpha=1.0).fit(wide, [0, 1, 2, 3, 4]), path)
    assert path.stat().st_size < 20_000 * 8 + 3_000


def test_a_saved_file_replaces_the_old_one_and_keeps_its_permissions(
    regression: Any, saved: Path
) -> None:
    saved.chmod(0o640)
    rw.save(regression, saved)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o640
    assert [entry.name for entry in saved.parent.iterdir()] == [saved.name]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_the_umask_decides_who_may_read_a_new_file(regression: Any, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        rw.save(regression, tmp_path / "new.rw")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.rw").stat().st_mode) == 0o640


REFUSED: list[tuple[str, Callable[[Any, Any], Any], str]] = [
    ("not fitted", lambda X, y: rw.RidgeRanker(), "not fitted"),
    ("other package", lambda X, y: RandomForestRegressor(2).fit(X, y), "not a class"),
    ("not a model", lambda X, y: {"coef": 1.0}, "dict is not a class"),
    (
        "other scaler",
        lambda X, y: make_pipeline(RobustScaler(), rw.RidgeRanker()).fit(X, y),
        "RobustScaler",
    ),
]


@pytest.mark.parametrize("make, words", [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_a_file_cannot_hold_is_refused_with_the_reason(
    make: Callable[[Any, Any], Any],
    words: str,
    rows: np.ndarray,
    grades: np.ndarray,
    tmp_path: Path,
) -> None:
    model = make(rows, grades)
    with pytest.raises(rw.ParameterError, match=words):
        rw.save(model, tmp_path / "never.rw")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are those of POSIX")
def test_a_folder_or_a_pipe_is_no_model_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ModelFileError, match="not a regular file"):
            rw.load(path)


def test_the_size_limit_is_checked_before_anything_is_read(saved: Path) -> None:
    with pytest.raises(ModelFileError, match="the limit is 100"):
        rw.load(saved, max_bytes=100)
    with pytest.raises(ModelFileError, match="max_bytes"):
        rw.load_scorer(saved, max_bytes=100)


def test_feature_names_come_back(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"bm25": [0.0, 1.0, 2.0], "länge": [1.0, 0.0, 1.0]})
    path = tmp_path / "named.rw"
    rw.save(rw.RidgeRanker().fit(frame, [0, 1, 2]), path)
    loaded = rw.load(path)
    assert loaded.feature_names_in_.tolist() == ["bm25", "länge"]
    assert loaded.feature_names_in_.dtype == object
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["länge", "bm25"]])
