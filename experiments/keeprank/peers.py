"""Tree rankers of other libraries, dressed as ours so that one protocol serves all."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator


class Peer(BaseEstimator):
    """fit(X, y, qid) and decision_function(X, qid) over a model of another library."""

    def fit(self, X: Any, y: Any, qid: Any) -> Self:
        self.model_ = self._train(np.asarray(X), np.asarray(y).astype(int), _sizes(qid))
        return self

    def decision_function(self, X: Any, qid: Any = None) -> Any:
        return np.asarray(self.model_.predict(np.asarray(X)), dtype=float)


class LightGBM(Peer):
    def __init__(self, n_estimators: int = 100, num_leaves: int = 31, rate: float = 0.05) -> None:
        self.n_estimators, self.num_leaves, self.rate = n_estimators, num_leaves, rate

    def _train(self, X: Any, y: Any, sizes: Any) -> Any:
        import lightgbm

        model = lightgbm.LGBMRanker(
            n_estimators=self.n_estimators, num_leaves=self.num_leaves, learning_rate=self.rate,
            random_state=0, n_jobs=1, verbose=-1, deterministic=True, force_row_wise=True,
        )  # fmt: skip
        return model.fit(X, y, group=sizes)

    def model_bytes(self) -> int:
        return len(self.model_.booster_.model_to_string())


class XGBoost(Peer):
    def __init__(self, n_estimators: int = 100, max_depth: int = 6, rate: float = 0.1) -> None:
        self.n_estimators, self.max_depth, self.rate = n_estimators, max_depth, rate

    def _train(self, X: Any, y: Any, sizes: Any) -> Any:
        import xgboost

        model = xgboost.XGBRanker(
            objective="rank:ndcg", n_estimators=self.n_estimators, max_depth=self.max_depth,
            learning_rate=self.rate, random_state=0, n_jobs=1, tree_method="hist",
        )  # fmt: skip
        return model.fit(X, y, qid=np.repeat(np.arange(len(sizes)), sizes))

    def model_bytes(self) -> int:
        return len(self.model_.get_booster().save_raw())


class CatBoost(Peer):
    def __init__(self, n_estimators: int = 100, max_depth: int = 6, rate: float = 0.1) -> None:
        self.n_estimators, self.max_depth, self.rate = n_estimators, max_depth, rate

    def _train(self, X: Any, y: Any, sizes: Any) -> Any:
        import catboost

        model = catboost.CatBoostRanker(
            loss_function="YetiRank", iterations=self.n_estimators, depth=self.max_depth,
            learning_rate=self.rate, random_seed=0, thread_count=1, verbose=False,
            allow_writing_files=False,
        )  # fmt: skip
        return model.fit(X, y, group_id=np.repeat(np.arange(len(sizes)), sizes))

    def model_bytes(self) -> int:
        return len(self.model_._serialize_model())


def _sizes(qid: Any) -> Any:
    """Group sizes; the LETOR files keep queries together."""
    starts = np.flatnonzero(np.concatenate([[True], qid[1:] != qid[:-1]]))
    return np.diff(np.append(starts, len(qid)))
