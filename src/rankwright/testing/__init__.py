"""Public checks that every ranker must pass, including custom ones.

>>> from rankwright import RidgeRanker
>>> from rankwright.testing import check_ranker
>>> check_ranker(RidgeRanker())
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
