"""Scores and judgements in, numbers out: measures, :func:`evaluate`, :func:`compare`.

>>> from rankwright.metrics import NDCG, AP, evaluate
>>> scores = evaluate([0.9, 0.2, 0.5], [1, 0, 2], measures=[NDCG @ 2, AP])
>>> round(scores["NDCG@2"], 4), scores["AP"]
(0.7967, 1.0)
"""

from rankwright.metrics.catalogue import CATALOGUE
from rankwright.metrics.comparison import Comparison, compare
from rankwright.metrics.evaluate import evaluate
from rankwright.metrics.measure import Measure
from rankwright.metrics.ordinal import running_rank_loss
from rankwright.metrics.pairwise import pairwise_accuracy
from rankwright.metrics.scores import Scores

NDCG, ERR, AP, P, R = (Measure(name) for name in ("NDCG", "ERR", "AP", "P", "R"))
RR, RBP, AUC, PROT = (Measure(name) for name in ("RR", "RBP", "AUC", "PROT"))
Coverage, Top, AverageRank = (Measure(name) for name in ("Coverage", "Top", "AverageRank"))
Disagreement, Misranked = Measure("Disagreement"), Measure("Misranked")
KendallTau, Spearman = Measure("KendallTau"), Measure("Spearman")
HR, MP, HMP, SVR = (Measure(name) for name in ("HR", "MP", "HMP", "SVR"))
MSD, M1D, RankLoss = (Measure(name) for name in ("MSD", "M1D", "RankLoss"))

__all__ = [
    "Comparison",
    "Measure",
    "Scores",
    "compare",
    "evaluate",
    "pairwise_accuracy",
    "running_rank_loss",
    *CATALOGUE,
]
