"""What the parameters and the learned attributes of an estimator may be.

``_constraints`` has a :class:`Constraint` for each parameter, which ``fit`` checks, ``_learned`` a
:class:`Learned` or :class:`Holds` for each learned attribute. A model file is read against both,
so a value that training could not have produced is refused. Only declared attributes are saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


@dataclass(frozen=True)
class Constraint:
    """A test of a parameter, and a description that completes "it must be ..."."""

    description: str
    test: Callable[[Any], bool]

    def check(self, owner: str, name: str, value: object) -> None:
        """Raise a ParameterError unless the value passes."""
        if not self.test(value):
            raise ParameterError(
                f"{owner}({name}={value!r}): {name} must be {self.description}.", parameter=name
            )


def check_parameters(estimator: BaseEstimator) -> None:
    """Check the parameters of an estimator by its ``_constraints``."""
    for name, constraint in estimator._constraints.items():
        constraint.check(type(estimator).__name__, name, getattr(estimator, name))


def _is_number(value: object, kind: Any = Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool | np.bool_)


def at_least(low: int) -> Constraint:
    description = f"an integer >= {low}"
    return Constraint(description, lambda value: _is_number(value, Integral) and value >= low)


def number(low: float = -math.inf) -> Constraint:
    description = "a finite number" if low == -math.inf else f"a number >= {low:g}"
    return Constraint(description, lambda x: _is_number(x) and math.isfinite(x) and x >= low)


def positive(high: float = math.inf) -> Constraint:
    description = "a number > 0" if high == math.inf else f"a number > 0 and <= {high:g}"
    return Constraint(description, lambda x: _is_number(x) and 0 < x < math.inf and x <= high)


def between(low: float, high: float) -> Constraint:
    description = f"a number from {low:g} to {high:g}"
    return Constraint(description, lambda x: _is_number(x) and low <= x <= high)


def one_of(*choices: Any) -> Constraint:
    """One of the given values, with their type: 1 is not True, but a text of NumPy is a text."""
    description = _alternatives(map(repr, choices))
    return Constraint(
        description,
        lambda x: any(_kind(x) is type(choice) and x == choice for choice in choices),
    )


def _kind(value: object) -> type:
    return str if isinstance(value, str) else type(value)


def boolean() -> Constraint:
    return Constraint("True or False", lambda value: isinstance(value, bool | np.bool_))


def function() -> Constraint:
    return Constraint("a function", callable)


def instance_of(description: str, *kinds: type) -> Constraint:
    return Constraint(description, lambda value: isinstance(value, kinds))


def either(*constraints: Constraint) -> Constraint:
    description = _alternatives(constraint.description for constraint in constraints)
    return Constraint(description, lambda x: any(constraint.test(x) for constraint in constraints))


def optional(*constraints: Constraint) -> Constraint:
    """None, or what passes one of the constraints."""
    return either(Constraint("None", lambda value: value is None), *constraints)


def random_state() -> Constraint:
    return optional(at_least(0), instance_of("a numpy RandomState", np.random.RandomState))


def _alternatives(descriptions: Iterable[str]) -> str:
    *first, last = descriptions
    return f"{', '.join(first)} or {last}" if first else last


TYPES = {
    "f": "float64",
    "f4": "float32",
    "i": "int64",
    "i4": "int32",
    "u1": "uint8",
    "n": "int64 or float64",
    "b": "bool",
    "U": "text",
}


@dataclass(frozen=True)
class Learned:
    """A learned attribute.

    A size by name is the same wherever it occurs in the estimator; ``n_features`` is the number of
    columns of X.
    """

    dtype: str  # a key of TYPES
    shape: tuple[int | str, ...] = ()  # sizes by number or by name; () is a plain number
    low: float = -np.inf
    high: float | str = np.inf  # or the name of a size: less than that
    finite: bool = True
    optional: bool = False  # whether None is a value too

    def check(self, name: str, value: object, sizes: dict[str, int]) -> None:
        """Raise a DataError unless this is such an attribute; ``sizes`` learns new names."""
        if value is None:
            if not self.optional:
                raise DataError(f"{name} is missing.")
            return
        array = np.asarray(value)
        self._check_type(name, array)
        self._check_shape(name, array, sizes)
        if self.dtype == "U" or array.size == 0:
            return
        numbers = array.astype(np.float64, copy=False)
        n_bad = np.count_nonzero(~np.isfinite(numbers))
        if self.finite and n_bad:
            raise DataError(f"{name}: {n_bad} of {array.size} values are not finite.")
        high = sizes[self.high] - 1 if isinstance(self.high, str) else self.high
        outside = numbers[(numbers < self.low) | (numbers > high)]
        if len(outside):
            raise DataError(
                f"{name}: the value {outside[0]:g} is outside {self.low:g} .. {high:g}."
            )

    def _check_type(self, name: str, array: NDArray[Any]) -> None:
        is_right = (
            array.dtype.kind in "UO"
            if self.dtype == "U"
            else array.dtype.name in TYPES[self.dtype].split(" or ")
        )
        if not is_right:
            raise DataError(f"{name} has type {array.dtype}; it must be {TYPES[self.dtype]}.")
        if self.dtype == "U":
            for value in array.ravel().tolist():
                if not isinstance(value, str):
                    raise DataError(f"{name} holds a {type(value).__name__}, which is not text.")

    def _check_shape(self, name: str, array: NDArray[Any], sizes: dict[str, int]) -> None:
        if array.ndim != len(self.shape):
            raise DataError(f"{name} has {array.ndim} axes; it must have {len(self.shape)}.")
        for size, label in zip(array.shape, self.shape, strict=True):
            known = sizes.setdefault(label, size) if isinstance(label, str) else label
            if size != known:
                raise DataError(f"{name} has shape {array.shape}; {label} = {known} needed.")


@dataclass(frozen=True)
class Holds:
    """A learned attribute that is itself an object: of which classes, whether None or a list."""

    kinds: tuple[type, ...]
    optional: bool = False
    several: bool = False

    def check(self, name: str, value: object, sizes: dict[str, int]) -> None:
        if value is None and self.optional:
            return
        for item in value if self.several and isinstance(value, list) and value else [value]:
            if not isinstance(item, self.kinds):
                names = " or ".join(kind.__name__ for kind in self.kinds)
                raise DataError(f"{name} holds a {type(item).__name__}; {names} needed.")


def _learned(dtype: str) -> Callable[..., Learned]:
    def declare(*shape: int | str, **limits: Any) -> Learned:
        return Learned(dtype, shape, **limits)

    return declare


# Called with the shape and limits of the attribute; without a shape it is one value.
floats = real = _learned("f")
integers = integer = _learned("i")
numbers = _learned("n")
floats32, integers32, byte_array = _learned("f4"), _learned("i4"), _learned("u1")
texts, flag = _learned("U"), _learned("b")


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
