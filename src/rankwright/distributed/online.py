r"""Online rankers on an engine: members of ensembles separately, or products of posteriors.

**OAP ensembles.** Blocks of members learn from one stream, that of the local fit: rows in the order
in which they were given. What a member draws depends on its number and the position of the row
only, and how far all members moved is a sum of integers. So the model is that of the local fit, bit
by bit.

**BayesianPRank.** Shard s filters its rows from the common prior :math:`N(0, V)` to :math:`N(m_s,
S_s)`. The answers of different rows are independent given the model, so the posterior of all rows
is proportional to the product of what the shards learned, with the prior counted once:

.. math:: S^{-1} = V^{-1} + \sum_s (S_s^{-1} - V^{-1}), \qquad S^{-1} m = \sum_s S_s^{-1} m_s .

With exact posteriors this would be exact. Filtering is approximate, and a shard starts from the
prior where the stream would have gone on from all rows before: this is another approximation of the
same posterior. The prior's scale comes from the first row of the first shard, not of the stream.
"""

from __future__ import annotations

import operator
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from rankwright._typing import FloatArray, IntArray
from rankwright.distributed.base import Engine, ShardedValues
from rankwright.distributed.fitting import refuse
from rankwright.distributed.shards import N_SHARDS, Shard, ShardedRows, join_matrices
from rankwright.exceptions import ParameterError
from rankwright.rankers.online.base import kernels
from rankwright.rankers.online.ensembles import BLOCK
from rankwright.rankers.online.members import Clones, Members, Moves, Span
from rankwright.runtime import ranges


class Chunk(NamedTuple):
    """Consecutive rows of the stream, with the number of rows before them."""

    X: Any
    y: FloatArray
    first: int


@dataclass(frozen=True)
class Group:
    """Some members of an ensemble, after part of the stream."""

    span: Span
    learned: dict[str, Any]  # tables of all members; only those of the span have learned
    mistakes: int = 0
    moves: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))  # of the last chunk


def fit_members(model: Any, engine: Engine, rows: ShardedRows) -> None:
    if model._gram(rows.n_features) is not None:
        raise ParameterError(
            f"{type(model).__name__}(estimator={model.estimator!r}) on an engine: kernel members "
            "share one support set and cannot be trained separately. Use PRank or another linear "
            "estimator, or fit on one machine."
        )
    model._begin_with(np.unique(np.concatenate(engine.gather(engine.map(_grades, rows.shards)))))
    chunks = _stream(engine, rows)
    plain = model._is_plain
    names = ["members_coef_", "members_thresholds_"] if plain else ["members_state_"]
    tables = {name: getattr(model, name) for name in (*names, "n_correct_", "n_survived_")}
    spans = ranges(model.n_estimators, min(engine.n_blocks, model.n_estimators))
    groups = engine.scatter(Group(span, tables) for span in spans)
    total = engine.scatter([getattr(model, "coef_sum_", None)])
    for chunk in chunks.blocks:
        groups = engine.map(_learn_group, groups, model, chunk)
        if plain:
            moves = engine.reduce(engine.map(_moves, groups), operator.add)
            total = engine.map(_add_moves, total, model, chunk, moves)
    _keep_members(model, engine.gather(groups), engine.gather(total)[0])
    model.n_seen_ = rows.n_rows
    model._take_mean()


def _keep_members(model: Any, groups: list[Group], coef_sum: FloatArray | None) -> None:
    for group in groups:
        own = slice(*group.span)
        for name, table in group.learned.items():
            getattr(model, name)[own] = table[own]
        model.n_mistakes_ += group.mistakes
    if coef_sum is not None:
        model.coef_sum_ = coef_sum
        return
    clones = Clones(model._template())
    for m, state in enumerate(model.members_state_):
        learned = clones.unpack(state)._linear_model()
        model.members_coef_[m], model.members_thresholds_[m] = learned


