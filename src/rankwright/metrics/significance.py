"""Is one ranker better than another? Paired tests over queries, intervals, Holm's correction.

SciPy does the statistics and is loaded when a test runs.
"""

from __future__ import annotations

from typing import Any


def compare(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError
