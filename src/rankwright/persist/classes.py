"""The closed tables of classes that a model file may hold, and how they are saved and rebuilt.

A file says ``"RankBoost"``; these tables say which class that is. Nothing else in a file can reach
a class. To make a new class savable, add a line: a ranker to the stub of ``rankwright.rankers``, a
transformer to ``OTHERS``, an object that rankers take as a parameter to ``PARTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from inspect import signature
from typing import Any

import msgspec
import numpy as np
from sklearn.base import BaseEstimator

from rankwright.data.columns import Encoding
from rankwright.exceptions import ParameterError
from rankwright.features.encoder import TableEncoder
from rankwright.features.feature_set import FeatureSet
from rankwright.features.fitted import FittedFeatures
from rankwright.metrics.measure import Measure
from rankwright.persist.codec import KINDS, Packer, Unpacker, fits, pack_state, type_hints
from rankwright.persist.format import ModelNode, Refused, StateNode
from rankwright.persist.scorer import SavedScorer
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker, find_ranker, rankers
from rankwright.rankers.early_stopping import EarlyStopping, function_of
from rankwright.rankers.preprocessing import (
    IDLE,
    encoder_of,
    first_estimator,
    flat_steps,
    transform_of,
)
from rankwright.rankers.schema import Constraint, Learned, check_learned, floats, integer, texts
from rankwright.scoring.base import Scorer, State, Transform


@dataclass(frozen=True)
class AllowedClass:
    """A class of scikit-learn that a model file may hold.

    ``learned`` declares the learned values. ``newer`` names parameters that the oldest supported
    scikit-learn lacks. Like those of future versions, they are left out of a file while they have
    their default.
    """

    module: str
    constraints: Mapping[str, Constraint]
    learned: Callable[[Mapping[str, Any]], Mapping[str, Learned]]
    newer: frozenset[str] = frozenset()

    def may_omit(self, cls: type, name: str, value: object) -> bool:
        if name in self.constraints and name not in self.newer:
            return False
        default = signature(cls).parameters[name].default
        return value is default or bool(type(value) is type(default) and value == default)


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
    """Rows seen: one count, or one per column if NaN makes them differ; a float if weighted."""
    kind = "i" if np.asarray(value).dtype.kind == "i" else "f"
    return Learned(kind, ("n_features",) if np.ndim(value) else (), low=0)


def _is_range(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(schema.number().test, value))


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_steps(value: object) -> bool:
    """Whether all steps but the last transform, and all are fitted or (in a recommender) none."""
    if not (isinstance(value, list) and value and all(map(_is_step, value))):
        return False
    names = [name for name, _ in value]
    firsts = [first_estimator(step) for _, step in value if step not in IDLE]
    fitted = {first is None or hasattr(first, "n_features_in_") for first in firsts}
    return (
        len(set(names)) == len(names)
        and len(fitted) <= 1
        and all(step in IDLE or hasattr(step, "transform") for _, step in value[:-1])
    )


def _is_step(value: object) -> bool:
    if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)):
        return False
    name, step = value
    return bool(name) and "__" not in name and (step in IDLE or hasattr(step, "fit"))


def _flags(*names: str) -> dict[str, Constraint]:
    return dict.fromkeys(names, schema.boolean())


_RANGE = Constraint("a pair of finite numbers", _is_range)
_PREPROCESSING = "sklearn.preprocessing"
_PIPELINE = AllowedClass(
    "sklearn.pipeline",
    {
        "steps": Constraint("a list of named steps, all of them fitted or none", _is_steps),
        "memory": schema.optional(),
        **_flags("verbose"),
        "transform_input": schema.optional(Constraint("a list of names", _is_names)),
    },
    lambda values: {},
)

SCIKIT: dict[str, AllowedClass] = {
    "StandardScaler": AllowedClass(
        _PREPROCESSING,
        _flags("copy", "with_mean", "with_std"),
        _columns("mean_", "var_", "scale_", optional=True),
    ),
    "MinMaxScaler": AllowedClass(
        _PREPROCESSING,
        {**_flags("copy", "clip"), "feature_range": _RANGE},
        _columns("min_", "scale_", "data_min_", "data_max_", "data_range_"),
    ),
    "MaxAbsScaler": AllowedClass(
        _PREPROCESSING,
        _flags("copy", "clip"),
        _columns("scale_", "max_abs_"),
        newer=frozenset({"clip"}),
    ),
    "Pipeline": _PIPELINE,
    "RankPipeline": replace(_PIPELINE, module="rankwright.rankers.preprocessing"),
    "TableEncoder": AllowedClass(
        "rankwright.features.encoder",
        {
            "kinds": schema.optional(schema.instance_of("a dict of column to kind", dict)),
            "max_levels": schema.at_least(1),
            "reference": schema.optional(schema.instance_of("the name of a column", str)),
            **_flags("fill"),
        },
        lambda values: {},
    ),
    "FeatureSet": AllowedClass("rankwright.features.feature_set", {}, lambda values: {}),
}

# Estimators that are not rankers: transformers, fusions, recommenders and what is inside them.
OTHERS = {
    **{name: entry.module for name, entry in SCIKIT.items()},
    "QueryNormalizer": "rankwright.rankers.preprocessing",
    "PolynomialMap": "rankwright.rankers.preprocessing",
    "OnlineScaler": "rankwright.rankers.preprocessing",
    "OneHotDecoder": "rankwright.rankers.one_hot",
    "VSIMFeature": "rankwright.rankers.neighbors.vsim",
    "LearnedFusion": "rankwright.fusion.learned",
    "Recommender": "rankwright.recommend.recommender",
    "TwoStageRecommender": "rankwright.recommend.two_stage",
    "Blend": "rankwright.recommend.ratings.blend",
    "PerUser": "rankwright.recommend.ratings.per_user",
    "ItemMeans": "rankwright.recommend.ratings.base",
    "ItemKNN": "rankwright.recommend.ratings.neighbors",
    "UserSimilarity": "rankwright.recommend.ratings.neighbors",
    "MatrixFactorization": "rankwright.recommend.ratings.factors",
    "TopN": "rankwright.recommend.events.topn",
    "Popularity": "rankwright.recommend.events.base",
    "ItemCosine": "rankwright.recommend.events.neighbors",
    "NextItems": "rankwright.recommend.events.neighbors",
    "SLIT": "rankwright.recommend.events.sequences",
    "EASE": "rankwright.recommend.events.least_squares",
    "ImplicitALS": "rankwright.recommend.events.least_squares",
    "ItemContent": "rankwright.recommend.events.content",
    "UserContent": "rankwright.recommend.events.content",
    "UserMeans": "rankwright.recommend.events.content",
}

# Small objects inside models: frozen dataclasses, or classes with get_params.
PARTS: dict[str, str] = {
    "EarlyStopping": "rankwright.rankers.early_stopping",
    "TreeRanking": "rankwright.rankers.boosting.weak_learners.estimators",
    "Ratings": "rankwright.data.behavior.ratings",
    "Histories": "rankwright.recommend.events.histories",
    "ImplicitFeatures": "rankwright.recommend.ratings.factors",
}

# Parameters that only steer training: loaded as None.
FLEETING: frozenset[str] = frozenset({"callbacks", "memory"})


def pack_node(packer: Packer, value: object, path: str) -> Any:
    """A tagged node for an object of the tables, or None."""
    if _is_estimator(value):
        return {"model": msgspec.to_builtins(pack_model(packer, value, path))}
    kind = _kind(value, PARTS)
    if kind is not None:
        params = {name: getattr(value, name) for name in _names(type(value))}
        return {"part": {"kind": kind, "values": _pack_params(packer, params, path)}}
    if isinstance(value, State) and KINDS.get(value.kind) is type(value):
        return {"state": msgspec.to_builtins(pack_state(packer, value, path))}
    return None


def pack_model(packer: Packer, model: BaseEstimator, path: str) -> ModelNode:
    """The parameters of an estimator, and what it has learned (nothing if not fitted)."""
    kind = type(model).__name__
    if not _is_estimator(model):
        if hasattr(model, "best_estimator_"):
            raise ParameterError(
                f"save: {kind} is a search, not a model. Save its best_estimator_."
            )
        known = ", ".join(sorted([*rankers(), *OTHERS]))
        raise ParameterError(
            f"save: {kind} is not a class that model files support. They support: {known}."
        )
    for name, member in getattr(model, "_fitted_members", list)():
        for step in flat_steps(member):
            if step not in IDLE and not _is_estimator(step):
                raise ParameterError(
                    f"save: the member {name!r} of {kind} has a {type(step).__name__}, which model "
                    "files do not support. Leave it out, or use a ranker and steps of rankwright."
                )
    if hasattr(model, "_before_saving"):
        model._before_saving()
    params = model.get_params(deep=False)
    if isinstance(model, FeatureSet):  # the manifest holds its declaration too
        return ModelNode(kind, {}, {})
    if isinstance(model, TableEncoder):  # the manifest holds what it has learned
        return ModelNode(kind, _pack_params(packer, params, path), {})
    learned = {
        name: packer.pack(value, f"{path}.{name}")
        for name, value in sorted(vars(model).items())  # a second fit keeps places of the first
        if name.endswith("_")
        and not name.startswith("_")
        and name not in params
        and not isinstance(value, Encoding | FittedFeatures)  # the manifest holds it
    }
    if kind in SCIKIT:
        omit = SCIKIT[kind].may_omit
        params = {name: v for name, v in params.items() if not omit(type(model), name, v)}
    return ModelNode(kind, _pack_params(packer, params, path), learned)


def _pack_params(packer: Packer, params: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Parameters as a file keeps them: no callbacks, no random states, measures by name."""
    packed = {}
    for name, value in params.items():
        if name in FLEETING or isinstance(value, np.random.RandomState | np.random.Generator):
            value = None
        if isinstance(value, EarlyStopping) and function_of(value.measure) is not None:
            value = None  # a function
        value = str(value) if isinstance(value, Measure) else value
        packed[name] = packer.pack(value, f"{path}.{name}")
    return packed


