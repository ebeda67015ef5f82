"""The verbs over HTTP: rank, collect feedback, learn while serving, judge in a browser."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
