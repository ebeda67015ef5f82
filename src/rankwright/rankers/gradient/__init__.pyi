from .ranknet import RankNet as RankNet
from .ranksvm import LargeMarginOrdinal as LargeMarginOrdinal
from .ranksvm import RankSVM as RankSVM
from .regression import RidgeRanker as RidgeRanker
