from .adaboost import AdaBoostRanker as AdaBoostRanker
from .early_stopping import EarlyStopping as EarlyStopping
from .frank import FRank as FRank
from .grower import TreeRanking as TreeRanking
from .rankboost import RankBoost as RankBoost
