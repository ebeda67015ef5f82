"""Boosting with many rounds to a kernel call: between rounds Python would cost more than they."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.rankers.boosting.choice import DEFAULTS
from rankwright.rankers.boosting.columns import Columns
from rankwright.rankers.boosting.compact.entries import Entries
from rankwright.rankers.boosting.distribution import PairDistribution
from rankwright.rankers.boosting.progress import progress_bar
from rankwright.rankers.boosting.scans import Scan
from rankwright.rankers.boosting.weak import WeakRanking

__all__ = ["boost_compactly", "is_compact"]

SMALL = 200_000  # values in X up to which one thread is as good as many
STRETCH = 100_000_000  # values looked at (about 0.1 s) before somebody may interrupt


def is_compact(model: Any, X: Any, pairs: PairDistribution) -> bool:
    """Whether training may go this way: thresholds, the criterion r, graded rows, few values."""
    if (
        model.weak != "threshold"
        or model.criterion != "r"
        or model.weighting is not None
        or model.early_stopping is not None
        or model.callbacks
        or not pairs.levels.direct
        or len(pairs.levels.member) == 0
        or len(pairs.pairs.lower)
    ):
        return False
    if hasattr(X, "tocsr"):
        return bool(model.absent == "abstain" and X.nnz <= SMALL)
    return bool(X.size <= SMALL or X.size - np.count_nonzero(np.isnan(X)) <= SMALL)


def boost_compactly(
    model: Any, columns: Columns, pairs: PairDistribution, smoothing: float
) -> tuple[list[WeakRanking], list[float]]:
    """The weak rankings of all rounds and their z; moves the scores of ``pairs``, nothing else."""
    from rankwright.rankers.boosting.compact import _kernels

    entries, levels = Entries.read(columns), pairs.levels
    signed, upward = model.cumulative == "signed", model.cumulative is True
    direction = np.full(columns.n_features, int(upward), np.int8)
    chosen, weight = np.zeros((model.n_rounds, 3), np.int64), np.zeros(model.n_rounds)
    state = np.array([pairs.total, pairs.unit + np.log(pairs.total), 0.0])
    stretch = 1 + STRETCH // (1 + len(entries.bin))
    rounds: list[WeakRanking] = []
    logs = [np.array([state[1]])]
    with progress_bar(type(model).__name__, model.n_rounds, model.progress) as show:
        while len(rounds) < model.n_rounds:
            n = min(stretch, model.n_rounds - len(rounds))
            found, alpha, log_weight = np.zeros((n, 3), np.int64), np.zeros(n), np.zeros(n)
            done = _kernels.boost(
                entries.ptr, entries.bin, entries.bin_ptr, entries.abstains, pairs.scores,
                pairs.potential, levels.arrays, levels.room, direction, signed, upward,
                np.array(DEFAULTS[model.default]), smoothing, Scan.margin, state, chosen, weight,
                found, alpha, log_weight,
            )  # fmt: skip
            rounds += _weak_rankings(entries, found[:done], alpha[:done])
            logs.append(log_weight[:done])
            show(len(rounds), f"bound {np.exp(state[1] - logs[0][0]):.4g}")
            if done < n:
                break
    z: list[float] = np.exp(np.diff(np.concatenate(logs))).tolist()
    return rounds, z


def _weak_rankings(entries: Entries, found: Any, alpha: Any) -> list[WeakRanking]:
    feature, cut, default = found.T
    place = entries.bin_ptr[feature] + cut
    threshold = np.append(entries.bin_value, 0.0)[place]
    threshold[place == entries.bin_ptr[feature + 1]] = -np.inf
    return [
        WeakRanking(*each)
        for each in zip(
            feature.tolist(), threshold.tolist(), default.tolist(), alpha.tolist(), strict=True
        )
    ]
