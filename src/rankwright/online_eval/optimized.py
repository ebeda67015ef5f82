"""Optimized interleaving: lists drawn with probabilities from a linear program."""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import Any

import numpy as np

from rankwright._typing import FloatArray

_MAX_LISTS = 128  # more possible lists than this are sampled


def optimized(
    lists: list[list[Any]], n: int, random: Random
) -> tuple[tuple[Any, ...], tuple[tuple[float, ...], ...]]:
    """The list drawn, and for each of its items the credit of each ranker (1 / rank)."""
    items = list(dict.fromkeys(item for ranking in lists for item in ranking))
    number = {item: k for k, item in enumerate(items)}
    coded = tuple(tuple(number[item] for item in ranking) for ranking in lists)
    candidates, cumulative, credits = _program(coded, n)
    drawn = min(int(np.searchsorted(cumulative, random.random(), "right")), len(candidates) - 1)
    rows = tuple(tuple(row) for row in credits[:, drawn].T.tolist())
    return tuple(items[k] for k in candidates[drawn]), rows


@lru_cache(maxsize=4096)
def _program(
    lists: tuple[tuple[int, ...], ...], n: int
) -> tuple[list[tuple[int, ...]], FloatArray, FloatArray]:
    """Possible lists, their cumulative probabilities, and (ranker, list, position) credits.

    Where no probabilities are fair (lists of different length, some sets of three), the mean credit
    of each position is equalized, so a random click still credits all rankers equally. Cached: the
    result depends on the lists only, and popular queries repeat theirs.
    """
    candidates = _possible(lists, n)
    n_items = len(set().union(*lists))
    gain = np.array([[1.0 / (len(r) + 1)] * n_items for r in lists])
    for ranker, ranking in enumerate(lists):
        gain[ranker, list(ranking)] = 1.0 / np.arange(1, len(ranking) + 1)
    credit = gain[:, np.array(candidates)]  # (ranker, candidate, position)
    chances = _probabilities(credit) if len(candidates) > 1 else np.ones(1)
    expected = np.einsum("c,rcp->rp", chances, credit)
    fair = credit + (expected.mean(axis=0) - expected)[:, None, :]
    return candidates, np.cumsum(chances), fair


def _possible(lists: tuple[tuple[int, ...], ...], n: int) -> list[tuple[int, ...]]:
    """All lists in which each position holds some ranker's best item not yet shown.

    When there are too many, ``_MAX_LISTS`` of them, drawn by a generator of fixed seed.
    """
    n = min(n, len(set().union(*lists)))
    prefixes: list[tuple[int, ...]] = [()]
    for _ in range(n):
        prefixes = list(
            dict.fromkeys((*prefix, item) for prefix in prefixes for item in _next(prefix, lists))
        )
        if len(prefixes) > _MAX_LISTS:
            order = Random(len(prefixes)).sample(range(len(prefixes)), _MAX_LISTS)
            prefixes = [prefixes[k] for k in sorted(order)]
    return prefixes


def _next(prefix: tuple[int, ...], lists: tuple[tuple[int, ...], ...]) -> list[int]:
    best = (next((item for item in ranking if item not in prefix), None) for ranking in lists)
    return list(dict.fromkeys(item for item in best if item is not None))


def _probabilities(credit: FloatArray) -> FloatArray:
    """Probabilities that make random clicks fair, then favor the lists that compare best.

    Fair: a user who clicks at random in the first k positions credits all rankers equally, for
    every k. What cannot be made equal is made as small as possible. Among fair solutions, the one
    with the least variance of the rankers' credit under clicks of chance 1 / position.
    """
    from scipy.optimize import linprog

    _, n_lists, n_positions = credit.shape
    totals = credit.cumsum(axis=2)
    bias = (totals[1:] - totals[:1]).transpose(0, 2, 1).reshape(-1, n_lists)
    n_rows = len(bias)
    expected = credit @ (1.0 / np.arange(1, n_positions + 1))
    cost = np.concatenate([expected.var(axis=0), np.full(2 * n_rows, 1e3)])
    equations = np.hstack([bias, np.eye(n_rows), -np.eye(n_rows)])
    one = np.concatenate([np.ones(n_lists), np.zeros(2 * n_rows)])
    solution = linprog(cost, A_eq=np.vstack([equations, one]), b_eq=np.append(np.zeros(n_rows), 1))
    chances = np.clip(solution.x[:n_lists], 0.0, None)
    return np.asarray(chances / chances.sum())
