from .adaboost import AdaBoostRanker as AdaBoostRanker
from .frank import FRank as FRank
from .lambdamart import LambdaMART as LambdaMART
from .rankboost import RankBoost as RankBoost
from .weak_learners.estimators import TreeRanking as TreeRanking