def build_model(unpacker: Unpacker, content: object) -> Any:
    node = content if isinstance(content, ModelNode) else msgspec.convert(content, ModelNode)
    cls = find_ranker(node.kind) or _class(node.kind, OTHERS)
    model = _construct(unpacker, cls, node.kind, node.params)
    _check_references(cls, node)
    learned = {name: unpacker.unpack(value) for name, value in node.learned.items()}
    if learned:
        _check_learned(cls, node.kind, learned)
        vars(model).update(learned)
        if hasattr(model, "_loaded"):
            model._loaded()
    return model


def build_part(unpacker: Unpacker, content: object) -> Any:
    node = msgspec.convert(content, StateNode)
    return _construct(unpacker, _class(node.kind, PARTS), node.kind, node.values)


def _construct(unpacker: Unpacker, cls: type[Any], kind: str, packed: Mapping[str, Any]) -> Any:
    """An object from its parameters, checked by its constraints or (a dataclass) by itself."""
    values = {name: unpacker.unpack(value) for name, value in packed.items()}
    constraints = SCIKIT[kind].constraints if kind in SCIKIT else getattr(cls, "_constraints", {})
    known = set(_names(cls)) & set(constraints or _names(cls))
    if unknown := sorted(set(values) - known):
        raise Refused(f"{kind} has no parameter {unknown[0][:40]!r}")
    if is_dataclass(cls):
        hints: dict[str, Any] = type_hints(cls)
        for name, value in values.items():
            if isinstance(value, np.ndarray) and not fits(value, hints[name]):
                raise Refused(f"{kind}.{name} has the type {value.dtype}")
    made = cls(**values)
    for name in sorted(known & set(constraints)):
        constraints[name].check(kind, name, getattr(made, name))
    return made


