from .base import RatingModel as RatingModel
from .base import Table as Table
from .factors import MatrixFactorization as MatrixFactorization
from .item_knn import ItemKNN as ItemKNN
from .popularity import ItemMeans as ItemMeans
from .user_similarity import UserSimilarity as UserSimilarity
