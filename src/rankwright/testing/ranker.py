"""All checks of a ranker."""

from __future__ import annotations

import traceback
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
    """Run every check on this ranker; an AssertionError names the first check that fails.

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
            failed = f"{type(ranker).__name__} does not pass {check.__name__}"
            promise = (check.__doc__ or "").strip().split("\n")[0]
            failure = AssertionError(f"{failed}: {promise}\n{_reason(error)}")
            failure.add_note(f"{failed}.")
            raise failure from error


def _reason(error: Exception) -> str:
    """What went wrong; of an assertion without a message, the line that failed."""
    if isinstance(error, AssertionError) and not str(error):
        *_, frame = traceback.extract_tb(error.__traceback__)
        return f"{frame.line} (line {frame.lineno} of {frame.filename})"
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return f"{kind}{str(error).strip()}"
