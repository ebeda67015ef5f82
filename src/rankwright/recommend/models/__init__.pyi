from .base import Expert as Expert
from .base import Table as Table
from .factors import Factors as Factors
from .item_knn import ItemNeighbors as ItemNeighbors
from .popularity import ItemMeans as ItemMeans
from .user_similarity import Similarity as Similarity
