"""Small ranking problems, and what the checks do with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone


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
    """Graded queries (grades 0 .. 2) ordered by their first two features, plus noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_items, n_features))
    signal = X[:, 0] + 0.5 * X[:, 1] + noise * rng.normal(size=len(X))
    return Problem(
        X, np.digitize(signal, [-0.5, 0.5]).astype(float), np.repeat(np.arange(n_queries), n_items)
    )


def fitted(ranker: Any, problem: Problem, **arguments: Any) -> Any:
    """A clone of the ranker, fitted to the problem with its queries."""
    arguments.setdefault("qid", problem.qid)
    return clone(ranker).fit(problem.X, problem.y, **arguments)


@contextmanager
def refused(kind: type[Exception], text: str) -> Iterator[None]:
    """Assert that the block raises this kind of error, with this text in its message."""
    message = None
    try:
        yield
    except kind as error:
        message = str(error)
    assert message is not None, f"no {kind.__name__} was raised (about {text!r})"
    assert text in message, f"the error does not say {text!r}: {message}"
