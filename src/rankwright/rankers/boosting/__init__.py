"""Sums of weak rankings, one added per round.

A round goes through these in turn: ``distribution.py`` weighs the pairs (``terms.py`` and
``levels.py`` hold them), ``columns.py`` has prepared the features, a scan (``binned/``,
``ordered/`` or ``grouped/``, behind ``scans.py``; ``values.py`` without thresholds) finds the best
of every feature, ``choice.py`` picks one that is allowed and ``alpha.py`` weighs it. ``weak.py``
and ``trees/`` tie that together, ``training.py`` repeats it. Small problems take ``compact/``: all
of it in one kernel.
"""
