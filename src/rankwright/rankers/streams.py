"""Warnings of online rankers about the order of rows and the scale of columns."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exceptions import StreamWarning

FEW_ROWS = 50  # below which neither order nor scale says much
MOST_RATIO = 1e3


def warn_of_sorted_grades(ranker: Any, y: FloatArray) -> None:
    """Warn if equal grades arrive in one block each, as in a file sorted by grade.

    The last block then undoes what the others taught.
    """
    if ranker.shuffle or len(y) < FEW_ROWS:
        return
    n_grades, n_blocks = len(np.unique(y)), 1 + int(np.count_nonzero(np.diff(y)))
    if 1 < n_grades == n_blocks:
        warnings.warn(
            f"{type(ranker).__name__} learns from rows in the order given, and these are sorted by "
            f"grade ({len(y)} rows in {n_blocks} blocks of equal grades). Set shuffle=True, or "
            "shuffle the rows before partial_fit.",
            StreamWarning,
            stacklevel=5,
        )


def warn_of_scales(ranker: Any, X: Any) -> None:
    """Warn if the largest absolute values of two columns differ by more than a thousand."""
    if X.shape[0] < FEW_ROWS:
        return
    if isinstance(X, np.ndarray):
        size = np.maximum(X.max(axis=0), -X.min(axis=0))
    else:
        size = np.zeros(X.shape[1])
        np.maximum.at(size, X.indices, np.abs(X.data))
    used = np.flatnonzero(size)
    if len(used) < 2:
        return
    low, high = used[np.argmin(size[used])], used[np.argmax(size[used])]
    if size[high] > MOST_RATIO * size[low]:
        warnings.warn(
            f"{type(ranker).__name__}: column {high} holds values up to {size[high]:.3g}, column "
            f"{low} only up to {size[low]:.3g}. An online ranker hardly learns from the smaller "
            "ones: scale the columns, make_pipeline(OnlineScaler(), ...) or StandardScaler.",
            StreamWarning,
            stacklevel=5,
        )
