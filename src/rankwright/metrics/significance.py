"""Paired tests over queries, bootstrap intervals and Holm's correction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import FloatArray

_BATCH = 1 << 22  # resampled values held at once


def paired_t(first: FloatArray, second: FloatArray, **_: Any) -> float:
    """Two-sided p-value of Student's t-test on the differences.

    >>> round(paired_t([0.5, 0.6, 0.7, 0.9], [0.4, 0.4, 0.6, 0.6]), 4)
    0.0354
    """
    differences = _differences(first, second)
    if np.ptp(differences) < 1e-12:  # no spread: equal, or better every time by the same amount
        return 0.0 if len(differences) > 1 and differences[0] else 1.0
    from scipy import stats

    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def wilcoxon(first: FloatArray, second: FloatArray, **_: Any) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test; equal pairs are left out.

    >>> wilcoxon([0.5, 0.6, 0.7, 0.9], [0.4, 0.4, 0.6, 0.6])
    0.125
    """
    differences = _differences(first, second)
    if not differences.any():
        return 1.0
    from scipy import stats

    return float(stats.wilcoxon(differences[differences != 0]).pvalue)


def randomization(
    first: FloatArray, second: FloatArray, *, n_resamples: int = 10_000, random_state: int = 0
) -> float:
    """Two-sided p-value of Fisher's randomization test of the mean difference.

    The sign of each difference is drawn ``n_resamples`` times; with few queries all sign patterns
    are tried instead.

    >>> randomization([0.5, 0.6, 0.7, 0.9], [0.4, 0.4, 0.6, 0.6])
    0.125
    """
    differences = _differences(first, second)
    if not differences.any():
        return 1.0
    n, least = len(differences), abs(float(differences.sum())) * (1 - 1e-12)
    if 2**n <= n_resamples:
        every = np.arange(2**n)[:, None] >> np.arange(n) & 1
        return float(np.mean(_sums(every, differences) >= least))
    rng, n_extreme, left = np.random.default_rng(random_state), 0, n_resamples
    while left:
        n_drawn = min(left, max(1, _BATCH // n))
        bits = np.frombuffer(rng.bytes(n_drawn * ((n + 7) // 8)), np.uint8).reshape(n_drawn, -1)
        patterns = np.unpackbits(bits, axis=1, count=n)
        n_extreme += int(np.sum(_sums(patterns, differences) >= least))
        left -= n_drawn
    return (n_extreme + 1) / (n_resamples + 1)  # the pattern observed is one of them


def bootstrap_interval(
    values: object, *, level: float = 0.95, n_resamples: int = 2000, random_state: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean; NaN (queries left out) is ignored.

    Fewer than two values, or equal ones, give the mean twice.

    >>> low, high = bootstrap_interval([0.1, 0.4, 0.35, 0.8, 0.6])
    >>> low < 0.45 < high
    True
    """
    kept = np.asarray(values, dtype=np.float64)
    kept = kept[~np.isnan(kept)]
    if len(kept) < 2 or np.ptp(kept) == 0:
        mean = float(kept.mean()) if len(kept) else 0.0
        return mean, mean
    from scipy import stats

    interval = stats.bootstrap(
        (kept,),
        np.mean,
        confidence_level=level,
        n_resamples=n_resamples,
        batch=max(1, _BATCH // len(kept)),
        method="percentile",
        random_state=np.random.default_rng(random_state),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def holm(p_values: ArrayLike) -> FloatArray:
    """P-values adjusted so that the probability of any false positive stays below the level.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def _sums(patterns: NDArray[Any], differences: FloatArray) -> FloatArray:
    """The absolute sum of the differences with the signs of each pattern (1 is minus)."""
    sums = differences.sum() - 2.0 * (patterns.astype(np.float64) @ differences)
    return np.asarray(np.abs(sums))


TESTS: dict[str, Callable[..., float]] = {
    "randomization": randomization,
    "t": paired_t,
    "wilcoxon": wilcoxon,
}


def _differences(first: FloatArray, second: FloatArray) -> FloatArray:
    """Differences of pairs in which neither is NaN; what is only rounding is 0."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    differences = (a - b)[~(np.isnan(a) | np.isnan(b))]
    differences[np.abs(differences) < 1e-12] = 0.0
    return differences if len(differences) else np.zeros(1)
