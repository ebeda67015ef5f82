"""One door to all fixed rules of fusion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from reprlib import repr as short
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import BoolArray, FloatArray
from rankwright.data.runs import Run
from rankwright.exceptions import DataError, ParameterError
from rankwright.fusion.normalization import NORMS, normalized
from rankwright.fusion.pool import Pool
from rankwright.rankers import schema

UNNAMED = Run.from_arrays([], [], []).name


def as_runs(runs: Any) -> list[Run]:
    """Runs from runs, ``{query: {doc: score}}``, ``{query: [doc, ...]}`` or ``[doc, ...]``.

    Documents in a sequence stand best first; a sequence without a query is the list of a single
    query 0. What has no name of its own (a Run that was given none too) is called ``run-0``,
    ``run-1`` and so on by its place, and a mapping ``{name: list}`` around everything names all.

    >>> as_runs({"ours": ["a", "b"], "theirs": ["b"]})
    [Run('ours', 2 rows, 1 queries), Run('theirs', 1 rows, 1 queries)]
    >>> as_runs([["a", "b"], {"q1": {"a": 0.5}}])
    [Run('run-0', 2 rows, 1 queries), Run('run-1', 1 rows, 1 queries)]
    """
    if isinstance(runs, Run | str) or not isinstance(runs, Iterable):
        raise DataError(
            f"runs is {type(runs).__name__}: give several runs, [run, run] or {{name: run}}."
        )
    if isinstance(runs, Mapping):
        found = [replace(_as_run(run, str(name)), name=str(name)) for name, run in runs.items()]
    else:
        found = [_as_run(run, f"run-{place}") for place, run in enumerate(runs)]
    if not found:
        raise DataError("there is no run to fuse. Give at least one.")
    names = [run.name for run in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(
            f"two runs are called {twice!r}. Give each a name of its own: {{name: run}}, or "
            "name= where the run is made."
        )
    return found


def _as_run(ranking: Any, name: str) -> Run:
    if isinstance(ranking, Run):
        return replace(ranking, name=name) if ranking.name == UNNAMED else ranking
    lists = ranking if isinstance(ranking, Mapping) else {0: ranking}
    rows = [row for query, listed in lists.items() for row in _rows(query, listed, name)]
    qid, docid, score = zip(*rows, strict=True) if rows else ((), (), ())
    try:
        return Run.from_arrays(list(qid), list(docid), list(score), name=name)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error


def _rows(query: Any, listed: Any, name: str) -> list[tuple[Any, Any, Any]]:
    if isinstance(listed, Mapping):
        return [(query, doc, score) for doc, score in listed.items()]
    if isinstance(listed, Sequence | np.ndarray) and not isinstance(listed, str | bytes):
        pair = next((doc for doc in listed if isinstance(doc, tuple | list | np.ndarray)), None)
        if pair is not None:
            raise DataError(
                f"{name}, query {query}: {short(pair)} in a list of documents is no document. "
                "Documents with scores are written {query: {doc: score}}."
            )
        return [(query, doc, -float(place)) for place, doc in enumerate(listed, start=1)]
    raise DataError(
        f"{name}: {short(listed)} is not a ranked list. Each run is a Run, "
        "{query: {doc: score}}, {query: [doc, ...]} or [doc, ...], best first; around several "
        "stands [run, run] or {name: run}."
    )


def sorted_sum(values: FloatArray) -> FloatArray:
    """Row sums, NaN adding nothing, whatever the order of the columns.

    >>> sorted_sum(np.array([[0.1, 0.2, 0.3], [0.3, 0.1, np.nan]])).tolist()
    [0.6000000000000001, 0.4]
    """
    total: FloatArray = np.sort(np.where(np.isnan(values), 0.0, values), axis=1).sum(axis=1)
    return total


def comb_sum(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombSUM: the weighted sum; a run that does not list a document adds nothing."""
    return sorted_sum(values * weights)


def comb_mnz(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombMNZ: the weighted sum times the number of runs that list the document."""
    total: FloatArray = sorted_sum(values * weights) * listed.sum(axis=1)
    return total


def comb_anz(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombANZ: the weighted mean over the runs that list the document."""
    total = sorted_sum(np.where(np.isnan(values), 0.0, weights))
    mean = np.zeros(len(values))  # what only runs of weight 0 list scores 0
    return np.divide(sorted_sum(values * weights), total, out=mean, where=total > 0)


def comb_med(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombMED: the median over the runs that list the document."""
    median: FloatArray = np.nanmedian(values, axis=1)
    return median


def comb_min(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombMIN: the lowest score that a run gave."""
    lowest: FloatArray = np.fmin.reduce(values, axis=1)
    return lowest


def comb_max(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombMAX: the highest score that a run gave."""
    highest: FloatArray = np.fmax.reduce(values, axis=1)
    return highest


BLOCK_CELLS = 1 << 22  # how many pairs of documents are compared at a time


def reciprocal_rank(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Reciprocal rank fusion (Cormack, Clarke and Buettcher 2009): sum of 1 / (k + place)."""
    return sorted_sum(weights / (k + pool.rank))


def borda(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Borda-fuse (Aslam and Montague 2001): c points for the first of c candidates, then c - 1 ...

    Documents a run did not list share the points that are left over.
    """
    candidates = np.diff(pool.ptr)[pool.query][:, None]
    return sorted_sum(weights * (candidates + 1 - pool.full_rank))


def median_rank(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Minus the median place; documents a run did not list share the places left over."""
    median: FloatArray = -np.median(pool.full_rank, axis=1)
    return median


def condorcet(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Majority duels (Copeland): wins minus losses against each other candidate.

    A run votes for the document it lists first, and for a listed one against one it does not
    list; between two that it does not list it abstains. Whoever beats everybody else comes first.
    """
    place = np.where(pool.listed, pool.rank, np.inf).astype(np.float32)
    equal = (weights == weights[0]).all()  # then votes are counted, which is faster and exact
    votes = np.ones(len(weights), np.int16) if equal else weights
    wins = np.zeros(len(pool.query))
    for start, end in zip(pool.ptr[:-1], pool.ptr[1:], strict=True):
        wins[start:end] = _net_wins(place[start:end], votes)
    return wins


def _net_wins(place: NDArray[np.float32], weights: NDArray[Any]) -> NDArray[np.int64]:
    """Duels won minus duels lost by each candidate of one query."""
    n_docs = len(place)
    even = 1e-12 * weights.sum()  # fractional weights may miss a draw by rounding
    block = max(1, BLOCK_CELLS // n_docs)
    won = np.empty(n_docs, np.int64)
    for start in range(0, n_docs, block):
        rows = place[start : start + block]
        votes = np.zeros((len(rows), n_docs), weights.dtype)
        for mine, all_places, weight in zip(rows.T, place.T, weights, strict=True):
            votes += weight * (mine[:, None] < all_places)
            votes -= weight * (mine[:, None] > all_places)
        won[start : start + block] = (votes > even).sum(axis=1) - (votes < -even).sum(axis=1)
    return won


BY_SCORE = {
    "sum": comb_sum,
    "mnz": comb_mnz,
    "anz": comb_anz,
    "med": comb_med,
    "min": comb_min,
    "max": comb_max,
}
BY_RANK = {
    "rrf": reciprocal_rank,
    "borda": borda,
    "median_rank": median_rank,
    "condorcet": condorcet,
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
        See :func:`rankwright.fusion.normalization`.
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
    schema.number(low=0).check("fuse", "k", k)
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
