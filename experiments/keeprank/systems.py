"""The paper's systems and what may be chosen for each of them on the validation queries."""

from __future__ import annotations

from experiments.keeprank.folds import System

import rankwright as rw

GAMMA = [0.5 / sigma2 for sigma2 in (0.25, 0.35, 0.5, 1.0, 5.0, 10.0)]  # the paper's six values
STEPS = [0.02, 0.1]

SYSTEMS = [
    System("FRank", rw.FRank(), {"n_estimators": [10, 25, 50, 100, 200]}),
    System(
        "FRank, full search",
        rw.FRank(choice="full", max_bins=8),
        {"n_estimators": [10, 25, 50]},
    ),
    System("RankSVM", rw.RankSVM(), {"C": [1.0, 10.0, 100.0], "loss": ["hinge", "squared_hinge"]}),
    System(
        "RankBoost",
        rw.RankBoost(),
        {"n_estimators": [20, 50, 150], "cumulative": [True, "signed"]},
    ),
    System(
        "RankNet",
        rw.RankNet(random_state=0),
        {"hidden_layer_sizes": [(), (10,)], "alpha": [1e-3, 1e-2]},
    ),
    System("KeepRank", rw.KeepRank(max_iter=3), {"gamma": GAMMA, "learning_rate": STEPS}),
    System(  # one step size of the paper's, no mean, until a pass violates the margin little
        "KeepRank, as printed",
        rw.KeepRank(max_iter=200, tol=1e-2, learning_rate=0.1, average=False),
        {"gamma": GAMMA},
    ),
    System(
        "KeepRank, ordinal",
        rw.KeepRank(max_iter=3, levels="ordinal"),
        {"gamma": GAMMA[3:], "learning_rate": STEPS},
    ),
    System(
        "OnlineKeepRank", rw.OnlineKeepRank(max_iter=3), {"gamma": GAMMA, "learning_rate": STEPS}
    ),
]
