"""Sums of weak rankings, one added per round.

``distribution.py`` weighs the pairs, ``columns.py`` prepares the features, ``scans.py`` finds the
best threshold of every feature, ``choice.py`` picks one of them and ``alpha.py`` its weight.
"""
