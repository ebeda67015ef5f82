"""The ordinal data of the PRank and OAP-BPM papers, with its Bayes rule and Bayes loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rankwright.data.synthetic.draw import FloatArray, IntArray, Sample, Seed, need

__all__ = ["OrdinalSample", "make_ordinal"]

_THRESHOLDS = np.array([-1.0, -0.1, 0.25, 1.0])


@dataclass(frozen=True, eq=False)
class OrdinalSample(Sample):
    """Items with a rank 1 .. 5 each, drawn by :func:`make_ordinal`.

    Attributes
    ----------
    X : (n_items, 2) float64
    y : (n_items,) int64
        Ranks 1 .. 5.
    latent : (n_items,) float64
        The noise-free value behind the rank: the right order.
    noise : float
        Standard deviation of what was added to ``latent`` before cutting.
    """

    X: FloatArray
    y: IntArray
    latent: FloatArray
    noise: float

    @property
    def bayes_prediction(self) -> IntArray:
        """The best possible rank for each item.

        Rank loss is least at the median rank, and the noise is symmetric, so the median rank is
        the rank of ``latent`` itself.
        """
        return 1 + np.searchsorted(_THRESHOLDS, self.latent)

    @property
    def expected_loss(self) -> FloatArray:
        """The rank loss ``bayes_prediction`` must expect on each item."""
        return _conditional_loss(self.latent, self.noise)

    @property
    def bayes_rank_loss(self) -> float:
        """The mean rank loss that no rule can beat on fresh items (0.1526 for the papers' data)."""
        return _bayes_rank_loss(self.noise)


def make_ordinal(
    n_items: int = 1000, *, noise: float = 0.125, random_state: Seed = None
) -> OrdinalSample:
    """Draw the synthetic ordinal data of the PRank and OAP-BPM papers.

    x is uniform in the unit square. The rank is 1 plus the number of (-1, -0.1, 0.25, 1) that lie
    below 10 (x1 - 0.5)(x2 - 0.5) + noise, the noise being normal with standard deviation 0.125.

    Parameters
    ----------
    n_items : int, default=1000
    noise : float, default=0.125
        Standard deviation of the noise; 0 gives ranks without error.
    random_state : int, Generator or None
        Seeds the draw.

    Examples
    --------
    >>> sample = make_ordinal(5000, random_state=0)
    >>> sample.X.shape, np.unique(sample.y).tolist()
    ((5000, 2), [1, 2, 3, 4, 5])
    >>> round(sample.bayes_rank_loss, 4)
    0.1526
    >>> round(float(np.abs(sample.y - sample.bayes_prediction).mean()), 2)
    0.15
    """
    need(n_items >= 1, "n_items", n_items, "an integer >= 1")
    need(noise >= 0, "noise", noise, "a number >= 0")
    rng = np.random.default_rng(random_state)
    X = rng.uniform(size=(n_items, 2))
    latent = 10 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
    observed = latent + noise * rng.standard_normal(n_items)
    return OrdinalSample(X, 1 + np.searchsorted(_THRESHOLDS, observed), latent, noise)


def _conditional_loss(latent: FloatArray, noise: float) -> FloatArray:
    """Sum over the thresholds of the probability that the noise carries an item across it."""
    if noise == 0:
        return np.zeros(len(latent))
    distance = np.abs(np.subtract.outer(latent, _THRESHOLDS)) / (noise * math.sqrt(2))
    crossing: FloatArray = np.vectorize(math.erfc)(distance) / 2
    return np.asarray(crossing.sum(axis=1))


@lru_cache
def _bayes_rank_loss(noise: float) -> float:
    """The mean of the conditional loss over x, by the midpoint rule.

    z = |x1 - 1/2| |x2 - 1/2| has the distribution function 4z (1 - ln 4z) on (0, 1/4), and both
    signs of the product are equally likely. Cells are narrow near 0, where that function is steep.
    """
    edges = np.linspace(0, 1, 10_001) ** 2 / 4
    mass = np.diff(np.concatenate([[0.0], 4 * edges[1:] * (1 - np.log(4 * edges[1:]))]))
    middle = 10 * (edges[1:] + edges[:-1]) / 2
    loss = _conditional_loss(middle, noise) + _conditional_loss(-middle, noise)
    return float(mass @ loss / 2)
