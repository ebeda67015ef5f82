"""The promises of sequential tests, by enumeration and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from rankwright.online_eval import (
    InterleavingTest,
    always_valid_interval,
    always_valid_p,
    mean_sequence,
    sessions_needed,
    sign_test,
)
from rankwright.online_eval.sequential import PairResult


def test_the_mixture_ratio_has_mean_one_when_both_are_equal() -> None:
    """Ville's inequality needs it: the mean over all outcomes of 1 / p is 1 (p not capped)."""
    from rankwright.online_eval.sequential import _log_ratio

    for rate in (0.5, 0.3):
        chance = stats.binom(20, rate).pmf(np.arange(21))
        ratios = [math.exp(_log_ratio(k, 20 - k, rate)) for k in range(21)]
        assert np.dot(chance, ratios) == pytest.approx(1.0)


def test_the_sign_test_is_the_binomial_tail_doubled() -> None:
    assert sign_test(8, 2) == pytest.approx(2 * stats.binom(10, 0.5).sf(7))
    assert sign_test(0, 0) == 1.0


def looks(n_experiments: int, n_sessions: int, rate: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.random((n_experiments, n_sessions)) < rate, axis=1)


def test_looking_after_every_session_keeps_the_rate_of_false_alarms() -> None:
    wins, checked = looks(150, 400, 0.5, 0), range(10, 400, 20)
    always = [
        any(always_valid_p(int(w[t]), t + 1 - int(w[t])) < 0.05 for t in checked) for w in wins
    ]
    naive = [any(sign_test(int(w[t]), t + 1 - int(w[t])) < 0.05 for t in checked) for w in wins]
    assert np.mean(always) <= 0.05
    assert np.mean(naive) > 0.15


def test_all_intervals_of_a_sequence_cover_at_once() -> None:
    missed = 0
    for w in looks(100, 300, 0.62, 1):
        ends = [always_valid_interval(int(w[t]), t + 1 - int(w[t])) for t in range(5, 300, 10)]
        missed += any(not low <= 0.62 <= high for low, high in ends)
    assert missed <= 5


def test_interval_and_p_value_agree() -> None:
    for wins, losses in [(0, 0), (5, 0), (40, 20), (55, 45), (300, 240), (0, 30)]:
        low, high = always_valid_interval(wins, losses)
        assert (low <= 0.5 <= high) == (always_valid_p(wins, losses) >= 0.05)
        assert 0 <= low <= high <= 1


def test_a_sequence_of_means_covers_at_once_and_shrinks() -> None:
    rng, missed = np.random.default_rng(2), 0
    for _ in range(300):
        lower, upper = mean_sequence(rng.beta(2, 6, 400) * 4 - 2, low=-2, high=2)
        missed += bool(((lower > -1) | (upper < -1)).any())
        assert (np.diff(upper - lower) <= 1e-12).all()
    assert missed <= 15
    assert upper[-1] - lower[-1] < 0.5


def test_the_sessions_needed_give_the_power_asked_for() -> None:
    n = sessions_needed(0.57, power=0.8)
    wins = np.random.default_rng(3).binomial(n, 0.57, 400)
    assert np.mean([sign_test(int(w), n - int(w)) < 0.05 for w in wins]) == pytest.approx(
        0.8, abs=0.05
    )


def test_counts_added_one_by_one_are_those_given_at_once() -> None:
    test = InterleavingTest(["old", "new", "other"])
    for credits in [(1, 2, 0), (0, 0, 0), (2, 1, 1), (0, 1, 0.5)]:
        test.add(credits)
    one = test.result("new", "old")
    assert one == PairResult.from_counts(2, 1, 1, alpha=0.05 / 3, names=("new", "old"))
    assert [(r.first, r.second) for r in test.results()] == [
        ("old", "new"),
        ("old", "other"),
        ("new", "other"),
    ]
    assert test.result().losses == 2


def test_a_clear_difference_is_found_and_named() -> None:
    assert PairResult.from_counts(90, 10).better == "A"
    assert PairResult.from_counts(10, 90).better == "B"
    assert PairResult.from_counts(6, 4, 90).better is None
