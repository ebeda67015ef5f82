"""All checks of a ranker, in one list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankwright.testing import degenerate, inputs, integration, queries, repeatability, weights

__all__ = ["check_ranker", "ranker_checks"]

THEMES = (inputs, queries, weights, repeatability, degenerate, integration)


def ranker_checks() -> list[Callable[[Any], None]]:
    """The checks, each a function of an unfitted ranker that raises AssertionError.

    For pytest: ``@pytest.mark.parametrize("check", ranker_checks())``.
    """
    return [getattr(theme, name) for theme in THEMES for name in theme.__all__]


def check_ranker(ranker: Any) -> None:
    """Run every check on this ranker; the first that fails raises.

    scikit-learn's own ``sklearn.utils.estimator_checks.check_estimator`` is the other half.
    """
    for check in ranker_checks():
        check(ranker)
