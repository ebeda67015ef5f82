"""Linear models from shards: RidgeRanker and MPRank in one pass, RankSVM by Newton steps.

Each shard gives sums of the size of the model, which are added in a fixed tree. So the model is the
same, bit for bit, for every number of workers and partitions and every order of rows. It differs
from a local fit by rounding, because a local fit adds rows in the order given.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray
from rankwright.distributed.base import Engine, ShardedValues
from rankwright.distributed.fitting import refuse
from rankwright.distributed.shards import Shard, ShardedRows
from rankwright.exceptions import ParameterError
from rankwright.rankers.gradient.newton import RowLosses, RowPoint, Scores, Terms, diagonal
from rankwright.rankers.gradient.pair_sums import PairSums, pair_sums
from rankwright.rankers.gradient.ridge import LeastSquares
from rankwright.rankers.magnitude.mprank import LARGEST_SCATTER
from rankwright.rankers.magnitude.sample import Scatter, WeightedRows


def fit_regression(model: BaseEstimator, engine: Engine, rows: ShardedRows) -> None:
    """Least squares: triangles of QR decompositions, stacked and decomposed again."""
    systems = engine.map(_system, rows.shards, model)
    one_intercept = model.fit_intercept and not model.center
    model._solve(engine.reduce(systems, _join_pooled if one_intercept else _join_centered))


def _system(shard: Shard, model: BaseEstimator) -> LeastSquares:
    system: LeastSquares = model._system(shard.X, shard.feedback)
    return system.reduced()


def _join_centered(one: LeastSquares, other: LeastSquares) -> LeastSquares:
    return one.joined(other, one_intercept=False)


def _join_pooled(one: LeastSquares, other: LeastSquares) -> LeastSquares:
    return one.joined(other, one_intercept=True)


def fit_mprank(model: BaseEstimator, engine: Engine, rows: ShardedRows) -> None:
    """Ridge regression on differences: sums of products of rows centered by query."""
    refuse(
        model,
        kernel="only linear models are sums over shards",
        loss="only the squared loss is a sum over shards",
    )
    if model.solver not in ("auto", "primal"):
        refuse(model, solver="only the primal problem is a sum over shards")
    if rows.n_features > LARGEST_SCATTER:
        raise ParameterError(
            "MPRank on an engine computes the Gram matrix of the features, and "
            f"{rows.n_features:,} features are more than the limit of {LARGEST_SCATTER:,}. Use "
            "RankSVM, or fit on one machine."
        )
    model._keep_stream(None)
    scatter = engine.reduce(engine.map(_scatter, rows.shards), Scatter.joined)
    model.n_iter_, model.mass_ = 1, scatter.mass or float(rows.n_rows)
    model.kappa_, scatter.mass = float(np.sqrt(scatter.longest)), model.mass_
    model._keep_linear(model._solve(scatter))


def _scatter(shard: Shard) -> Scatter:
    feedback = shard.feedback
    if not feedback.row_weight.any():
        return Scatter(shard.X.shape[1])
    sample = WeightedRows.of(feedback)
    return Scatter.of(sample.select(shard.X), sample)


def fit_ranksvm(model: BaseEstimator, engine: Engine, rows: ShardedRows) -> None:
    """The Newton solver of one machine; losses and products with the Hessian come from shards."""
    refuse(model, kernel="the sums of shards are those of linear models")
    model.gamma_, model.support_, model.support_rows_, model.dual_coef_ = 1.0, None, None, None
    model._keep_solution(model._minimize(ShardLosses(engine, rows, model.weighting)))


class ShardLosses:
    """Pair losses of the rows of all shards.

    Scores are named by the weights that give them: shards compute them from their rows.
    """

    def __init__(self, engine: Engine, rows: ShardedRows, weighting: str | None) -> None:
        self.engine, self.n_features, self._shards = engine, rows.n_features, rows.shards
        self._pairs = engine.map(_pairs, rows.shards, weighting)
        self.weight = float(engine.reduce(engine.map(_pair_weight, self._pairs), operator.add))

    def scores(self, coef: FloatArray) -> Scores:
        return coef

    def at(self, scores: Scores, terms: Terms) -> ShardPoint:
        both = (self._shards, self._pairs)
        points = self.engine.map(_point, both, scores, terms)
        sums = self.engine.reduce(self.engine.map(_sums, points), operator.add)
        return ShardPoint(sums, self.engine, self._shards, points)

    def slope(self, scores: Scores, steps: Scores, terms: Terms) -> float:
        both = (self._shards, self._pairs)
        slopes = self.engine.map(_slope, both, scores, steps, terms)
        return float(self.engine.reduce(slopes, operator.add))


class ShardPoint:
    """A ``LossPoint`` of all shards."""

    def __init__(
        self, sums: FloatArray, engine: Engine, shards: ShardedValues, points: ShardedValues
    ) -> None:
        n_features = (len(sums) - 3) // 3
        self.value, self.hinge, self.gradient = sums[0], sums[1], sums[2 : 2 + n_features]
        self._moments = sums[2 + n_features :]
        self._engine, self._shards, self._points = engine, shards, points

    def diagonal(self) -> FloatArray:
        return diagonal(self._moments)

    def product(self, vector: FloatArray) -> FloatArray:
        products = self._engine.map(_product, (self._shards, self._points), vector)
        total: FloatArray = self._engine.reduce(products, operator.add)
        return total


class _Point(NamedTuple):
    """The pair sums of a shard at some scores; its rows are not kept a second time."""

    points: list[Any]
    sums: FloatArray  # value, hinge, gradient, moments


def _pairs(shard: Shard, weighting: str | None) -> PairSums:
    return pair_sums(shard.feedback, len(shard.y), weighting)


def _pair_weight(pairs: PairSums) -> float:
    return pairs.weight


def _point(shard: Shard, pairs: PairSums, coef: FloatArray, terms: Terms) -> _Point:
    losses = RowLosses(shard.X, pairs)
    point = losses.at(losses.scores(coef), terms)
    values = np.array([point.value, point.hinge])
    return _Point(point.points, np.concatenate([values, point.gradient, point.moments()]))


def _sums(point: _Point) -> FloatArray:
    return point.sums


def _slope(
    shard: Shard, pairs: PairSums, coef: FloatArray, steps: FloatArray, terms: Terms
) -> float:
    losses = RowLosses(shard.X, pairs)
    return losses.slope(losses.scores(coef), losses.scores(steps), terms)


def _product(shard: Shard, point: _Point, vector: FloatArray) -> FloatArray:
    return RowPoint(0.0, 0.0, vector, shard.X, point.points).product(vector)
