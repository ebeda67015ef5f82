"""The systems of the tables, and how their parameters are chosen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from experiments.mprank.reviewers import Task
from sklearn.dummy import DummyRegressor
from sklearn.kernel_ridge import KernelRidge

import rankwright as rw

MEASURES = ("MSD", "M1D", "Misranked", "Disagreement")
Parameters = dict[str, Any]


@dataclass(frozen=True)
class System:
    """A model to make from parameters, the parameters to try, and what Table 1 chooses them by.

    Table 2 chooses by what it prints: misranked pairs, ties counted 1 or 1/2. A system that
    abstains gets NaN where the others get medians.
    """

    make: Callable[..., Any]
    grid: dict[str, tuple[Any, ...]]
    tuned_by: str
    abstains: bool = False


ABSTAINING = "RankBoost, abstaining, .cum"
ROUNDS = {"n_estimators": (5, 10, 20, 50, 100, 200, 500, 1000, 2000)}
WIDTHS = (0.01, 0.1, 0.3, 1.0, 3.0)  # of the kernel, as multiples of 1 / mean squared distance
SYSTEMS = {
    "MPRank": System(
        lambda C, gamma: rw.MPRank(C=C, kernel="rbf", gamma=gamma),
        {"C": (1.0, 10.0, 100.0, 1000.0, 10_000.0), "gamma": WIDTHS},
        "MSD",
    ),
    "SVRank": System(
        lambda C, gamma, epsilon: rw.SVRank(
            C=C, kernel="rbf", gamma=gamma, epsilon=epsilon, tol=1e-3
        ),
        {"C": (1.0, 10.0, 100.0, 1000.0), "gamma": WIDTHS[::2], "epsilon": (0.0, 0.5)},
        "M1D",
    ),
    "RankBoost": System(
        lambda n_estimators: rw.RankBoost(n_estimators=n_estimators),
        ROUNDS,
        "Misranked",
    ),
    ABSTAINING: System(
        lambda n_estimators: rw.RankBoost(n_estimators=n_estimators, cumulative=True),
        ROUNDS,
        "Misranked",
        abstains=True,
    ),
    "kernel ridge": System(
        lambda alpha, gamma: KernelRidge(kernel="rbf", alpha=alpha, gamma=gamma),
        {"alpha": (0.001, 0.01, 0.1, 1.0, 10.0), "gamma": WIDTHS},
        "MSD",
    ),
    "constant": System(DummyRegressor, {}, "MSD"),  # the mean of the training half
}


def tune(system: System, tasks: Sequence[Task]) -> dict[str, Parameters]:
    """For each measure the parameters that do best on average over held-out reviewers."""
    base = 1.0 / np.mean([_mean_distance(task.X_train) for task in tasks])
    tried: list[tuple[Parameters, dict[str, float]]] = []
    for values in product(*system.grid.values()):
        chosen = dict(zip(system.grid, values, strict=True))
        if "gamma" in chosen:
            chosen["gamma"] *= base
        tried.append((chosen, measured(system, chosen, tasks)))
    table_1 = dict.fromkeys(("MSD", "M1D"), system.tuned_by)
    return {
        measure: min(tried, key=lambda one: one[1][table_1.get(measure, measure)])[0]
        for measure in MEASURES
    }


def measured(system: System, chosen: Parameters, tasks: Sequence[Task]) -> dict[str, float]:
    """Each measure on the reviewers' test halves, averaged over reviewers."""
    scores, grades, who = [], [], []
    with warnings.catch_warnings():
        # Reviewers who gave one grade only: nothing to order, in training or in test.
        warnings.simplefilter("ignore", rw.exceptions.DegenerateDataWarning)
        for number, task in enumerate(tasks):
            filled, raw = (task.X_train, task.X_test), (task.raw_train, task.raw_test)
            train, test = raw if system.abstains else filled
            model = system.make(**chosen).fit(train, task.y_train)
            scores.append(model.predict(test))
            grades.append(task.y_test)
            who.append(np.full(len(task.y_test), number))
        found = rw.evaluate(
            np.concatenate(scores),
            np.concatenate(grades),
            qid=np.concatenate(who),
            measures=list(MEASURES),
        )
    return {name: float(found[name]) for name in MEASURES}


def _mean_distance(X: np.ndarray) -> float:
    """The mean squared distance of two rows: twice the variance, summed over features."""
    return max(2.0 * float(X.var(axis=0).sum()), 1e-9)
