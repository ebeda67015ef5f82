"""A plain twin of RankBoost: every pair written out, every weak ranking tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

CLOSE = 1e-9
DUST = 2e-13  # weights are known but for this


class Twin:
    """Follows a fitted model round by round, and checks each choice against all others.

    Where several weak rankings are equally good the model may take any of them; where the best is
    unique this means the same sequence of choices.
    """

    def __init__(self, X: Any, feedback: Any, *, cumulative: Any, default: Any, criterion: str):
        pairs = feedback.to_pairs()
        keep = pairs.weight > 0
        self.lower, self.upper = pairs.lower[keep], pairs.upper[keep]
        self.D = pairs.weight[keep] / pairs.weight[keep].sum()
        self.first_D = self.D.copy()
        self.used = np.unique(np.concatenate([self.lower, self.upper]))
        self.X, self.cumulative, self.criterion = X, cumulative, criterion
        self.defaults = {"learned": [0, 1], 0: [0], 1: [1]}[default]
        self.direction: dict[int, float] = {}
        self.weight: dict[tuple[int, float, int], float] = {}
        self.H, self.bound = np.zeros(len(X)), 1.0
        self.candidates = [c for f in range(X.shape[1]) for c in self._of_feature(f)]

    def h(self, feature: int, threshold: float, default: int) -> Any:
        x = self.X[:, feature]
        with np.errstate(invalid="ignore"):
            return np.where(np.isnan(x), default, x > threshold).astype(float)

    def _of_feature(self, f: int) -> list[tuple[int, float, int]]:
        x = self.X[self.used, f]
        thresholds = [-np.inf, *np.unique(x[~np.isnan(x)]).tolist()]
        found = [(f, t, q) for t in thresholds for q in self.defaults]
        return [c for c in found if len(np.unique(self.h(*c)[self.used])) == 2]

    def split(self, h: Any) -> tuple[float, float]:
        gap = h[self.upper] - h[self.lower]
        return float(self.D[gap > 0].sum()), float(self.D[gap < 0].sum())

    def gain(self, h: Any) -> float:
        right, wrong = self.split(h)
        if self.criterion == "r":
            return right - wrong
        return float(np.sign(right - wrong) * (right + wrong - 2 * np.sqrt(right * wrong)))

    def blur(self, h: Any) -> float:
        """What rounding may do to a gain: that of z holds the root of a weight."""
        if self.criterion == "r":
            return 0.0
        few, many = sorted(self.split(h))
        return float(2 * np.sqrt(many) * (np.sqrt(few + DUST) - np.sqrt(max(few - DUST, 0.0))))

    def alpha(self, h: Any, s: float) -> float:
        right, wrong = self.split(h)
        if self.criterion == "r":
            r = np.clip(right - wrong, -(1 - 2 * s), 1 - 2 * s)
            return float(0.5 * np.log((1 + r) / (1 - r)))
        return float(0.5 * np.log((right + s) / (wrong + s)))

    def is_whole(self, candidate: tuple[int, float, int]) -> bool:
        """Whether it only says which rows have the feature."""
        x = self.X[self.used, candidate[0]]
        return len(np.unique(self.h(*candidate)[self.used][~np.isnan(x)])) == 1

    def allowed(self, candidate: tuple[int, float, int], alpha: float, slack: float) -> bool:
        if self.cumulative is False or (self.cumulative == "signed" and self.is_whole(candidate)):
            return True
        sign = 1.0 if self.cumulative is True else self.direction.get(candidate[0], np.sign(alpha))
        return sign * alpha > 0 or sign * (self.weight.get(candidate, 0.0) + alpha) > slack

    def follow(self, candidate: tuple[int, float, int], alpha: float, z: float, s: float) -> None:
        """Check a round of the model, then do the same here."""
        h = self.h(*candidate)
        assert self.allowed(candidate, alpha, -CLOSE)
        tried = [(c, self.h(*c)) for c in self.candidates]
        allowed = [g for c, g in tried if self.allowed(c, self.alpha(g, s), CLOSE)]
        best = max(abs(self.gain(g)) - self.blur(g) for g in allowed)
        assert abs(self.gain(h)) + self.blur(h) >= best - CLOSE
        assert alpha == pytest.approx(self.alpha(h, s), abs=CLOSE)
        if self.cumulative == "signed" and not self.is_whole(candidate):
            self.direction.setdefault(candidate[0], np.sign(alpha))
        self.weight[candidate] = self.weight.get(candidate, 0.0) + alpha
        self.D = self.D * np.exp(alpha * (h[self.lower] - h[self.upper]))
        assert z == pytest.approx(self.D.sum(), rel=CLOSE, abs=1e-12)
        self.bound *= self.D.sum()
        self.D /= self.D.sum()
        self.H += alpha * h
        assert self.loss(ties=1.0) <= self.bound + CLOSE  # Theorem 1

    def loss(self, ties: float) -> float:
        # Sums of the same weights in another order may differ by rounding: call that a tie.
        gap = np.round(self.H[self.upper] - self.H[self.lower], 10)
        return float(self.first_D[gap < 0].sum() + ties * self.first_D[gap == 0].sum())

    def has_edge(self, s: float) -> bool:
        """Whether any weak ranking that may be chosen is better than guessing."""
        tried = [(c, self.h(*c)) for c in self.candidates]
        return any(
            abs(self.gain(h)) > 2 * CLOSE and self.allowed(c, self.alpha(h, s), CLOSE)
            for c, h in tried
        )


@pytest.fixture(scope="session")
def follow() -> Callable[..., Twin]:
    """``follow(model, X, feedback)`` checks a fitted RankBoost against the twin."""

    def check(model: Any, X: Any, feedback: Any) -> Twin:
        twin = Twin(
            X,
            feedback,
            cumulative=model.cumulative,
            default=model.default,
            criterion=model.criterion,
        )
        rounds = zip(
            model.feature_.tolist(),
            model.threshold_.tolist(),
            model.default_.tolist(),
            model.alpha_.tolist(),
            model.z_.tolist(),
            strict=True,
        )
        for feature, threshold, default, alpha, z in rounds:
            twin.follow((feature, threshold, default), alpha, z, model.smoothing)
        if len(model.alpha_) < model.n_estimators:
            assert not twin.has_edge(model.smoothing)
        return twin

    return check
