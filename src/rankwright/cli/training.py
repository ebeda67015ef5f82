"""What the verbs that train have in common: checks before training, names of features after it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import rankwright as rw
from rankwright.cli.console import note
from rankwright.cli.files.items import first_gap
from rankwright.exceptions import DataError


def refuse_gaps(ranker: Any, items: rw.Items | None, path: str | None) -> None:
    """Raise a DataError if values are missing and the ranker cannot handle that."""
    from sklearn.utils import get_tags

    if items is None or get_tags(ranker).input_tags.allow_nan:
        return
    gap = first_gap(items.X, items.feature_names)
    if gap is not None:
        raise DataError(
            f"{path}: {type(ranker).__name__} needs every value, and {gap}. Fill them, or use a "
            "ranker that learns from missing values, such as RankBoost."
        )


def last_step(model: Any) -> Any:
    """The ranker at the end of a pipeline; a ranker itself."""
    return model[-1] if hasattr(model, "steps") else model


def name_features(model: Any, items: rw.Items) -> None:
    """Put the names of the features into the model, so that columns are found by name."""
    if items.feature_names is None:
        return
    import numpy as np

    first = model[0] if hasattr(model, "steps") else model
    first.feature_names_in_ = np.array(items.feature_names, dtype=object)


def warn_of_compiling() -> None:
    """Say why the first training takes long; later ones find the compiled code on the disk."""
    package = Path(__file__).parents[1]
    if "NUMBA_CACHE_DIR" not in os.environ and next(package.rglob("*.nbi"), None) is None:
        note("the first training compiles its loops, which takes up to a minute; only this once")
