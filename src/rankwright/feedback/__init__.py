"""Feedback: preferences between rows.

``Grades``     a grade per row, compared within queries
``Bipartite``  every row of one set above every row of another
``Pairs``      a list of weighted preferences, within or across queries
``Mixture``    weighted sums of these: ``0.5 * grades + pairs``
``clicks``     preferences from what people clicked and what they skipped
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
