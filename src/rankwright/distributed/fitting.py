"""``fit`` on an engine: what the input is, its shards, and the function that learns from them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight

from rankwright import exceptions
from rankwright._typing import MatrixLike
from rankwright.distributed.base import Engine, ShardedValues
from rankwright.distributed.checkpoints import SavedFit
from rankwright.distributed.inputs import is_remote, shard_input
from rankwright.distributed.shards import (
    LooseRows,
    Shard,
    ShardedRows,
    count_shard,
    merge_shards,
    n_shards,
    split_rows,
)
from rankwright.feedback.base import Grades
from rankwright.rankers.base import rankers
from rankwright.rankers.boosting.training import Start
from rankwright.rankers.early_stopping import rows_and_grades
from rankwright.runtime import is_path

FEW_ROWS = 1_000_000  # below about this many a cluster is slower than one machine


def fit_function(estimator: BaseEstimator) -> Callable[..., None]:
    """The function that fits an estimator from shards; an error names those that have one."""
    cls = type(estimator)
    path = str(vars(cls).get("_shard_fit", ""))  # of this class: another may learn otherwise
    if not path:
        known = [name for name, one in sorted(rankers().items()) if "_shard_fit" in vars(one)]
        raise exceptions.ParameterError(
            f"{cls.__name__} cannot train on shards: fit it outside of rankwright.engine(...), on "
            f"one machine. Supported: {', '.join(known)}."
        )
    module, _, name = path.partition(":")
    function: Callable[..., None] = getattr(import_module(module), name)
    return function


def refuse(estimator: BaseEstimator, /, **reasons: str) -> None:
    """Refuse each named parameter that is not at its default, with the reason."""
    defaults = type(estimator)().get_params(deep=False)
    for name, reason in reasons.items():
        value = getattr(estimator, name)
        if value is not defaults[name] and value != defaults[name]:
            raise exceptions.ParameterError(
                f"{type(estimator).__name__}({name}={value!r}) on an engine: {reason}. Leave it "
                f"at {defaults[name]!r}, or fit on one machine."
            )


def fit_shards(
    engine: Engine,
    estimator: BaseEstimator,
    X: MatrixLike,
    y: ArrayLike,
    *,
    qid: ArrayLike | None = None,
    sample_weight: Any = None,
    query_weight: Any = None,
    eval_set: tuple[MatrixLike, ArrayLike] | None = None,
    eval_qid: ArrayLike | None = None,
    start: Start | None = None,
) -> Any:
    """``estimator.fit`` of rows that are cut into shards on an engine.

    ``start`` is that of a boosted ranker, which may have trees to add to.
    """
    learn = fit_function(estimator)
    estimator._check_parameters()
    if estimator.normalize is not None:
        refuse(estimator, normalize="shards hold rows as they are given")
    if start is not None and start.has_scores:
        raise exceptions.ParameterError(
            f"{type(estimator).__name__}.fit(init_score=...) on an engine: shards contain no "
            "initial scores. Fit on one machine."
        )
    roles = {"y": y, "qid": qid, "sample_weight": sample_weight, "query_weight": query_weight}
    if is_remote(X):
        shards = shard_input(engine, estimator, X, roles)
    else:
        shards = _scattered(engine, estimator, X, **roles)
    counts = np.array(engine.gather(engine.map(count_shard, shards)))
    n_rows, n_queries = int(counts[:, 0].sum()), int(counts[:, 1].sum())
    _warn_small(engine, n_rows)
    estimator.n_queries_in_ = n_queries
    if eval_set is not None:
        X_eval, y_eval = rows_and_grades(eval_set, type(estimator).__name__)
        if is_path(X_eval):
            query = qid if eval_qid is None and isinstance(qid, str) else eval_qid
            X_eval, y_eval, eval_qid, _ = engine.read(X_eval, {"y": y_eval, "qid": query})
            if hasattr(X_eval, "columns"):  # in any order
                X_eval = dict(X_eval)
            eval_set = X_eval, y_eval
    validation = estimator._checked_eval_set(eval_set, eval_qid, n_queries)
    rows = ShardedRows(shards, n_rows, n_queries, estimator.n_features_in_, validation)
    if sum(engine.gather(engine.map(_pair_weight, shards))) == 0:
        warnings.warn(
            f"{type(estimator).__name__}: the feedback has no preferences (every query has a "
            "single grade, a single row, or weight 0), so there is no order to learn.",
            exceptions.DegenerateDataWarning,
            stacklevel=5,
        )
    engine.stage = f"training {type(estimator).__name__} on {n_rows:,} rows"
    more: dict[str, Any] = {} if start is None else {"start": start}
    if engine.checkpoint is None:
        learn(estimator, engine, rows, **more)
        return estimator
    saved = SavedFit(engine.checkpoint, engine, estimator, rows, start)
    if not saved.restore(estimator, "model"):
        learn(estimator, engine, replace(rows, saved=saved), **more)
        saved.save(estimator, "model")
    return estimator


def _pair_weight(shard: Shard) -> float:
    return float(shard.feedback.total_weight)


def _warn_small(engine: Engine, n_rows: int) -> None:
    if engine.is_cluster and n_rows < FEW_ROWS:
        warnings.warn(
            f"{n_rows:,} rows on the cluster {engine.name}: below about {FEW_ROWS:,} rows a fit on "
            "one machine is faster. Fit without rankwright.engine(...), or use engine('local').",
            exceptions.ClusterWarning,
            stacklevel=6,
        )


def _scattered(
    engine: Engine,
    estimator: BaseEstimator,
    X: MatrixLike,
    y: ArrayLike,
    qid: ArrayLike | None,
    sample_weight: ArrayLike | None,
    query_weight: ArrayLike | None,
) -> ShardedValues:
    """Plain arrays, checked here and given to the workers shard by shard."""
    checked, y = estimator._checked_training(X, y)
    if sample_weight is not None:
        checks: Any = {"dtype": np.float64, "ensure_non_negative": True}
        sample_weight = _check_sample_weight(sample_weight, checked, **checks)
    grades = Grades(y, qid, sample_weight=sample_weight, query_weight=query_weight)
    codes = grades.queries.codes
    rows = LooseRows(
        checked,
        grades.y,
        grades.queries.ids[codes],
        grades.sample_weight,
        grades.query_weight[codes],
        np.arange(len(grades.y)),
    )
    engine.expect(8 * checked.shape[0] * checked.shape[1])
    n = engine.n_blocks
    shards: list[Shard] = []
    count = n_shards(len(rows.y))
    for number, piece in enumerate(split_rows(rows, n, count)):
        shards += merge_shards([piece], number, n, count)
    assert len(shards) == count
    return engine.scatter(shards, blocks=n)
