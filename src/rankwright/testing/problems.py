"""The small problems on which rankers are checked."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from rankwright.exceptions import DegenerateDataWarning


@dataclass(frozen=True)
class Problem:
    """Rows, grades and query ids."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    qid: NDArray[Any]

    def take(self, rows: Any) -> Problem:
        return Problem(self.X[rows], self.y[rows], self.qid[rows])


def make_problem(
    n_queries: int = 6, n_items: int = 9, n_features: int = 4, noise: float = 0.3, seed: int = 0
) -> Problem:
    """Graded queries (grades 0 .. 2) whose first two features tell the order, up to noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_items, n_features))
    signal = X[:, 0] + 0.5 * X[:, 1] + noise * rng.normal(size=len(X))
    return Problem(
        X, np.digitize(signal, [-0.5, 0.5]).astype(float), np.repeat(np.arange(n_queries), n_items)
    )


def fitted(ranker: Any, problem: Problem, **arguments: Any) -> Any:
    """A fresh copy of the ranker, trained on the problem with its queries."""
    arguments.setdefault("qid", problem.qid)
    return clone(ranker).fit(problem.X, problem.y, **arguments)


class quiet(warnings.catch_warnings):
    """Leave aside the warnings that degenerate data rightly cause."""

    def __enter__(self) -> Any:
        log = super().__enter__()
        warnings.simplefilter("ignore", DegenerateDataWarning)
        return log
