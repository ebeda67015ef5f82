"""Readers and writers: LETOR, tables, TREC runs and qrels, judgments and ratings."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
