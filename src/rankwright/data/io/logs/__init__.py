"""Logs: impressions and clicks, the features in them, feature logs of engines, preferences."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
