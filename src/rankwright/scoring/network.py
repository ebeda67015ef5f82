"""A feed-forward network with one output."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.scoring.base import Matrix, Scorer, must
from rankwright.scoring.kernel import row_blocks


@dataclass(frozen=True, eq=False)
class Network(Scorer):
    """tanh layers, then a weighted sum.

    ``weights`` holds, layer by layer, a table (inputs, outputs) and the offsets of its outputs; the
    last layer has one output and no offset, as it would not change any order.

    >>> network = Network(np.array([2, 1, 1]), np.array([1.0, -1.0, 0.0, 3.0]))
    >>> network.decision_function(np.array([[0.5, 0.5], [2.0, 1.0]])).round(4)
    array([0.    , 2.2848])
    """

    kind: ClassVar[str] = "network"
    layers: IntArray
    weights: FloatArray

    def __post_init__(self) -> None:
        must(self.layers.ndim == 1 and len(self.layers) >= 2, "a network has two layers or more")
        must((self.layers >= 1).all() and self.layers[-1] == 1, "layers are >= 1, the last is 1")
        must((self.layers <= 1 << 24).all(), "a layer has at most 2 ** 24 units")
        must(self.weights.ndim == 1 and self.weights.dtype == np.float64, "weights are one row")
        must(len(self.weights) == n_weights(self.layers.tolist()), "as many weights as layers ask")
        must(np.isfinite(self.weights).all(), "weights must be finite")

    @property
    def n_features(self) -> int:
        return int(self.layers[0])

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.empty(X.shape[0])
        layers = unpack_layers(self.layers.tolist(), self.weights)
        for rows in row_blocks(X.shape[0], int(self.layers[1:].max())):
            values = X[rows]
            for table, offset in layers[:-1]:
                values = np.tanh(values @ table + offset)
            scores[rows] = (values @ layers[-1][0])[:, 0]
        return scores


def n_weights(layers: list[int]) -> int:
    """How many numbers a network of these layer sizes has."""
    return sum((a + 1) * b for a, b in pairwise(layers)) - 1


def unpack_layers(layers: list[int], weights: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Views of the tables and offsets of each layer; the last offset is empty."""
    found, start = [], 0
    for i, (a, b) in enumerate(pairwise(layers)):
        stop = start + a * b
        offset = weights[stop : stop + (0 if i == len(layers) - 2 else b)]
        found.append((weights[start:stop].reshape(a, b), offset))
        start = stop + len(offset)
    return found
