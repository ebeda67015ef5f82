"""The on-line form of MPRank (section 2.5): the dual, one coefficient at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.feedback.grades import Grades
from rankwright.rankers.magnitude.scatter import Sample, Scatter


@dataclass(eq=False)
class Stream:
    """Scatter of all rows so far, and where each query's rows lie, should more of them come.

    Attributes
    ----------
    products : (n_features + 1, n_features + 1) the scatter of features and grade
    keys, weights, masses, means : per query seen: a number for its id, its weight, the mass of its
        rows and their mean (features, then the grade)
    longest : the largest squared length of a row
    """

    products: FloatArray
    keys: IntArray
    weights: FloatArray
    masses: FloatArray
    means: FloatArray
    longest: float = 0.0

    @classmethod
    def empty(cls, n_features: int) -> Stream:
        none = np.zeros(0)
        return cls(
            np.zeros((n_features + 1, n_features + 1)),
            none.astype(np.int64), none, none, np.zeros((0, n_features + 1)),
        )  # fmt: skip

    def add(self, X: Any, grades: Grades, keys: IntArray) -> None:
        """Add rows; ``keys`` are the numbers of the queries of the grades."""
        if not grades.row_weight.any():
            return
        sample = Sample.of(grades)
        rows = sample.select(X)
        scatter = Scatter(X.shape[1])
        scatter.products = self.products
        means = scatter.add(rows, sample)
        self.longest = max(self.longest, scatter.longest)
        queries = grades.queries.codes[sample.rows[sample.ptr[:-1]]]
        known = {key: place for place, key in enumerate(self.keys.tolist())}
        places = np.array([known.get(key, -1) for key in keys[queries].tolist()], dtype=np.int64)
        for q in np.flatnonzero(places >= 0):
            self._join(scatter, int(places[q]), sample.query_weight[q], sample.sums[q], means[q])
        new = places < 0
        self.keys = np.concatenate([self.keys, keys[queries][new]])
        self.weights = np.concatenate([self.weights, sample.query_weight[new]])
        self.masses = np.concatenate([self.masses, sample.sums[new]])
        self.means = np.concatenate([self.means, means[new]])

    def _join(
        self, scatter: Scatter, place: int, weight: float, mass: float, mean: FloatArray
    ) -> None:
        if weight != self.weights[place]:
            raise DataError(
                f"query_weight is {weight:g} for a query that came with {self.weights[place]:g} "
                "before: a query has one weight, the same in every partial_fit."
            )
        scatter.meet(self.masses[place], self.means[place], mass, mean)
        self.masses[place] += mass
        self.means[place] += (mass / self.masses[place]) * (mean - self.means[place])

    def scatter(self) -> Scatter:
        """What a solution is computed from."""
        whole = Scatter(len(self.products) - 1)
        whole.products = self.products
        if len(self.keys):
            whole.mass = float(self.masses.sum())
            whole.mean = self.masses @ self.means / whole.mass
        return whole


def query_keys(queries: Queries) -> IntArray:
    """A 64-bit number for each query id, the same on every machine.

    >>> first, second = Queries.from_ids(["b", "a"]), Queries.from_ids(["a"])
    >>> bool(query_keys(first)[1] == query_keys(second)[0])
    True
    """
    digests = (
        hashlib.blake2b(f"{type(one).__name__}:{one!r}".encode(), digest_size=8).digest()
        for one in queries.ids.tolist()
    )
    return np.array([int.from_bytes(d, "little", signed=True) for d in digests], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Sweep:
    """What the sweeps came to.

    Attributes
    ----------
    alpha : (n_rows,) dual coefficients of the rows
    costs : the dual objective after each round; it rises to the minimum of the cost F
    settled : whether the last round moved it by less than tol of itself
    """

    alpha: FloatArray
    costs: list[float]
    settled: bool


def sweep_dual(K: FloatArray, sample: Sample, C: float, tol: float, max_rounds: int) -> Sweep:
    """Sweep over a centered and scaled Gram matrix."""
    from rankwright.rankers.magnitude._kernels import sweep_gram

    target = sample.roots * sample.centered(sample.y)
    alpha, product = np.zeros(len(K)), np.zeros(len(K))
    ridge = sample.total / (2.0 * C)
    costs, settled = _until_settled(
        lambda: sweep_gram(K, target, ridge, alpha, product), tol, max_rounds
    )
    return Sweep(_of_rows(alpha, sample), costs, settled)


def sweep_linear(
    rows: FloatArray, sample: Sample, C: float, tol: float, max_rounds: int
) -> tuple[FloatArray, Sweep]:
    """Sweep over centered and scaled rows, with the coefficients of the features kept along."""
    from rankwright.rankers.magnitude._kernels import sweep_rows

    target = sample.roots * sample.centered(sample.y)
    alpha, coef = np.zeros(len(rows)), np.zeros(rows.shape[1])
    square = np.einsum("ij,ij->i", rows, rows)
    ridge = sample.total / (2.0 * C)
    costs, settled = _until_settled(
        lambda: sweep_rows(rows, square, target, ridge, alpha, coef), tol, max_rounds
    )
    return coef, Sweep(_of_rows(alpha, sample), costs, settled)


def _until_settled(
    one_round: Callable[[], float], tol: float, max_rounds: int
) -> tuple[list[float], bool]:
    """Repeat until a round moves the cost by less than tol of itself (the paper: 0.01 %).

    Each step's growth is known without cancellation, so that even 1e-20 is a meaningful tol.
    """
    costs = [0.0]
    for _ in range(max_rounds):
        growth = one_round()
        costs.append(costs[-1] + growth)
        if growth <= tol * costs[-1]:
            return costs, True
    return costs, False


def _of_rows(alpha: FloatArray, sample: Sample) -> FloatArray:
    """Coefficients of centered rows as coefficients of the rows themselves."""
    along = np.add.reduceat(sample.unit * alpha, sample.ptr[:-1])
    return sample.roots * (alpha - sample.unit * along[sample.codes])
