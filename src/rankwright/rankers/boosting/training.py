"""The boosting loop: round after round until the number is reached or somebody says stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright.feedback import Feedback
from rankwright.feedback.base import FloatArray
from rankwright.parallel import Team
from rankwright.rankers.boosting.columns import Columns
from rankwright.rankers.boosting.compact import boost_compactly, is_compact
from rankwright.rankers.boosting.distribution import PairDistribution
from rankwright.rankers.boosting.ensemble import Ensemble, one_round
from rankwright.rankers.boosting.progress import progress_bar
from rankwright.rankers.boosting.scans import team_for
from rankwright.rankers.boosting.stopping import HeldOut
from rankwright.rankers.boosting.trees import TreeRanking
from rankwright.rankers.boosting.trees.growth import TreeLearner
from rankwright.rankers.boosting.weak import Round, ThresholdLearner, ValueLearner, WeakLearner

__all__ = ["Trained", "boost"]


@dataclass(frozen=True)
class Trained:
    """What training found."""

    ensemble: Ensemble
    z: list[float]
    wrong: float
    tied: float
    n_lower: int
    n_upper: int
    validation: FloatArray | None


def boost(model: Any, X: Any, feedback: Feedback) -> Trained:
    """Train with the parameters of a RankBoost."""
    held_out = None
    if model.early_stopping is not None:
        feedback, held_out = model.early_stopping.hold_out(X, feedback, type(model).__name__)
    with team_for(X) as team:
        grows = isinstance(model.weak, TreeRanking)
        pairs = PairDistribution(
            feedback, X.shape[0], team, want_mass=True, weighting=model.weighting
        )
        rounds: list[Any] = []
        z: list[float] = []
        if is_compact(model, X, pairs):
            rounds, z = boost_compactly(
                model, _columns(model, X, pairs), pairs, _smoothing(model, pairs)
            )
        elif len(pairs.rows):
            learner = _learner(model, X, pairs, team)
            if not grows:
                pairs.mass = np.zeros(0)
            rounds, z = _loop(model, X.shape[1], pairs, learner, held_out)
    abstain = model.absent == "abstain"
    kept = held_out.best_round if held_out else len(rounds)
    ensemble = Ensemble.from_rounds(
        X.shape[1], abstain, rounds[:kept], grows, model.weak == "value"
    )
    if kept < len(rounds):
        wrong, tied = pairs.disorder(ensemble.scorer(kept).decision_function(X)[pairs.rows])
    else:
        wrong, tied = pairs.disorder()
    validation = held_out.values if held_out else None
    return Trained(ensemble, z[:kept], wrong, tied, pairs.n_lower, pairs.n_upper, validation)


def _columns(model: Any, X: Any, pairs: PairDistribution) -> Columns:
    return Columns(X, pairs.rows, pairs.mass, model.max_bins, model.absent == "abstain")


def _smoothing(model: Any, pairs: PairDistribution) -> float:
    if model.smoothing is not None:
        return float(model.smoothing)
    # A weight of k counts as k copies: then there are as many pairs as there is weight.
    return float(1.0 / (2.0 * max(pairs.n_pairs, pairs.weight, 2.0)))


def _learner(model: Any, X: Any, pairs: PairDistribution, team: Team) -> WeakLearner:
    columns = _columns(model, X, pairs)
    options = {"default": model.default, "smoothing": _smoothing(model, pairs)}
    if isinstance(model.weak, TreeRanking):
        search = model.weighting is None
        return TreeLearner(columns, team, model.weak, line_search=search, **options)
    options |= {"criterion": model.criterion, "cumulative": model.cumulative}
    if model.weak == "value":
        return ValueLearner(columns, team, **options)
    return ThresholdLearner(columns, pairs, team, **options)


def _loop(
    model: Any,
    n_features: int,
    pairs: PairDistribution,
    learner: WeakLearner,
    held_out: HeldOut | None,
) -> tuple[list[Any], list[float]]:
    rounds: list[Any] = []
    z: list[float] = []
    with progress_bar(type(model).__name__, model.n_rounds, model.progress) as show:
        for number in range(1, model.n_rounds + 1):
            before = pairs.log_weight
            weak = learner.learn(pairs)
            if weak is None:
                break
            rounds.append(weak)
            z.append(float(np.exp(pairs.log_weight - before)))
            bound = float(np.exp(pairs.log_weight))
            show(number, f"bound {bound:.4g}")
            stop = False
            if held_out is not None:
                added = one_round(n_features, model.absent == "abstain", weak)
                stop = held_out.add(added)
            value = held_out.values[-1] if held_out is not None else None
            report = Round(number, weak, z[-1], bound, value)
            stop = sum(bool(callback(report)) for callback in model.callbacks or []) > 0 or stop
            if stop:
                break
    return rounds, z
