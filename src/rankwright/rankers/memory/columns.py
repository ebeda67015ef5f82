"""What a memory-based ranker needs to know of each feature: its average, its length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exceptions import ParameterError
from rankwright.rankers.rules import Rule
from rankwright.scoring.deviations import dense_rows

__all__ = ["a_row_of_numbers", "averages", "column_blocks", "per_feature"]

FloatArray = NDArray[np.float64]


def a_row_of_numbers() -> Rule:
    def test(value: Any) -> bool:
        if value is None:
            return True
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            return False
        return array.ndim == 1 and bool(np.isfinite(array).all())

    return Rule("None or one finite number per feature", test)


def per_feature(owner: Any, name: str, n_features: int, otherwise: FloatArray) -> FloatArray:
    """A parameter with one number per feature, or what to take where it is None."""
    value = getattr(owner, name)
    if value is None:
        return otherwise
    array = np.array(value, dtype=np.float64)
    if len(array) != n_features:
        raise ParameterError(
            f"{type(owner).__name__}({name}=...): {name} has {len(array)} numbers and X has "
            f"{n_features} features. Give one number per feature, or None."
        )
    return array


def column_blocks(
    X: Any, absent_abstains: bool, width: int = 256
) -> Iterator[tuple[slice, FloatArray]]:
    """A matrix in dense blocks of columns: (which columns, their values)."""
    sparse = X.tocsc() if hasattr(X, "tocsc") else None
    for start in range(0, X.shape[1], width):
        columns = slice(start, min(start + width, X.shape[1]))
        block = X[:, columns] if sparse is None else dense_rows(sparse[:, columns], absent_abstains)
        yield columns, np.ascontiguousarray(block)


def averages(block: FloatArray, weight: FloatArray) -> FloatArray:
    """The weighted mean of each column over the rows where it has a value; 0 without any.

    >>> averages(np.array([[1.0, np.nan], [3.0, np.nan]]), np.ones(2))
    array([2., 0.])
    """
    known = ~np.isnan(block)
    mass = weight @ known
    # Means before sums: a sum of large values could overflow where their mean does not.
    share = np.where(known, block, 0.0) * weight[:, None] / np.where(mass > 0, mass, 1.0)
    return np.asarray(share.sum(axis=0))
