"""What a sum of weak rankings says: why one row stands above another, and feature by feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright.feedback.base import FloatArray

__all__ = ["Contribution", "Curve", "Explanation", "generalization_bound", "vc_dimension"]


@dataclass(frozen=True)
class Contribution:
    """A weak ranking that two rows differ on: how much it lifts the first above the second."""

    words: str
    amount: float
    feature: int | None
    threshold: float | None

    def __str__(self) -> str:
        return f"{self.amount:+.4f}  {self.words}"


@dataclass(frozen=True)
class Explanation:
    """Why one row scores higher than another: weak rankings by contribution.

    ``difference`` is the difference of the two scores, the sum of all contributions.
    """

    difference: float
    contributions: tuple[Contribution, ...]

    def __str__(self) -> str:
        head = f"score difference {self.difference:+.4f}"
        return "\n".join([head, *(f"  {each}" for each in self.contributions)])


@dataclass(frozen=True)
class Curve:
    """What a feature adds to the score: ``value[k]`` where k of the thresholds are below it.

    Attributes
    ----------
    threshold : (n,) float64, ascending
    value : (n + 1,) float64
    missing : float, what is added where the row lacks the feature
    """

    threshold: FloatArray
    value: FloatArray
    missing: float

    def __call__(self, x: FloatArray) -> FloatArray:
        x = np.asarray(x, dtype=np.float64)
        value = self.value[np.searchsorted(self.threshold, x, side="left")]
        return np.where(np.isnan(x), self.missing, value)

    @property
    def points(self) -> tuple[FloatArray, FloatArray]:
        """Corners of the staircase from the first threshold to the last, ready to plot."""
        return np.repeat(self.threshold, 2), np.stack([self.value[:-1], self.value[1:]]).T.ravel()


def vc_dimension(n_features: int) -> int:
    """A bound on the VC dimension of thresholds on n features, each with a default.

    On d points a feature has at most d + 1 cuts and 2 defaults, so at most 2 n (d + 1) splits in
    all; to shatter d points takes 2 ** d of them.

    >>> vc_dimension(1), vc_dimension(46), vc_dimension(1000)
    (3, 9, 14)
    """
    d = 2
    while 2 ** (d + 1) <= 2 * n_features * (d + 2):
        d += 1
    return d


def generalization_bound(
    train_error: float, n_lower: int, n_upper: int, n_rounds: int, delta: float, d: int
) -> float:
    """Theorem 3: with probability 1 - delta the true ranking error is at most this.

    Infinite where the theorem says nothing (a bound of 1 or more, or a negative root).

    >>> generalization_bound(0.1, 100, 100, 10, 0.05, 9)
    inf
    >>> round(generalization_bound(0.1, 10**7, 10**7, 10, 0.05, 9), 3)
    0.237
    """
    capacity = 2 * (d + 1) * (n_rounds + 1) * np.log2(np.e * (n_rounds + 1))
    bound = train_error
    for size in (n_lower, n_upper):
        if size < 1:
            return float("inf")
        inside = (capacity * (np.log(2 * size / capacity) + 1) + np.log(18 / delta)) / size
        if inside < 0:
            return float("inf")
        bound += 2 * np.sqrt(inside)
    return float(bound) if bound < 1 else float("inf")
