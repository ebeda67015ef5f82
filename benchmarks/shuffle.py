"""Does shuffling help an online ranker? Rank loss on test rows, by the order of the training rows.

``random`` rows come in random order, ``sorted`` by grade, ``drift`` from a world whose weights turn
by 90 degrees; the test rows of the latter are those of its end.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

import rankwright as rw

N_TRAIN, N_TEST, TRIALS = 2000, 1000, 5
RANKERS = [
    rw.PRank(),
    rw.PRank(average=True),
    rw.KernelPRank(gamma=0.5, budget=100),
    rw.BayesianPRank(),
    rw.VotedPRank(),
    rw.OAPBPM(n_estimators=50),
    rw.OAPBagging(n_estimators=50),
    rw.OAPVoting(n_estimators=50),
    rw.WidrowHoff(),
    rw.MulticlassPerceptron(),
    rw.OnlineKeepRank(levels="ordinal", budget=100),
]


def run() -> None:
    orders = ("random", "sorted", "drift")
    print(f"mean rank loss of {TRIALS} streams of {N_TRAIN} rows: as given / shuffled")
    print(f"{'':24}" + "".join(f"{order:>16}" for order in orders))
    for ranker in RANKERS:
        cells = []
        for order in orders:
            given, shuffled = (_loss(ranker, order, shuffle) for shuffle in (False, True))
            cells.append(f"{given:.3f} / {shuffled:.3f}")
        average = " average" if getattr(ranker, "average", False) is True else ""
        print(f"{type(ranker).__name__ + average:24}" + "".join(f"{c:>16}" for c in cells))


def _loss(ranker: Any, order: str, shuffle: bool) -> float:
    losses = []
    for seed in range(TRIALS):
        X, y, new_X, new_y = _stream(order, seed)
        model = clone(ranker).set_params(shuffle=shuffle, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            losses.append(np.abs(model.fit(X, y).predict(new_X) - new_y).mean())
    return float(np.mean(losses))


def _stream(order: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Five grades of equal frequency, cut from a linear signal with noise."""
    rng = np.random.default_rng(seed)
    n = N_TRAIN + N_TEST
    X, turn = rng.normal(size=(n, 5)), np.zeros(n)
    if order == "drift":
        turn = np.minimum(np.arange(n) / N_TRAIN, 1.0) * np.pi / 2
    signal = np.cos(turn) * X[:, 0] + np.sin(turn) * X[:, 1] + 0.3 * rng.normal(size=n)
    y = np.digitize(signal, np.quantile(signal, [0.2, 0.4, 0.6, 0.8]))
    rows = np.arange(N_TRAIN)
    rows = rows[np.argsort(y[rows], kind="stable")] if order == "sorted" else rows
    return X[rows], y[rows], X[N_TRAIN:], y[N_TRAIN:]
