"""Types that every signature uses."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Id: TypeAlias = Hashable  # of a user, an item, a query or a document
Column: TypeAlias = ArrayLike | Sequence[object]  # one value per row, also a data frame's
