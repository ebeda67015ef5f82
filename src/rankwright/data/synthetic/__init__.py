"""Seeded data whose right order is known, and its Bayes limit where that can be computed."""

from rankwright.data.synthetic.engines import EngineSample, make_engines
from rankwright.data.synthetic.ordinal import OrdinalSample, make_ordinal
from rankwright.data.synthetic.queries import QuerySample, make_queries
from rankwright.data.synthetic.ratings import RatingSample, make_ratings

__all__ = [
    "EngineSample",
    "OrdinalSample",
    "QuerySample",
    "RatingSample",
    "make_engines",
    "make_ordinal",
    "make_queries",
    "make_ratings",
]
