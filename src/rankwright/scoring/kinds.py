"""Which export targets hold which kinds of models: the table that all read, without imports.

A model is made of these kinds, as its classes declare them (``Ranker._scores_as``):

``trees``       sums of trees or of step functions, scalers folded into the thresholds
``linear``      weighted sums, scalers folded into the weights
``network``     tanh networks, scalers folded in
``slopes``      weighted sums that score missing values
``deviations``, ``kernel``, ``votes``, ``prototypes``  the scorers of these names
``sum``         several of these, added up
``mapped``      another map of single rows before the scorer, such as PolynomialMap
``query``       features scaled within a query
``rounded``     features rounded to float32 before anything but trees
"""

from __future__ import annotations

_LISTS = frozenset({"trees", "linear"})
_FORMULAS = _LISTS | {"network", "slopes", "deviations", "kernel", "votes", "sum", "mapped"}

HOLDS: dict[str, frozenset[str]] = {
    "elasticsearch": _LISTS,
    "opensearch": _LISTS,
    "solr": _LISTS | {"network"},
    "vespa": _FORMULAS,
    "onnx": _FORMULAS | {"prototypes", "query", "rounded"},
    "xgboost": _LISTS,
    "lightgbm": frozenset({"trees"}),
    "ranklib": _LISTS,
    "sql": _FORMULAS,
    "python": _FORMULAS,
}
