"""A fit on an engine that goes on where an interrupted one ended."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator

from rankwright.data.vocabulary import hash_ids, hash_rows, mix
from rankwright.distributed.base import Engine
from rankwright.distributed.shards import Shard, ShardedRows
from rankwright.exceptions import ParameterError
from rankwright.persist.models import Checkpoint
from rankwright.rankers.boosting.training import Start

IDLE = ("n_jobs", "verbose", "callbacks")  # parameters that change no model
PAUSE = 20  # saving again waits for this many times the seconds that it took: at most 5 %


class SavedFit:
    """The checkpoint of one fit: the finished model, or the trees so far.

    Parameters
    ----------
    checkpoint : Checkpoint
    engine, estimator, rows : what is fitted; another estimator or other rows are refused
    start : that of a boosted ranker, or None
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        engine: Engine,
        estimator: BaseEstimator,
        rows: ShardedRows,
        start: Start | None = None,
    ) -> None:
        self._checkpoint, self._next = checkpoint, 0.0
        checkpoint.open(_fingerprint(engine, estimator, rows, start))

    def restore(self, estimator: BaseEstimator, key: str) -> bool:
        """Give an estimator what was saved under a key; whether there was something."""
        saved = self._checkpoint.load(key)
        for name in () if saved is None else type(estimator)._learned:
            setattr(estimator, name, getattr(saved, name))
        return saved is not None

    def save(self, estimator: BaseEstimator, key: str) -> None:
        self._checkpoint.save(key, estimator)

    def save_sometimes(self, make: Callable[[], BaseEstimator], key: str) -> None:
        """Save what ``make`` returns, unless the last time was a moment ago."""
        now = time.monotonic()
        if now >= self._next:
            self.save(make(), key)
            self._next = time.monotonic() + PAUSE * (time.monotonic() - now)


def _fingerprint(
    engine: Engine, estimator: BaseEstimator, rows: ShardedRows, start: Start | None
) -> str:
    """What an interrupted fit and its continuation must agree on: parameters and rows."""
    given = estimator.get_params(deep=True)
    for name in ("random_state", "early_stopping__random_state"):
        if name in given and not isinstance(given[name], Integral):
            raise ParameterError(
                f"{type(estimator).__name__}({name}={given[name]!r}) with a checkpoint: a fit that "
                "is resumed would draw other numbers.",
                parameter=name,
                fix="Set it to an integer, such as 0.",
            )
    shown = {name: value for name, value in sorted(given.items()) if name not in IDLE}
    with np.printoptions(threshold=sys.maxsize):
        digest = hashlib.sha256(f"{type(estimator).__name__} {shown!r}".encode())
    hashes = engine.gather(engine.map(_shard_hash, rows.shards, bool(estimator._order_matters)))
    digest.update(np.array(hashes, np.uint64).tobytes())
    if rows.eval_set is not None:
        X, y, queries, _ = rows.eval_set
        digest.update(hash_rows(X, y, queries.codes.astype(np.float64)).tobytes())
    n_more = 0 if start is None else start.n_more or 0
    if n_more or getattr(estimator, "warm_start", False):  # trees to add to
        digest.update(str(n_more).encode())
        for name in estimator._learned:
            digest.update(np.asarray(getattr(estimator, name, 0.0)).tobytes())
    return digest.hexdigest()


def _shard_hash(shard: Shard, ordered: bool) -> np.uint64:
    """A sum over rows, so that their order matters only if it is part of the hash."""
    weight = shard.query_weight[shard.query]
    columns = [shard.row.astype(np.float64)] if ordered else []
    content = hash_rows(shard.X, shard.y, shard.sample_weight, weight, *columns)
    total: np.uint64 = mix(content ^ hash_ids(shard.ids)[shard.query]).sum(dtype=np.uint64)
    return total
