"""MPRank in the dual: centered Gram matrices, Cholesky solutions, coordinate ascent."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from rankwright._typing import FloatArray
from rankwright.exceptions import DataError
from rankwright.rankers.magnitude.sample import Sample
from rankwright.rankers.magnitude.scatter import too_large

BLOCK = 256


def scale_gram(K: FloatArray, sample: Sample) -> FloatArray:
    """Multiply rows and columns by the roots of the masses, in place."""
    if not (sample.is_plain and sample.mass[0] == 1.0):
        K *= sample.roots[:, None]
        K *= sample.roots[None, :]
    return K


def center_gram(K: FloatArray, sample: Sample) -> FloatArray:
    """P K P for a symmetric K, in place, where P = I - B B' centers each query (Sample.unit).

    A symmetric rank-2q update: with L = K B - B (B' K B) / 2 it is K - L B' - B L'.
    """
    unit, starts = sample.unit, sample.ptr[:-1]
    if sample.n_queries == 1:
        half = K @ unit
        half -= (0.5 * float(unit @ half)) * unit
        for start in range(0, len(K), BLOCK):
            rows = slice(start, start + BLOCK)
            K[rows] -= half[rows, None] * unit
            K[rows] -= unit[rows, None] * half
        return K
    spread = sparse.csr_array((unit, sample.codes, np.arange(len(K) + 1)))
    half = np.asarray(K @ spread)
    half -= 0.5 * (spread @ np.add.reduceat(unit[:, None] * half, starts))
    transposed = np.ascontiguousarray(half.T)
    for start in range(0, len(K), BLOCK):
        rows = slice(start, start + BLOCK)
        K[rows] -= half[rows][:, sample.codes] * unit
        K[rows] -= unit[rows, None] * transposed[sample.codes[rows]]
    return K


def factorized(K: FloatArray, factor: float, into: FloatArray | None = None) -> FloatArray:
    """The Cholesky factor of I + C' K, in place of the lower half of K or ``into`` (C order)."""
    work = np.multiply(K, factor, out=K if into is None else into)
    work.flat[:: len(K) + 1] += 1.0
    cholesky, failed = linalg.lapack.dpotrf(work.T, lower=0, overwrite_a=1, clean=0)
    if failed and not np.isfinite(K).all():
        raise too_large()
    if failed:
        raise DataError(
            f"the kernel is not positive semidefinite (I + C' K has no Cholesky factor, row "
            f"{failed}): use another kernel, or a smaller C."
        )
    return np.asarray(cholesky)


def solve_dual(K: FloatArray, sample: Sample, C: float) -> tuple[FloatArray, float]:
    """The dual coefficients of eq 13, h(x) = sum_i alpha_i K(x, x_i), and the mean of h.

    K is overwritten.
    """
    factor = 2.0 * C / sample.total
    mean_row = sample.mass @ K / sample.total
    cholesky = factorized(center_gram(scale_gram(K, sample), sample), factor)
    right = sample.roots * sample.centered(sample.y)
    solved, _ = linalg.lapack.dpotrs(cholesky, right, lower=0)
    alpha = factor * sample.roots * solved
    return alpha, float(mean_row @ alpha)


def inverse(cholesky: FloatArray) -> FloatArray:
    """(I + C' K)^-1 from its Cholesky factor, in place: the lower half of a C-ordered array."""
    inverted, _ = linalg.lapack.dpotri(cholesky, lower=0, overwrite_c=1)
    return np.asarray(inverted.T)


class Sweep(NamedTuple):
    """The result of coordinate ascent (section 2.5: one dual coefficient at a time).

    Attributes
    ----------
    alpha : (n_rows,) dual coefficients of the rows
    costs : the dual objective after each round; it rises to the minimum of the cost F
    converged : whether the last round changed it by at most tol of itself
    """

    alpha: FloatArray
    costs: list[float]
    converged: bool


def sweep_dual(K: FloatArray, sample: Sample, C: float, tol: float, max_iter: int) -> Sweep:
    """Coordinate ascent with a centered and scaled Gram matrix."""
    from rankwright.rankers.magnitude._kernels import sweep_gram

    target = sample.roots * sample.centered(sample.y)
    alpha, product = np.zeros(len(K)), np.zeros(len(K))
    ridge = sample.total / (2.0 * C)
    costs, converged = _iterate(lambda: sweep_gram(K, target, ridge, alpha, product), tol, max_iter)
    # From coefficients of centered rows to coefficients of the rows themselves: P alpha.
    along = np.add.reduceat(sample.unit * alpha, sample.ptr[:-1])
    alpha = sample.roots * (alpha - sample.unit * along[sample.codes])
    return Sweep(alpha, costs, converged)


def sweep_linear(
    rows: FloatArray, sample: Sample, C: float, tol: float, max_iter: int
) -> tuple[FloatArray, list[float], bool]:
    """Coordinate ascent with centered and scaled rows: coefficients of the features and costs."""
    from rankwright.rankers.magnitude._kernels import sweep_rows

    target = sample.roots * sample.centered(sample.y)
    alpha, coef = np.zeros(len(rows)), np.zeros(rows.shape[1])
    square = np.einsum("ij,ij->i", rows, rows)
    ridge = sample.total / (2.0 * C)
    costs, converged = _iterate(
        lambda: sweep_rows(rows, square, target, ridge, alpha, coef), tol, max_iter
    )
    return coef, costs, converged


def _iterate(one_round: Callable[[], float], tol: float, max_iter: int) -> tuple[list[float], bool]:
    """Repeat until a round changes the cost by at most tol of itself (the paper: 0.01 %).

    The growth of each step is known without cancellation, so even tol = 1e-20 is meaningful.
    """
    costs = [0.0]
    for _ in range(max_iter):
        growth = one_round()
        costs.append(costs[-1] + growth)
        if growth <= tol * costs[-1]:
            return costs, True
    return costs, False
