from .auto import Attempt as Attempt
from .auto import Attempts as Attempts
from .auto import AutoRanker as AutoRanker
from .progressive_validation import progressive as progressive
from .search import RankSearchCV as RankSearchCV
from .search import Trial as Trial
from .search import Trials as Trials
from .search import tune as tune