def _learn_group(group: Group, model: Any, chunks: list[Chunk]) -> Group:
    """The members of a group learn from a part of the stream."""
    learned = {name: table.copy() for name, table in group.learned.items()}
    clones = None if model._is_plain else Clones(model._template())
    counts = (learned["n_correct_"], learned["n_survived_"])
    mistakes, moved = group.mistakes, []
    for position, examples in _examples(model, chunks):
        draws = model._draws(position)
        if clones is not None:
            mistakes += clones.learn(learned["members_state_"], counts, examples, draws, group.span)
            continue
        members = Members(learned["members_coef_"], learned["members_thresholds_"], *counts)
        moves, wrong = members.learn(examples, draws, voting=False, span=group.span)
        mistakes += wrong
        moved.append(moves.weights)
    every = np.concatenate([np.zeros(0, np.int64), *moved])
    return replace(group, learned=learned, mistakes=mistakes, moves=every)


def _moves(group: Group) -> IntArray:
    return group.moves


def _add_moves(coef_sum: FloatArray, model: Any, chunks: list[Chunk], moves: IntArray) -> Any:
    """Replay the steps of all members on the sum of their weights."""
    coef_sum, at = coef_sum.copy(), 0
    for _, examples in _examples(model, chunks):
        n = len(examples.order)
        steps = Moves(moves[at : at + n], np.zeros((n, 0), np.int64), np.zeros((0, 3, 1), np.int64))
        kernels("ensembles").oap_sum_pass(
            tuple(examples), tuple(steps), coef_sum, np.zeros(0), np.zeros(0, np.int64)
        )
        at += n
    return coef_sum


def _examples(model: Any, chunks: list[Chunk]) -> Any:
    """The examples of chunks in blocks, each with its position in the stream."""
    for chunk in chunks:
        grade = np.searchsorted(model.classes_, chunk.y).astype(np.int64)
        position = chunk.first
        for mapped in model._examples(chunk.X, grade, np.arange(len(grade))):
            for start, examples in mapped.blocks(BLOCK):
                yield position + start, examples
            position += len(mapped.order)


def _grades(shard: Shard) -> FloatArray:
    return np.unique(shard.y)


def _stream(engine: Engine, rows: ShardedRows) -> ShardedValues:
    """All rows in the order in which they were given, in chunks of nearly the same size."""
    numbers = np.sort(np.concatenate(engine.gather(engine.map(_row_numbers, rows.shards))))
    positions = np.arange(N_SHARDS) * len(numbers) // N_SHARDS
    split, merge = partial(_cut, starts=numbers[positions]), partial(_in_order, firsts=positions)
    return engine.exchange(rows.shards, split, merge, engine.n_blocks)


def _row_numbers(shard: Shard) -> IntArray:
    return shard.row


