"""The list of all rankers: what the common checks, model files and the command line go by."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rankwright.exceptions import ParameterError

RANKERS = {
    "AdaBoostRanker": "rankwright.rankers.boosting.adaboost",
    "RankBoost": "rankwright.rankers.boosting.rankboost",
    "Regression": "rankwright.rankers.gradient.regression",
    "RankSVM": "rankwright.rankers.gradient.ranksvm",
    "RankNet": "rankwright.rankers.gradient.ranknet",
    "FRank": "rankwright.rankers.boosting.frank",
    "LargeMarginOrdinal": "rankwright.rankers.gradient.ranksvm",
    "KeepRank": "rankwright.rankers.keeprank.keeprank",
    "OnlineKeepRank": "rankwright.rankers.keeprank.online",
    "PRank": "rankwright.rankers.online.prank",
    "KernelPRank": "rankwright.rankers.online.kernel_prank",
    "BayesianPRank": "rankwright.rankers.online.bayesian",
    "VotedPRank": "rankwright.rankers.online.voted",
    "OAPBPM": "rankwright.rankers.online.ensembles",
    "OAPBagging": "rankwright.rankers.online.ensembles",
    "OAPVoting": "rankwright.rankers.online.ensembles",
    "WidrowHoff": "rankwright.rankers.online.baselines",
    "MulticlassPerceptron": "rankwright.rankers.online.baselines",
    "MPRank": "rankwright.rankers.magnitude.mprank",
    "MPRankCV": "rankwright.rankers.magnitude.mprank_cv",
    "SVRank": "rankwright.rankers.magnitude.svrank",
    "VSIM": "rankwright.rankers.neighbors.vsim",
    "NearestNeighbor": "rankwright.rankers.neighbors.knn",
    "KNN": "rankwright.rankers.neighbors.knn",
}


def ranker(name: str) -> type[Any]:
    """The class of a ranker by its name.

    >>> ranker("Regression").__name__
    'Regression'
    """
    if name not in RANKERS:
        raise ParameterError(f"ranker {name!r} is unknown. Known: {', '.join(sorted(RANKERS))}.")
    found: type[Any] = getattr(import_module(RANKERS[name]), name)
    return found


def rankers() -> list[type[Any]]:
    """The classes of all rankers, in the order of the list."""
    return [ranker(name) for name in RANKERS]


def takes(feedback: type[Any]) -> list[str]:
    """The names of the rankers that learn from this kind of feedback.

    >>> from rankwright.feedback.pairs import Pairs
    >>> "Regression" in takes(Pairs)
    True
    """
    return [cls.__name__ for cls in rankers() if cls.takes(feedback)]
