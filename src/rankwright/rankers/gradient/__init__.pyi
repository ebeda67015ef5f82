from .ordinal import OrdinalSVM as OrdinalSVM
from .ordinal import ProportionalOdds as ProportionalOdds
from .ranknet import RankNet as RankNet
from .ranksvm import LargeMarginOrdinal as LargeMarginOrdinal
from .ranksvm import RankSVM as RankSVM
from .ridge import RidgeRanker as RidgeRanker
