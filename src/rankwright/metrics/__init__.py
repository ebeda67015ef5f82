"""Evaluation: measures, :func:`evaluate`, :func:`compare`.

>>> from rankwright.metrics import NDCG, AP, evaluate
>>> scores = evaluate([0.9, 0.2, 0.5], [1, 0, 2], measures=[NDCG @ 2, AP])
>>> round(scores["NDCG@2"], 4), scores["AP"]
(0.7967, 1.0)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
