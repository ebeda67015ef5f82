"""User behavior: ratings, interactions, impressions and clicks; features of users and items."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
