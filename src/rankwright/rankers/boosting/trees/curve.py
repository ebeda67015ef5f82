"""Z along a tree: rows of a leaf move together, so leaves are summed up once and then moved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankwright.feedback.base import FloatArray
from rankwright.rankers.boosting.alpha import Curve
from rankwright.rankers.boosting.distribution import PairDistribution

__all__ = ["leaf_curve"]


def leaf_curve(pairs: PairDistribution, leaf: NDArray[np.int32], value: FloatArray) -> Curve:
    """As ``pairs.curve``, where each row moves by the value of its leaf.

    Costs O(rows + pairs) once, then O(levels * leaves) for each distance.
    """
    from rankwright.rankers.boosting.trees import _kernels

    levels, listed, n = pairs.levels, pairs.pairs, len(value)
    value = value - (value.max() + value.min()) / 2  # only differences count: keep powers small
    sums = np.empty((len(levels.grade), n, 2))
    _kernels.sum_levels(leaf, levels.member, levels.level_ptr, levels.rising, levels.falling, sums)
    ratio = float(np.exp(levels.chain_shift - pairs.shift))
    place = leaf[listed.lower] * n + leaf[listed.upper]
    share = np.bincount(place, listed.share, n * n).reshape(n, n) / pairs.total
    gap = np.subtract.outer(value, value)

    def curve(distance: float) -> tuple[float, float, float]:
        weight, first, second = _kernels.leaf_curve(
            sums, value, distance, levels.query_ptr, levels.grade, levels.query_weight,
            levels.magnitude, ratio, levels.chain,
        )  # fmt: skip
        moved = share * np.exp(distance * gap)
        return (
            weight + float(moved.sum()),
            first + float((moved * gap).sum()),
            second + float((moved * gap * gap).sum()),
        )

    return curve
