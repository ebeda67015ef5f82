"""What AutoRanker promises: its choice, its rounds, what it says, and resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import ConvergenceWarning, ParameterError
from rankwright.persist import Checkpoint
from rankwright.selection import auto
from rankwright.selection.auto import CandidateResult, CandidateResults, best_round
from rankwright.selection.base import Progress
from rankwright.selection.candidates import budget_for, first_candidates, refinements
from rankwright.selection.importance import partial_dependence, permutation_importance
from rankwright.testing.inputs import make_problem

DATA = make_problem(n_queries=12, noise=1.0)


def result(name: str, goodness: Any, simplicity: float | None) -> CandidateResult:
    """A candidate whose Precision@1 of query q is goodness[q], 0 or 1."""
    y = np.tile([1.0, 0.0], len(goodness))
    scores = np.where(np.repeat(goodness, 2) == 1, y, 1 - y)
    found = rw.evaluate(scores, y, np.repeat(np.arange(len(goodness)), 2), ["P@1"])
    return CandidateResult(name, None, found, scores, simplicity=simplicity)


def test_the_simplest_within_one_standard_error_is_chosen() -> None:
    best = result("trees", [1] * 18 + [0] * 2, 3.0)
    near = result("linear", [0] + [1] * 17 + [1, 0], 0.0)  # one better, one worse: no lead
    far = result("worst", [0] * 10 + [1] * 8 + [0] * 2, -1.0)
    assert CandidateResults([best, near, far]).best is near
    assert (
        "is the simplest candidate within one standard"
        in CandidateResults([best, near, far]).reason
    )
    assert CandidateResults([best, far]).reason == ""
    given = [result(one.name, [1] * 5 + [0] * k, None) for k, one in enumerate((best, near))]
    assert CandidateResults(given).best is given[0]  # candidates of the caller: the best mean


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


def test_default_candidates_have_the_pair_weights_of_the_measure() -> None:
    budget = budget_for(5000, 10)
    for measure, weighting in (("NDCG@10", "NDCG@30"), ("AP", "AP"), ("Disagreement", None)):
        models = dict(first_candidates(rw.Measure.parse(measure), budget, True)).values()
        weights = [one.weighting for one in models if isinstance(one, rw.LambdaMART)]
        assert weights == list(dict.fromkeys([weighting, None]))
    best = CandidateResult("best", rw.LambdaMART(max_leaf_nodes=15))
    variants = dict(refinements([best], budget))
    assert [one.max_leaf_nodes for one in variants.values()] == [7, 31, 15]


def test_auto_says_what_it_tried_and_left_out_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    X = DATA.X.copy()
    X[3, 1] = np.nan
    model = rw.AutoRanker(random_state=0, verbose=1).fit(X, DATA.y, qid=DATA.qid)
    tried = [one.name for one in model.results_]
    assert tried[:2] == ["RankBoost thresholds", "RankBoost trees"]
    assert any(name.startswith("LambdaMART NDCG@30") for name in tried)
    assert set(model.dropped_) == {"RankSVM C=0.01", "RankSVM C=1", "RankSVM C=100"}
    assert all("missing values" in why for why in model.dropped_.values())
    said = capsys.readouterr().err
    assert "not tried: RankSVM C=0.01, RankSVM C=1, RankSVM C=100: X has missing values" in said
    measure = model.results_[0].scores.measures[0]
    means = [one.scores[measure] for one in model.results_]
    chosen = model.results_.best.scores
    lead = max(model.results_, key=lambda one: one.scores[measure]).scores.per_query(
        measure
    ) - chosen.per_query(measure)
    assert max(means) - chosen[measure] <= lead.std(ddof=1) / np.sqrt(len(lead)) + 1e-12
    again = rw.AutoRanker(random_state=0).fit(X, DATA.y, qid=DATA.qid)
    assert again.best_name_ == model.best_name_
    ours, theirs = (one.decision_function(X).tobytes() for one in (model, again))
    assert ours == theirs


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
    return rw.AutoRanker(CANDIDATES, random_state=0, **options).fit(DATA.X, DATA.y, qid=DATA.qid)


def _interrupt_after(monkeypatch: pytest.MonkeyPatch, n_fits: int) -> list[int]:
    fit, count = auto.fit_ranker, [0]

    def fit_or_stop(*arguments: Any) -> Any:
        if count[0] == n_fits:
            raise KeyboardInterrupt
        count[0] += 1
        return fit(*arguments)

    monkeypatch.setattr(auto, "fit_ranker", fit_or_stop)
    return count


@pytest.mark.filterwarnings("ignore:AutoRanker")
def test_an_interrupted_training_resumes_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _fit()
    rw.save(whole, tmp_path / "whole.rw")
    for n_fits in (1, 7, 12):  # three candidates on five folds, and the final fit
        folder = tmp_path / f"after {n_fits}"
        with monkeypatch.context() as patch:
            _interrupt_after(patch, n_fits)
            with pytest.raises(KeyboardInterrupt):
                _fit(checkpoint=Checkpoint(folder))
        with monkeypatch.context() as patch:
            count = _interrupt_after(patch, 99)
            resumed = _fit(checkpoint=Checkpoint(folder))
            assert count[0] == 16 - n_fits
        rw.save(resumed, tmp_path / "resumed.rw")
        assert (tmp_path / "resumed.rw").read_bytes() == (tmp_path / "whole.rw").read_bytes()
        for one, other in zip(resumed.results_, whole.results_, strict=True):
            assert one.held_out.tobytes() == other.held_out.tobytes()
            assert one.n_iterations == other.n_iterations


@pytest.mark.filterwarnings("ignore:AutoRanker")
@pytest.mark.parametrize("early_stopping", [None, 4])
def test_a_long_fit_resumes_between_its_rounds_to_the_same_bits(
    early_stopping: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mart = rw.LambdaMART(
        n_estimators=30, max_leaf_nodes=4, subsample=0.7, early_stopping=early_stopping
    )

    def fit(**options: Any) -> Any:
        ranker = rw.AutoRanker([("mart", mart)], random_state=0, **options)
        return ranker.fit(DATA.X, DATA.y, qid=DATA.qid)

    whole = fit()
    rw.save(whole, tmp_path / "whole.rw")
    monkeypatch.setattr(auto, "ROUNDS_PER_STEP", 4)
    for n_steps in (2, 9):
        with monkeypatch.context() as patch:
            _interrupt_after(patch, n_steps)
            with pytest.raises(KeyboardInterrupt):
                fit(checkpoint=Checkpoint(tmp_path / f"{n_steps}"))
        resumed = fit(checkpoint=Checkpoint(tmp_path / f"{n_steps}"))
        rw.save(resumed, tmp_path / "resumed.rw")
        assert (tmp_path / "resumed.rw").read_bytes() == (tmp_path / "whole.rw").read_bytes()
        assert resumed.results_[0].held_out.tobytes() == whole.results_[0].held_out.tobytes()


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
    store.save("one", rw.Regression().fit([[0.0], [1.0]], [0, 1]))
    assert isinstance(store.load("one"), rw.Regression)
    next(store.folder.glob("*.rw")).write_bytes(b"cut off")
    assert store.load("one") is None
    store.remove()
    assert not store.folder.exists()


def test_long_work_prints_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import time

    from rankwright.selection import base

    monkeypatch.setattr(base, "SECONDS", 0.02)
    with Progress(active=True) as line:
        line.text = "training RankSVM: fold 1 of 5"
        time.sleep(0.2)
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) >= 2
    assert printed[0].startswith("training RankSVM: fold 1 of 5 (")
    mart = rw.LambdaMART(n_estimators=3, max_leaf_nodes=4)
    with Progress(active=True) as line:
        line.text = "training mart"
        with line.watching(mart):
            mart.fit(DATA.X, DATA.y, qid=DATA.qid)
            time.sleep(0.1)
    assert mart.callbacks is None
    assert "training mart, round 3 (" in capsys.readouterr().err


@pytest.mark.parametrize("within", [True, False])
def test_permutation_importance_finds_the_feature_that_orders_the_lists(within: bool) -> None:
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(40), 10)
    X = np.stack([rng.normal(size=400), rng.normal(size=400), 5.0 * qid], axis=1)
    y = (X[:, 1] > 0.5).astype(int)
    model = rw.RankBoost(n_estimators=20).fit(X, y, qid=qid)
    found = permutation_importance(model, X, y, qid, within_queries=within, random_state=0)
    assert found.mean[1] > 0.2
    assert found.interval[1, 0] > 0.1
    assert found.repeats.shape == (5, 3)
    assert found.mean[2] == 0 if within else True  # constant in a query: nothing to shuffle
    np.testing.assert_allclose(found.repeats.mean(axis=0), found.mean)
    assert repr(found).splitlines()[1].startswith("x1")
    same = permutation_importance(model, X, y, qid, within_queries=within, random_state=0)
    np.testing.assert_array_equal(same.mean, found.mean)


def test_partial_dependence_of_a_step_function_is_the_step_function() -> None:
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(300, 2)), 1)
    model = rw.RankBoost(n_estimators=10).fit(X, (X[:, 0] + X[:, 1] > 0).astype(int))
    curve, found = model.contribution(0), partial_dependence(model, X, 0)
    assert found.is_step
    np.testing.assert_array_equal(found.values[:-1], curve.threshold)
    expected = curve(found.values)
    np.testing.assert_allclose(found.scores - found.scores[0], expected - expected[0], atol=1e-12)
    trees = rw.LambdaMART(n_estimators=3).fit(X, (X[:, 0] > 0).astype(int))
    assert partial_dependence(trees, X, 0).is_step
    for feature in (-1, X.shape[1], "price"):
        with pytest.raises(ParameterError, match="partial_dependence"):
            partial_dependence(model, X, feature)
    line = partial_dependence(rw.Regression().fit(X, X[:, 1]), X, "x1", n_values=5)
    assert not line.is_step
    assert np.ptp(np.diff(line.scores) / np.diff(line.values)) < 1e-9
