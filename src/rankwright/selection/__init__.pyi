from .auto import AutoRanker as AutoRanker
from .by_name import make_ranker as make_ranker
from .importance import partial_dependence as partial_dependence
from .importance import permutation_importance as permutation_importance
from .progressive_validation import progressive as progressive
from .search import RankSearchCV as RankSearchCV
from .search import tune as tune
from .space import Range as Range
