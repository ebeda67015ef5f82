"""The systems of table_default: ours with defaults, and peers with defaults and with eight trials.

Ours train on training and validation queries together and do their own cross-validation. Peers
train on the training queries, as their users do: at most 1000 rounds, stopped when NDCG@10 of the
validation queries has not improved for 50. (Stopped by its own loss instead, CatBoost QueryRMSE is
worse on OHSUMED, .448 to .454, and better on MQ2008, .708 to .704.) A trial draws its parameters
from ``SPACES``; the trials of a seed are the same for every set. Every fit has one thread.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw

ROUNDS, PATIENCE, TRIALS = 1000, 50, 8
SOURCES = Path(rw.__file__).parent
Predict = Callable[[Any], Any]

# What our results depend on, as folders of the package. KeepRank and RankSVM have no n_jobs, and
# AutoRanker's n_jobs is 1 by default: RANKWRIGHT_THREADS sets the threads of all of them.
OURS = {
    "AutoRanker()": ("rankers", "feedback", "selection"),
    "LambdaMART()": ("rankers", "feedback"),
    "RankBoost()": ("rankers", "feedback"),
    "RankSVM()": ("rankers", "feedback"),
    "KeepRank()": ("rankers", "feedback"),
}
AUTO, *DEFAULTS = OURS

# A pair is a range with a log-uniform distribution, a list is drawn from with equal chances.
SPACES: dict[str, dict[str, tuple[float, float] | list[float]]] = {
    "LightGBM lambdarank": {
        "learning_rate": (0.01, 0.2),
        "num_leaves": [4, 8, 15, 31, 63],
        "min_child_samples": [5, 10, 20, 50, 100],
        "subsample": [0.5, 0.7, 1.0],
        "colsample_bytree": [0.3, 0.5, 0.8, 1.0],
        "reg_lambda": (0.01, 30.0),
    },
    "XGBoost rank:ndcg": {
        "learning_rate": (0.02, 0.3),
        "max_depth": [2, 3, 4, 5, 6, 8],
        "min_child_weight": [0.1, 1.0, 5.0, 20.0],
        "subsample": [0.5, 0.7, 1.0],
        "colsample_bytree": [0.3, 0.5, 0.8, 1.0],
        "reg_lambda": (0.1, 30.0),
    },
    # CatBoost's symmetric trees have no minimum of rows in a leaf.
    "CatBoost YetiRank": {
        "learning_rate": (0.02, 0.2),
        "depth": [3, 4, 5, 6, 8],
        "subsample": [0.5, 0.66, 0.8, 1.0],
        "rsm": [0.3, 0.5, 0.8, 1.0],
        "l2_leaf_reg": (1.0, 30.0),
    },
    "CatBoost QueryRMSE": {
        "learning_rate": (0.02, 0.2),
        "depth": [3, 4, 5, 6, 8],
        "subsample": [0.5, 0.66, 0.8, 1.0],
        "rsm": [0.3, 0.5, 0.8, 1.0],
        "l2_leaf_reg": (1.0, 30.0),
    },
}
RATES = {"LightGBM lambdarank": {"learning_rate": 0.1}, "XGBoost rank:ndcg": {"learning_rate": 0.3}}


@dataclass(frozen=True)
class System:
    """One fit: a ranker of ours, or a peer with these parameters (``trial`` 0 has its defaults)."""

    family: str
    trial: int
    parameters: dict[str, float]

    @property
    def name(self) -> str:
        return f"{self.family}, trial {self.trial}" if self.trial else self.family

    @property
    def library(self) -> str:
        return "rankwright" if self.family in OURS else self.family.split()[0].lower()

    @property
    def installed(self) -> bool:
        return self.family in OURS or self.library in _distributions()

    def identity(self) -> dict[str, Any]:
        """What the result depends on."""
        if self.family in OURS:
            return {**asdict(self), "sources": _hash_of_sources(OURS[self.family])}
        release = version(_distributions()[self.library][0])
        return {**asdict(self), "version": release, "limits": [ROUNDS, PATIENCE]}

    def fit(self, fold: Any, seed: int) -> Predict:
        """Train; the scores of rows."""
        if self.family in OURS:
            return fit_ours(self.family, fold, seed)
        return PEERS[self.library](self, fold, seed)


def systems(seed: int) -> list[System]:
    """Ours, then the peers with defaults, then their trials."""
    ours = [System(family, 0, {}) for family in OURS]
    defaults = [System(family, 0, RATES.get(family, {})) for family in SPACES]
    trials = []
    for number, (family, space) in enumerate(SPACES.items()):
        rng = np.random.default_rng([seed, number])
        trials += [System(family, trial, draw(space, rng)) for trial in range(1, TRIALS + 1)]
    return ours + defaults + trials


def draw(space: dict[str, Any], rng: np.random.Generator) -> dict[str, float]:
    def value(choices: Any) -> float:
        if isinstance(choices, list):
            drawn: float = choices[rng.integers(len(choices))]
            return drawn
        return float(f"{math.exp(rng.uniform(*map(math.log, choices))):.4g}")

    return {name: value(choices) for name, choices in space.items()}


_distributions = cache(packages_distributions)


@cache
def _hash_of_sources(folders: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((SOURCES / folder).rglob("*.py")):
            digest.update(path.relative_to(SOURCES).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def cpu_seconds() -> float:
    """Of this process with all its threads, and of its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def fit_ours(family: str, fold: Any, seed: int) -> Predict:
    model = getattr(rw, family.removesuffix("()"))()
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    items = rw.Items.concat([fold.train, fold.vali])
    scores: Predict = model.fit(items.X, items.y, qid=items.qid).decision_function
    return scores


