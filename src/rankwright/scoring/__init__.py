"""Scoring with trained models: NumPy only, no training code.

A ranker's ``decision_function`` and a model file opened by ``load_scorer`` run the same code here,
so a score cannot depend on which of the two computed it. Kinds are a closed table: the name in a
model file looks a class up, it never imports one.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
