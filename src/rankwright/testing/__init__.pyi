from .ranker import check_ranker as check_ranker
from .weak_learner import check_weak_learner as check_weak_learner
