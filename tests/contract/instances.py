"""The rankers that the contract is checked on: each of the registry, in its main variants.

A variant that shares no code path with the default deserves its own line.
"""

from __future__ import annotations

import rankwright as rw

INSTANCES = [
    rw.Regression(),
    rw.Regression(alpha=1.0, center=False),
]
