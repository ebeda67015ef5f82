"""Compiled sums over the pairs of a feedback that never build the pairs."""

from rankwright.feedback._kernels import disorder, levels

__all__ = ["disorder", "levels"]
