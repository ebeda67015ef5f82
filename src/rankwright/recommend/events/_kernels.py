"""Loops over histories: neighbors, sums over neighbors, conjugate gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.runtime.kernels import njit

# Sums may be reordered (SIMD); NaN stays NaN.
SUMS = {"reassoc", "contract", "nsz", "arcp"}


class EventPairs(NamedTuple):
    """Histories by user and by item."""

    ptr: NDArray[np.int64]  # (n_users + 1,)
    item: NDArray[np.int32]  # (n_pairs,), oldest first
    user: NDArray[np.int32]  # (n_pairs,)
    by_item: NDArray[np.int64]  # (n_items + 1,)
    entry: NDArray[np.int32]  # (n_pairs,) the pairs of each item


class Similarity(NamedTuple):
    """How co-occurrence becomes similarity."""

    scale: NDArray[np.float64]  # (n_items,) > 0, divides the similarity to that item
    shrinkage: float
    window: int  # only items at most this many places later count; 0 counts all


@njit(cache=True, nogil=True)
def merge_repeats(ptr, item, weight, kept, last):
    """Of the events of a user with one item keep the last, with the weights of all.

    ptr          (n_users + 1,)
    item         (n_events,) int32, oldest first
    weight       (n_events,) float64                   changed: sums at the last events
    kept         (n_events,) bool, all True            changed: False for the other events
    last         (n_items,) int64, all -1              changed, for its own use
    """
    for row in range(len(ptr) - 1):
        for at in range(ptr[row + 1] - 1, ptr[row] - 1, -1):
            later = last[item[at]]
            if later >= ptr[row]:
                weight[later] += weight[at]
                kept[at] = False
            else:
                last[item[at]] = at


@njit(cache=True, nogil=True)
def nearest(pairs, how, items, start, stop, neighbor, similarity):
    """The items most similar to some items, best first; of equal ones the smaller number.

    Counts are whole numbers, so sums are exact in any order.

    pairs        EventPairs
    how          Similarity
    items        item numbers
    start, stop  which of them to do
    neighbor     (n_items, n_neighbors) int32          written, -1 where there are fewer
    similarity   (n_items, n_neighbors) float32        written, 0 where there are fewer
    """
    n_items, k = neighbor.shape
    counts = np.zeros(n_items)
    touched = np.zeros(n_items, np.int64)
    for index in range(start, stop):
        item, n_touched = items[index], 0
        for at in range(pairs.by_item[item], pairs.by_item[item + 1]):
            entry = pairs.entry[at]
            user = pairs.user[entry]
            first, last = pairs.ptr[user], pairs.ptr[user + 1]
            if how.window > 0:
                first, last = entry + 1, min(last, entry + 1 + how.window)
            for later in range(first, last):
                other = pairs.item[later]
                if counts[other] == 0.0:
                    touched[n_touched] = other
                    n_touched += 1
                counts[other] += 1.0 if how.window == 0 else how.window - (later - entry) + 1.0
        # A count is at most n_users * window: item numbers break ties in ascending order.
        scores = np.zeros(n_touched)
        touched[:n_touched].sort()
        for t in range(n_touched):
            other = touched[t]
            if other != item:
                count = counts[other]
                scores[t] = count / how.scale[other] * (count / (count + how.shrinkage))
            counts[other] = 0.0
        # Sort only what may be among the k best.
        least = 0.0 if n_touched <= k else np.partition(scores, n_touched - k)[n_touched - k]
        kept = np.flatnonzero(scores >= least)
        order = kept[np.argsort(-scores[kept], kind="mergesort")[:k]]
        neighbor[item] = -1
        similarity[item] = 0.0
        for rank in range(len(order)):
            if scores[order[rank]] > 0.0:
                neighbor[item, rank] = touched[order[rank]]
                similarity[item, rank] = scores[order[rank]]


@njit(cache=True, nogil=True)
def count_with(pairs, item, counts):
    """Common users of one item and each other.

    pairs        EventPairs
    item         item number
    counts       (n_items,) float32                    added to
    """
    for at in range(pairs.by_item[item], pairs.by_item[item + 1]):
        user = pairs.user[pairs.entry[at]]
        for other in range(pairs.ptr[user], pairs.ptr[user + 1]):
            counts[pairs.item[other]] += np.float32(1.0)


@njit(cache=True, nogil=True)
def count_common(pairs, kept, column_of, start, stop, gram):
    """Common users of each two items that take part: the Gram matrix, row by row.

    pairs        EventPairs
    kept         (n_kept,) item numbers
    column_of    (n_items,) the index of an item in kept, or -1
    start, stop  rows to do
    gram         (n_kept, n_kept) float64              added to
    """
    for row in range(start, stop):
        counts, item = gram[row], kept[row]
        for at in range(pairs.by_item[item], pairs.by_item[item + 1]):
            user = pairs.user[pairs.entry[at]]
            for other in range(pairs.ptr[user], pairs.ptr[user + 1]):
                column = column_of[pairs.item[other]]
                if column >= 0:
                    counts[column] += 1.0


@njit(cache=True, nogil=True)
def count_transitions(pairs, lags, kept, column_of, gram, product, start, stop):
    """Sums over training rows: products of inputs, and of inputs and targets, row by row.

    pairs        EventPairs
    lags         (window, window + 1) what two items add to gram, by their distance and by how many
                 items follow the later one; (n_ahead,) to product, by their distance less 1
    kept         (n_kept,) item numbers
    column_of    (n_items,) the index of an item in kept, or -1
    gram         (n_kept, n_kept) float64              added to
    product      (n_kept, n_kept) float32              added to
    start, stop  rows to do
    """
    together, ahead = lags
    window = len(together)
    for row in range(start, stop):
        item = kept[row]
        for at in range(pairs.by_item[item], pairs.by_item[item + 1]):
            entry = pairs.entry[at]
            user = pairs.user[entry]
            first, last = pairs.ptr[user], pairs.ptr[user + 1]
            n_after = min(last - 1 - entry, window)
            for other in range(max(first, entry - window + 1), entry + 1):
                column = column_of[pairs.item[other]]
                if column >= 0:
                    gram[row, column] += together[entry - other, n_after]
            for other in range(entry + 1, min(last, entry + 1 + len(ahead))):
                column, apart = column_of[pairs.item[other]], other - entry
                if column >= 0:
                    product[row, column] += np.float32(ahead[apart - 1])
                    if apart < window:
                        gram[row, column] += together[apart, min(last - 1 - other, window)]


@njit(cache=True, nogil=True)
def add_neighbors(rows, decay, neighbor, similarity, start, stop, scores):
    """Add up the similarities of what is near the items of each history.

    rows         HistoryRows; an item counts its weight
    decay        an item k places before the last counts decay ** k
    neighbor, similarity  as from nearest
    start, stop  rows to do
    scores       (n_rows, n_items) float32             added to
    """
    k = neighbor.shape[1]
    for row in range(start, stop):
        weight, out = 1.0, scores[row]
        for at in range(rows.ptr[row + 1] - 1, rows.ptr[row] - 1, -1):
            item, strength = rows.item[at], weight * rows.weight[at]
            for rank in range(k):
                other = neighbor[item, rank]
                if other < 0:
                    break
                out[other] += np.float32(strength * similarity[item, rank])
            weight *= decay
            if weight < 1e-4:
                break


@njit(cache=True, nogil=True, fastmath=SUMS)
def solve_rows(rows, factors, gram, alpha, max_iter, start, stop, solution):
    """Conjugate gradients for (gram + alpha Y'WY) x = Y'(1 + alpha W), for each history.

    rows         HistoryRows; W are the weights of a row, Y the factors of its items
    factors      (n_items, d) float32
    gram         (d, d) float32, factors' factors + regularization
    alpha        confidence of a weight of 1
    max_iter     iterations
    start, stop  rows to do
    solution     (n_rows, d) float32, the start              changed in place
    """
    d = factors.shape[1]
    product = np.zeros(d, np.float32)
    residual = np.zeros(d, np.float32)
    for row in range(start, stop):
        first, last = rows.ptr[row], rows.ptr[row + 1]
        x = solution[row]
        if first == last:
            x[:] = 0.0
            continue
        residual[:] = -np.dot(gram, x)
        for at in range(first, last):
            y = factors[rows.item[at]]
            confidence = np.float32(alpha * rows.weight[at])
            dot = np.float32(0.0)
            for k in range(d):
                dot += y[k] * x[k]
            factor = np.float32(1.0) + confidence - confidence * dot
            for k in range(d):
                residual[k] += factor * y[k]
        direction = residual.copy()
        old = np.dot(residual, residual)
        enough = np.float32(1e-10) * old
        for _ in range(max_iter):
            if old <= enough:
                break
            product[:] = np.dot(gram, direction)
            for at in range(first, last):
                y = factors[rows.item[at]]
                dot = np.float32(0.0)
                for k in range(d):
                    dot += y[k] * direction[k]
                factor = np.float32(alpha * rows.weight[at]) * dot
                for k in range(d):
                    product[k] += factor * y[k]
            step = old / np.dot(direction, product)
            for k in range(d):
                x[k] += step * direction[k]
                residual[k] -= step * product[k]
            new = np.dot(residual, residual)
            for k in range(d):
                direction[k] = residual[k] + (new / old) * direction[k]
            old = new


@njit(cache=True, nogil=True)
def take_best(scores, tie, n, start, stop, best):
    """The n largest scores of each row, best first; of equal ones the smaller tie number.

    scores       (n_rows, n_items) float32, -inf is never taken
    tie          (n_items,) int64, distinct
    start, stop  rows to do
    best         (n_rows, n) int64                     written, -1 where there are fewer
    """
    n_items = scores.shape[1]
    heap = np.empty(n, np.int64)
    for row in range(start, stop):
        values = scores[row]
        size = 0
        for item in range(n_items):
            value = values[item]
            if value == -np.inf:
                continue
            if size == n:
                last = heap[n - 1]
                if value < values[last] or (value == values[last] and tie[item] > tie[last]):
                    continue
            at = min(size, n - 1)
            while at > 0:
                above = heap[at - 1]
                if value < values[above] or (value == values[above] and tie[item] > tie[above]):
                    break
                heap[at] = above
                at -= 1
            heap[at] = item
            size = min(size + 1, n)
        best[row, :size] = heap[:size]
        best[row, size:] = -1
