"""Where to stop a list: at the largest drop in predicted preference."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankwright.data.arrays import as_column
from rankwright.data.queries import Queries
from rankwright.exceptions import ParameterError
from rankwright.rankers.kernel.sample import FloatArray, IntArray

__all__ = ["cut_at_gap"]


def cut_at_gap(
    scores: ArrayLike,
    qid: Any = None,
    *,
    at_least: int = 1,
    at_most: int | None = None,
    min_gap: float = 0.0,
) -> int | IntArray:
    """How many places of the ordered list to keep: up to the largest gap between neighbours.

    Magnitude-preserving rankers predict how much one row is preferred to another, so a large
    gap between neighbours in the list means that what follows is clearly worse.

    Parameters
    ----------
    scores : (n_items,) numbers, in any order
    qid : (n_items,) query ids; None is one list
    at_least, at_most : the fewest and the most places to keep (never more than there are)
    min_gap : a gap must be larger than this to cut; without one the list is kept whole (up to
        ``at_most``)

    Returns
    -------
    int, or one int64 per query in order of first appearance if ``qid`` is given. Of equal gaps the
    first counts.

    Examples
    --------
    >>> cut_at_gap([0.1, 4.9, 5.2, 0.3])
    2
    >>> cut_at_gap([3, 1, 9, 8, 7], qid=["a", "a", "b", "b", "b"])
    array([1, 1])
    """
    if at_least < 1 or (at_most is not None and at_most < at_least):
        raise ParameterError(
            f"cut_at_gap(at_least={at_least!r}, at_most={at_most!r}): at_least must be an integer "
            ">= 1 and at_most None or an integer >= at_least."
        )
    values = as_column(scores, "scores", np.shape(scores)[0] if np.ndim(scores) else 0)
    queries = Queries.from_ids(qid, len(values))
    kept = np.array(
        [
            _keep(np.sort(values[rows])[::-1], at_least, at_most, min_gap)
            for rows in np.split(queries.order, queries.ptr[1:-1])
        ],
        dtype=np.int64,
    )
    return int(kept[0]) if qid is None else kept


def _keep(ordered: FloatArray, at_least: int, at_most: int | None, min_gap: float) -> int:
    most = len(ordered) if at_most is None else min(at_most, len(ordered))
    window = (ordered[:-1] - ordered[1:])[at_least - 1 : most]
    if len(window) == 0 or window.max() <= min_gap:
        return most
    return at_least + int(np.argmax(window))
