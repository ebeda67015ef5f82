"""A feed-forward network with one output."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.scoring.base import Matrix, Scorer, in_blocks, product


@dataclass(frozen=True, eq=False)
class Network(Scorer):
    """Feed-forward network: tanh layers, then a weighted sum.

    ``weights`` holds for each layer a table (inputs, outputs), then the offsets of its outputs.
    The last layer has one output and no offset, which would not change any order.

    >>> network = Network(np.array([2, 1, 1]), np.array([1.0, -1.0, 0.0, 3.0]))
    >>> network.decision_function(np.array([[0.5, 0.5], [2.0, 1.0]])).round(4)
    array([0.    , 2.2848])
    """

    kind: ClassVar[str] = "network"
    layers: IntArray
    weights: FloatArray

    def __post_init__(self) -> None:
        self._check_arrays(layers=("n_layers",))
        self._check(len(self.layers) >= 2, f"{len(self.layers)} layers; it needs at least 2")
        self._check_range("layers", 1, 1 << 24)
        self._check(self.layers[-1] == 1, f"the last layer has {self.layers[-1]} units, not 1")
        self._check_arrays(weights=(n_weights(self.layers.tolist()),))

    @property
    def n_features(self) -> int:
        return int(self.layers[0])

    def decision_function(self, X: Matrix) -> FloatArray:
        *hidden, (last, _) = unpack_layers(self.layers.tolist(), self.weights)

        def block(values: Matrix) -> FloatArray:
            for table, offset in hidden:
                values = np.tanh(product(values, table) + offset)
            return np.asarray((values @ last)[:, 0])

        return in_blocks(block, X, int(self.layers[1:].max()))


def n_weights(layers: list[int]) -> int:
    """How many numbers a network of these layer sizes has."""
    return sum((a + 1) * b for a, b in pairwise(layers)) - 1


def unpack_layers(layers: list[int], weights: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Views of the tables and offsets of each layer; the last offset is empty."""
    unpacked, start = [], 0
    for i, (a, b) in enumerate(pairwise(layers)):
        stop = start + a * b
        offset = weights[stop : stop + (0 if i == len(layers) - 2 else b)]
        unpacked.append((weights[start:stop].reshape(a, b), offset))
        start = stop + len(offset)
    return unpacked
