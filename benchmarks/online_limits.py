"""Bare loops whose time is the least that an ensemble of PRanks could take."""

from __future__ import annotations

import numpy as np
from numba import njit

SUMS = {"reassoc", "contract", "nsz", "arcp"}


@njit(nogil=True, fastmath=SUMS)
def dot(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(nogil=True)
def dot_loop(a, b, times):
    """Products of two rows in the first cache, each depending on the one before."""
    total = 0.0
    for _ in range(times):
        b[0] = total * 1e-12
        total += dot(a, b)
    return total


@njit(nogil=True)
def axpy_loop(a, b, times):
    """a += factor * b, over and over."""
    for t in range(times):
        factor = 1.0 if t % 2 else -1.0
        for i in range(a.shape[0]):
            a[i] += factor * b[i]


@njit(nogil=True)
def draw_loop(seed, times):
    """Counter-based draws, counted."""
    golden, key, hits = np.uint64(0x9E3779B97F4A7C15), np.uint64(seed), 0
    for t in range(times):
        z = key + golden * np.uint64(t)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = (z ^ (z >> np.uint64(31))) >> np.uint64(11)
        hits += z < np.uint64(1 << 51)
    return hits


@njit(nogil=True)
def lane_loop(columns, values, table, out):
    """For each value of each row: read its lane once for the scores, change it once."""
    for e in range(columns.shape[0]):
        value, lane = values[e], table[columns[e]]
        for m in range(out.shape[0]):
            out[m] += value * lane[m]
        for m in range(out.shape[0]):
            lane[m] += value * 1e-9
