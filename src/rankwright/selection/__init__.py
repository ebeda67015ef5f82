"""Which parameters, and how well will it do?

``tune``          parameters chosen on held-out queries
``RankSearchCV``  the same by cross-validation over queries, as an estimator
``progressive``   test, then train: an online ranker on a stream
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
