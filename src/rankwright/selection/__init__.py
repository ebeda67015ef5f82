"""Which parameters, and how well will it do?

``tune``          parameters chosen on held-out queries
``RankSearchCV``  the same by cross-validation over queries, as an estimator
``progressive``   test, then train: an online ranker on a stream
"""

from rankwright.selection.progressive import progressive
from rankwright.selection.search import RankSearchCV
from rankwright.selection.space import Range
from rankwright.selection.trials import Trial, Trials
from rankwright.selection.tune import Tuned, tune

__all__ = ["Range", "RankSearchCV", "Trial", "Trials", "Tuned", "progressive", "tune"]
