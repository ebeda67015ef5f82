"""What a parameter may be, as words for people and a test for us.

>>> at_least(1).check("PRank", "n_passes", 0)
Traceback (most recent call last):
    ...
rankwright.exceptions.ParameterError: PRank(n_passes=0): n_passes must be an integer >= 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from rankwright.exceptions import ParameterError

__all__ = [
    "Rule",
    "a_flag",
    "a_function",
    "a_seed",
    "above_0_up_to",
    "an_instance",
    "at_least",
    "between",
    "either",
    "nothing",
    "number",
    "one_of",
    "positive",
]


@dataclass(frozen=True)
class Rule:
    """Words that finish the sentence "it must be ...", and the test that they describe."""

    words: str
    test: Callable[[Any], bool]

    def check(self, owner: str, name: str, value: Any) -> None:
        """Raise a ParameterError unless the value passes."""
        if not self.test(value):
            raise ParameterError(f"{owner}({name}={value!r}): {name} must be {self.words}.")


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def at_least(low: int) -> Rule:
    return Rule(f"an integer >= {low}", lambda value: _is_integer(value) and value >= low)


def positive() -> Rule:
    return Rule("a number > 0", lambda value: _is_real(value) and 0 < value < math.inf)


def number(low: float = -math.inf) -> Rule:
    words = "a finite number" if low == -math.inf else f"a number >= {low:g}"
    return Rule(words, lambda value: _is_real(value) and math.isfinite(value) and value >= low)


def between(low: float, high: float) -> Rule:
    return Rule(
        f"a number from {low:g} to {high:g}", lambda value: _is_real(value) and low <= value <= high
    )


def above_0_up_to(high: float) -> Rule:
    return Rule(
        f"a number > 0 and <= {high:g}", lambda value: positive().test(value) and value <= high
    )


def one_of(*choices: Any) -> Rule:
    """One of the given values (compared with their type: 1 is not True)."""
    words = " or ".join(filter(None, [", ".join(map(repr, choices[:-1])), repr(choices[-1])]))
    return Rule(words, lambda value: any(type(value) is type(c) and value == c for c in choices))


def a_flag() -> Rule:
    return Rule("True or False", lambda value: isinstance(value, bool | np.bool_))


def nothing() -> Rule:
    return Rule("None", lambda value: value is None)


def a_function() -> Rule:
    return Rule("a function", callable)


def an_instance(words: str, *kinds: type) -> Rule:
    return Rule(words, lambda value: isinstance(value, kinds))


def a_seed() -> Rule:
    return Rule(
        "None, an integer >= 0 or a numpy RandomState",
        lambda value: (
            value is None
            or (_is_integer(value) and value >= 0)
            or isinstance(value, np.random.RandomState)
        ),
    )


def either(*rules: Rule) -> Rule:
    return Rule(
        " or ".join(rule.words for rule in rules),
        lambda value: any(rule.test(value) for rule in rules),
    )
