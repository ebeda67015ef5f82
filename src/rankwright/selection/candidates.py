"""The default candidates of AutoRanker: from simple to complex, as many as the data can pay for."""

from __future__ import annotations

from typing import Any, NamedTuple

from sklearn.base import clone

from rankwright.metrics.measure import Measure
from rankwright.rankers.boosting.grower import TreeRanking
from rankwright.rankers.boosting.lambdamart import LambdaMART
from rankwright.rankers.boosting.rankboost import RankBoost
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.gradient.ranksvm import RankSVM

Candidates = list[tuple[str, Any]]

WEIGHTS = {"NDCG": "NDCG@30", "AP": "AP", "ERR": "ERR", "RR": "RR"}  # by the measure that chooses
# Simple to complex: of candidates within one standard error of the best, the simplest is chosen.
SIMPLICITY = {"RankSVM": 0, "RankBoost thresholds": 1, "RankBoost trees": 2, "LambdaMART": 3}


class Budget(NamedTuple):
    """What the size of the data allows.

    Attributes
    ----------
    n_estimators : the most rounds of boosting
    patience : rounds without a better value on a fold, after which its training stops
    leaves : few, usual and many leaves of a tree
    penalties : values of C for RankSVM
    n_refinements : variants of the best trees to try after the first candidates
    """

    n_estimators: int
    patience: int
    leaves: tuple[int, int, int]
    penalties: tuple[float, ...]
    n_refinements: int


def budget_for(n_rows: int, n_features: int) -> Budget:
    """The budget by the size of the data.

    Small data are cheap, but too noisy to choose among many candidates; on large data each
    candidate is expensive, and deep trees pay.

    >>> budget_for(2_000, 10).n_refinements, budget_for(1_000_000, 136).leaves
    (0, (31, 63, 127))
    """
    if n_rows < 3_000:
        return Budget(200, 30, (4, 8, 16), (0.01, 1.0, 100.0), 0)
    if n_rows * n_features < 20_000_000:
        return Budget(500, 50, (7, 15, 31), (0.01, 1.0, 100.0), 3)
    return Budget(1000, 50, (31, 63, 127), (1.0,), 2)


def first_candidates(measure: Measure, budget: Budget, boosting: bool) -> Candidates:
    """Linear rankers, then boosted thresholds and trees by loss and pair weights."""
    linear: Candidates = [(f"RankSVM C={C:g}", RankSVM(C=C)) for C in budget.penalties]
    if not boosting:
        return linear
    stopping = EarlyStopping(measure=str(measure), n_iter_no_change=budget.patience)
    shared: dict[str, Any] = {"n_estimators": budget.n_estimators, "early_stopping": stopping}
    usual = budget.leaves[1]
    trees = TreeRanking(max_leaf_nodes=usual)
    boosted: Candidates = [
        ("RankBoost thresholds", RankBoost(**shared)),
        ("RankBoost trees", RankBoost(estimator=trees, **shared)),
    ]
    weights = [WEIGHTS.get(measure.name), None]
    for weighting in dict.fromkeys(weights):
        model = LambdaMART(weighting=weighting, max_leaf_nodes=usual, **shared)
        boosted.append((_name(model), model))
    return linear + boosted


def unjudged_candidates() -> Candidates:
    """The safest ranker first: nothing is held out to evaluate it."""
    return [("RankSVM C=1", RankSVM()), ("RankBoost thresholds", RankBoost())]


def refinements(best: Any, budget: Budget) -> Candidates:
    """The best LambdaMART with fewer leaves, with more, and with smaller steps."""
    if not isinstance(best, LambdaMART):
        return []
    few, _, many = budget.leaves
    changes: list[dict[str, Any]] = [
        {"max_leaf_nodes": few},
        {"max_leaf_nodes": many},
        {"learning_rate": best.learning_rate / 2, "n_estimators": 2 * best.n_estimators},
    ]
    models = [clone(best).set_params(**change) for change in changes[: budget.n_refinements]]
    return [(_name(model), model) for model in models]


def _name(model: LambdaMART) -> str:
    weighting = model.weighting or "unweighted"
    rate = "" if model.learning_rate == 0.1 else f", rate {model.learning_rate:g}"
    return f"LambdaMART {weighting}, {model.max_leaf_nodes} leaves{rate}"


def simplicity(name: str, model: Any) -> float:
    """The place of a default candidate between simple (low) and complex."""
    kind = next(place for start, place in SIMPLICITY.items() if name.startswith(start))
    last = model[-1] if hasattr(model, "steps") else model
    return kind + getattr(last, "max_leaf_nodes", getattr(last, "C", 0.0)) / 1000.0
