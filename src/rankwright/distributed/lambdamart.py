"""LambdaMART over shards: every process runs the loop of a local fit on rows of its own.

A :class:`Rank` holds the rows of some shards in bins and grows trees with the others; sums of
histograms go directly from process to process (see :mod:`rankwright.distributed.ring`). The trees
come back to the process that called ``fit``, which looks at validation queries, calls callbacks and
stops. If a process is lost, the others start again from the trees so far: with the same bits,
because a tree depends on the sums of integers only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray
from rankwright.data.vocabulary import Hashes
from rankwright.distributed import bins as shared_bins
from rankwright.distributed.base import Engine, ShardedValues
from rankwright.distributed.bins import Totals, Used
from rankwright.distributed.logs import note
from rankwright.distributed.ring import Door
from rankwright.distributed.shards import Shard, ShardedRows, join_grades, join_matrices
from rankwright.exceptions import ParameterError
from rankwright.feedback import pair_losses
from rankwright.feedback.pair_losses import QueryPairs
from rankwright.rankers.boosting.binning import QuantileBins
from rankwright.rankers.boosting.categories import (
    Folds,
    LevelCodes,
    fold_keys,
    level_numbers,
)
from rankwright.rankers.boosting.grower import Grower, Tree, TreeOptions
from rankwright.rankers.boosting.lambdamart import TreeDraw
from rankwright.rankers.boosting.pair_losses import (
    LISTWISE,
    ListGradients,
    PairGradients,
    PairWeights,
    query_keys,
)
from rankwright.rankers.boosting.training import Start
from rankwright.rankers.early_stopping import EarlyStopping, Validation
from rankwright.runtime import Team, one_thread
from rankwright.scoring.trees import Trees

AHEAD = 8  # trees that are grown in one call, if nobody looks at each


class Plan(NamedTuple):
    """What all processes of a fit know."""

    bins: QuantileBins
    monotone: Any
    options: TreeOptions
    loss: str
    weights: PairWeights
    span: tuple[float, float]
    n_queries: int
    rate: float
    known: Any  # a scorer of the trees to start from, or None
    draws: bool  # whether trees are grown on some of the queries


def fit(estimator: BaseEstimator, engine: Engine, rows: ShardedRows, start: Start) -> None:
    """Set what ``LambdaMART.fit`` sets."""
    _check(estimator, rows)
    estimator.__dict__.pop("_seen", None)
    stopping = EarlyStopping.from_parameter(estimator.early_stopping)
    validation = None if rows.eval_set is None else Validation(rows.eval_set, stopping)
    if engine.memory is not None:
        rows = replace(rows, shards=engine.map(shared_bins.by_columns, rows.shards))
    known, n_known, n_new = estimator._resumed(validation, start.n_more)
    n_first, n_all = n_known, n_known + n_new
    if rows.saved is not None and rows.saved.restore(estimator, "trees"):
        known, n_known, n_new = estimator._resumed(validation, n_all - len(estimator.alpha_))
        engine.stage += f", from tree {n_known + 1} on"
    used = engine.map(find_used, rows.shards)
    total: Totals = engine.reduce(engine.map(shared_bins.totals, used), shared_bins.add_totals)
    estimator.learning_rate_ = estimator._rate(total.n_rows)
    trees: list[Tree] = []
    if total.n_rows:
        trees = _boost(estimator, engine, rows, used, total, validation, known, n_new)
    n_kept = n_known + len(trees)
    if validation is not None:
        n_kept = max(validation.n_kept(n_kept), n_first)
        if known is not None and n_kept < n_known:  # the best round was before the interruption
            known = known.first(n_kept)
    estimator._keep(known, trees[: max(n_kept - n_known, 0)], rows.n_features)
    estimator.training_bound_ = None
    estimator.validation_ = np.array(validation.curve) if validation else None


def _check(estimator: BaseEstimator, rows: ShardedRows) -> None:
    if estimator._loss == "exponential" and not estimator._pair_weights().by_rank:
        raise ParameterError(
            f"LambdaMART(loss='exponential', weighting={estimator.weighting!r}) on an engine: this "
            "loss divides by a sum of floats over all queries. Use weighting='NDCG@30', another "
            "loss, or one machine."
        )
    if rows.eval_set is None and estimator.early_stopping not in (None, False):
        raise ParameterError(
            f"LambdaMART(early_stopping={estimator.early_stopping!r}) on an engine holds out no "
            "queries: pass eval_set=(X, y) and eval_qid to fit."
        )


def find_used(shard: Shard) -> Used:
    pairs = QueryPairs.of(shard.feedback)
    weight = pairs.weight * pairs.query_weight[pairs.group]
    count = np.rint(np.maximum(weight, 1.0)).astype(np.int64)
    low, high = pairs.grade.min(initial=np.inf), pairs.grade.max(initial=-np.inf)
    n_queries = len(np.unique(shard.feedback.queries.codes[pairs.rows]))
    return Used(pairs.rows, count, (float(low), float(high)), n_queries)


def query_hashes(shard: Shard, used: Used) -> Hashes:
    return np.unique(query_keys(shard.feedback, used.rows))


def _boost(
    estimator: BaseEstimator,
    engine: Engine,
    rows: ShardedRows,
    used: ShardedValues,
    total: Totals,
    validation: Validation | None,
    known: Trees | None,
    n_new: int,
) -> list[Tree]:
    categorical = estimator._feature_mask(rows.n_features)
    held, n_known = (rows.shards, used), len(known.root) if known else 0
    limits = estimator.max_bins, categorical, estimator.max_cat_levels
    bins = shared_bins.learn_bins(engine, held, total.n_rows, *limits)
    keys = None
    if estimator.subsample < 1.0:
        keys = engine.reduce(engine.map(query_hashes, held), np.union1d)
    plan = Plan(
        bins,
        estimator._monotone(categorical),
        estimator._tree_options(rows.n_features),
        estimator._loss,
        estimator._pair_weights(),
        total.span,
        total.n_queries,
        estimator.learning_rate_,
        known,
        keys is not None,
    )
    draws = list(estimator._draws(keys, rows.n_features, n_known, n_new))
    step = 1 if validation is not None or estimator.callbacks else AHEAD
    grown: list[Tree] = []

    def so_far() -> BaseEstimator:
        part = copy(estimator).set_params(callbacks=None, early_stopping=None)
        part._keep(known, grown, rows.n_features)
        part.training_bound_ = None
        part.validation_ = np.array(validation.curve) if validation else None
        return part

    def grow(number: int) -> Tree:
        if number == len(grown):
            if rows.saved is not None and grown:  # training goes on after all of these
                rows.saved.save_sometimes(so_far, "trees")
            grown.extend(gang.run("grow", draws[number : number + step], resume=grown))
        return grown[number]

    with Team(1) as pool, engine.gang(Rank, held, engine.broadcast(plan)) as gang:
        held_out = LevelCodes.of(bins, validation.X, None, pool) if validation else None
        trees: list[Tree] = estimator._rounds(
            grow, lambda tree, number: None, range(n_new), n_known, n_new, validation, held_out
        )
    return trees


class Rank:
    """One of the processes that grow the same trees: its rows in bins, and their scores.

    Parameters
    ----------
    shards, used : the shards of this process, and what :func:`find_used` says of each
    plan : Plan
    threads : how many threads grow
    empty : function of a shape and a type that returns an array, in memory or in a file
    worker : the Dask worker of this process, or None if there is no other process
    """

    def __init__(
        self,
        shards: list[Shard],
        used: list[Used],
        plan: Plan,
        threads: int = 1,
        empty: Callable[..., Any] = np.empty,
        worker: Any = None,
    ) -> None:
        self._plan, self._pool, self._empty = plan, Team(threads), empty
        self._door: Door | None = None
        self._ring: Any = None
        self._stopped, self._rank = False, 0
        if worker is not None:
            self._door = Door(worker)
        with one_thread():
            coded, self._losses, self._scores, self._keys, self._folds = self._encoded(shards, used)
        self._rows = LevelCodes.coded(plan.bins, *coded)
        self._grower: Grower | None = None

    def _encoded(self, shards: list[Shard], used: list[Used]) -> tuple[Any, ...]:
        """Codes and levels, gradients, first scores, hashes of queries and folds of rows in use."""
        plan, sizes = self._plan, np.cumsum([0] + [len(u.rows) for u in used])
        codes = self._empty((-(-len(plan.bins.edges) // 4), int(sizes[-1])), np.uint32)
        for shard, one, first, last in zip(shards, used, sizes[:-1], sizes[1:], strict=True):
            codes[:, first:last] = plan.bins.encode(shard.X, one.rows, self._pool)
        features = np.flatnonzero(plan.bins.ordered).tolist()
        parts = [level_numbers(plan.bins, s.X, u.rows) for s, u in zip(shards, used, strict=True)]
        none = [np.zeros(0, np.int32)]
        levels = {f: np.concatenate(none + [part[f] for part in parts]) for f in features}
        if not shards:
            folds = Folds.of(np.zeros(0, np.uint64)) if levels else None
            return (codes, levels), None, np.zeros(0), None, folds
        grades, X = join_grades(shards), None
        is_long = grades.queries.sizes.max(initial=0) > pair_losses.LONGEST
        if is_long:  # pairs may be sampled by the content of the rows
            X = join_matrices([shard.X for shard in shards])
        losses: PairGradients | ListGradients
        if plan.loss in LISTWISE:
            matrices = [shard.X for shard in shards] if plan.loss == "xendcg" else []
            losses = ListGradients(grades, matrices, plan.loss, self._pool, plan.span)
        else:
            losses = PairGradients(grades, X, plan.loss, plan.weights, self._pool, plan.span)
        if is_long:
            rows = QueryPairs.of(grades).rows
            order = np.argsort(rows)
            moved = order[np.searchsorted(rows, losses.rows, sorter=order)]
            codes, levels = codes[:, moved], {f: own[moved] for f, own in levels.items()}
        scores = np.zeros(len(losses.rows))
        if plan.known is not None:
            known = [plan.known.decision_function(s.X) for s in shards if len(s.y)]
            scores = np.concatenate([np.zeros(0), *known])[losses.rows]
        keys, folds = query_keys(grades, losses.rows) if plan.draws else None, None
        if levels:
            matrices, categorical = [shard.X for shard in shards], plan.bins.categorical
            own = fold_keys(grades, matrices, losses.rows, categorical, plan.n_queries)
            folds = Folds.of(own)
        return (codes, levels), losses, scores, keys, folds

    def address(self) -> tuple[str, int]:
        """Where other processes find this one."""
        assert self._door is not None
        return self._door.address

    def start(
        self, rank: int, addresses: list[tuple[str, int]], token: bytes, trees: Sequence[Tree]
    ) -> None:
        """Connect to the other processes, and add the trees that were grown before."""
        self._rank = rank
        if self._door is not None:
            self._ring = self._door.connect(rank, addresses, token)
        for tree in trees:
            self._add(tree)
        bins = self._plan.bins.coded(self._rows.codes, self._plan.monotone)
        count = np.zeros(0, np.int64) if self._losses is None else self._losses.count
        self._grower = Grower(
            bins, count, self._plan.bins.name_split, self._plan.options, self._pool, self._ring,
            self._empty, self._rows, self._folds,
        )  # fmt: skip

    def grow(self, draws: list[TreeDraw]) -> list[Tree]:
        """The trees of some rounds; the last is a single leaf if nothing is left to learn."""
        trees: list[Tree] = []
        with one_thread():
            for draw in draws:
                if self._stopped:
                    raise ConnectionError("the fit was cancelled")
                start, sent = time.perf_counter(), self._n_bytes
                trees.append(self._grown(draw))
                note("grow", f"tree {draw.number + 1}", rank=self._rank, round=draw.number + 1,
                     seconds=round(time.perf_counter() - start, 6),
                     bytes=self._n_bytes - sent, nodes=len(trees[-1].nodes))  # fmt: skip
                if len(trees[-1].nodes) == 1:
                    break
        return trees

    def _grown(self, draw: TreeDraw) -> Tree:
        assert self._grower is not None
        gradient: tuple[FloatArray, FloatArray] = np.zeros(0), np.zeros(0)
        if self._losses is not None:
            gradient = self._losses.at(self._scores, draw.seed)
        rows = None
        if draw.queries is not None and self._keys is not None:
            rows = draw.queries.rows(self._keys)
        tree = self._grower.grow(*gradient, rows, draw.features, draw.seed, draw.number)
        tree.alpha = self._plan.rate
        if rows is None and not self._rows.levels:
            self._grower.add_values(tree.alpha, self._scores)
        else:
            self._add(tree)
        return tree

    @property
    def _n_bytes(self) -> int:
        """How many bytes other processes have got."""
        return 0 if self._ring is None else int(self._ring.n_bytes)

    def _add(self, tree: Tree) -> None:
        self._rows.add(tree, self._scores)

    async def stop(self) -> None:
        """End a call that is under way: Dask runs coroutines at once, beside it."""
        self._stopped = True
        if self._ring is not None:
            self._ring.shut_down()

    def close(self) -> None:
        """End the threads and the connections."""
        for part in (self._door, self._ring):
            if part is not None:
                part.close()
        self._pool.__exit__()

    def __del__(self) -> None:
        self.close()  # Dask forgets an object that is cancelled, and tells nobody
