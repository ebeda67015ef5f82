"""What the verbs that train have in common: reading and checking the data, naming the features."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import rankwright as rw
from rankwright.cli.console import note, working
from rankwright.cli.files.items import TableOptions, describe, first_gap, read_items
from rankwright.cli.files.systems import read_like
from rankwright.exceptions import DataError


def read_training_data(
    data: str, valid: str | None, table: TableOptions, ranker: Any
) -> tuple[rw.Items, rw.Items | None]:
    """The training and the validation items; missing values that the ranker refuses are named."""
    with working(f"reading {data}"):
        items = read_items(data, table)
        other = None if valid is None else read_like(items, valid, table)
    describe(items, data)
    for part, path in ((items, data), (other, valid)):
        if part is not None and ranker is not None:
            _refuse_gaps(ranker, part, str(path))
    warn_of_compiling()
    return items, other


def _refuse_gaps(ranker: Any, items: rw.Items, path: str) -> None:
    from sklearn.utils import get_tags

    allowed = get_tags(ranker).input_tags.allow_nan
    gap = None if allowed else first_gap(items.X, items.feature_names)
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
