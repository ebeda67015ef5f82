"""Rankers that compare features with the grades: VSIM and nearest neighbors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
