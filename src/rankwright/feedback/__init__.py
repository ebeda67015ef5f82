"""2 · What the data say about order.

A feedback says which rows of ``X`` belong above which others, and how much that matters:

``Grades``     rows with grades, row against row inside a query (never written out as pairs)
``Bipartite``  every row of one set above every row of another (never written out either)
``Pairs``      any list of weighted preferences, within or across queries, even contradictory
``Mixture``    weighted sums of these: ``0.5 * grades + pairs``
``clicks``     preferences read from what people clicked and what they skipped
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
