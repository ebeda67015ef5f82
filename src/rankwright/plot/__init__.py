"""Charts: each function returns an altair chart (``pip install rankwright[plot]``)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
