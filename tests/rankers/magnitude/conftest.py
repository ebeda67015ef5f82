"""Plain twins: the objectives as the paper prints them, summed over explicit pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True)
class Rows:
    """Rows with grades, queries 0, 1, .. and weights of rows (u) and queries (v)."""

    X: np.ndarray
    y: np.ndarray
    q: np.ndarray
    u: np.ndarray
    v: np.ndarray

    @property
    def fit_arguments(self) -> dict[str, Any]:
        return {
            "qid": self.q,
            "sample_weight": self.u,
            "query_weight": {int(q): self.v[q] for q in np.unique(self.q)},
        }

    @property
    def total(self) -> float:
        return float((self.u * self.v[self.q]).sum())

    def take(self, rows: Any) -> Rows:
        return Rows(self.X[rows], self.y[rows], self.q[rows], self.u[rows], self.v)

    def pairs(self, C: float) -> list[tuple[int, int, float]]:
        """Every ordered pair with its weight in the objective."""
        found = []
        for query in np.unique(self.q):
            rows = np.flatnonzero(self.q == query)
            scale = C / self.total * self.v[query] / self.u[rows].sum()
            found += [(i, j, scale * self.u[i] * self.u[j]) for i in rows for j in rows]
        return found


def linear(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return A @ B.T


def rbf(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.exp(-0.2 * ((A[:, None] - B[None]) ** 2).sum(axis=-1))


def pair_ridge(
    rows: Rows, C: float, kernel: Callable[[Any, Any], np.ndarray]
) -> Callable[[np.ndarray], np.ndarray]:
    """Normal equations of |h|^2 + sum over pairs of weight (difference - difference)^2."""
    n = len(rows.y)
    laplacian = np.zeros((n, n))
    for i, j, weight in rows.pairs(C):
        apart = np.zeros(n)
        apart[i] += 1.0
        apart[j] -= 1.0
        laplacian += weight * np.outer(apart, apart)
    alpha = np.linalg.solve(np.eye(n) + laplacian @ kernel(rows.X, rows.X), laplacian @ rows.y)
    return lambda Z: kernel(Z, rows.X) @ alpha


def make_rows(kind: str, n: int = 40, d: int = 4, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 3.0
    y = X @ rng.normal(size=d) + 0.5 * rng.normal(size=n)
    q = np.zeros(n, int) if kind == "one list" else rng.integers(0, max(2, n // 7), n)
    q = np.unique(q, return_inverse=True)[1]
    u, v = np.ones(n), np.ones(q.max() + 1)
    if kind == "weights":
        u, v = rng.uniform(0.3, 3.0, n), rng.uniform(0.3, 3.0, q.max() + 1)
    return Rows(X, y, q, u, v)


@pytest.fixture(params=["one list", "queries", "weights"])
def rows(request: pytest.FixtureRequest) -> Rows:
    return make_rows(request.param)


@pytest.fixture(scope="session")
def twin() -> Any:
    """make_rows, pair_ridge and the kernels, for tests that need several."""

    class Twin:
        rows = staticmethod(make_rows)
        ridge = staticmethod(pair_ridge)
        linear = staticmethod(linear)
        rbf = staticmethod(rbf)

    return Twin
