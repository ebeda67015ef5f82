"""Tests for online comparisons: the sign test, and always-valid intervals.

A fixed-horizon p-value controls the error rate for a single test at a sample size chosen in
advance. Testing every day and stopping at the first p < 0.05 finds differences that do not exist.
*Always-valid* intervals and p-values control the error rate at all sample sizes at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray
from rankwright.exceptions import DataError, ParameterError

_PRIOR = 10.0  # Beta(10, 10) mixture: most sensitive to win rates within about 0.1 of one half


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p-value of the sign test, valid once, at a sample size chosen in advance.

    >>> round(sign_test(60, 40), 4)
    0.0569
    """
    _check_counts(wins, losses)
    if wins + losses == 0:
        return 1.0
    from scipy import stats

    return float(stats.binomtest(wins, wins + losses).pvalue)


def always_valid_p(wins: int, losses: int) -> float:
    """P-value of equal win rates that is valid after every session.

    It is one over the mixture likelihood ratio (Robbins 1970; Johari et al. 2022).

    >>> round(always_valid_p(60, 40), 3), round(always_valid_p(600, 400), 9)
    (0.457, 1.9e-08)
    """
    _check_counts(wins, losses)
    return min(1.0, math.exp(-_log_ratio(wins, losses, 0.5)))


def always_valid_interval(wins: int, losses: int, alpha: float = 0.05) -> tuple[float, float]:
    """Confidence interval of the win rate without ties, valid at all sample sizes at once.

    With probability at least 1 - alpha, the true rate is in every interval of the sequence: the
    rates that a beta-binomial mixture does not reject (Robbins 1970; Howard et al. 2021).

    >>> low, high = always_valid_interval(600, 400)
    >>> round(low, 3), round(high, 3)
    (0.549, 0.65)
    """
    _check_counts(wins, losses)
    _check_alpha(alpha)
    center, limit = wins / max(wins + losses, 1), -math.log(alpha)
    if wins + losses == 0:
        return 0.0, 1.0
    return (
        _crossing(wins, losses, limit, inside=center, outside=0.0),
        _crossing(wins, losses, limit, inside=center, outside=1.0),
    )


