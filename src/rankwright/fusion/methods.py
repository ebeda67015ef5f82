"""One door to all fixed rules of fusion."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as short
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.runs import Run
from rankwright.exceptions import DataError, ParameterError
from rankwright.fusion import by_rank, by_score
from rankwright.fusion.lists import as_runs
from rankwright.fusion.normalize import NORMS, normalized
from rankwright.fusion.pool import Pool
from rankwright.rankers import rules

__all__ = ["METHODS", "fuse"]

FloatArray = NDArray[np.float64]

BY_SCORE = {
    "sum": by_score.comb_sum,
    "mnz": by_score.comb_mnz,
    "anz": by_score.comb_anz,
    "med": by_score.comb_med,
    "min": by_score.comb_min,
    "max": by_score.comb_max,
}
BY_RANK = {
    "rrf": by_rank.reciprocal_rank,
    "borda": by_rank.borda,
    "median_rank": by_rank.median_rank,
    "condorcet": by_rank.condorcet,
}
METHODS = (*BY_SCORE, *BY_RANK)
UNWEIGHTED = {"med", "min", "max", "median_rank"}


def fuse(
    runs: Any,
    method: str = "rrf",
    *,
    norm: str = "minmax",
    weights: ArrayLike | Mapping[str, float] | None = None,
    k: float = 60.0,
    name: str | None = None,
) -> Run:
    """Make one run of several by a fixed rule; nothing is learned.

    Every document that some run lists for a query is in the result, and every query of any run.
    Ids are compared as text. Permuting the runs changes nothing, not even the last bit.

    Parameters
    ----------
    runs : list of Run, or {name: run}
        Also ``{query: {doc: score}}``, ``{query: [doc, ...]}`` and, for a single query,
        ``[doc, ...]`` in place of a Run; documents in a list stand best first.
    method : str, default "rrf"
        By place: ``rrf`` (reciprocal rank fusion), ``borda``, ``median_rank``, ``condorcet``
        (majority duels, counted as Copeland does). By score: ``sum``, ``mnz``, ``anz``, ``med``,
        ``min``, ``max``, Fox and Shaw's CombSUM, CombMNZ and so on.
    norm : {"minmax", "max", "sum", "zscore", "rank", "borda", "none"}, default "minmax"
        What makes scores comparable before they are combined; rules by place do not look at it.
        See :func:`rankwright.fusion.normalize`.
    weights : one number >= 0 per run, or {name: weight}, optional
        For ``sum``, ``mnz``, ``anz``, ``rrf``, ``borda`` and ``condorcet``.
    k : float >= 0, default 60
        For ``rrf``: the larger, the less the first places stand out.
    name : str, optional
        The name of the result; the method when None.

    Examples
    --------
    >>> lists = {"ours": ["a", "b", "c"], "theirs": ["b", "a"], "web": ["b", "d"]}
    >>> fused = fuse(lists)
    >>> fused.docs[fused.doc[fused.order]].tolist()
    ['b', 'a', 'd', 'c']
    >>> fuse(lists, "borda").to_dict()
    {0: {'a': 8.5, 'b': 11.0, 'c': 5.0, 'd': 5.5}}
    """
    for option, value, known in (("method", method, METHODS), ("norm", norm, tuple(NORMS))):
        if value not in known:  # a tuple: what cannot be hashed, such as a run, is no error in it
            raise ParameterError(f"fuse({option}={short(value)}): use one of {', '.join(known)}.")
    rules.number(low=0).check("fuse", "k", k)
    checked = as_runs(runs)
    weight = _weights(weights, [run.name for run in checked], method)
    pool = Pool.of(checked)
    if method in BY_SCORE:
        values = normalized(pool, norm)
        score = BY_SCORE[method](values, pool.listed, weight) if len(values) else np.zeros(0)
    else:
        score = BY_RANK[method](pool, weight, k)
    return pool.run(score, method if name is None else name)


def _weights(given: Any, names: list[str], method: str) -> FloatArray:
    """One weight per run, in the order of the runs."""
    if given is None:
        return np.ones(len(names))
    if method in UNWEIGHTED:
        raise ParameterError(
            f"fuse(method={method!r}, weights=...): this rule has no weights. Rules that have: "
            f"{', '.join(m for m in METHODS if m not in UNWEIGHTED)}."
        )
    if isinstance(given, Mapping):
        named = {str(name): weight for name, weight in given.items()}
        odd = sorted(set(names).symmetric_difference(named))
        if odd:
            raise DataError(f"weights: {odd[0]!r} is not in both the weights and the runs.")
        given = [named[name] for name in names]
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):  # not numbers: refused below
        weights = np.full(len(names), np.nan)
    if weights.shape != (len(names),) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ParameterError(
            f"fuse(weights={short(given)}): give one finite number >= 0 for each of {len(names)} "
            "runs."
        )
    if not weights.any():
        raise ParameterError("fuse(weights=...): all weights are 0. Give at least one above 0.")
    return weights
