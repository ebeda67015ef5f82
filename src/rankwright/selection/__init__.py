"""Choose a ranker and its parameters on held-out queries.

``AutoRanker``    several rankers, combined by how they rank queries they have not seen
``RankSearchCV``  parameters by cross-validation over queries
``tune``          parameters by a separate validation set
``progressive``   predict, then learn: an online ranker on a stream
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