def own_ranker(model: object) -> str | None:
    """The name of the user's ranker at the end of a model; None if the class is ours."""
    ranker = flat_steps(model)[-1]
    return (
        type(ranker).__name__ if isinstance(ranker, Ranker) and not _is_estimator(ranker) else None
    )


def foreign_steps(model: object) -> list[str]:
    """The classes of the steps before the ranker that neither files nor exports hold."""
    steps = [step for step in flat_steps(model)[:-1] if step not in IDLE]
    return [type(step).__name__ for step in steps if not _is_estimator(step)]


def check_served(model: object) -> None:
    """Refuse a model with a ranker of the user's that a file cannot hold, as a scorer or at all."""
    ranker = flat_steps(model)[-1]
    kind = type(ranker).__name__
    for step in foreign_steps(model):
        raise ParameterError(
            f"save: the step {step} cannot be saved: model files do not support it."
        )
    scorer: Any = ranker._fitted_scorer() if hasattr(ranker, "_fitted_scorer") else None
    if type(scorer) not in KINDS.values():
        raise ParameterError(
            f"save: {kind} is not a class that model files support, and its scorer "
            f"({type(scorer).__name__}) is not one of rankwright.scoring: "
            f"{', '.join(sorted(KINDS))}."
        )


def serve(model: object) -> tuple[list[Transform], Scorer, bool] | None:
    """Transforms, scorer and whether NaN is allowed; None for a model that does not score rows."""
    *steps, ranker = flat_steps(model)
    scorer: Any = ranker._fitted_scorer() if hasattr(ranker, "_fitted_scorer") else None
    if type(scorer) not in KINDS.values():
        return None
    transforms = [transform_of(step) for step in steps if step not in IDLE]
    applied = [transform for transform in transforms if transform is not None]
    return [*applied, *ranker._transforms()], scorer, bool(ranker._abstains)


