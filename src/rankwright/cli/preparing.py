"""Rankers as the command line trains them: features of one scale where the method asks for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import rankwright as rw
from rankwright.cli.console import note
from rankwright.cli.files.items import first_gap
from rankwright.exceptions import DataError

# One regularization for all weights suits them only if the features have one scale. (RankNet sees
# to that itself; trees, thresholds and perceptrons do not ask for it.)
SCALED = ("RankSVM", "LargeMarginOrdinal")


def prepare(ranker: Any, items: rw.Items) -> Any:
    """The ranker itself, or a pipeline that scales the features for it."""
    if type(ranker).__name__ not in SCALED or ranker.normalize is not None:
        return ranker
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    scaler = MaxAbsScaler() if items.is_sparse else StandardScaler()
    return Pipeline([("scale", scaler), ("rank", ranker)])


def refuse_gaps(ranker: Any, items: rw.Items, path: str) -> None:
    """Unknown values, where a ranker has no use for them."""
    from sklearn.utils import get_tags

    takes = get_tags(ranker).input_tags.allow_nan
    gap = None if takes else first_gap(items.X, items.feature_names)
    if gap is not None:
        raise DataError(
            f"{path}: {type(ranker).__name__} needs every value, and {gap}. Fill them, or take a "
            "ranker that learns from data with gaps, such as RankBoost."
        )


def fit(ranker: Any, items: rw.Items) -> Any:
    """Prepare a ranker and train it on items."""
    model = prepare(ranker, items)
    name = "qid" if model is ranker else "rank__qid"
    return model.fit(items.X, items.y, **({} if items.qid is None else {name: items.qid}))


def last_step(model: Any) -> Any:
    """The ranker at the end of a pipeline; a ranker itself."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


def name_features(model: Any, items: rw.Items) -> None:
    """Let the model file know the names of its features, so that columns are found by name."""
    if items.feature_names is None:
        return
    import numpy as np

    first = model.steps[0][1] if hasattr(model, "steps") else model
    first.feature_names_in_ = np.array(items.feature_names, dtype=object)


def warn_of_compiling() -> None:
    """Say why the first training takes long; later ones find the compiled code on the disk."""
    package = Path(__file__).parents[1]
    if "NUMBA_CACHE_DIR" not in os.environ and next(package.rglob("*.nbi"), None) is None:
        note("the first training compiles its loops, which takes up to a minute; only this once")
