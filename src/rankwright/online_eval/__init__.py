"""Which ranker is better, from what people clicked.

``interleaving``    mix the lists of two or more rankers into one and credit the clicks
``sequential``      sign test, always-valid intervals and p-values, number of sessions needed
``counterfactual``  IPS, self-normalized IPS and doubly robust estimates of logged choices
``rankings``        what another ranker's lists would have earned, from a log of impressions
``learning``        from a log to a better ranker, with the evidence
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
