"""Sums of weak rankings, one added per round.

A round goes through these in turn: ``distribution.py`` weighs the pairs (``terms.py`` holds them as
rows on levels), ``columns.py`` has prepared the features, ``scans.py`` (or ``grouped/``, or
``values.py``) finds the best of every feature, ``choice.py`` picks one that is allowed and
``alpha.py`` weighs it. ``weak.py`` and ``trees/`` tie that together, ``training.py`` repeats it.
"""
