from .base import ItemMeans as ItemMeans
from .base import RatingModel as RatingModel
from .factors import MatrixFactorization as MatrixFactorization
from .neighbors import ItemKNN as ItemKNN
from .neighbors import UserSimilarity as UserSimilarity
