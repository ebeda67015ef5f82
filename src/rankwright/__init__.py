"""Learning to rank: data -> feedback -> ranker -> metrics -> report.

Public names are listed in ``__init__.pyi`` and load on first use, so ``import rankwright`` is fast:

>>> import rankwright as rw
>>> rw.__version__
'0.1.0'
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
