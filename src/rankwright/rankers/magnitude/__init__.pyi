from .base import cut_at_gap as cut_at_gap
from .mprank import MPRank as MPRank
from .mprank_cv import MPRankCV as MPRankCV
from .svrank import SVRank as SVRank
