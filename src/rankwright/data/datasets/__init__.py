"""Public data sets by name: found in a folder or a cache, downloaded, or explained."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
