"""Models in the formats of search engines, runtimes, other libraries and databases.

===============  ===================================================================================
``writer``       :func:`export`: write a model for a target, with a certificate of equal scores
``form``         the neutral form that every target is written from: trees, sums, transforms
``expressions``  a model as one arithmetic expression, for SQL and Vespa
``certificate``  rows around every threshold, and how the file's reader scores them
``targets``      one module for each target
===============  ===================================================================================
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
