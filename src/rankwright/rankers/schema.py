"""What a learned attribute looks like: its type, its shape, its range.

Each estimator declares its learned attributes once. A model file is read against that declaration,
so a value that training could never have produced is refused; and an attribute that was forgotten
in the declaration cannot be saved, which the common checks notice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from rankwright.exceptions import DataError, ParameterError


@dataclass(frozen=True)
class Constraint:
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


def at_least(low: int) -> Constraint:
    return Constraint(f"an integer >= {low}", lambda value: _is_integer(value) and value >= low)


def positive() -> Constraint:
    return Constraint("a number > 0", lambda value: _is_real(value) and 0 < value < math.inf)


def number(low: float = -math.inf) -> Constraint:
    words = "a finite number" if low == -math.inf else f"a number >= {low:g}"
    return Constraint(
        words, lambda value: _is_real(value) and math.isfinite(value) and value >= low
    )


def between(low: float, high: float) -> Constraint:
    return Constraint(
        f"a number from {low:g} to {high:g}", lambda value: _is_real(value) and low <= value <= high
    )


def above_0_up_to(high: float) -> Constraint:
    return Constraint(
        f"a number > 0 and <= {high:g}", lambda value: positive().test(value) and value <= high
    )


def one_of(*choices: Any) -> Constraint:
    """One of the given values (compared with their type: 1 is not True)."""
    words = " or ".join(filter(None, [", ".join(map(repr, choices[:-1])), repr(choices[-1])]))
    return Constraint(
        words, lambda value: any(type(value) is type(c) and value == c for c in choices)
    )


def a_flag() -> Constraint:
    return Constraint("True or False", lambda value: isinstance(value, bool | np.bool_))


def nothing() -> Constraint:
    return Constraint("None", lambda value: value is None)


def a_function() -> Constraint:
    return Constraint("a function", callable)


def an_instance(words: str, *kinds: type) -> Constraint:
    return Constraint(words, lambda value: isinstance(value, kinds))


def a_seed() -> Constraint:
    return Constraint(
        "None, an integer >= 0 or a numpy RandomState",
        lambda value: (
            value is None
            or (_is_integer(value) and value >= 0)
            or isinstance(value, np.random.RandomState)
        ),
    )


def either(*rules: Constraint) -> Constraint:
    return Constraint(
        " or ".join(rule.words for rule in rules),
        lambda value: any(rule.test(value) for rule in rules),
    )


@dataclass(frozen=True)
class Learned:
    """A learned attribute.

    Attributes
    ----------
    dtype : "f", "i" or "b" (float64, int64, bool) or "U" (text)
    shape : sizes by number or by name; a name means the same size wherever it occurs in the
        estimator (``n_features`` is the number of columns of X); () is a plain number
    low, high : the least and the greatest value allowed, or the name of a size (then: < that size)
    finite : whether every value must be finite
    optional : whether None is a value too
    """

    dtype: str
    shape: tuple[int | str, ...] = ()
    low: float = -np.inf
    high: float | str = np.inf
    finite: bool = True
    optional: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        if value is None:
            if not self.optional:
                raise DataError(f"{name} is missing.")
            return
        array = np.asarray(value)
        self._check_form(name, array, sizes)
        if self.dtype == "U" or array.size == 0:
            return
        numbers = array.astype(np.float64)
        if self.finite and not np.isfinite(numbers).all():
            raise DataError(f"{name} holds a value that is not finite.")
        high = sizes[self.high] - 1 if isinstance(self.high, str) else self.high
        if (
            np.nanmin(numbers, initial=np.inf) < self.low
            or np.nanmax(numbers, initial=-np.inf) > high
        ):
            raise DataError(f"{name} holds a value outside {self.low:g} .. {high:g}.")

    def _check_form(self, name: str, array: Any, sizes: dict[str, int]) -> None:
        kinds = {"f": "f", "i": "i", "b": "b", "U": "UO"}[self.dtype]
        if array.dtype.kind not in kinds:
            raise DataError(f"{name} has type {array.dtype}, needed {self.dtype}.")
        if self.dtype == "U" and not all(isinstance(text, str) for text in array.ravel().tolist()):
            raise DataError(f"{name} holds something that is not text.")
        if array.ndim != len(self.shape):
            raise DataError(f"{name} has {array.ndim} axes, needed {len(self.shape)}.")
        for size, wanted in zip(array.shape, self.shape, strict=True):
            known = sizes.setdefault(wanted, size) if isinstance(wanted, str) else wanted
            if size != known:
                raise DataError(f"{name} has shape {array.shape}, needed {wanted} = {known}.")


@dataclass(frozen=True)
class Holds:
    """A learned attribute that is itself an object: of which classes, whether None or a list."""

    kinds: tuple[type, ...]
    optional: bool = False
    several: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        if value is None and self.optional:
            return
        found = value if self.several and isinstance(value, list) and value else [value]
        if not all(isinstance(each, self.kinds) for each in found):
            raise DataError(f"{name} is not a {' or '.join(kind.__name__ for kind in self.kinds)}.")


def floats(*shape: int | str, **limits: Any) -> Learned:
    return Learned("f", shape, **limits)


def integers(*shape: int | str, **limits: Any) -> Learned:
    return Learned("i", shape, **limits)


def texts(*shape: int | str, **limits: Any) -> Learned:
    return Learned("U", shape, **limits)


def real(**limits: Any) -> Learned:
    return Learned("f", (), **limits)


def integer(**limits: Any) -> Learned:
    return Learned("i", (), **limits)


def flag() -> Learned:
    return Learned("b", ())


def check_learned(declared: Mapping[str, Learned | Holds], values: Mapping[str, Any]) -> None:
    """Check attribute by attribute that these are values an estimator could have learned."""
    unknown = sorted(set(values) - set(declared))
    if unknown:
        raise DataError(f"{unknown[0]} is not a learned attribute of this model.")
    sizes: dict[str, int] = {}
    if isinstance(values.get("n_features_in_"), int):
        sizes["n_features"] = values["n_features_in_"]
    for name, learned in declared.items():
        if name in values or not learned.optional:
            learned.check(name, values.get(name), sizes)
