"""Make the scores of different engines comparable, list by list.

Each norm works on the list of one run for one query and keeps its order. If all scores of a list
are equal (or it has one document), ``minmax`` and ``max`` give every document 1, ``sum`` equal
shares, ``zscore`` 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.data.runs import Run
from rankwright.exceptions import DataError, Message, ParameterError, Setting
from rankwright.fusion.pool import Pool


def minmax(pool: Pool) -> FloatArray:
    """From 0 for the last to 1 for the first: (s - min) / (max - min)."""
    score = _scaled(pool)
    low, high = pool.lowest(score), pool.highest(score)
    return _share(score - low[pool.query], (high - low)[pool.query], 1.0)


def by_max(pool: Pool) -> FloatArray:
    """Divided by the highest score, which keeps the engine's zero: s / max, for scores >= 0."""
    low = pool.lowest(pool.score)
    if np.nanmin(low, initial=0.0) < 0:
        query, run = np.argwhere(low < 0)[0]
        raise DataError(
            f"run {pool.names[run]!r}, query {pool.queries[query]}: the lowest score is "
            f"{low[query, run]:g}; ",
            Setting("norm", "max"),
            " needs scores >= 0.",
            fix=Message("Use ", Setting("norm", "minmax"), "."),
        )
    return _share(pool.score, pool.highest(pool.score)[pool.query], 1.0)


def by_sum(pool: Pool) -> FloatArray:
    """Shifted so that the last is 0, then divided so that the list adds up to 1."""
    score = _scaled(pool)
    above = score - pool.lowest(score)[pool.query]
    length = pool.total(pool.listed)[pool.query]
    equal = np.divide(1.0, length, out=np.full_like(length, np.nan), where=pool.listed)
    return _share(above, pool.total(above)[pool.query], equal)


def zscore(pool: Pool) -> FloatArray:
    """Mean 0 and variance 1 within each list."""
    score = _scaled(pool)
    length = np.maximum(pool.total(pool.listed), 1)
    centered = score - (pool.total(score) / length)[pool.query]
    spread = np.sqrt(pool.total(centered**2) / length)
    # Rounding leaves a spread of some 1e-16 where all scores are equal.
    constant = pool.highest(score) <= pool.lowest(score)
    return _share(centered, np.where(constant, 0.0, spread)[pool.query], 0.0)


def by_rank(pool: Pool) -> FloatArray:
    """From 1 for the first down in equal steps to 1/n for the last: 1 - (rank - 1) / n."""
    length = np.maximum(pool.total(pool.listed), 1)[pool.query]
    return 1 - (pool.rank - 1) / length


def borda(pool: Pool) -> FloatArray:
    """Borda points over the number of candidates; unlisted documents share the rest equally."""
    candidates = np.diff(pool.ptr)[pool.query][:, None]
    return 1 - (pool.full_rank - 1) / candidates


NORMS: dict[str, Callable[[Pool], FloatArray]] = {
    "minmax": minmax,
    "max": by_max,
    "sum": by_sum,
    "zscore": zscore,
    "rank": by_rank,
    "borda": borda,
    "none": lambda pool: pool.score,
}


def normalized(pool: Pool, norm: str) -> FloatArray:
    """(n_rows, n_runs) normalized scores of a pool, NaN where a run does not list the document."""
    if norm not in NORMS:
        raise ParameterError(Setting("norm", norm), f": use one of {', '.join(NORMS)}.")
    return NORMS[norm](pool)


def normalize(run: Run, norm: str = "minmax") -> Run:
    """Normalize the scores of each query of a run.

    Parameters
    ----------
    run : Run
    norm : {"minmax", "max", "sum", "zscore", "rank", "borda", "none"}
        ``minmax``: from 0 to 1. ``max``: divided by the highest (scores >= 0). ``sum``: from 0,
        adding up to 1. ``zscore``: mean 0, variance 1. ``rank``: equal steps from 1 down to 1/n.
        ``borda``: the same for a single run; among several it counts all candidates.

    Examples
    --------
    >>> run = Run.from_dict({"q1": {"a": 12.0, "b": 9.0, "c": 8.0}})
    >>> normalize(run, "minmax").to_dict()
    {'q1': {'a': 1.0, 'b': 0.25, 'c': 0.0}}
    """
    order = np.lexsort((_text_order(run.docs)[run.doc], _text_order(run.queries)[run.query]))
    score = np.empty(len(run))
    score[order] = normalized(Pool.of([run]), norm)[:, 0]
    return replace(run, score=score)


def _text_order(ids: NDArray[np.generic]) -> NDArray[np.int64]:
    """The number of each id when all are sorted as text, as a pool sorts them."""
    texts = np.array([str(key) for key in ids.tolist()], dtype=object)
    return np.unique(texts, return_inverse=True)[1]


def _scaled(pool: Pool) -> FloatArray:
    """Scores divided by a power of two for each list: in -1 .. 1, so that no sum overflows."""
    _, exponent = np.frexp(np.nan_to_num(pool.highest(np.abs(pool.score))))
    return np.asarray(np.ldexp(pool.score, -exponent[pool.query]))


def _share(part: FloatArray, whole: FloatArray, otherwise: float | FloatArray) -> FloatArray:
    """``part / whole``, and ``otherwise`` where the whole is 0; NaN stays NaN."""
    fallback = np.where(np.isnan(part), np.nan, otherwise)
    return np.divide(part, whole, out=fallback, where=(whole > 0))
