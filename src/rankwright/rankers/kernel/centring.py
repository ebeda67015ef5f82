"""Gram matrices centred in place, and the systems solved with them: MPRank in the dual."""

from __future__ import annotations

import numpy as np
from scipy import linalg, sparse

from rankwright.exceptions import DataError
from rankwright.rankers.kernel.sample import FloatArray, Sample
from rankwright.rankers.kernel.scatter import too_large

__all__ = ["centre_gram", "factorised", "inverse", "scale_gram", "solve_dual"]

BLOCK = 256


def scale_gram(K: FloatArray, sample: Sample) -> FloatArray:
    """Multiply rows and columns by the roots of the masses, in place."""
    if not (sample.is_plain and sample.mass[0] == 1.0):
        K *= sample.roots[:, None]
        K *= sample.roots[None, :]
    return K


def centre_gram(K: FloatArray, sample: Sample) -> FloatArray:
    """P K P for a symmetric K, in place, where P = I - sum_q b_q b_q' centres each query.

    With L = K B - B (B' K B) / 2 it is K - L B' - B L', row block by row block.
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
    turned = np.ascontiguousarray(half.T)
    for start in range(0, len(K), BLOCK):
        rows = slice(start, start + BLOCK)
        K[rows] -= half[rows][:, sample.codes] * unit
        K[rows] -= unit[rows, None] * turned[sample.codes[rows]]
    return K


def factorised(K: FloatArray, factor: float, into: FloatArray | None = None) -> FloatArray:
    """The Cholesky factor of I + C' K, in place of the lower half of K or ``into`` (C order)."""
    work = np.multiply(K, factor, out=K if into is None else into)
    work.flat[:: len(K) + 1] += 1.0
    whole, failed = linalg.lapack.dpotrf(work.T, lower=0, overwrite_a=1, clean=0)
    if failed and not np.isfinite(K).all():
        raise too_large()
    if failed:
        raise DataError(
            f"the kernel is not positive semidefinite (I + C' K has no Cholesky factor, row "
            f"{failed}): use another kernel, or a smaller C."
        )
    return np.asarray(whole)


def solve_dual(K: FloatArray, sample: Sample, C: float) -> tuple[FloatArray, float]:
    """The dual coefficients of eq 13, h(x) = sum_i alpha_i K(x, x_i), and the mean of h.

    K is overwritten.
    """
    factor = 2.0 * C / sample.total
    mean_row = sample.mass @ K / sample.total
    whole = factorised(centre_gram(scale_gram(K, sample), sample), factor)
    right = sample.roots * sample.centred(sample.y)
    solved, _ = linalg.lapack.dpotrs(whole, right, lower=0)
    alpha = factor * sample.roots * solved
    return alpha, float(mean_row @ alpha)


def inverse(whole: FloatArray) -> FloatArray:
    """(I + C' K)^-1 from its Cholesky factor, in place: the lower half of a C-ordered array."""
    inverted, _ = linalg.lapack.dpotri(whole, lower=0, overwrite_c=1)
    return np.asarray(inverted.T)
