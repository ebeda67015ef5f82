from .ranker import check_ranker as check_ranker
from .ranker import ranker_checks as ranker_checks