def lightgbm(system: System, fold: Any, seed: int) -> Predict:
    import lightgbm

    train, vali = fold.train, fold.vali
    # It wants integers; where labels are not, they are numbered and have their gains in a table.
    values = np.unique(np.concatenate([train.y, vali.y]))
    whole = bool((values == np.round(values)).all())
    gains = {} if whole else {"label_gain": (2.0**values - 1).tolist()}
    y, y_vali = (
        part.y.astype(int) if whole else np.searchsorted(values, part.y) for part in (train, vali)
    )
    model = lightgbm.LGBMRanker(
        n_estimators=ROUNDS, subsample_freq=1, random_state=seed, n_jobs=1, verbosity=-1,
        **system.parameters, **gains,
    )  # fmt: skip
    model.fit(
        train.X, y, group=train.queries.sizes,
        eval_X=vali.X, eval_y=y_vali, eval_group=[vali.queries.sizes],
        eval_at=[10], callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )  # fmt: skip
    scores: Predict = model.booster_.predict
    return scores


def xgboost(system: System, fold: Any, seed: int) -> Predict:
    import xgboost

    train, vali = fold.train, fold.vali
    # It refuses fractions as grades; where labels are not whole, it is given the gains.
    whole = bool((train.y == np.round(train.y)).all())
    y, y_vali = (part.y if whole else 2.0**part.y - 1 for part in (train, vali))
    model = xgboost.XGBRanker(
        n_estimators=ROUNDS, objective="rank:ndcg", eval_metric="ndcg@10", ndcg_exp_gain=whole,
        early_stopping_rounds=PATIENCE, n_jobs=1, random_state=seed, **system.parameters,
    )  # fmt: skip
    model.fit(
        train.X, y, qid=train.queries.codes,
        eval_set=[(vali.X, y_vali)], eval_qid=[vali.queries.codes], verbose=False,
    )  # fmt: skip
    scores: Predict = model.predict
    return scores


def catboost(system: System, fold: Any, seed: int) -> Predict:
    import catboost

    train, vali = (
        catboost.Pool(part.X, part.y, group_id=part.queries.codes)
        for part in (fold.train, fold.vali)
    )
    model = catboost.CatBoostRanker(
        iterations=ROUNDS, loss_function=system.family.split()[1],
        eval_metric="NDCG:top=10;type=Exp", early_stopping_rounds=PATIENCE, thread_count=1,
        random_seed=seed, verbose=False, allow_writing_files=False, **system.parameters,
    )  # fmt: skip
    model.fit(train, eval_set=vali)
    scores: Predict = model.predict
    return scores


PEERS: dict[str, Callable[[System, Any, int], Predict]] = {
    "lightgbm": lightgbm,
    "xgboost": xgboost,
    "catboost": catboost,
}
