"""LambdaMART over shards: the trees of a local fit, from sums of integers.

Leaves are split best first, as in a local fit. The split of a leaf does not change those of other
leaves, so a round asks for the histograms of all leaves that may be split next, not of one: a tree
of 31 leaves takes about eight rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.vocabulary import Hashes
from rankwright.distributed import histograms as sums_of
from rankwright.distributed.base import Engine, ShardedValues
from rankwright.distributed.histograms import Block, Gradients, Request, Totals, Used
from rankwright.distributed.shards import Shard, ShardedRows, join_grades, join_matrices
from rankwright.exceptions import ParameterError
from rankwright.feedback import pair_losses
from rankwright.feedback.pair_losses import QueryPairs
from rankwright.rankers.boosting.binning import QuantileBins
from rankwright.rankers.boosting.grower import (
    NO_GRADIENT,
    Grower,
    Split,
    Tree,
    TreeOptions,
    first_best,
    integer_units,
)
from rankwright.rankers.boosting.lambdamart import query_keys
from rankwright.rankers.boosting.pair_losses import PairGradients, PairWeights
from rankwright.rankers.boosting.training import Start
from rankwright.rankers.early_stopping import EarlyStopping, Validation
from rankwright.runtime import Team
from rankwright.scoring.trees import Node


class Plan(NamedTuple):
    """What makes blocks of shards."""

    bins: QuantileBins
    loss: str
    weighting: str | None
    span: tuple[float, float]
    known: Any  # a scorer of the trees to start from, or None
    draws: bool  # whether trees are grown on some of the queries


def fit(estimator: Any, engine: Engine, rows: ShardedRows, start: Start) -> None:
    """Set what ``LambdaMART.fit`` sets."""
    _check(estimator, rows)
    estimator.__dict__.pop("_seen", None)
    stopping = EarlyStopping.from_parameter(estimator.early_stopping)
    validation = None if rows.eval_set is None else Validation(rows.eval_set, stopping)
    if engine.memory is not None:
        rows = replace(rows, shards=engine.map(sums_of.by_columns, rows.shards))
    known, n_known, n_new = estimator._resumed(validation, start.n_more)
    used = engine.map(find_used, rows.shards)
    total: Totals = engine.reduce(engine.map(sums_of.totals, used), sums_of.add_totals)
    trees: list[Tree] = []
    threads = None if estimator.n_jobs in (None, -1) else estimator.n_jobs
    with Team(threads) as pool:
        if total.n_rows:
            trees = _boost(estimator, engine, rows, used, total, validation, pool, known, n_new)
    kept = validation.n_kept(n_known + len(trees)) - n_known if validation else len(trees)
    estimator._keep(known, trees[: max(kept, 0)], rows.n_features)
    estimator.training_bound_ = None
    estimator.validation_ = np.array(validation.curve) if validation else None


def _check(estimator: Any, rows: ShardedRows) -> None:
    if estimator.loss == "exponential" and not PairWeights.parse(estimator.weighting).by_rank:
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
    return Used(pairs.rows, count, (float(low), float(high)))


def make_block(shards: list[Shard], used: list[Used], plan: Plan) -> Block:
    """The rows of all queries of a block in bins; the features themselves are not kept."""
    codes, grades = sums_of.encode_shards(shards, used, plan.bins), join_grades(shards)
    weights, X = PairWeights.parse(plan.weighting), None
    is_long = grades.queries.sizes.max(initial=0) > pair_losses.LONGEST
    if is_long:  # pairs may be sampled by the content of the rows
        X = join_matrices([shard.X for shard in shards])
    losses = PairGradients(grades, X, plan.loss, weights, Team(1), plan.span)
    if is_long:
        rows = QueryPairs.of(grades).rows
        order = np.argsort(rows)
        codes = codes[:, order[np.searchsorted(rows, losses.rows, sorter=order)]]
    start, keys = np.zeros(len(losses.rows)), None
    if plan.known is not None:
        parts = [plan.known.decision_function(s.X) for s in shards if len(s.y)]
        start = np.concatenate([np.zeros(0), *parts])[losses.rows]
    if plan.draws:
        keys = query_keys(grades, losses.rows)
    return Block(codes, losses.count, losses, start, keys)


def first_scores(block: Block) -> FloatArray:
    return block.start.copy()


def distinct_keys(block: Block) -> Hashes:
    return np.unique(block.keys)


def gradients_at(block: Block, scores: FloatArray) -> Gradients:
    return Gradients(*block.losses.copy().at(scores))


def next_scores(
    block: Block, scores: FloatArray, gradients: Gradients, nodes: Any, rate: float
) -> FloatArray:
    from rankwright.rankers.boosting._kernels.predictor import walk_tree

    moved = scores.copy()
    walk_tree(block.codes, nodes, rate, 0, len(moved), moved)
    return moved


def _boost(
    estimator: Any,
    engine: Engine,
    rows: ShardedRows,
    used: ShardedValues,
    total: Totals,
    validation: Validation | None,
    pool: Team,
    known: Any,
    n_new: int,
) -> list[Tree]:
    categorical = estimator._feature_mask(rows.n_features)
    monotone = estimator._monotone(categorical)
    held = rows.shards, used
    bins = sums_of.learn_bins(engine, held, total.n_rows, estimator.max_bins, categorical)
    n_known = len(known.root) if known else 0
    draws_queries = estimator.subsample < 1.0
    plan = engine.broadcast(
        Plan(bins, estimator.loss, estimator.weighting, total.span, known, draws_queries)
    )
    blocks = engine.map_blocks(make_block, held, plan)
    scores = engine.map(first_scores, blocks)
    options = estimator._tree_options(rows.n_features)
    grower = ShardGrower(engine, blocks, bins, monotone, options, total, pool)
    gradients: Any = None

    def grow(draw: tuple[Any, Any]) -> Tree:
        nonlocal gradients
        gradients = engine.map(gradients_at, (blocks, scores))
        return grower.grow_on(gradients, *draw)

    def add(tree: Tree, draw: tuple[Any, Any]) -> None:
        nonlocal scores
        state = blocks, scores, gradients
        scores = engine.map(next_scores, state, tree.table(), tree.alpha)

    held_out = bins.encode(validation.X, None, pool) if validation else None
    keys = None
    if draws_queries:
        keys = engine.reduce(engine.map(distinct_keys, blocks), np.union1d)
    draws = estimator._draws(keys, rows.n_features, n_known, n_new)
    trees: list[Tree] = estimator._rounds(grow, add, draws, n_known, n_new, validation, held_out)
    return trees


@dataclass(eq=False)
class _Leaf:
    """A leaf with its histogram; ``number`` is its number among the leaves of the workers."""

    number: int
    total: tuple[int, int]
    bounds: tuple[float, float]
    path: frozenset[int] = frozenset()
    node: Node = field(default_factory=Node)
    sums: Any = None
    split: Split | None = None
    children: list[_Leaf] | None = None


class ShardGrower(Grower):
    """Grows the trees of a ``Grower`` whose rows are elsewhere."""

    def __init__(
        self,
        engine: Engine,
        blocks: ShardedValues,
        bins: QuantileBins,
        monotone: Any,
        options: TreeOptions,
        total: Totals,
        pool: Team,
    ) -> None:
        super().__init__(
            sums_of.no_rows(bins, monotone), np.zeros(0, np.int64), bins.name_split, options, pool
        )
        self._engine, self._workers, self._all = engine, blocks, total

    def grow_on(self, gradients: ShardedValues, draw: Any, features: Any) -> Tree:
        """One tree on the gradients that workers hold."""
        self._features = np.ones(self.n_features, bool) if features is None else features
        self._gradients = gradients
        self._splits: list[tuple[int, int, bytes]] = []
        self._draw, held = draw, (self._workers, gradients)
        largest, n_rows = self._engine.reduce(
            self._engine.map(sums_of.measure, held, draw), sums_of.join_measures
        )
        if min(largest) < NO_GRADIENT:
            return Tree(1.0, [Node(cover=n_rows)])
        self._units = integer_units(tuple(largest.tolist()), n_rows, self._all.n_copies)
        _, sums = self._request_sums(0, [0])
        first, second = sums[0, 0].sum(axis=0).tolist()
        root = _Leaf(0, (first, second), (-np.inf, np.inf), sums=sums[0])
        root.node.cover = n_rows
        self._set_growth(root.total, *self._units)
        self._open: list[_Leaf] = []
        self._find_split(root)
        tree = Tree(1.0, [root.node])
        self._grow_from(tree, root)
        return tree

    def _grow_from(self, tree: Tree, root: _Leaf) -> None:
        leaves = [root]
        while len(leaves) < self.options.max_leaf_nodes:
            best = leaves[first_best([leaf.split.gain if leaf.split else 0.0 for leaf in leaves])]
            if best.split is None:
                break
            if best.children is None:
                self._expand(best, self.options.max_leaf_nodes - len(leaves))
            leaves.remove(best)
            leaves += self._commit(tree, best)
        for leaf in leaves:
            leaf.node.value = self._value(leaf.total, leaf.bounds) * self._unit

    def _commit(self, tree: Tree, leaf: _Leaf) -> list[_Leaf]:
        """Make a leaf with known children an inner node."""
        assert leaf.split is not None
        down, up = leaf.children or []
        self._make_inner(tree, leaf.node, leaf.split, (down.node, up.node))
        leaf.sums = None
        return [down, up]

    def _expand(self, best: _Leaf, room: int) -> None:
        """Find the children of a leaf, and of those that are likely to be split after it."""
        others = [leaf for leaf in self._open if leaf is not best]
        others.sort(key=lambda leaf: -leaf.split.gain if leaf.split else 0.0)
        batch = [best, *others[: room - 1]]
        self._open = others[room - 1 :]
        smaller = []
        for leaf in batch:
            assert leaf.split is not None
            n = 2 * len(self._splits) + 1
            self._splits.append((leaf.number, leaf.split.feature, leaf.split.up.tobytes()))
            leaf.children = self._children(leaf, n)
            smaller.append(min(leaf.children, key=self._n_counted))
        sizes, sums = self._request_sums(len(batch), [child.number for child in smaller])
        for leaf, few, size, histogram in zip(batch, smaller, sizes.tolist(), sums, strict=True):
            children = leaf.children or []
            few.sums = histogram
            for child, n_rows in zip(children, size, strict=True):
                child.node.cover = n_rows
                child.sums = histogram if child is few else leaf.sums - histogram
                self._find_split(child)

    def _children(self, leaf: _Leaf, n: int) -> list[_Leaf]:
        """The two sides of a split, with their sums."""
        split = leaf.split
        assert split is not None
        first, second = leaf.sums[split.feature][split.up != 0].sum(axis=0).tolist()
        rest = leaf.total[0] - first, leaf.total[1] - second
        down_bounds, up_bounds = self._child_bounds(leaf, rest, (first, second))  # type: ignore[arg-type]
        path = leaf.path | {split.feature}
        return [
            _Leaf(n, rest, down_bounds, path),
            _Leaf(n + 1, (first, second), up_bounds, path),
        ]

    def _n_counted(self, leaf: _Leaf) -> int:
        return leaf.total[1] & ((1 << self._growth.bits) - 1)

    def _request_sums(self, n_new: int, leaves: list[int]) -> tuple[IntArray, IntArray]:
        """A round: rows of the new splits and histograms of leaves, summed over all workers."""
        request = Request(self._draw, *self._units, list(self._splits), n_new, leaves)
        state = self._workers, self._gradients
        sizes, sums = self._engine.fold(sums_of.histograms, state, sums_of.add_pairs, request)
        return sizes, sums

    def _find_split(self, leaf: _Leaf) -> None:
        """Find the best split of a leaf from its histogram."""
        if not self._may_split(leaf):  # type: ignore[arg-type]
            return
        # Two leaves, of which the first has no rows: its sums are zero, and subtracted from those
        # of the second.
        self._shared.sums[1] = leaf.sums.reshape(-1, 2)
        pair: Any = [leaf, leaf]
        self._scan(pair, [False, True], (0, 0), (0, 1))
        leaf.split = self._chosen(1)
        if leaf.split is not None:
            self._open.append(leaf)
