"""Scorers and transforms as nodes of the manifest, and back: no scikit-learn in sight.

A scorer checks its *values* in ``__post_init__``. Its *types* are checked here first, against the
annotations of its fields, so that those checks meet what they were written for.
"""

from __future__ import annotations

import itertools
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from rankwright.persist.manifest import Refused, Served, StateNode
from rankwright.persist.values import Packer, Unpacker
from rankwright.scoring import KINDS, Scorer, State, Transform

__all__ = ["build_served", "build_state", "fits", "pack_served", "pack_state"]


def pack_state(packer: Packer, state: State, place: str) -> StateNode:
    """Take a scorer or transform apart, field by field."""
    values = {name: packer.pack(value, f"{place}.{name}") for name, value in state.values().items()}
    return StateNode(state.kind, values)


def pack_served(
    packer: Packer, transforms: list[Transform], scorer: Scorer, allow_nan: bool
) -> Served:
    """Everything from rows to scores."""
    steps = [pack_state(packer, step, f"served.{i}") for i, step in enumerate(transforms)]
    return Served(steps, pack_state(packer, scorer, "served"), allow_nan)


def build_state(unpacker: Unpacker, content: Any) -> State:
    """The scorer or transform that a node describes."""
    node = content if isinstance(content, StateNode) else msgspec.convert(content, StateNode)
    if node.kind not in KINDS:
        raise Refused(f"it holds a scorer of the unknown kind {node.kind[:40]!r}")
    cls = KINDS[node.kind]
    declared = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    hints = get_type_hints(cls)
    values = {name: unpacker.unpack(value) for name, value in node.values.items()}
    for name, field in declared.items():
        if name not in values and field.default is MISSING:
            raise Refused(f"its scorer {node.kind!r} lacks {name}")
    for name, value in values.items():
        if name not in declared or not fits(value, hints[name]):
            raise Refused(f"its scorer {node.kind!r} has a {name[:40]} that does not belong there")
    return cls(**values)


def build_served(unpacker: Unpacker, served: Served) -> tuple[tuple[Transform, ...], Scorer]:
    """Transforms and scorer, each fitting the next."""
    transforms = tuple(build_state(unpacker, node) for node in served.transforms)
    scorer = build_state(unpacker, served.scorer)
    if not isinstance(scorer, Scorer) or not all(isinstance(t, Transform) for t in transforms):
        raise Refused("its scorer does not score")
    steps: list[Any] = [*transforms, scorer]
    if any(a.n_outputs != b.n_features for a, b in itertools.pairwise(steps)):
        raise Refused("its transforms and its scorer disagree on the number of features")
    return transforms, scorer  # type: ignore[return-value]


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the annotated type.

    >>> fits(1, int), fits(True, int), fits(1, float), fits(None, float | None)
    (True, False, True, True)
    >>> fits((1, 2), tuple[int, ...]), fits(np.zeros(2), np.typing.NDArray[np.int64])
    (True, False)
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in arguments)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _has_dtype(value, arguments[1])
    if origin is tuple and arguments[-1] is not Ellipsis:
        return (
            isinstance(value, tuple)
            and len(value) == len(arguments)
            and all(map(fits, value, arguments))
        )
    if origin in (tuple, list):
        return isinstance(value, origin) and all(fits(each, arguments[0]) for each in value)
    if hint is float:
        return type(value) in (float, int)
    if hint in (int, bool, str, NoneType, None):
        return value is None if hint in (NoneType, None) else type(value) is hint
    return isinstance(hint, type) and isinstance(value, hint)


def _has_dtype(value: Any, dtype_hint: Any) -> bool:
    """A dtype is named as ``dtype[float64]``, ``dtype[floating[Any]]`` or ``dtype[Any]``."""
    named: Any = get_args(dtype_hint)[0]
    wanted: Any = get_origin(named) or named
    return wanted is Any or issubclass(value.dtype.type, wanted)
