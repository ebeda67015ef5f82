"""Fusion by a fixed rule: CombSUM and its variants, reciprocal ranks, Borda, Condorcet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from reprlib import repr as short
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import BoolArray, FloatArray, Id
from rankwright.data.runs import Run
from rankwright.exceptions import DataError, ParameterError, Setting
from rankwright.fusion.normalization import NORMS, normalized
from rankwright.fusion.pool import Pool
from rankwright.rankers import schema
from rankwright.scoring.base import row_blocks

Rankings: TypeAlias = Iterable[object] | Mapping[str, object]  # see as_runs
UNNAMED = Run.from_arrays([], [], []).name


def as_runs(runs: Rankings) -> list[Run]:
    """Runs from runs, ``{query: {doc: score}}``, ``{query: [doc, ...]}`` or ``[doc, ...]``.

    Sequences list documents best first; a sequence without a query is the list of query 0. Runs
    without a name are called ``run-0``, ``run-1`` and so on; a mapping ``{name: run}`` names all.

    >>> as_runs({"ours": ["a", "b"], "theirs": ["b"]})
    [Run('ours', 2 rows, 1 queries), Run('theirs', 1 rows, 1 queries)]
    >>> as_runs([["a", "b"], {"q1": {"a": 0.5}}])
    [Run('run-0', 2 rows, 1 queries), Run('run-1', 1 rows, 1 queries)]
    """
    if isinstance(runs, Run | str) or not isinstance(runs, Iterable):
        kind = type(runs).__name__
        raise DataError(f"runs is {kind}: give several runs, [run, run] or {{name: run}}.")
    if isinstance(runs, Mapping):
        named = [replace(_as_run(run, str(name)), name=str(name)) for name, run in runs.items()]
    else:
        named = [_as_run(run, f"run-{number}") for number, run in enumerate(runs)]
    if not named:
        raise DataError("there are no runs to fuse. Give at least one.")
    name, count = Counter(run.name for run in named).most_common(1)[0]
    if count > 1:
        raise DataError(
            f"two runs are called {name!r}. Give each its own name: {{name: run}}, or "
            "name= when you create the run."
        )
    return named


def _as_run(ranking: object, name: str) -> Run:
    if isinstance(ranking, Run):
        return replace(ranking, name=name) if ranking.name == UNNAMED else ranking
    lists = ranking if isinstance(ranking, Mapping) else {0: ranking}
    rows = [row for query, listed in lists.items() for row in _rows(query, listed, name)]
    qid, docid, score = zip(*rows, strict=True) if rows else ((), (), ())
    try:
        return Run.from_arrays(list(qid), list(docid), list(score), name=name)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error


def _rows(query: Id, listed: object, name: str) -> list[tuple[Any, Any, Any]]:
    if isinstance(listed, Mapping):
        return [(query, doc, score) for doc, score in listed.items()]
    if isinstance(listed, Sequence | np.ndarray) and not isinstance(listed, str | bytes):
        pair = next((doc for doc in listed if isinstance(doc, tuple | list | np.ndarray)), None)
        if pair is not None:
            raise DataError(
                f"{name}, query {query}: {short(pair)} in a list of documents is not an id. "
                "Give documents with scores as {query: {doc: score}}."
            )
        return [(query, doc, -float(rank)) for rank, doc in enumerate(listed, start=1)]
    raise DataError(
        f"{name}: {short(listed)} is not a ranked list. Each run is a Run, "
        "{query: {doc: score}}, {query: [doc, ...]} or [doc, ...], best first; give several as "
        "[run, run] or {name: run}."
    )


def sorted_sum(values: FloatArray) -> FloatArray:
    """Row sums without NaN that do not depend on the order of the columns.

    >>> sorted_sum(np.array([[0.1, 0.2, 0.3], [0.3, 0.1, np.nan]])).tolist()
    [0.6000000000000001, 0.4]
    """
    return np.asarray(np.sort(np.where(np.isnan(values), 0.0, values), axis=1).sum(axis=1))


def comb_sum(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombSUM: the weighted sum; a run that does not list a document adds nothing."""
    return sorted_sum(values * weights)


