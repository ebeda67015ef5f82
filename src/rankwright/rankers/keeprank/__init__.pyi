from .keeprank import KeepRank as KeepRank
from .online import OnlineKeepRank as OnlineKeepRank
