r"""BayesianPRank on an engine: shards learn apart, and their beliefs are multiplied.

Shard s filters its rows from the common prior :math:`N(0, V)` to :math:`N(m_s, S_s)`. The answers
of different rows are independent given the model, so the posterior of all rows is proportional to
the product of what the shards learned, with the prior counted once:

.. math:: S^{-1} = V^{-1} + \sum_s (S_s^{-1} - V^{-1}), \qquad S^{-1} m = \sum_s S_s^{-1} m_s .

With exact posteriors this would be exact. Filtering is approximate, and a shard starts from the
prior where the stream would have gone on from all rows before: this is another approximation of the
same posterior. The prior's scale comes from the first row of the first shard, not of the stream.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from rankwright._typing import FloatArray
from rankwright.distributed.engines import Engine
from rankwright.distributed.fitting import refuse
from rankwright.distributed.shards import Shard, ShardedRows
from rankwright.exceptions import ParameterError


class Belief(NamedTuple):
    """What a shard added to the prior: precision (a table, or its diagonal) and shift."""

    precision: FloatArray
    shift: FloatArray  # precision times mean
    n_mistakes: int
    n_seen: int

    def times(self, other: Belief) -> Belief:
        fields: Any = zip(self, other, strict=True)
        return Belief(*(mine + theirs for mine, theirs in fields))


def fit(model: Any, engine: Engine, rows: ShardedRows) -> None:
    refuse(
        model,
        shuffle="rows of a shard have one order, that of the hashes of their content",
        early_stopping="the beliefs of shards are merged once, at the end",
    )
    if rows.eval_set is not None:
        raise ParameterError(
            "BayesianPRank.fit(eval_set=...) on an engine: beliefs are merged once, there is no "
            "curve to record. Score the fitted model with evaluate()."
        )
    found = engine.gather(engine.map(_grades_and_scale, rows.shards, model))
    model._begin_with(np.unique(np.concatenate([grades for grades, _ in found])))
    if hasattr(model, "factors_"):
        raise ParameterError(
            f"BayesianPRank(covariance={model.covariance!r}) with {len(model.coef_):,} weights on "
            "an engine: the low-rank covariances of shards do not multiply to one of low rank. "
            "Use covariance='diagonal', or 'full'."
        )
    model.scale_ = next((scale for _, scale in found if scale > 0), 0.0)
    variance = _start(model)
    beliefs = engine.map(_learn, rows.shards, model)
    _keep(model, engine.reduce(beliefs, Belief.times), variance)


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


def _learn(shard: Shard, model: Any) -> Belief:
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


def _keep(model: Any, total: Belief, variance: FloatArray) -> None:
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