def comb_mnz(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombMNZ: the weighted sum times the number of runs that list the document."""
    return np.asarray(sorted_sum(values * weights) * listed.sum(axis=1))


def comb_anz(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombANZ: the weighted mean over the runs that list the document."""
    total = sorted_sum(np.where(np.isnan(values), 0.0, weights))
    mean = np.zeros(len(values))  # 0 for documents that only runs of weight 0 list
    return np.divide(sorted_sum(values * weights), total, out=mean, where=total > 0)


BLOCK_CELLS = 1 << 22  # how many pairs of documents are compared at a time


def rrf(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Reciprocal rank fusion (Cormack, Clarke and Buettcher 2009): sum of 1 / (k + rank)."""
    return sorted_sum(weights / (k + pool.rank))


def borda(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Borda-fuse (Aslam and Montague 2001): c points for the first of c candidates, then c - 1 ...

    Documents that a run does not list share the remaining points.
    """
    candidates = np.diff(pool.ptr)[pool.query][:, None]
    return sorted_sum(weights * (candidates + 1 - pool.full_rank))


def median_rank(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Minus the median rank; documents that a run does not list share the remaining ranks."""
    return np.asarray(-np.median(pool.full_rank, axis=1))


def condorcet(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Pairwise majorities (Copeland): wins minus losses against each other candidate.

    A run votes for the document that it ranks higher, and for a listed one against an unlisted one;
    between two unlisted ones it abstains. A document that beats all others comes first.
    """
    rank = np.where(pool.listed, pool.rank, np.inf).astype(np.float32)
    equal = (weights == weights[0]).all()  # then votes are counted, which is faster and exact
    votes = np.ones(len(weights), np.int16) if equal else weights
    wins = np.zeros(len(pool.query))
    for start, end in pairwise(pool.ptr):
        wins[start:end] = _net_wins(rank[start:end], votes)
    return wins


def _net_wins(rank: NDArray[np.float32], weights: NDArray[Any]) -> NDArray[np.int64]:
    """Majorities won minus majorities lost by each candidate of one query."""
    even = 1e-12 * weights.sum()  # fractional weights may miss a draw by rounding
    won = np.empty(len(rank), np.int64)
    for block in row_blocks(len(rank), len(rank), BLOCK_CELLS):
        votes = np.zeros((len(rank[block]), len(rank)), weights.dtype)
        for mine, others, weight in zip(rank[block].T, rank.T, weights, strict=True):
            votes += weight * (mine[:, None] < others)
            votes -= weight * (mine[:, None] > others)
        won[block] = (votes > even).sum(axis=1) - (votes < -even).sum(axis=1)
    return won


WEIGHTED = {"sum": comb_sum, "mnz": comb_mnz, "anz": comb_anz}
# CombMED, CombMIN and CombMAX: of the scores that the runs that list the document gave it.
REDUCED: dict[str, Any] = {"med": np.nanmedian, "min": np.fmin.reduce, "max": np.fmax.reduce}
BY_SCORE = (*WEIGHTED, *REDUCED)
BY_RANK = {"rrf": rrf, "borda": borda, "median_rank": median_rank, "condorcet": condorcet}
METHODS = (*BY_SCORE, *BY_RANK)
UNWEIGHTED = {*REDUCED, "median_rank"}


def fuse(
    runs: Rankings,
    method: str = "rrf",
    *,
    norm: str = "minmax",
    weights: ArrayLike | Mapping[str, float] | None = None,
    k: float = 60.0,
    name: str | None = None,
) -> Run:
    """Combine several runs into one by a fixed rule, without training.

    The result has every query of any run, and every document that any run lists for it. Ids are
    compared as text. The result does not depend on the order of the runs.

    Parameters
    ----------
    runs : list of Run, or {name: run}
        A run may also be ``{query: {doc: score}}``, ``{query: [doc, ...]}`` or, for a single
        query, ``[doc, ...]``, with the best document first.
    method : str, default "rrf"
        By rank: ``rrf`` (reciprocal rank fusion), ``borda``, ``median_rank``, ``condorcet``
        (pairwise majorities, counted as Copeland does). By score: ``sum``, ``mnz``, ``anz``,
        ``med``, ``min``, ``max``: Fox and Shaw's CombSUM, CombMNZ and so on.
    norm : {"minmax", "max", "sum", "zscore", "rank", "borda", "none"}, default "minmax"
        How scores are normalized before they are combined; methods by rank ignore it.
        See :func:`rankwright.fusion.normalize`.
    weights : one number >= 0 per run, or {name: weight}, optional
        For ``sum``, ``mnz``, ``anz``, ``rrf``, ``borda`` and ``condorcet``.
    k : float >= 0, default 60
        For ``rrf``: a larger value gives the top ranks less weight.
    name : str, optional
        The name of the result; default is the method.

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
        if value not in known:  # tuples: a value that cannot be hashed is no TypeError
            raise ParameterError(f"fuse({option}={short(value)}): use one of {', '.join(known)}.")
    schema.number(low=0).check("fuse", "k", k)
    checked = as_runs(runs)
    weight = _weights(weights, [run.name for run in checked], method)
    pool = Pool.of(checked)
    if method in BY_RANK:
        score = BY_RANK[method](pool, weight, k)
    elif method in WEIGHTED:
        score = WEIGHTED[method](normalized(pool, norm), pool.listed, weight)
    else:
        score = np.asarray(REDUCED[method](normalized(pool, norm), axis=1))
    return pool.run(score, method if name is None else name)


def _weights(
    given: ArrayLike | Mapping[str, float] | None, names: list[str], method: str
) -> FloatArray:
    """One weight per run, in the order of the runs."""
    if given is None:
        return np.ones(len(names))
    if method in UNWEIGHTED:
        raise ParameterError(
            Setting("method", method),
            ", ",
            Setting("weights"),
            ": this method does not support weights. Methods that do: "
            f"{', '.join(m for m in METHODS if m not in UNWEIGHTED)}.",
        )
    if isinstance(given, Mapping):
        named = {str(name): weight for name, weight in given.items()}
        odd = sorted(set(names).symmetric_difference(named))
        if odd:
            where = "the weights" if odd[0] in named else "the runs"
            raise DataError(f"weights: {odd[0]!r} is only in {where}. Give one weight per run.")
        given = [named[name] for name in names]
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):  # no numbers: refused below
        weights = np.full(len(names), np.nan)
    if weights.shape != (len(names),) or not np.isfinite(weights).all() or (weights < 0).any():
        needed = f"give one finite number >= 0 for each of {len(names)} runs."
        raise ParameterError(f"fuse(weights={short(given)}): {needed}", parameter="weights")
    if not weights.any():
        raise ParameterError(
            Setting("weights"), ": all weights are 0.", fix="Give at least one above 0."
        )
    return weights
