"""Whole ranking algorithms for ratings, each of which scores any items for any user.

An expert is fitted on all ratings and answers ``scores(rated, value, wanted)``: how much somebody
who gave the items ``rated`` the ratings ``value`` will like the items ``wanted``. It needs nothing
else about a person, so somebody new is no special case.
"""

from rankwright.recommend.experts.base import Expert, Table
from rankwright.recommend.experts.factors import Factors
from rankwright.recommend.experts.neighbours import ItemNeighbours
from rankwright.recommend.experts.popularity import ItemMeans
from rankwright.recommend.experts.similarity import Similarity

__all__ = ["Expert", "Factors", "ItemMeans", "ItemNeighbours", "Similarity", "Table"]
