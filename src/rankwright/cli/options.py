"""Options whose values make no sense are refused before the work, and by their names."""

from __future__ import annotations

from rankwright.exceptions import ParameterError


def at_least(least: int, **numbers: int | None) -> None:
    """Refuse options with smaller numbers.

    >>> at_least(1, cutoff=0)
    Traceback (most recent call last):
    ...
    rankwright.exceptions.ParameterError: --cutoff 0: it must be at least 1.
    """
    for option, number in numbers.items():
        if number is not None and number < least:
            raise ParameterError(f"--{option} {number}: it must be at least {least}.")


def check_seed(seed: int, option: str = "--seed") -> None:
    """Refuse what NumPy's generators cannot take."""
    if not 0 <= seed < 2**32:
        raise ParameterError(f"{option} {seed}: it must be from 0 to {2**32 - 1}.")


def check_run_name(name: str) -> None:
    """Refuse what a TREC run cannot hold, whose columns are separated by blanks."""
    if name.split() != [name]:
        raise ParameterError(f"--name {name!r}: a TREC run wants a name without blanks.")