def mean_sequence(
    values: ArrayLike, *, low: float = 0.0, high: float = 1.0, alpha: float = 0.05
) -> tuple[FloatArray, FloatArray]:
    """Always-valid confidence intervals of a mean after each value: lower and upper bounds.

    The predictable plug-in empirical Bernstein sequence of Waudby-Smith and Ramdas (2024). It needs
    values within known bounds and makes no other assumption.

    >>> lower, upper = mean_sequence(np.arange(2000) % 2)
    >>> bool(lower[-1] < 0.5 < upper[-1]), bool(upper[-1] - lower[-1] < 0.11)
    (True, True)
    """
    _check_alpha(alpha)
    x = (np.asarray(values, dtype=np.float64) - low) / (high - low)
    if x.ndim != 1:
        raise DataError(f"values has shape {x.shape}: give a list of numbers.")
    if (outside := ~((x >= 0) & (x <= 1))).any():
        entry = int(np.argmax(outside))
        raise DataError(
            f"values[{entry}] is {x[entry] * (high - low) + low:g}: give numbers from {low:g} to "
            f"{high:g}, or set low and high."
        )
    t = np.arange(1, len(x) + 1)
    mean = (0.5 + np.cumsum(x)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (t + 1)
    before = np.concatenate([[0.25], variance[:-1]])  # a bet may use the past only
    bets = np.minimum(np.sqrt(2 * math.log(2 / alpha) / (before * t * np.log1p(t))), 0.5)
    spread = (x - np.concatenate([[0.5], mean[:-1]])) ** 2
    total = np.cumsum(bets)
    center = np.cumsum(bets * x) / total
    radius = (math.log(2 / alpha) + np.cumsum(spread * (-np.log1p(-bets) - bets))) / total
    lower = np.maximum.accumulate(np.maximum(center - radius, 0.0))
    upper = np.minimum.accumulate(np.minimum(center + radius, 1.0))
    return low + lower * (high - low), low + upper * (high - low)


def sessions_needed(
    win_rate: float, *, tie_rate: float = 0.0, alpha: float = 0.05, power: float = 0.8
) -> int:
    """Number of sessions that a sign test needs to detect a win rate.

    Parameters
    ----------
    win_rate : the better ranker's share of the sessions without ties, above 0.5 and at most 1
    tie_rate : the share of sessions without a winner, such as those without a click
    alpha, power : probability of a false positive; probability of detecting the difference

    >>> sessions_needed(0.55), sessions_needed(0.55, tie_rate=0.5)
    (783, 1566)
    """
    _check_alpha(alpha)
    if not (0.5 < win_rate <= 1 and 0 <= tie_rate < 1 and 0 < power < 1):
        raise ParameterError(
            f"win_rate={win_rate}, tie_rate={tie_rate}, power={power}: they must be in (0.5, 1], "
            "[0, 1) and (0, 1).",
        )
    from statistics import NormalDist

    normal = NormalDist()
    spread = math.sqrt(win_rate * (1 - win_rate))
    root = (normal.inv_cdf(1 - alpha / 2) / 2 + normal.inv_cdf(power) * spread) / (win_rate - 0.5)
    return math.ceil(math.ceil(root**2) / (1 - tie_rate))


@dataclass(frozen=True)
class PairResult:
    """Wins, losses and ties of two rankers, with an interval and a p-value.

    Attributes
    ----------
    first, second : names of the rankers
    wins, losses, ties : sessions in which the first earned more, less or the same credit
    preference : share of all sessions that the first wins, ties counted half, minus one half
    win_rate : share of the sessions without ties that the first wins; 0.5 if there are none
    interval : always-valid interval of the win rate
    p_value : always-valid p-value of equal win rates
    sign_test : p-value of the sign test, valid once, at a sample size chosen in advance
    better : name of the better ranker when the interval excludes 0.5, else None

    Examples
    --------
    >>> result = PairResult.from_counts(wins=620, losses=480, ties=900, names=("new", "old"))
    >>> result.better, round(result.win_rate, 3), round(result.preference, 3)
    ('new', 0.564, 0.035)
    >>> print(result)
    new is better than old: new won 620, lost 480, tied 900; win rate 0.564 [0.515, 0.611], p 0.0012
    """

    first: str
    second: str
    wins: int
    losses: int
    ties: int
    preference: float
    win_rate: float
    interval: tuple[float, float]
    p_value: float
    sign_test: float
    better: str | None

    def __str__(self) -> str:
        low, high = self.interval
        other = self.second if self.better == self.first else self.first
        verdict = (
            f"{self.better} is better than {other}"
            if self.better is not None
            else f"{self.first} and {self.second} are undecided"
        )
        return (
            f"{verdict}: {self.first} won {self.wins:,}, lost {self.losses:,}, tied {self.ties:,}; "
            f"win rate {self.win_rate:.3f} [{low:.3f}, {high:.3f}], p {self.p_value:.2g}"
        )

    @classmethod
    def from_counts(
        cls,
        wins: int,
        losses: int,
        ties: int = 0,
        *,
        alpha: float = 0.05,
        names: Sequence[str] = ("A", "B"),
    ) -> PairResult:
        """Build the result from counts of sessions, such as those in a database."""
        _check_counts(wins, losses, ties)
        decided, total = wins + losses, wins + losses + ties
        low, high = always_valid_interval(wins, losses, alpha)
        return cls(
            first=names[0],
            second=names[1],
            wins=wins,
            losses=losses,
            ties=ties,
            preference=(wins - losses) / (2 * total) if total else 0.0,
            win_rate=wins / decided if decided else 0.5,
            interval=(low, high),
            p_value=always_valid_p(wins, losses),
            sign_test=sign_test(wins, losses),
            better=names[0] if low > 0.5 else names[1] if high < 0.5 else None,
        )


class InterleavingTest:
    """Count the sessions that each ranker wins, with a test that is valid at any time.

    Parameters
    ----------
    names : names of the rankers, in the order of their lists
    alpha : probability of a false positive over all times and all pairs of rankers

    Examples
    --------
    >>> test = InterleavingTest(["old", "new"])
    >>> for credits in [(0.0, 1.0), (1.0, 1.0), (0.0, 2.0)]:
    ...     test.add(credits)
    >>> result = test.result("new", "old")
    >>> result.wins, result.losses, result.ties, result.better
    (2, 0, 1, None)
    """

    def __init__(self, names: Sequence[str] = ("A", "B"), alpha: float = 0.05) -> None:
        if len(names) < 2 or len(set(names)) < len(names):
            raise ParameterError(
                f"names={list(names)}: give two or more different names.", parameter="names"
            )
        _check_alpha(alpha)
        self.names, self.alpha = [str(name) for name in names], alpha
        self.wins = np.zeros((len(names), len(names)), dtype=np.int64)
        self.n_sessions = 0

    def add(self, credits: Sequence[float]) -> None:
        """Add one session, given the credit of each ranker."""
        earned = np.asarray(credits, dtype=np.float64)
        if earned.shape != (len(self.names),) or not np.isfinite(earned).all():
            raise DataError(f"credits={credits!r}: give one number for each of {self.names}.")
        self.wins += earned[:, None] > earned[None, :] + 1e-12
        self.n_sessions += 1

    def result(self, first: str | None = None, second: str | None = None) -> PairResult:
        """Return the result of two rankers; by default the first two."""
        i = 0 if first is None else self._number(first)
        j = 1 if second is None else self._number(second)
        if i == j:
            raise ParameterError(f"{first!r} is compared with itself; name two rankers.")
        wins, losses = int(self.wins[i, j]), int(self.wins[j, i])
        n_pairs = len(self.names) * (len(self.names) - 1) // 2
        return PairResult.from_counts(
            wins,
            losses,
            self.n_sessions - wins - losses,
            alpha=self.alpha / n_pairs,
            names=(self.names[i], self.names[j]),
        )

    def results(self) -> list[PairResult]:
        """Return the results of all pairs; alpha is divided by their number (Bonferroni)."""
        pairs = [(a, b) for k, a in enumerate(self.names) for b in self.names[k + 1 :]]
        return [self.result(a, b) for a, b in pairs]

    def _number(self, name: str) -> int:
        if name not in self.names:
            raise ParameterError(f"no ranker is called {name!r}; known are {self.names}.")
        return self.names.index(name)


def _log_ratio(wins: int, losses: int, rate: float) -> float:
    """Log of the beta-binomial mixture likelihood over that of the rate."""
    mixture = _log_beta(wins + _PRIOR, losses + _PRIOR) - _log_beta(_PRIOR, _PRIOR)
    return mixture - _times_log(wins, rate) - _times_log(losses, 1.0 - rate)


def _times_log(count: int, rate: float) -> float:
    return count * math.log(rate) if rate > 0 else (-math.inf if count else 0.0)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _crossing(wins: int, losses: int, limit: float, inside: float, outside: float) -> float:
    """The rate between inside and outside where the log ratio reaches the limit, by bisection."""
    if _log_ratio(wins, losses, outside) <= limit:
        return outside
    for _ in range(60):
        middle = (inside + outside) / 2
        if _log_ratio(wins, losses, middle) <= limit:
            inside = middle
        else:
            outside = middle
    return outside


def _check_counts(*counts: Any) -> None:
    if any(isinstance(c, bool) or c != int(c) or c < 0 for c in counts):
        raise ParameterError(f"counts of sessions {counts}: they must be whole numbers >= 0.")


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ParameterError(
            f"alpha is {alpha!r}; it must be between 0 and 1, for instance 0.05.", parameter="alpha"
        )
