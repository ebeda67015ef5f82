"""Feedback from clicks: relevance without position bias, propensities, click models.

``relevance``     click rates corrected for position and trust bias, as grades for any ranker;
                  effective sample size and calibration
``propensity``    how likely each position is examined: from experiments, several rankers, or EM
``click_models``  position-based, cascade and dynamic Bayesian network models of users
``preferences``   pairs of a clicked item and those skipped above it; only for shuffled lists
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
