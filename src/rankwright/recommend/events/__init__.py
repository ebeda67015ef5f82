"""Models of interactions: each scores the whole catalog for a history of items."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
