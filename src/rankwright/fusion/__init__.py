"""Metasearch: several ranked lists of the same queries made into one.

``pool`` puts the lists side by side, ``normalize`` makes their scores comparable, ``by_score`` and
``by_rank`` hold the fixed rules, ``methods`` is the door to them (:func:`fuse`), and ``learned``
trains the combination from judgments (:class:`LearnedFusion`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
