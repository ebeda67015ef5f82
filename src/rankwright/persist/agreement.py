"""Whether the scorer in a file repeats what its model has learned; needs NumPy only.

A file holds a model twice: as what :func:`rankwright.load` rebuilds, and as what ``load_scorer``
computes scores with. Only a forged file holds two different ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from rankwright.persist.codec import Unpacker, is_same_state
from rankwright.persist.format import Array, Manifest, ModelNode, Refused, StateNode
from rankwright.scoring.trees import Additive

Learned = Mapping[str, Any]

_GRADES = {"thresholds": "thresholds_", "classes": "classes_"}
_LINE = {"coef": "coef_", "intercept": "intercept_"}
_NODE = ("feature", "threshold", "default", "low", "high", "value", "cat_ptr", "categories")
# The learned attribute that each field of a scorer repeats, by the kind of the scorer.
_REPEATED: dict[str, dict[str, str]] = {
    "linear": _LINE,
    "ordinal": _GRADES,
    "ordinal_probit": _GRADES,
    "prototypes": {"coef": "coef_", "classes": "classes_"},
    "network": {"layers": "layers_", "weights": "weights_"},
    "deviations": {"coef": "coef_"},  # the rest depends on what unseen values count for
    "filled_average": {"feature": "feature_", "default": "default_"},
    "kernel": {"intercept": "intercept_"},
    "votes": {"classes": "classes_"},
    "trees": {"root": "root_", "weight": "alpha_"} | {name: f"node_{name}_" for name in _NODE},
}
_ROUNDS = ("feature_", "threshold_", "default_", "alpha_")


def check_agreement(manifest: Manifest, arrays: Mapping[str, Array]) -> None:
    """Refuse a file whose scorer repeats other values than its model has learned.

    Not all of a model is repeated: kernels and votes are compared in part. What is derived from
    the rounds of boosting is derived again.
    """
    served, ranker = manifest.served, _last_step(manifest.model)
    if served is None or ranker is None:
        return
    is_pipeline = ranker is not manifest.model
    n_steps = int(ranker.params.get("normalize") == "query")
    if not is_pipeline and len(served.transforms) != n_steps:
        raise Refused("its model and its scorer disagree on how rows are scaled")
    names = Unpacker(arrays, {}, own=False).unpack(ranker.learned.get("feature_names_in_"))
    own = names.tolist() if isinstance(names, np.ndarray) else None
    if not is_pipeline and own != manifest.feature_names:
        raise Refused("its model and its scorer disagree on the names of the features")
    _compare(served.scorer, ranker.learned, arrays)


def _last_step(model: ModelNode) -> ModelNode | None:
    """The ranker of a model: itself, or the last step of a pipeline; None if there is none."""
    steps = model.params.get("steps")
    if not isinstance(steps, list) or not steps:
        return model if model.learned else None
    pair = steps[-1].get("tuple") if isinstance(steps[-1], dict) else None
    content = pair[-1].get("model") if pair and isinstance(pair[-1], dict) else None
    return None if content is None else msgspec.convert(content, ModelNode)


def _compare(scorer: StateNode, learned: Learned, arrays: Mapping[str, Array]) -> None:
    for field, value in scorer.values.items():
        if isinstance(value, dict) and isinstance(value.get("state"), dict):
            _compare(msgspec.convert(value["state"], StateNode), learned, arrays)
            continue
        name = _REPEATED.get(scorer.kind, {}).get(field)
        own = None if name is None else learned.get(name)
        if field == "intercept" and name is not None and name not in learned:
            own = 0.0
        if own is not None and not _is_same(own, value, arrays):
            raise Refused(f"its model and its scorer disagree: {name} is not the scorer's {field}")
    if scorer.kind == "additive" and all(learned.get(name) for name in _ROUNDS):
        _compare_rounds(scorer, learned, arrays)


def _compare_rounds(scorer: StateNode, learned: Learned, arrays: Mapping[str, Array]) -> None:
    """Compare the sum of all rounds, by feature, with the one that the rounds give."""
    rounds = [_array(learned[name], arrays) for name in _ROUNDS]
    if any(array is None or array.ndim != 1 for array in rounds):
        raise Refused("the rounds of its model are not arrays")
    try:
        made = Additive.from_rounds(scorer.values["n_inputs"], *rounds)  # type: ignore[arg-type]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise Refused(f"the rounds of its model cannot be added up ({str(error)[:60]})") from error
    for field in ("feature", "ptr", "threshold", "value", "missing"):
        if not is_same_state(getattr(made, field), _array(scorer.values.get(field), arrays)):
            raise Refused(f"its model and its scorer disagree: the rounds give another {field}")


def _is_same(own: Any, value: Any, arrays: Mapping[str, Array]) -> bool:
    """Whether two packed values are equal, but for the rounding of another platform."""
    if own == value:
        return True
    one, two = _array(own, arrays), _array(value, arrays)
    if one is not None and two is not None:
        return is_same_state(one, two)
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (own, value))
    return numbers and is_same_state(float(own), float(value))


def _array(value: Any, arrays: Mapping[str, Array]) -> Array | None:
    return arrays.get(value.get("array", "")) if isinstance(value, dict) else None
