"""Learning to rank: data -> feedback -> ranker -> metrics -> report.

Public names load on first use, so that ``import rankwright`` costs almost nothing:

>>> import rankwright as rw
>>> rw.__version__
'0.1.0'
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# module -> the public names it gives; __init__.pyi tells type checkers and editors the same.
_PUBLIC = {
    "exceptions": ["RankwrightError", "ParameterError", "DataError"],
    "data.align": ["align", "items_from_runs"],
    "data.datasets": ["list_datasets", "load_dataset"],
    "data.items": ["Items"],
    "data.judges": ["Judgements", "read_judges"],
    "data.letor": ["read_letor", "write_letor"],
    "data.queries": ["Queries"],
    "data.ratings": ["Ratings"],
    "data.ratings_files": ["read_ratings"],
    "data.runs": ["Qrels", "Run"],
    "data.tables": ["read_table"],
    "data.trec": ["read_qrels", "read_run", "write_qrels", "write_run"],
    "feedback": ["Bipartite", "Grades", "Pairs"],
    "metrics.evaluate": ["evaluate"],
    "metrics.measure": ["Measure"],
    "metrics.comparison": ["compare"],
    "rankers.base": ["Ranker"],
    "rankers.gradient.large_margin": ["LargeMarginOrdinal"],
    "rankers.gradient.ranknet": ["RankNet"],
    "rankers.gradient.ranksvm": ["RankSVM"],
    "rankers.gradient.regression": ["Regression"],
    "rankers.boosting.adaboost": ["AdaBoostRanker"],
    "rankers.boosting.frank": ["FRank"],
    "rankers.boosting.rankboost": ["RankBoost"],
    "rankers.boosting.stopping": ["EarlyStopping"],
    "rankers.boosting.trees": ["TreeRanking"],
    "rankers.kernel.gaps": ["cut_at_gap"],
    "rankers.kernel.mprank": ["MPRank"],
    "rankers.kernel.mprank_cv": ["MPRankCV"],
    "rankers.kernel.svrank": ["SVRank"],
    "rankers.memory.feature": ["VSIMFeature"],
    "rankers.memory.knn": ["KNN", "NearestNeighbour"],
    "rankers.memory.vsim": ["VSIM"],
    "rankers.normalizer": ["QueryNormalizer"],
    "rankers.polynomial": ["PolynomialMap"],
    "rankers.relaxation.keeprank": ["KeepRank"],
    "rankers.relaxation.online": ["OnlineKeepRank"],
    "rankers.online.belief.bayesian": ["BayesianPRank"],
    "rankers.online.dual.kernel_prank": ["KernelPRank"],
    "rankers.online.ensembles.oap": ["OAPBPM", "OAPBagging", "OAPVoting"],
    "rankers.online.multiclass": ["MulticlassPerceptron"],
    "rankers.online.prank": ["PRank"],
    "rankers.online.voted": ["VotedPRank"],
    "rankers.online.widrow_hoff": ["WidrowHoff"],
    "selection.search": ["RankSearchCV"],
    "selection.space": ["Range"],
    "selection.tune": ["tune"],
    "fusion.learned": ["LearnedFusion"],
    "fusion.methods": ["fuse"],
    "recommend.recommender": ["Recommender"],
    "persist.models": ["load", "save"],
    "persist.scorer": ["load_scorer"],
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}
_FOLDERS = [
    "data",
    "exceptions",
    "feedback",
    "fusion",
    "metrics",
    "parallel",
    "persist",
    "rankers",
    "recommend",
    "report",
    "scoring",
    "selection",
    "testing",
]

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _FOLDERS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'rankwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_FOLDERS])
