"""Public data sets by name, from a local folder, the cache or a download."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
