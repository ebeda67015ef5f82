"""How far the error on new pairs may lie from the training error (section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rankwright.exceptions import ParameterError

__all__ = ["StabilityBound"]


@dataclass(frozen=True)
class StabilityBound:
    """Uniform stability of MPRank and SVRank, and what it says about new pairs.

    Holds for m rows drawn independently, a kernel with K(x, x) <= kappa^2 and hypotheses with
    |h(x) - y| <= M. The paper's h has no intercept: M must allow for grades that are not centred.

    Attributes
    ----------
    n_items, C, power : m, C and n of the objective
    M, kappa, delta : as above; the bound holds with probability 1 - delta
    training_error : the mean cost of the training pairs (eq 2)

    Examples
    --------
    >>> bound = StabilityBound(10_000, C=1.0, power=1, M=2.0, kappa=1.0, delta=0.05,
    ...                        training_error=0.4)
    >>> round(bound.beta, 6), round(bound.bound, 4)
    (0.0004, 0.6181)
    """

    n_items: int
    C: float
    power: int
    M: float
    kappa: float
    delta: float
    training_error: float

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise ParameterError(
                f"stability_bound(delta={self.delta!r}): delta must lie in 0 .. 1."
            )
        for name in ("M", "kappa"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ParameterError(
                    f"stability_bound({name}={value!r}): {name} must be a finite number >= 0."
                )

    @property
    def admissibility(self) -> float:
        """sigma_n of Lemma 1: 1 for n = 1, 4 M for n = 2."""
        return 1.0 if self.power == 1 else 4.0 * self.M

    @property
    def beta(self) -> float:
        """Proposition 3: leaving out a row changes no pair's cost by more than this."""
        return 4.0 * self.C * self.admissibility**2 * self.kappa**2 / self.n_items

    @property
    def _range(self) -> float:
        return self.beta * self.n_items + (2.0 * self.M) ** self.power

    def tail(self, epsilon: float) -> float:
        """Eq 49: the probability that the two errors differ by more than epsilon + 2 beta."""
        if self._range == 0:
            return 0.0
        return min(1.0, 2.0 * math.exp(-self.n_items * epsilon**2 / (2.0 * self._range**2)))

    @property
    def slack(self) -> float:
        """Corollary 1: by how much the error on new pairs may exceed the training error."""
        spread = math.sqrt(2.0 / self.n_items * math.log(2.0 / self.delta))
        return 2.0 * self.beta + self._range * spread

    @property
    def bound(self) -> float:
        """Corollary 1: the error on new pairs is at most this, with probability 1 - delta."""
        return self.training_error + self.slack
