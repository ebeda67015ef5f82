from .adaboost import AdaBoostRanker as AdaBoostRanker
from .frank import FRank as FRank
from .grower import TreeRanking as TreeRanking
from .lambdamart import LambdaMART as LambdaMART
from .rankboost import RankBoost as RankBoost
