"""Compiled sums over the pairs of a feedback that never build the pairs."""

from rankwright.feedback._kernels import levels, ndcg

__all__ = ["levels", "ndcg"]
