from .knn import KNN as KNN
from .knn import NearestNeighbour as NearestNeighbour
from .vsim import VSIM as VSIM
from .vsim import VSIMFeature as VSIMFeature
