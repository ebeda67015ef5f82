"""Compiled sums over the pairs of a feedback that never build the pairs."""
