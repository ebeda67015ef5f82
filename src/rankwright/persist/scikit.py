"""What of scikit-learn may stand in a saved pipeline: three scalers and the pipeline itself.

Their rules and learned attributes are written down here, as our own classes write theirs; only
``load`` imports the classes, and only when a file needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from rankwright.rankers import rules
from rankwright.rankers.learned import Learned, floats, integer, texts
from rankwright.rankers.rules import Rule
from rankwright.scoring import Affine, Transform

__all__ = ["SCIKIT", "Entry", "entrance", "transforms_of"]

_IDLE = (None, "passthrough")  # steps that change nothing


@dataclass(frozen=True)
class Entry:
    """A class of scikit-learn that a model file may hold.

    ``learned`` gives the declaration for a set of learned values, ``transform`` what a fitted
    object does to rows (None where it changes nothing). ``newer`` are parameters that the oldest
    supported scikit-learn does not have: they are left out of a file while they have their default,
    and so is any that a future version may add. Files then travel between versions.
    """

    module: str
    rules: Mapping[str, Rule]
    learned: Callable[[Mapping[str, Any]], Mapping[str, Learned]]
    transform: Callable[[Any], Transform | None] | None = None
    newer: frozenset[str] = frozenset()

    def may_omit(self, cls: Any, name: str, value: Any) -> bool:
        """Whether a file need not speak of this parameter."""
        if name in self.rules and name not in self.newer:
            return False
        default = signature(cls).parameters[name].default
        return value is default or bool(type(value) is type(default) and value == default)


def transforms_of(step: Any) -> list[Transform]:
    """What a fitted step of a pipeline does to rows."""
    if step in _IDLE:
        return []
    if hasattr(step, "steps"):
        return [transform for _, each in step.steps for transform in transforms_of(each)]
    if hasattr(step, "_transform"):
        return [step._transform()]
    transform = SCIKIT[type(step).__name__].transform
    found = transform(step) if transform else None
    return [] if found is None else [found]


def entrance(model: Any) -> Any:
    """The estimator that sees the rows first: the first busy step of a pipeline."""
    while hasattr(model, "steps"):
        model = next((step for _, step in model.steps if step not in _IDLE), None)
    return model


def _columns(*names: str, optional: bool = False) -> Callable[[Mapping[str, Any]], Any]:
    def declare(values: Mapping[str, Any]) -> dict[str, Learned]:
        return {
            "n_features_in_": integer(low=1),
            "feature_names_in_": texts("n_features", optional=True),
            "n_samples_seen_": _count(values.get("n_samples_seen_")),
            **{name: floats("n_features", optional=optional) for name in names},
        }

    return declare


def _count(value: Any) -> Learned:
    """scikit-learn counts rows once or, where NaN makes the counts differ, per column.

    The count is a sum of weights, so some versions keep it as a float.
    """
    kind = "i" if np.asarray(value).dtype.kind == "i" else "f"
    return Learned(kind, ("n_features",) if np.ndim(value) else (), low=0)


def _standard(scaler: Any) -> Transform | None:
    shift = scaler.mean_ if scaler.with_mean else None
    divisor = scaler.scale_ if scaler.with_std else None
    return None if shift is divisor is None else Affine(shift=shift, divisor=divisor)


def _min_max(scaler: Any) -> Transform:
    low, high = map(float, scaler.feature_range) if scaler.clip else (None, None)
    return Affine(factor=scaler.scale_, offset=scaler.min_, low=low, high=high)


def _max_abs(scaler: Any) -> Transform:
    limit = 1.0 if getattr(scaler, "clip", False) else None
    return Affine(divisor=scaler.scale_, low=None if limit is None else -limit, high=limit)


def _is_range(value: Any) -> bool:
    ends = rules.number()
    return isinstance(value, tuple) and len(value) == 2 and all(map(ends.test, value))


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_steps(value: Any) -> bool:
    """Named steps that transform, and a last one that transforms or ranks.

    All of them are fitted, or none is: then the pipeline is what a recommender trains.
    """
    if not (isinstance(value, list) and value and all(map(_is_step, value))):
        return False
    names = [name for name, _ in value]
    fitted = {_is_fitted(step) for _, step in value if step not in _IDLE}
    return (
        len(set(names)) == len(names)
        and len(fitted) <= 1
        and all(step in _IDLE or hasattr(step, "transform") for _, step in value[:-1])
    )


def _is_step(value: Any) -> bool:
    if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)):
        return False
    name, step = value
    return bool(name) and "__" not in name and (step in _IDLE or hasattr(step, "fit"))


def _is_fitted(step: Any) -> bool:
    first = entrance(step)
    return first is None or hasattr(first, "n_features_in_")


_FLAG = rules.a_flag()
_NOTHING = rules.nothing()
_PREPROCESSING = "sklearn.preprocessing"

SCIKIT: dict[str, Entry] = {
    "StandardScaler": Entry(
        _PREPROCESSING,
        {"copy": _FLAG, "with_mean": _FLAG, "with_std": _FLAG},
        _columns("mean_", "var_", "scale_", optional=True),
        _standard,
    ),
    "MinMaxScaler": Entry(
        _PREPROCESSING,
        {
            "copy": _FLAG,
            "clip": _FLAG,
            "feature_range": Rule("a pair of finite numbers", _is_range),
        },
        _columns("min_", "scale_", "data_min_", "data_max_", "data_range_"),
        _min_max,
    ),
    "MaxAbsScaler": Entry(
        _PREPROCESSING,
        {"copy": _FLAG, "clip": _FLAG},
        _columns("scale_", "max_abs_"),
        _max_abs,
        newer=frozenset({"clip"}),
    ),
    "Pipeline": Entry(
        "sklearn.pipeline",
        {
            "steps": Rule("a list of named steps, all of them fitted or none", _is_steps),
            "memory": _NOTHING,
            "verbose": _FLAG,
            "transform_input": rules.either(_NOTHING, Rule("a list of names", _is_names)),
        },
        lambda values: {},
    ),
}
