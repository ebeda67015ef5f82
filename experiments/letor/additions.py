"""Additions to LambdaMART that were tried and did not help; only table_trees has them.

Each is a parameter of :class:`TriedLambdaMART`:

score_noise : scale of logistic noise on the scores that gradients are taken at, drawn for each
    round, so that the order in the pair weights is smoothed (YetiRank)
bootstrap : power of the weights of queries, (-log u) ** power with u uniform, drawn for each round
    (CatBoost's Bayesian bootstrap, by query)
split_noise : scale of normal noise on the gain of each feature, in units of the best gain
    (CatBoost's random_strength)
newton_steps : Newton steps of the leaf values of a tree; LambdaMART makes one
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.rankers import LambdaMART
from rankwright.rankers.boosting import grower, lambdamart
from rankwright.rankers.boosting.grower import Grower, Tree

ADDITIONS = ("score_noise", "bootstrap", "split_noise", "newton_steps")


class TriedLambdaMART:
    """A LambdaMART with additions; it changes the package while it fits."""

    def __init__(self, additions: dict[str, float], **parameters: Any) -> None:
        unknown = set(additions) - set(ADDITIONS)
        assert not unknown, unknown
        self.additions, self.model = additions, LambdaMART(**parameters)

    def fit(self, *arguments: Any, **rows: Any) -> LambdaMART:
        additions, plain = self.additions, lambdamart.gradients_of
        last: dict[str, Any] = {}

        def gradients_of(*inputs: Any) -> Any:
            losses = plain(*inputs)
            exact = losses.at

            def at(scores: Any, seed: int = 0) -> tuple[Any, Any]:
                rng = np.random.default_rng([seed, 1])
                if scale := additions.get("score_noise"):
                    scores = scores + scale * rng.logistic(size=len(scores))
                last.update(at=exact, scores=scores, seed=seed)
                gradient, hessian = exact(scores, seed)
                if power := additions.get("bootstrap"):
                    drawn = (-np.log(rng.random(int(losses.query.max()) + 1))) ** power
                    weight = drawn[losses.query]
                    gradient, hessian = gradient * weight, hessian * weight
                return gradient, hessian

            losses.at = at
            return losses

        class Tried(Grower):
            def grow(self, gradient: Any, hessian: Any, *drawn: Any) -> Tree:
                tree = super().grow(gradient, hessian, *drawn)
                steps = int(additions.get("newton_steps", 1)) - 1
                if steps and len(tree.nodes) > 1:
                    leaf, value, ridge = self.leaf_of(), self.values, hessian.mean()
                    for _ in range(steps):
                        first, second = last["at"](last["scores"] + value[leaf], last["seed"])
                        slope = np.bincount(leaf, first, len(value))
                        value = value + slope / (np.bincount(leaf, second, len(value)) + ridge)
                    for own, new in zip(self._leaves, value.tolist(), strict=True):
                        own.node.value = new
                return tree

            def _best_of_level(self, allowed: Any) -> Any:
                if scale := additions.get("split_noise"):
                    gain, starts = self._shared.level.gain, self._shared.starts
                    self._n_draws += 1
                    rng = np.random.default_rng([self._seed, self._n_draws])
                    noise = scale * gain.max() * rng.standard_normal(len(starts) - 1)
                    gain += np.where(gain > 0, np.repeat(noise, np.diff(starts)), 0.0)
                return super()._best_of_level(allowed)

        lambdamart.gradients_of, lambdamart.Grower = gradients_of, Tried  # type: ignore[misc]
        try:
            return self.model.fit(*arguments, **rows)
        finally:
            lambdamart.gradients_of = plain
            lambdamart.Grower = grower.Grower  # type: ignore[misc]
