"""The closed tables: which name in a file stands for which class, and how it is put together.

A file says ``"RankBoost"``; these tables say which class that is. Nothing else in a file can reach
a class. To make a new class savable, add a line: a ranker to ``rankwright.rankers.registry``, a
transformer to ``TRANSFORMERS``, an object that rankers take as a parameter to ``PARTS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import msgspec
import numpy as np

from rankwright.exceptions import ParameterError
from rankwright.metrics.measure import Measure
from rankwright.persist.manifest import ModelNode, Refused, StateNode
from rankwright.persist.scikit import SCIKIT, transforms_of
from rankwright.persist.values import Packer, Unpacker
from rankwright.rankers.learned import check_learned
from rankwright.rankers.registry import RANKERS
from rankwright.scoring import KINDS, Scorer, State, Transform

__all__ = [
    "PARTS",
    "SYSTEMS",
    "TRANSFORMERS",
    "build_model",
    "build_part",
    "pack_model",
    "pack_node",
    "serve",
]

TRANSFORMERS = {
    "QueryNormalizer": "rankwright.rankers.normalizer",
    "PolynomialMap": "rankwright.rankers.polynomial",
    "VSIMFeature": "rankwright.rankers.memory.feature",
}

# A recommender, and the estimators inside a fitted one; a learned fusion.
SYSTEMS = {
    "LearnedFusion": "rankwright.fusion.learned",
    "Recommender": "rankwright.recommend.recommender",
    "Blend": "rankwright.recommend.blend",
    "PerUser": "rankwright.recommend.reference",
    "ItemMeans": "rankwright.recommend.experts",
    "ItemNeighbours": "rankwright.recommend.experts",
    "Similarity": "rankwright.recommend.experts",
    "Factors": "rankwright.recommend.experts",
}

# Small objects inside models: frozen dataclasses, or classes with get_params.
PARTS: dict[str, str] = {
    "EarlyStopping": "rankwright.rankers.boosting.stopping",
    "TreeRanking": "rankwright.rankers.boosting.trees",
    "Ratings": "rankwright.data.ratings",
    "Tastes": "rankwright.recommend.experts.tastes",
}

# Parameters that steer training and say nothing about the model: loaded as None.
FLEETING = frozenset({"callbacks", "memory"})


def pack_node(packer: Packer, value: Any, place: str) -> Any:
    """A tagged node for an object of the tables, or None."""
    if _kind(value, _estimators()) is not None:
        return {"model": msgspec.to_builtins(pack_model(packer, value, place))}
    kind = _kind(value, PARTS)
    if kind is not None:
        values = {
            name: packer.pack(_lasting(name, getattr(value, name)), f"{place}.{name}")
            for name in _names(type(value))
        }
        return {"part": {"kind": kind, "values": values}}
    if isinstance(value, State) and KINDS.get(value.kind) is type(value):
        values = {n: packer.pack(v, f"{place}.{n}") for n, v in value.values().items()}
        return {"state": {"kind": value.kind, "values": values}}
    return None


def pack_model(packer: Packer, model: Any, place: str) -> ModelNode:
    """Take an estimator apart: its parameters, and what it has learned (nothing if not fitted)."""
    kind = _kind(model, _estimators())
    if kind is None and hasattr(model, "best_estimator_"):
        raise ParameterError(
            f"save: {type(model).__name__} is a search, not a model. Save its best_estimator_."
        )
    if kind is None:
        raise ParameterError(
            f"save: {type(model).__name__} is not a class that model files know. They hold: "
            f"{', '.join(sorted(_estimators()))}."
        )
    params = model.get_params(deep=False)
    learned = {
        name: packer.pack(value, f"{place}.{name}")
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_") and name not in params
    }
    packed = {
        name: packer.pack(_lasting(name, value), f"{place}.{name}")
        for name, value in params.items()
        if not (kind in SCIKIT and SCIKIT[kind].may_omit(type(model), name, value))
    }
    return ModelNode(kind, packed, learned)


def build_model(unpacker: Unpacker, content: Any) -> Any:
    """The estimator that a node describes, every value of it checked."""
    node = content if isinstance(content, ModelNode) else msgspec.convert(content, ModelNode)
    cls = _class(node.kind, _estimators())
    params = {name: unpacker.unpack(value) for name, value in node.params.items()}
    rules = SCIKIT[node.kind].rules if node.kind in SCIKIT else cls._rules
    known = set(cls._get_param_names()) & set(rules)
    unknown = sorted(set(params) - known)
    if unknown:
        raise Refused(f"{node.kind} has no parameter {unknown[0][:40]!r}")
    model = cls(**params)
    for name in sorted(known):
        rules[name].check(node.kind, name, getattr(model, name))
    learned = {name: unpacker.unpack(value) for name, value in node.learned.items()}
    if learned:
        _check_learned(cls, node.kind, learned)
    for name, value in learned.items():
        setattr(model, name, value)
    if learned and hasattr(model, "_loaded"):
        model._loaded()
    return model


def build_part(unpacker: Unpacker, content: Any) -> Any:
    """The parameter object that a node describes; its constructor or its rules check the values."""
    node = msgspec.convert(content, StateNode)
    cls = _class(node.kind, PARTS)
    values = {name: unpacker.unpack(value) for name, value in node.values.items()}
    unknown = sorted(set(values) - set(_names(cls)))
    if unknown:
        raise Refused(f"{node.kind} has no parameter {unknown[0][:40]!r}")
    part = cls(**values)
    for name, rule in getattr(cls, "_rules", {}).items():
        rule.check(node.kind, name, getattr(part, name))
    return part


def serve(model: Any) -> tuple[list[Transform], Scorer, bool] | None:
    """What turns rows into scores without training code; None for a model that has no such form."""
    transforms: list[Transform] = []
    while hasattr(model, "steps"):
        for _, step in model.steps[:-1]:
            transforms += transforms_of(step)
        model = model.steps[-1][1]
    if not hasattr(model, "_scorer"):
        return None
    scorer: Scorer = model._scorer()
    known: Any = KINDS.get(scorer.kind)
    if known is not type(scorer):
        return None
    return [*transforms, *model._transforms()], scorer, bool(model._abstains)


def _estimators() -> dict[str, str]:
    scikit = {name: entry.module for name, entry in SCIKIT.items()}
    return {**RANKERS, **TRANSFORMERS, **SYSTEMS, **scikit}


def _kind(value: Any, table: Mapping[str, str]) -> str | None:
    """The name of an object's class in a table (a subclass is another class)."""
    name = type(value).__name__
    return name if name in table and type(value) is _class(name, table) else None


def _class(name: str, table: Mapping[str, str]) -> Any:
    if name not in table:
        raise Refused(
            f"it holds a {name[:40]!r}, which this version does not know",
            "If it is right, upgrade rankwright.",
        )
    return getattr(import_module(table[name]), name)


def _names(cls: type[Any]) -> list[str]:
    if is_dataclass(cls):
        return [field.name for field in fields(cls) if field.init]
    return list(cls._get_param_names())


def _lasting(name: str, value: Any) -> Any:
    """A parameter as a file keeps it: no generator's state, a measure by its name."""
    if name in FLEETING or isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    return str(value) if isinstance(value, Measure) else value


def _check_learned(cls: Any, kind: str, learned: dict[str, Any]) -> None:
    declared = SCIKIT[kind].learned(learned) if kind in SCIKIT else cls.learned()
    for name, value in learned.items():
        shape = getattr(declared.get(name), "shape", None)
        if shape is not None and value is not None:
            needed = isinstance(value, np.ndarray) if shape else np.isscalar(value)
            if not needed:
                raise Refused(f"{kind}.{name[:40]} is a {type(value).__name__}")
    check_learned(declared, learned)
