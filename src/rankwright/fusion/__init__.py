"""Rank fusion (metasearch): combine several ranked lists of the same queries into one.

``pool`` puts the lists side by side, ``normalization`` makes their scores comparable, ``methods``
holds the fixed rules (:func:`fuse`), and ``learned`` trains the combination from judgments
(:class:`LearnedFusion`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
