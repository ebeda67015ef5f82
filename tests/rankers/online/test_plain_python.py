"""The compiled passes give what the same lines give as plain Python: a second oracle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

SCRIPT = """
import sys
import numpy as np
from scipy import sparse
import rankwright as rw

rng = np.random.default_rng(0)
X = rng.integers(-8, 9, size=(40, 3)) / 8.0
y = np.digitize(X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=40), [-0.5, 0.5])
rankers = [
    rw.PRank(average=True),
    rw.PRank(update="romma"),
    rw.VotedPRank(max_rules=4),
    rw.KernelPRank(gamma=1.0, budget=6),
    rw.OAPBPM(n_estimators=3, random_state=0),
    rw.OAPVoting(n_estimators=3, sampling="poisson", random_state=0),
    rw.WidrowHoff(),
    rw.MulticlassPerceptron(),
    rw.BayesianPRank(),
    rw.BayesianPRank(covariance="low_rank", n_directions=2),
    rw.BayesianPRank(covariance="diagonal"),
]
rows = (X, sparse.csr_array(X), np.hstack([X] * 12))  # the last is wide: members row by row
scores = [r.fit(some, y).decision_function(some) for r in rankers for some in rows]
np.save(sys.argv[1], np.array(scores))
"""


def test_every_pass_also_runs_as_plain_python(tmp_path: Path) -> None:
    found = []
    for switch in ("0", "1"):
        path = tmp_path / f"scores{switch}.npy"
        environment = os.environ | {"NUMBA_DISABLE_JIT": switch}
        # Plain NumPy numbers warn where the draws overflow, as they are meant to.
        command = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", SCRIPT, str(path)]
        subprocess.run(command, check=True, env=environment)
        found.append(np.load(path))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-9)
