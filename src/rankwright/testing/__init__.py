"""Public checks that any ranker must pass, ours or yours.

>>> from rankwright import Regression
>>> from rankwright.testing import check_ranker
>>> check_ranker(Regression())
"""

from rankwright.testing.ranker import check_ranker, ranker_checks

__all__ = ["check_ranker", "ranker_checks"]
