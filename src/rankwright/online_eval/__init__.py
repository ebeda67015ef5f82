"""Online evaluation: which ranker is better, from clicks.

``interleaving``    mix the lists of two or more rankers into one and credit the clicks
``sequential``      sign test, always-valid intervals and p-values, number of sessions needed
``counterfactual``  IPS, self-normalized IPS and doubly robust estimates of logged choices
``rankings``        the estimated clicks of another ranker's lists, from an impression log
``learning``        train a ranker on a log, and estimate its clicks
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
