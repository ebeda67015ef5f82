"""AutoRanker while it runs: what it prints, time limits, checkpoints and resuming."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import ConvergenceWarning, ParameterError
from rankwright.persist import Checkpoint
from rankwright.runtime import progress
from rankwright.selection import auto
from rankwright.selection.base import watching
from rankwright.selection.candidates import best_round
from rankwright.testing.inputs import make_problem

DATA = make_problem(n_queries=12, noise=1.0)


def test_the_number_of_rounds_is_the_middle_of_the_plateau_of_the_mean_curve() -> None:
    rng = np.random.default_rng(0)
    rise = np.minimum(np.arange(200) / 40, 1.0)
    fall = np.maximum(np.arange(200) - 120, 0) / 40
    curves = [rise - fall + 0.02 * rng.normal(size=200) for _ in range(5)]
    rounds, mean = best_round(curves, 1.0)
    assert 45 <= rounds <= 110
    assert len(mean) == 200
    assert 45 <= best_round([-curve for curve in curves], -1.0)[0] <= 110
    assert best_round([np.array([0.1, 0.5, 0.3])], 1.0)[0] == 2


def test_a_choice_that_still_improves_is_said() -> None:
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(600, 8)), np.repeat(np.arange(30), 20)
    y = np.digitize(X.sum(axis=1), [-2, 0, 2])
    boost = rw.RankBoost(n_estimators=6, early_stopping=5)
    with pytest.warns(ConvergenceWarning, match="was still improving in the last of its 6 rounds"):
        rw.AutoRanker([("boost", boost)], random_state=0).fit(X, y, qid=qid)


CANDIDATES: list[tuple[str, Any]] = [
    ("mart", rw.LambdaMART(n_estimators=8, max_leaf_nodes=4, early_stopping=3)),
    ("boost", rw.RankBoost(n_estimators=40, early_stopping=3)),
    ("svm", rw.RankSVM()),
]


def _fit(**options: Any) -> Any:
    return rw.AutoRanker(CANDIDATES, **options).fit(DATA.X, DATA.y, qid=DATA.qid)


def _count_fits(monkeypatch: pytest.MonkeyPatch, most: int, stop: type[BaseException]) -> list[int]:
    fit, count = auto.fit_ranker, [0]

    def fit_or_stop(*arguments: Any) -> Any:
        if count[0] == most:
            raise stop
        count[0] += 1
        return fit(*arguments)

    monkeypatch.setattr(auto, "fit_ranker", fit_or_stop)
    return count


@pytest.mark.filterwarnings("ignore:AutoRanker")
def test_an_interrupted_training_resumes_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_bytes: Any
) -> None:
    with monkeypatch.context() as patch:
        total = _count_fits(patch, 99, KeyboardInterrupt)
        whole = _fit()
    assert total[0] == 20  # three candidates on five folds, and one of them again with its rounds
    for n_fits in (1, 7, 12):
        folder = tmp_path / f"after {n_fits}"
        with monkeypatch.context() as patch:
            _count_fits(patch, n_fits, KeyboardInterrupt)
            with pytest.raises(KeyboardInterrupt):
                _fit(checkpoint=Checkpoint(folder))
        with monkeypatch.context() as patch:
            count = _count_fits(patch, 99, KeyboardInterrupt)
            resumed = _fit(checkpoint=Checkpoint(folder))
            assert count[0] == total[0] - n_fits
        assert model_bytes(resumed.best_estimator_) == model_bytes(whole.best_estimator_)
        for one, other in zip(resumed.results_, whole.results_, strict=True):
            assert one.held_out.tobytes() == other.held_out.tobytes()
            assert one.n_iterations == other.n_iterations


@pytest.mark.filterwarnings("ignore:AutoRanker")
def test_a_checkpoint_of_other_data_or_parameters_is_refused(tmp_path: Path) -> None:
    _fit(checkpoint=Checkpoint(tmp_path / "work"))
    with pytest.raises(ParameterError, match="different data, parameters"):
        rw.AutoRanker(CANDIDATES, random_state=1, checkpoint=Checkpoint(tmp_path / "work")).fit(
            DATA.X, DATA.y, qid=DATA.qid
        )
    with pytest.raises(ParameterError, match="different data, parameters"):
        rw.AutoRanker(CANDIDATES, random_state=0, checkpoint=Checkpoint(tmp_path / "work")).fit(
            DATA.X + 1e-9, DATA.y, qid=DATA.qid
        )
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    with pytest.raises(ParameterError, match="contains other files"):
        _fit(checkpoint=Checkpoint(tmp_path / "full"))
    with pytest.raises(ParameterError, match="is a file"):
        _fit(checkpoint=Checkpoint(tmp_path / "full" / "thesis.tex"))


def test_a_damaged_file_of_a_checkpoint_is_trained_again(tmp_path: Path) -> None:
    store = Checkpoint(tmp_path / "work")
    store.open("key")
    store.save("one", rw.RidgeRanker().fit([[0.0], [1.0]], [0, 1]))
    assert isinstance(store.load("one"), rw.RidgeRanker)
    next(store.folder.glob("*.rw")).write_bytes(b"cut off")
    assert store.load("one") is None
    store.remove()
    assert not store.folder.exists()


def test_long_work_prints_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.02)
    mart = rw.LambdaMART(n_estimators=3, max_leaf_nodes=4)
    with progress.task("training mart") as work, watching(mart, work):
        mart.fit(DATA.X, DATA.y, qid=DATA.qid)
        time.sleep(0.1)
    assert mart.callbacks is None
    assert "training mart, round 3 (" in capsys.readouterr().err


class _SlowSVM(rw.RankSVM):
    """A ranker that takes its time."""

    def _fit(self, X: Any, feedback: Any) -> None:
        time.sleep(0.6)
        super()._fit(X, feedback)


def test_a_time_limit_keeps_what_finished_and_the_same_candidates_repeat_it(
    model_bytes: Any,
) -> None:
    quick = [("svm", rw.RankSVM()), ("regression", rw.RidgeRanker())]
    limited = rw.AutoRanker([*quick, ("slow", _SlowSVM())], time_limit=2.0)
    limited.fit(DATA.X, DATA.y, qid=DATA.qid)
    assert [name for name, _ in limited.estimators_] == ["svm", "regression"]
    assert "time limit of 2 s" in limited.dropped_["slow"]
    again = rw.AutoRanker(limited.estimators_).fit(DATA.X, DATA.y, qid=DATA.qid)
    assert model_bytes(again.best_estimator_) == model_bytes(limited.best_estimator_)


def test_with_a_time_limit_one_of_each_family_comes_first_and_the_model_is_the_same(
    model_bytes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    free = rw.AutoRanker(quality=2).fit(DATA.X, DATA.y, qid=DATA.qid)
    limited = rw.AutoRanker(quality=2, time_limit=1e6, verbose=1)
    limited.fit(DATA.X, DATA.y, qid=DATA.qid)
    lines = [line.split(": NDCG@10")[0] for line in capsys.readouterr().err.splitlines()]
    assert [line for line in lines if line in dict(free.estimators_)][:2] == [
        "RankSVM", "LambdaMART"
    ]  # fmt: skip
    assert [name for name, _ in limited.estimators_] == [name for name, _ in free.estimators_]
    assert model_bytes(limited.best_estimator_) == model_bytes(free.best_estimator_)


def test_boosting_ends_at_the_time_limit() -> None:
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(20_000, 10)), np.repeat(np.arange(400), 50)
    y = rng.integers(0, 3, len(X))
    endless = rw.LambdaMART(n_estimators=100_000)
    rw.LambdaMART(n_estimators=1).fit(X, y, qid=qid)  # compiled
    start = time.perf_counter()
    model = rw.AutoRanker([("svm", rw.RankSVM()), ("endless", endless)], time_limit=3.0)
    model.fit(X, y, qid=qid)
    assert list(model.weights_) == ["svm"]
    assert time.perf_counter() - start < 30.0  # the limit, and a machine that is busy


def test_too_little_time_for_one_candidate_fits_the_first_and_says_so() -> None:
    model = rw.AutoRanker([("svm", rw.RankSVM()), ("prank", rw.PRank())], time_limit=1e-9)
    with pytest.warns(ConvergenceWarning, match="too short to evaluate a single candidate"):
        model.fit(DATA.X, DATA.y, qid=DATA.qid)
    assert model.best_name_ == "svm"
    assert model.rank(DATA.X, DATA.qid).min() == 1
    assert "time limit" in model.dropped_["prank"]


def test_it_says_what_it_tried_and_left_out_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    X = DATA.X.copy()
    X[3, 1] = np.nan
    model = rw.AutoRanker(verbose=1, quality=2).fit(X, DATA.y, qid=DATA.qid)
    tried = [one.name for one in model.results_]
    assert tried == ["RankBoost", "LambdaMART", "LambdaMART NDCG", "ensemble"]
    assert list(model.dropped_) == ["RankSVM"]
    said = capsys.readouterr().err
    assert "not tried: RankSVM: X has missing values" in said
    assert "s left)" in said
