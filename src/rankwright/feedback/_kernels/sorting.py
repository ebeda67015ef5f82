"""A stable order of numbers, which compiles in a third of the time that numba's argsort takes."""

from __future__ import annotations

import numpy as np

from rankwright.runtime.kernels import njit

RUN = 16  # positions that are sorted by insertion; sorted runs are merged


@njit(cache=True, nogil=True)
def ascending_order(key):
    """The positions of a vector, lowest value first; equal values keep their order. No NaN."""
    n = len(key)
    order, merged = np.empty(n, np.int64), np.empty(n, np.int64)
    for first in range(0, n, RUN):
        for k in range(first, min(first + RUN, n)):
            value, at = key[k], k
            while at > first and key[order[at - 1]] > value:
                order[at] = order[at - 1]
                at -= 1
            order[at] = k
    width = RUN
    while width < n:
        for first in range(0, n, 2 * width):
            middle, stop = min(first + width, n), min(first + 2 * width, n)
            left, right = first, middle
            for at in range(first, stop):
                if right < stop and (left >= middle or key[order[right]] < key[order[left]]):
                    merged[at] = order[right]
                    right += 1
                else:
                    merged[at] = order[left]
                    left += 1
        order, merged = merged, order
        width *= 2
    return order
