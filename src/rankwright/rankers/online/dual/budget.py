"""Which support row has to go when there are too many, and what becomes of its part."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from rankwright.rankers.base import FloatArray

__all__ = ["BUDGET_RULES", "Rule"]

Rule = Callable[[FloatArray, FloatArray], tuple[int, FloatArray]]


def _oldest(dual: FloatArray, gram: FloatArray) -> tuple[int, FloatArray]:
    """The row that came first; its part is forgotten."""
    return 0, dual


def _smallest(dual: FloatArray, gram: FloatArray) -> tuple[int, FloatArray]:
    """The row whose part |coefficient| sqrt(K(x, x)) is smallest; it is forgotten."""
    parts = _over_members(np.abs(dual)) * np.sqrt(np.maximum(np.diag(gram), 0.0))
    return int(np.argmin(parts)), dual


def _project(dual: FloatArray, gram: FloatArray) -> tuple[int, FloatArray]:
    """The row that the others can best stand in for; its part is projected onto them.

    With Q the inverse Gram matrix, row p is nearest to -sum_i Q_ip / Q_pp (row i) of all
    combinations of the others, and dual_p^2 / Q_pp is the squared length of what is lost.
    """
    ridge = 1e-10 * max(float(np.trace(gram)) / len(gram), 1e-300)
    inverse = linalg.pinvh(gram + ridge * np.eye(len(gram)))
    weight = np.maximum(np.diag(inverse), 1e-300)
    gone = int(np.argmin(_over_members(dual**2) / weight))
    return gone, dual - np.multiply.outer(inverse[:, gone], dual[gone]) / weight[gone]


def _over_members(parts: FloatArray) -> FloatArray:
    return parts if parts.ndim == 1 else np.asarray(parts.sum(axis=1))


# All take the coefficients (a row, or one column for each member of an ensemble) and the Gram
# matrix of the support, oldest first.
BUDGET_RULES: dict[str, Rule] = {"oldest": _oldest, "smallest": _smallest, "project": _project}
