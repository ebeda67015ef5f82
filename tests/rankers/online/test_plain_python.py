"""The compiled passes compute what the same lines compute as plain Python: a second oracle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import rankwright as rw


def fitted_scores() -> Any:
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, size=(40, 3)) / 8.0
    y = np.digitize(X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=40), [-0.5, 0.5])
    rankers = [
        rw.PRank(average=True),
        rw.PRank(update="romma"),
        rw.PRank(update="mira", average=True),
        rw.PRank(update="alma"),
        rw.VotedPRank(max_rules=4),
        rw.VotedPRank(kernel="rbf", gamma=1.0, budget=6, max_rules=3),
        rw.KernelPRank(gamma=1.0, budget=6),
        rw.KernelPRank(gamma=1.0, budget=6, average=True),
        rw.KernelPRank(kernel="poly", degree=2, average=True),
        rw.OAPBPM(n_estimators=3, random_state=0),
        rw.OAPBPM(estimator=rw.KernelPRank(gamma=1.0), n_estimators=3, random_state=0),
        rw.OAPVoting(n_estimators=3, sampling="poisson", random_state=0),
        rw.WidrowHoff(),
        rw.MulticlassPerceptron(),
        rw.BayesianPRank(),
        rw.BayesianPRank(covariance="low_rank", n_directions=2),
        rw.BayesianPRank(covariance="diagonal"),
        rw.KeepRank(levels="ordinal"),
        rw.OnlineKeepRank(budget=6),
    ]
    rows = (X, sparse.csr_array(X), np.hstack([X] * 12))  # wide rows: members one by one
    return np.array([r.fit(some, y).decision_function(some) for r in rankers for some in rows])


def test_every_pass_also_runs_as_plain_python(tmp_path: Path) -> None:
    path = tmp_path / "scores.npy"
    # Plain NumPy numbers warn where the draws overflow, as they are meant to.
    command = [sys.executable, "-W", "ignore::RuntimeWarning", __file__, str(path)]
    subprocess.run(command, check=True, env=os.environ | {"NUMBA_DISABLE_JIT": "1"})
    np.testing.assert_allclose(np.load(path), fitted_scores(), rtol=1e-9, atol=1e-9)


if __name__ == "__main__":
    np.save(sys.argv[1], fitted_scores())
