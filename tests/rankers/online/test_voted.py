"""Voted PRank: rules, votes, and the bound on how many are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from rankwright import PRank, VotedPRank
from rankwright.exceptions import MemoryLimitError
from rankwright.runtime import memory


def stream(n: int = 300, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.integers(-16, 17, size=(n, 3)) / 8.0
    return X, np.digitize(X @ [1.0, -0.5, 0.25] + 0.4 * rng.normal(size=n), [-1, 0, 1]) + 1


def rules_and_votes(X: Any, y: Any) -> tuple[list[Any], list[int]]:
    """Every rule that one PRank went through, with the rounds it was right."""
    model = PRank().start(3, np.unique(y))
    rules, votes = [(model.coef_.copy(), model.thresholds_.copy())], [0]
    for i in range(len(y)):
        before = model.n_mistakes_
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        if model.n_mistakes_ > before:
            rules.append((model.coef_.copy(), model.thresholds_.copy()))
            votes.append(0)
        else:
            votes[-1] += 1
    return rules, votes


@pytest.mark.parametrize("count", ["correct", "survived"])
def test_each_rule_votes_with_the_rounds_that_it_was_right_or_survived(count: str) -> None:
    X, y = stream()
    rules, votes = rules_and_votes(X, y)
    votes = [vote + (count == "survived") for vote in votes]
    ranks = np.array([1 + (X @ w >= c[:, None]).sum(axis=0) for w, c in rules])
    wanted = votes @ ranks / np.sum(votes)
    model = VotedPRank(count=count).fit(X, y)
    np.testing.assert_allclose(model.predict_expected(X), wanted, rtol=1e-12)
    assert np.abs(model.predict(X) - wanted).max() <= 0.5
    if count == "correct":
        assert model.rules_votes_.sum() + model.n_votes_ == model.n_seen_ - model.n_mistakes_


@pytest.mark.parametrize("count", ["correct", "survived"])
def test_the_rules_with_the_fewest_votes_go_first(count: str) -> None:
    X, y = stream()
    votes = [vote + (count == "survived") for vote in rules_and_votes(X, y)[1]]
    past = sorted((v for v in votes[:-1] if v), reverse=True)
    model = VotedPRank(max_rules=5, count=count).fit(X, y)
    assert sorted(model.rules_votes_.tolist(), reverse=True) == past[:5]
    assert model.n_dropped_ == len(past) - 5


@pytest.mark.parametrize("max_rules", [None, 7])
def test_any_cutting_of_the_stream_gives_the_same_rules(max_rules: Any) -> None:
    X, y = stream(n=2500)
    whole = VotedPRank(max_rules=max_rules).fit(X, y)
    for size in (1, 13):
        model = VotedPRank(max_rules=max_rules).start(3, np.unique(y))
        for at in range(0, len(y), size):
            model.partial_fit(X[at : at + size], y[at : at + size])
        np.testing.assert_array_equal(model.rules_coef_, whole.rules_coef_)
        np.testing.assert_array_equal(model.rules_votes_, whole.rules_votes_)
        np.testing.assert_array_equal(model.decision_function(X), whole.decision_function(X))


def test_memory_stays_constant_on_a_long_stream() -> None:
    model = VotedPRank(max_rules=10)
    for seed in range(5):
        X, y = stream(n=2000, seed=seed)
        model.partial_fit(X, y, classes=[1, 2, 3, 4] if seed == 0 else None)
        assert model.rules_coef_.shape == (10, 3)
        assert model.rules_coef_.base.shape == (10, 3)


def test_predicting_while_learning_equals_predicting_before_each_row() -> None:
    X, y = stream(n=80)
    slow, wanted = VotedPRank().start(3, np.unique(y)), []
    for i in range(len(y)):
        wanted.append(slow.predict_expected(X[i : i + 1])[0])
        slow.partial_fit(X[i : i + 1], y[i : i + 1])
    found = VotedPRank().partial_fit_predict(X, y, np.unique(y), expected=True)
    np.testing.assert_array_equal(found, wanted)


def test_past_models_that_do_not_fit_in_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sparse.csr_array(np.eye(1000, 50_000, 100) + np.eye(1000, 50_000, 900))
    y = np.arange(1000) % 3
    monkeypatch.setattr(memory, "available_memory", lambda: 2.0**28)
    with pytest.raises(MemoryLimitError, match=r"1,000 past models with 50,000 .* max_rules"):
        VotedPRank().fit(X, y)
    assert len(VotedPRank(max_rules=5).fit(X, y).rules_coef_) == 5
