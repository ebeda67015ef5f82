"""Models that predict how much a user likes an item; Recommender blends them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
