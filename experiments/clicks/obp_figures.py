"""Run by the interpreter of an environment with ``obp``: its figures, and what they are made of.

``python obp_figures.py FOLDER`` writes a file for each logging policy of the sample of the Open
Bandit Dataset that comes with the package. It imports nothing of rankwright, which needs another
Python than ``obp``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from obp.dataset import OpenBanditDataset
from obp.ope import (
    DoublyRobust,
    InverseProbabilityWeighting,
    RegressionModel,
    SelfNormalizedInverseProbabilityWeighting,
)
from obp.policy import BernoulliTS, Random
from sklearn.linear_model import LogisticRegression


def main(folder: Path) -> None:
    for logging in ("random", "bts"):
        dataset = OpenBanditDataset(behavior_policy=logging, campaign="all")
        log = dataset.obtain_batch_bandit_feedback()
        n, length = log["n_rounds"], dataset.len_list
        options = {"n_actions": dataset.n_actions, "len_list": length, "random_state": 0}
        if logging == "random":
            sampling = BernoulliTS(is_zozotown_prior=True, campaign="all", **options)
            target = sampling.compute_batch_action_dist(n_sim=20_000, n_rounds=n)
        else:
            target = Random(**options).compute_batch_action_dist(n_rounds=n)
        model = RegressionModel(
            n_actions=dataset.n_actions,
            len_list=length,
            action_context=dataset.action_context,
            base_model=LogisticRegression(max_iter=1000, random_state=0),
        ).fit_predict(
            n_folds=3, random_state=0,
            **{name: log[name] for name in ("context", "action", "reward", "pscore", "position")},
        )  # fmt: skip
        given = {name: log[name] for name in ("reward", "action", "position", "pscore")}
        given["action_dist"] = target
        here = np.arange(n), log["action"], log["position"]
        at_position = np.arange(n), slice(None), log["position"]
        np.savez(
            folder / f"{logging}.npz",
            reward=log["reward"], logging=log["pscore"], target=target[here],
            predicted=model[here],
            predicted_target=(target[at_position] * model[at_position]).sum(axis=1),
            ips=InverseProbabilityWeighting().estimate_policy_value(**given),
            snips=SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given),
            doubly_robust=DoublyRobust().estimate_policy_value(
                **given, estimated_rewards_by_reg_model=model
            ),
        )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
