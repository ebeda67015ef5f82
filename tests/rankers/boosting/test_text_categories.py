"""Columns of text and categories in data frames, named in LambdaMART(categorical_features=...)."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rankwright as rw
from rankwright.exceptions import DataError, ParameterError, UnknownLevelWarning

TEXTS = ["brand", "color"]


@pytest.fixture(scope="module")
def shop():
    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame(
        {
            "price": rng.normal(size=n),
            "brand": pd.Categorical(rng.choice(["acme", "Ölüm", "x=y", "7"], n)),
            "color": pd.Series(rng.choice(["red", "blue", None], n), dtype="category"),
        }
    )
    y = (frame.brand == "acme") + 1 * (frame.color == "red") + (frame.price > 0)
    return frame, y.to_numpy(), np.repeat(np.arange(30), 20)


def fitted(X, y, qid, **parameters):
    ranker = rw.LambdaMART(n_estimators=15, min_samples_leaf=5, **parameters)
    return ranker.fit(X, y, qid=qid)


@pytest.mark.parametrize("features", [TEXTS, [1, 2], [False, True, True]])
def test_levels_are_numbered_by_their_texts(shop, features) -> None:
    frame, y, qid = shop
    codes = frame.copy()
    for name in TEXTS:
        levels = sorted(set(frame[name].dropna()))
        codes[name] = [levels.index(v) if isinstance(v, str) else np.nan for v in frame[name]]
    plain = fitted(codes, y, qid, categorical_features=features).decision_function(codes)
    ranker = fitted(frame, y, qid, categorical_features=features)
    other = fitted(pl.from_pandas(frame), y, qid, categorical_features=features)
    assert list(ranker.feature_names_in_) == ["price", *TEXTS]
    assert rw.model_digest(ranker) == rw.model_digest(other)
    rows = [frame, pl.from_pandas(frame), frame[["color", "price", "brand"]]]
    rows += [frame.astype(dict.fromkeys(TEXTS, object)), codes.to_numpy()]
    for X in rows:
        assert (ranker.decision_function(X) == plain).all()


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_levels_are_in_the_model_file(shop, tmp_path, in_pipeline) -> None:
    frame, y, qid = shop
    ranker = rw.LambdaMART(n_estimators=15, min_samples_leaf=5, categorical_features=TEXTS)
    model = rw.RankPipeline([("rank", ranker)]) if in_pipeline else ranker
    model.fit(frame, y, qid=qid)
    rw.save(model, tmp_path / "model.rw")
    expected, rows = model.decision_function(frame), frame.astype(object).to_dict("records")
    for loaded in (rw.load(tmp_path / "model.rw"), rw.load_scorer(tmp_path / "model.rw")):
        assert (loaded.decision_function(frame) == expected).all()
        assert (loaded.decision_function(rows) == expected).all()


def test_unknown_levels_count_as_missing(shop) -> None:
    frame, y, qid = shop
    ranker = fitted(frame, y, qid, categorical_features=TEXTS)
    new, missing = (frame.astype({"brand": object}).assign(brand=v) for v in ("new", None))
    with pytest.warns(UnknownLevelWarning, match="600 cells of brand"):
        scores = ranker.decision_function(new)
    assert (scores == ranker.decision_function(missing)).all()


def test_held_out_rows_are_encoded_as_the_training_rows(shop) -> None:
    frame, y, qid = shop
    parts = {"eval_set": (frame[:200], y[:200]), "eval_qid": qid[:200]}
    ranker = rw.LambdaMART(n_estimators=15, categorical_features=TEXTS, early_stopping=3)
    ranker.fit(frame[200:], y[200:], qid=qid[200:], **parts)
    held_out = rw.metrics.evaluate(ranker.decision_function(frame[:200]), y[:200], qid=qid[:200])
    assert held_out["NDCG@10"] == pytest.approx(ranker.validation_[ranker.best_iteration_ - 1])


def test_a_warm_start_keeps_the_numbers_of_known_levels(shop) -> None:
    frame, y, qid = shop
    few = (frame.brand != "acme").to_numpy()
    ranker = fitted(frame[few], y[few], qid[few], categorical_features=TEXTS, warm_start=True)
    before = ranker.decision_function(frame[few])
    ranker.set_params(n_estimators=16).fit(frame, y, qid=qid)
    assert ranker.encoding_.columns[1].levels == ("7", "x=y", "Ölüm", "acme")
    assert (ranker.truncate(15).decision_function(frame[few]) == before).all()
    with pytest.raises(ParameterError, match="warm_start"):
        ranker.fit_more(1, frame, y, qid=qid)


def test_text_that_is_not_named_is_refused(shop) -> None:
    frame, y, qid = shop
    for named in (None, ["color"]):
        with pytest.raises(DataError, match=r"'brand' of X .* name it in categorical_features"):
            fitted(frame, y, qid, categorical_features=named)


def test_a_second_fit_forgets_the_levels(shop) -> None:
    frame, y, qid = shop
    ranker = fitted(frame, y, qid, categorical_features=TEXTS)
    numbers = frame[["price"]].assign(brand=1.0, color=2.0)
    assert ranker.fit(numbers, y, qid=qid).encoding_ is None
