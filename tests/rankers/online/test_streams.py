"""Order of rows and scale of columns: what online rankers warn of, and what helps."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankwright as rw
from contract.instances import INSTANCES
from rankwright.data.datasets.synthetic import make_ordinal
from rankwright.exceptions import DataError, ParameterError, StreamWarning
from rankwright.selection import progressive

ONLINE = {type(r): r for r in INSTANCES if r._order_matters and hasattr(r, "partial_fit")}
STREAM = make_ordinal(400, random_state=0)


@pytest.mark.parametrize("ranker", ONLINE.values(), ids=repr)
def test_sorted_grades_are_warned_of_unless_shuffled(ranker: Any) -> None:
    order = np.argsort(STREAM.y[:60], kind="stable")
    X, y = STREAM.X[order], STREAM.y[order]
    with pytest.warns(StreamWarning, match=r"sorted by grade .* Set shuffle=True"):
        clone(ranker).fit(X, y)
    clone(ranker).set_params(shuffle=True, random_state=0).fit(X, y)


def test_shuffling_repairs_what_sorted_grades_spoil() -> None:
    order = np.argsort(STREAM.y, kind="stable")
    X, y = STREAM.X[order], STREAM.y[order]
    loss = {}
    for shuffle in (False, True):
        model = rw.OAPBPM(n_estimators=10, shuffle=shuffle, random_state=0)
        if shuffle:
            model.fit(X, y)
        else:
            with pytest.warns(StreamWarning):
                model.fit(X, y)
        loss[shuffle] = np.abs(model.predict(X) - y).mean()
    assert loss[True] < loss[False]


def test_columns_of_different_scales_are_warned_of() -> None:
    X = STREAM.X * np.array([1e4, 1.0])
    for ranker in (rw.PRank(average=True), rw.OnlineKeepRank()):
        with pytest.warns(StreamWarning, match="column 0 holds values up to"):
            clone(ranker).fit(X, STREAM.y)
    with pytest.warns(StreamWarning, match="OnlineScaler"):
        rw.PRank().partial_fit(X, STREAM.y)
    make_pipeline(rw.rankers.OnlineScaler(), rw.PRank()).fit(X, STREAM.y)


def test_the_online_scaler_has_the_statistics_of_all_rows() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3)) * [1.0, 1e-3, 1e3] + [0.0, 5.0, 1e6]
    expected = StandardScaler().fit(X)
    for sizes in ([300], [1, 1, 98, 200], [150, 150]):
        scaler = rw.rankers.OnlineScaler()
        for part in np.split(X, np.cumsum(sizes)[:-1]):
            scaler.partial_fit(part)
        np.testing.assert_allclose(scaler.mean_, expected.mean_, rtol=1e-12)
        np.testing.assert_allclose(scaler.var_, expected.var_, rtol=1e-7)
        assert scaler.n_samples_seen_ == 300
    np.testing.assert_allclose(scaler.transform(X), expected.transform(X), rtol=1e-5, atol=1e-7)


def test_scaling_in_one_call_is_scaling_row_by_row() -> None:
    X = np.random.default_rng(2).normal(size=(40, 2)) * [1.0, 100.0]
    plain = rw.rankers.OnlineScaler()
    rows = [plain.partial_fit(row).transform(row) for row in X[:, None, :]]
    together = rw.rankers.OnlineScaler().partial_fit_transform(X)
    np.testing.assert_allclose(together, np.vstack(rows), rtol=1e-9, atol=1e-12)


def test_a_constant_column_stays_finite() -> None:
    scaled = rw.rankers.OnlineScaler().fit_transform([[3.0, 1e200], [3.0, 1e200]])
    np.testing.assert_array_equal(scaled, 0.0)


def test_a_pipeline_with_it_is_saved_and_served(tmp_path: Path) -> None:
    X = STREAM.X * np.array([1e5, 1.0])
    model = make_pipeline(rw.rankers.OnlineScaler(), rw.PRank(average=True)).fit(X, STREAM.y)
    rw.save(model, tmp_path / "model.rw")
    for other in (rw.load(tmp_path / "model.rw"), rw.load_scorer(tmp_path / "model.rw")):
        np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))


def test_progressive_validation_of_a_pipeline_scales_each_row() -> None:
    X = STREAM.X * np.array([1e5, 1.0])
    pipeline = make_pipeline(rw.rankers.OnlineScaler(), rw.PRank(average=True))
    *_, scaled = progressive(pipeline, X, STREAM.y)
    *_, raw = progressive(rw.PRank(average=True).start(2, np.unique(STREAM.y)), X, STREAM.y)
    assert scaled["RankLoss"] < raw["RankLoss"]
    assert pipeline.steps[0][1].n_samples_seen_ == len(X)
    assert pipeline.predict(X).shape == STREAM.y.shape  # it was fitted by the way
    *_, other = progressive(make_pipeline(StandardScaler(), rw.PRank(average=True)), X, STREAM.y)
    assert other["RankLoss"] == pytest.approx(scaled["RankLoss"], abs=0.02)
    with pytest.raises(ParameterError, match="PCA has no partial_fit and is not fitted"):
        next(progressive(make_pipeline(PCA(), rw.PRank()), X, STREAM.y))


def test_rows_may_be_dictionaries() -> None:
    rows = [{"a": a, "b": b} for a, b in STREAM.X.tolist()]
    *_, last = progressive(rw.PRank(), rows, STREAM.y)
    *_, expected = progressive(rw.PRank(), STREAM.X, STREAM.y)
    assert last == expected
    with pytest.raises(DataError, match="a row lacks 'b'"):
        list(progressive(rw.PRank(), [rows[0], {"a": 1.0}], [1, 2]))
    with pytest.raises(DataError, match="has the new feature 'c'"):
        list(progressive(rw.PRank(), [rows[0], {**rows[0], "c": 1.0}], [1, 2]))


def test_a_classifier_of_scikit_learn_is_validated_too() -> None:
    plain, losses = SGDClassifier(random_state=0), []
    for i in range(60):
        row, grade = STREAM.X[i : i + 1], STREAM.y[i : i + 1]
        guess = plain.predict(row)[0] if i else STREAM.y.min()
        losses.append(abs(guess - grade[0]))
        plain.partial_fit(row, grade, classes=np.unique(STREAM.y))
    classes = np.unique(STREAM.y)
    model = SGDClassifier(random_state=0)
    *_, last = progressive(model, STREAM.X[:60], STREAM.y[:60], classes=classes)
    assert last["RankLoss"] == pytest.approx(np.mean(losses))
    pairs = zip(STREAM.X, STREAM.y, strict=True)
    with pytest.raises(ParameterError, match="Pass them"):
        progressive(SGDClassifier(), pairs)
    with pytest.raises(ParameterError, match="expected=True"):
        progressive(SGDClassifier(), STREAM.X, STREAM.y, expected=True)


def test_predicting_waits_while_another_thread_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    model = rw.PRank().fit(STREAM.X, STREAM.y)
    half_done, learned = Event(), []
    plain = rw.PRank._pass

    def slow_pass(self: Any, *arguments: Any) -> Any:
        right = self.thresholds_
        self.thresholds_ = right[::-1]  # as another thread may find it between two steps
        half_done.set()
        time.sleep(0.1)
        self.thresholds_ = right
        learned.append(True)
        return plain(self, *arguments)

    monkeypatch.setattr(rw.PRank, "_pass", slow_pass)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(model.partial_fit, STREAM.X, STREAM.y)
        half_done.wait()
        scores = [model.predict(STREAM.X), model.decision_function(STREAM.X)]
        assert learned
        assert np.isfinite(scores).all()
        done.result()
    pickle.loads(pickle.dumps(model)).predict(STREAM.X)
