from .progressive_validation import progressive as progressive
from .search import Range as Range
from .search import RankSearchCV as RankSearchCV
from .search import Trial as Trial
from .search import Trials as Trials
from .search import Tuned as Tuned
from .search import tune as tune
