"""A weak ranking deeper than one threshold: a small tree with real-valued leaves."""

from __future__ import annotations

from typing import ClassVar

from sklearn.base import BaseEstimator

from rankwright.rankers import rules

__all__ = ["TreeRanking"]


class TreeRanking(BaseEstimator):  # type: ignore[misc]
    r"""Trees as weak rankings, so that boosting reaches interactions of features.

    A tree is grown leaf by leaf on the potentials :math:`\pi` (how much the pairs want a row up)
    and the masses :math:`\mu` (how much weight its pairs have): the split is taken that adds most
    to :math:`\sum \pi^2 / (\mu + \lambda)` over the leaves, and a leaf has the value
    :math:`\pi / (\mu + \lambda)`. The weight of the tree is the one that minimises Z (method 1),
    times the learning rate; Z is convex, so any part of that weight still lowers it.

    Parameters
    ----------
    max_leaves : int >= 2, default 8
    min_items : int >= 1, default 20
        The least number of rows in a leaf.
    l2 : float >= 0, default 1.0
        :math:`\lambda`, counted in rows of average mass.
    learning_rate : float, 0 < rate <= 1, default 0.1

    Examples
    --------
    >>> import numpy as np
    >>> from rankwright import RankBoost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)         # no single feature says anything
    >>> model = RankBoost(weak=TreeRanking(max_leaves=4), n_rounds=30).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _rules: ClassVar = {
        "max_leaves": rules.at_least(2),
        "min_items": rules.at_least(1),
        "l2": rules.number(0.0),
        "learning_rate": rules.between(1e-6, 1.0),
    }

    def __init__(
        self,
        *,
        max_leaves: int = 8,
        min_items: int = 20,
        l2: float = 1.0,
        learning_rate: float = 0.1,
    ) -> None:
        self.max_leaves = max_leaves
        self.min_items = min_items
        self.l2 = l2
        self.learning_rate = learning_rate

    def check(self) -> None:
        """Raise a ParameterError unless every parameter is in its range."""
        for name, rule in self._rules.items():
            rule.check("TreeRanking", name, getattr(self, name))
