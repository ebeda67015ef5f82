from .knn import KNN as KNN
from .knn import NearestNeighbor as NearestNeighbor
from .vsim import VSIM as VSIM
from .vsim import VSIMFeature as VSIMFeature
