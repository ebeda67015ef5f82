"""Containers for items, queries, ratings, runs and judgments; readers, splits and data sets."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
