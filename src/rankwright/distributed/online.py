"""OAP ensembles on an engine: members learn separately.

Blocks of members learn from one stream, that of the local fit: rows in the order in which they were
given. What a member draws depends on its number and the position of the row only, and how far all
members moved is a sum of integers. So the model is that of the local fit, bit by bit.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, IntArray
from rankwright.distributed.base import Engine, ShardedValues, block_bounds
from rankwright.distributed.shards import Shard, ShardedRows, join_matrices
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


def fit_members(model: BaseEstimator, engine: Engine, rows: ShardedRows) -> None:
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


def _keep_members(model: BaseEstimator, groups: list[Group], coef_sum: FloatArray | None) -> None:
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


def _learn_group(group: Group, model: BaseEstimator, chunks: list[Chunk]) -> Group:
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


def _add_moves(
    coef_sum: FloatArray, model: BaseEstimator, chunks: list[Chunk], moves: IntArray
) -> Any:
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


def _examples(model: BaseEstimator, chunks: list[Chunk]) -> Any:
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
    positions = np.array(block_bounds(len(numbers), engine.n_blocks)[:-1])
    split, merge = partial(_cut, starts=numbers[positions]), partial(_in_order, firsts=positions)
    return engine.exchange(rows.shards, split, merge, engine.n_blocks)


def _row_numbers(shard: Shard) -> IntArray:
    return shard.row


def _cut(shard: Shard, n_chunks: int, starts: IntArray) -> list[tuple[Any, FloatArray, IntArray]]:
    """The rows of a shard by the chunk of the stream that they belong to."""
    chunk = np.searchsorted(starts[1:], shard.row, side="right")
    parts = [np.flatnonzero(chunk == number) for number in range(n_chunks)]
    return [(shard.X[part], shard.y[part], shard.row[part]) for part in parts]


def _in_order(pieces: list[Any], number: int, n_chunks: int, firsts: IntArray) -> list[Chunk]:
    X, y, row = zip(*pieces, strict=True)
    order = np.argsort(np.concatenate(row))
    return [Chunk(join_matrices(list(X))[order], np.concatenate(y)[order], int(firsts[number]))]
