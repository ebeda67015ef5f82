"""Test-then-train: the same steps from arrays, generators and blocks, with and without delay."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from rankwright import (
    OAPBPM,
    BayesianPRank,
    KernelPRank,
    MulticlassPerceptron,
    OAPBagging,
    OAPVoting,
    PRank,
    VotedPRank,
    WidrowHoff,
)
from rankwright.data.datasets.synthetic import make_ordinal
from rankwright.metrics import RankLoss
from rankwright.selection.progressive_validation import progressive

RANKERS = [
    PRank(),
    PRank(average=True),
    PRank(update="romma"),
    KernelPRank(gamma=2.0, budget=30),
    KernelPRank(kernel="poly", degree=2),
    VotedPRank(max_rules=20),
    OAPBPM(n_estimators=10, random_state=0),
    OAPBagging(n_estimators=10, random_state=0),
    OAPVoting(n_estimators=10, random_state=0),
    WidrowHoff(),
    MulticlassPerceptron(),
    BayesianPRank(degree=2),
]


def fresh(ranker: Any) -> Any:
    return type(ranker)(**ranker.get_params(deep=False))


def by_hand(ranker: Any, X: Any, y: Any, delay: int, expected: bool) -> list[float]:
    """The time-averaged rank loss, one row after the other."""
    ranker = fresh(ranker).start(X.shape[1], np.unique(y))
    loss, curve = 0.0, []
    for t in range(len(y)):
        predict = ranker.predict_expected if expected else ranker.predict
        loss += abs(predict(X[t : t + 1])[0] - y[t])
        curve.append(loss / (t + 1))
        if t >= delay:
            ranker.partial_fit(X[t - delay : t - delay + 1], y[t - delay : t - delay + 1])
    return curve


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_it_predicts_then_learns(ranker: Any, delay: int) -> None:
    sample = make_ordinal(60, random_state=1)
    wanted = by_hand(ranker, sample.X, sample.y, delay, False)
    steps = progressive(fresh(ranker), sample.X, sample.y, delay=delay)
    np.testing.assert_allclose([step["RankLoss"] for step in steps], wanted, rtol=1e-12)


@pytest.mark.parametrize("ranker", [OAPBagging(n_estimators=5, random_state=0), VotedPRank()])
def test_expected_grades_can_be_measured(ranker: Any) -> None:
    sample = make_ordinal(60, random_state=1)
    wanted = by_hand(ranker, sample.X, sample.y, 0, True)
    steps = progressive(fresh(ranker), sample.X, sample.y, expected=True)
    np.testing.assert_allclose([step["RankLoss"] for step in steps], wanted, rtol=1e-12)


def test_arrays_sparse_rows_generators_and_chunks_give_the_same_steps() -> None:
    sample = make_ordinal(50, random_state=2)
    X, y = sample.X, sample.y
    forms = {
        "array": (X, y),
        "list": (X.tolist(), y.tolist()),
        "csr": (sparse.csr_array(X), y),
        "rows": (iter(X), iter(y)),
        "pairs": (zip(X, y, strict=True), None),
        "tables": (((X[i : i + 7], y[i : i + 7]) for i in range(0, 50, 7)), None),
    }
    wanted = list(progressive(PRank(), X, y))
    for name, (rows, grades) in forms.items():
        found = list(progressive(PRank(), rows, grades, classes=range(1, 6)))
        assert found == wanted, name


def test_several_measures_and_functions_are_followed() -> None:
    sample = make_ordinal(100, random_state=3)

    def too_high(y: float, guess: float) -> float:
        return float(guess > y)

    *_, last = progressive(
        PRank(), sample.X, sample.y, [RankLoss, "Misses", "SquaredLoss", too_high]
    )
    assert last["step"] == 100
    assert last["SquaredLoss"] >= last["RankLoss"] >= last["Misses"] >= last["too_high"] > 0


def test_every_so_many_steps_and_the_last_are_told() -> None:
    sample = make_ordinal(25, random_state=3)
    steps = progressive(PRank(), sample.X, sample.y, every=10)
    assert [step["step"] for step in steps] == [10, 20, 25]


def test_a_trained_ranker_goes_on_and_late_grades_are_learned_in_the_end() -> None:
    sample = make_ordinal(60, random_state=4)
    model = PRank().fit(sample.X[:30], sample.y[:30])
    for _ in progressive(model, sample.X[30:], sample.y[30:], delay=7):
        pass
    assert model.n_seen_ == 60
    np.testing.assert_array_equal(model.coef_, PRank().fit(sample.X, sample.y).coef_)


def test_an_endless_stream_needs_no_more_memory() -> None:
    def endless() -> Iterator[tuple[Any, Any]]:
        for seed in itertools.count():
            sample = make_ordinal(1000, random_state=seed)
            yield sample.X, sample.y

    steps = progressive(PRank(), endless(), classes=range(1, 6), every=1000)
    for _ in range(3):
        next(steps)
    tracemalloc.start()
    for _ in range(20):
        next(steps)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e6
