from .evaluation import assess as assess
from .evaluation import compare_rankers as compare_rankers
from .evaluation import density_bins as density_bins
from .evaluation import split_by_time as split_by_time
from .evaluation import split_ratings as split_ratings
from .recommender import Recommender as Recommender
