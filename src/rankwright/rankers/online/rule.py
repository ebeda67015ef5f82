"""Online rankers whose model is one rule: weights and ascending thresholds."""

from __future__ import annotations

from rankwright.rankers.base import FloatArray
from rankwright.rankers.gram import Gram
from rankwright.rankers.online.base import OnlineRanker
from rankwright.scoring import Linear, Mapped, Ordinal, Polynomial, Scorer

__all__ = ["RuleRanker"]


class RuleRanker(OnlineRanker):
    """The grade of a row is the first whose threshold lies above the row's score.

    Such rules can be averaged, which is what the OAP ensembles do with them.
    """

    coef_: FloatArray
    thresholds_: FloatArray

    def _map_for(self, n_features: int) -> Polynomial | None:
        """The map that rows of this many features go through, if any."""
        return None

    def _gram_for(self, n_features: int) -> Gram | None:
        """The kernel, where the weights are a sum over rows and not kept themselves."""
        return None

    def _map(self) -> Polynomial | None:
        return self._map_for(self.n_features_in_)

    def _rule(self) -> tuple[FloatArray, FloatArray]:
        """Weights and thresholds, on a scale on which those of several rankers may be averaged."""
        return self.coef_, self.thresholds_

    def _is_plain_prank(self) -> bool:
        """Whether the update is PRank's own, for which ensembles have a faster way."""
        return False

    def _rule_scorer(self) -> Ordinal:
        return Ordinal(Linear(self.coef_), self.thresholds_, self.classes_)

    def _scorer(self) -> Scorer:
        features, rule = self._map(), self._rule_scorer()
        return rule if features is None else Mapped(features, rule)