def use_scorer(model: BaseEstimator, saved: SavedScorer) -> None:
    """Let a loaded model score with the scorer of its file, as ``load_scorer`` does."""
    ranker, first = flat_steps(model)[-1], first_estimator(model)
    if not isinstance(ranker, Ranker):
        raise Refused("it holds a scorer without a model that has one")
    widths = [saved.n_features, saved.scorer.n_features]
    if widths != [first.n_features_in_, ranker.n_features_in_]:
        raise Refused("its model and its scorer take different numbers of features")
    if not hasattr(ranker, "partial_fit"):
        ranker._take_scorer(saved.scorer)


def is_plain_scorer(model: object) -> bool:
    """Whether its scores come from the scorer of its file alone.

    A ranker with ``partial_fit`` scores with what it has learned so far; steps before a ranker and
    its own transforms are made of their parameters and attributes.
    """
    *steps, ranker = flat_steps(model)
    return not (steps or hasattr(ranker, "partial_fit") or ranker._transforms())


def use_encoding(model: object, encoding: Encoding | FittedFeatures | None) -> None:
    """Let a loaded model encode tables as the file says."""
    first = encoder_of(model) or first_estimator(model)
    if isinstance(first, TableEncoder) and isinstance(encoding, Encoding):
        first._set(encoding, list(encoding.sources))
    elif isinstance(first, FeatureSet) and isinstance(encoding, FittedFeatures):
        first._declare(encoding)
    elif isinstance(encoding, Encoding) and hasattr(first, "encoding_"):
        first.encoding_ = encoding
    elif encoding is not None or encoder_of(model) is not None:
        raise Refused("its encoding and its first step contradict each other")


def _is_estimator(value: object) -> bool:
    return find_ranker(type(value).__name__) is type(value) or _kind(value, OTHERS) is not None


def _kind(value: object, table: Mapping[str, str]) -> str | None:
    """The name of an object's class in a table (a subclass is another class)."""
    name = type(value).__name__
    return name if name in table and type(value) is _class(name, table) else None


def _class(name: str, table: Mapping[str, str]) -> Any:
    if name not in table:
        fault = f"it holds a {name[:40]!r}, which this version does not know"
        raise Refused(fault, "If it is right, upgrade rankwright.")
    return getattr(import_module(table[name]), name)


def _names(cls: type[Any]) -> list[str]:
    if is_dataclass(cls):
        return [field.name for field in fields(cls) if field.init]
    return list(cls._get_param_names())


def _declared(cls: type[Any], kind: str, learned: Mapping[str, Any]) -> Mapping[str, Any]:
    return SCIKIT[kind].learned(learned) if kind in SCIKIT else cls.learned()


def _check_references(cls: type[Any], node: ModelNode) -> None:
    """Refuse a learned attribute that is more than one value or array, before it takes memory."""
    declared = _declared(cls, node.kind, node.learned)
    for name, value in node.learned.items():
        if name not in declared:
            raise Refused(f"{name[:40]} is not a learned attribute of {node.kind}")
        is_one = not isinstance(value, list | dict) or bool(
            isinstance(value, dict) and {"array", "text", "float"} & value.keys()
        )
        if isinstance(declared[name], Learned) and not is_one:
            raise Refused(f"{node.kind}.{name} is not one number or one array")


def _check_learned(cls: type[Any], kind: str, learned: dict[str, Any]) -> None:
    declared = _declared(cls, kind, learned)
    for name, value in learned.items():
        shape = getattr(declared.get(name), "shape", None)
        fits = isinstance(value, np.ndarray) if shape else np.isscalar(value)
        if not (fits or shape is None or value is None):
            needed = "an array" if shape else "a number"
            raise Refused(f"{kind}.{name[:40]} is a {type(value).__name__}, not {needed}")
    check_learned(declared, learned)
