"""LETOR (svmlight) files: read in compiled blocks or line by line, and written."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
