"""All checks of a ranker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankwright.rankers.base import Ranker
from rankwright.testing import extremes, inputs, integration


def ranker_checks() -> list[Callable[[Any], None]]:
    """The checks: functions that take an unfitted ranker and raise AssertionError.

    For pytest: ``@pytest.mark.parametrize("check", ranker_checks())``.
    """
    return [
        check
        for module in (inputs, extremes, integration)
        for name, check in vars(module).items()
        if name.startswith("check_") and check.__module__ == module.__name__
    ]


def check_ranker(ranker: Any) -> None:
    """Run every check on this ranker; the first failure is raised with a note that names the check.

    Run scikit-learn's ``sklearn.utils.estimator_checks.check_estimator`` as well.
    """
    if not isinstance(ranker, Ranker):
        kind = ranker.__name__ if isinstance(ranker, type) else type(ranker).__name__
        hint = f"give an instance, {kind}()" if isinstance(ranker, type) else "subclass Ranker"
        raise TypeError(f"check_ranker({kind}): a rankwright.Ranker is needed; {hint}.")
    for check in ranker_checks():
        try:
            check(ranker)
        except Exception as error:
            error.add_note(f"{type(ranker).__name__} does not pass {check.__name__}.")
            raise