def _cut(shard: Shard, n_chunks: int, starts: IntArray) -> list[tuple[Any, FloatArray, IntArray]]:
    """The rows of a shard by the chunk of the stream that they belong to."""
    edges = starts[:: N_SHARDS // n_chunks][1:]
    chunk = np.searchsorted(edges, shard.row, side="right")
    parts = [np.flatnonzero(chunk == number) for number in range(n_chunks)]
    return [(shard.X[part], shard.y[part], shard.row[part]) for part in parts]


def _in_order(pieces: list[Any], number: int, n_chunks: int, firsts: IntArray) -> list[Chunk]:
    X, y, row = zip(*pieces, strict=True)
    order = np.argsort(np.concatenate(row))
    first = int(firsts[number * (N_SHARDS // n_chunks)])
    return [Chunk(join_matrices(list(X))[order], np.concatenate(y)[order], first)]


class Belief(NamedTuple):
    """What a shard added to the prior: precision (a table, or its diagonal) and shift."""

    precision: FloatArray
    shift: FloatArray  # precision times mean
    n_mistakes: int
    n_seen: int

    def times(self, other: Belief) -> Belief:
        fields: Any = zip(self, other, strict=True)
        return Belief(*(mine + theirs for mine, theirs in fields))


def fit_beliefs(model: Any, engine: Engine, rows: ShardedRows) -> None:
    refuse(
        model,
        shuffle="rows of a shard have one order, that of the hashes of their content",
        early_stopping="the beliefs of shards are merged once, at the end",
    )
    if rows.eval_set is not None:
        raise ParameterError(
            "BayesianPRank.fit(eval_set=...) on an engine: posteriors are merged once, so there is "
            "no validation curve. Evaluate the fitted model with evaluate()."
        )
    parts = engine.gather(engine.map(_grades_and_scale, rows.shards, model))
    model._begin_with(np.unique(np.concatenate([grades for grades, _ in parts])))
    if hasattr(model, "factors_"):
        raise ParameterError(
            f"BayesianPRank(covariance={model.covariance!r}) with {len(model.coef_):,} weights on "
            "an engine: the low-rank covariances of shards do not multiply to one of low rank. "
            "Use covariance='diagonal', or 'full'."
        )
    model.scale_ = next((scale for _, scale in parts if scale > 0), 0.0)
    variance = _start(model)
    beliefs = engine.map(_learn_belief, rows.shards, model)
    _keep_belief(model, engine.reduce(beliefs, Belief.times), variance)


def _start(model: Any) -> FloatArray:
    """Give the weights their prior; returns the prior variances."""
    n_weights = len(model.coef_)
    if hasattr(model, "covariance_"):
        variance = np.diag(model.covariance_).copy()
        variance[:n_weights] = model.prior * model.scale_
        model.covariance_ = np.diag(variance)
    else:
        variance = model.variance_
        variance[:n_weights] = model.prior * model.scale_
    return np.asarray(variance)


def _grades_and_scale(shard: Shard, model: Any) -> tuple[FloatArray, float]:
    """The grades of a shard, and 1 / the squared length of its first row other than zero."""
    features = model._map(shard.X.shape[1])
    for start in range(0, len(shard.y), 64):
        rows = shard.X[start : start + 64]
        rows = rows if features is None else features.transform(rows)
        squares = np.asarray((rows * rows).sum(axis=1)).ravel()
        usable = (squares > 1e-300) & (squares < 1e300)
        if usable.any():
            return np.unique(shard.y), 1.0 / float(squares[np.argmax(usable)])
    return np.unique(shard.y), 0.0


def _learn_belief(shard: Shard, model: Any) -> Belief:
    member = copy(model)
    for name in ("mean_", "covariance_", "variance_"):
        if name in vars(member):
            setattr(member, name, getattr(member, name).copy())
    grade = np.searchsorted(member.classes_, shard.y).astype(np.int64)
    for _ in range(member.max_iter if len(grade) else 0):
        member._learn_rows(shard.X, grade, np.arange(len(grade)), first=0, predict=False)
    if not len(grade):
        precision, mean = _inverse(_spread(member)), member.mean_
        return Belief(0.0 * precision, 0.0 * mean, 0, 0)
    prior, precision = _inverse(_spread(model)), _inverse(_spread(member))
    shift = precision @ member.mean_ if precision.ndim == 2 else precision * member.mean_
    return Belief(precision - prior, shift, member.n_mistakes_, member.n_seen_)


def _keep_belief(model: Any, total: Belief, variance: FloatArray) -> None:
    full = total.precision.ndim == 2
    prior = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0)
    spread = _inverse((np.diag(prior) if full else prior) + total.precision)
    if full:
        model.covariance_, model.mean_ = spread, spread @ total.shift
    else:
        model.variance_, model.mean_ = spread, spread * total.shift
    model.n_mistakes_, model.n_seen_ = total.n_mistakes, total.n_seen
    model._take_mean()


def _spread(model: Any) -> FloatArray:
    table: FloatArray = vars(model).get("covariance_", vars(model).get("variance_"))
    return table


def _inverse(table: FloatArray) -> FloatArray:
    """The inverse of a covariance or a precision, or of its diagonal; zero stays zero."""
    if table.ndim == 1:
        return np.divide(1.0, table, out=np.zeros_like(table), where=table > 0)
    used = np.flatnonzero(np.diag(table) > 0)
    inverse = np.zeros_like(table)
    if len(used):
        square = np.ix_(used, used)
        part = linalg.inv(0.5 * (table[square] + table[square].T), check_finite=False)
        inverse[square] = 0.5 * (part + part.T)
    return inverse
