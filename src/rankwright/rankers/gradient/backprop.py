"""A small network trained on slopes: forward, backward, and Adam's steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankwright.scoring.network import n_weights, unpack_layers

__all__ = ["Adam", "Trainee"]

FloatArray = NDArray[np.float64]


class Trainee:
    """A network of tanh layers whose weights are one flat array (see ``scoring.Network``)."""

    def __init__(self, layers: list[int], rng: np.random.Generator) -> None:
        self.layers = layers
        self.weights = np.zeros(n_weights(layers))
        for table, _ in unpack_layers(layers, self.weights):
            bound = np.sqrt(6.0 / sum(table.shape))  # Glorot: signals neither fade nor grow
            table[:] = rng.uniform(-bound, bound, table.shape)

    def forward(self, X: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """The scores, and the values of each layer on the way."""
        values = [X]
        layers = unpack_layers(self.layers, self.weights)
        for table, offset in layers[:-1]:
            values.append(np.tanh(values[-1] @ table + offset))
        return np.asarray((values[-1] @ layers[-1][0])[:, 0]), values

    def gradient(self, values: list[FloatArray], slope: FloatArray) -> FloatArray:
        """The derivative of a loss by the weights, from its slope by the scores."""
        gradient = np.zeros_like(self.weights)
        parts = unpack_layers(self.layers, gradient)
        layers = unpack_layers(self.layers, self.weights)
        back = slope[:, None]
        for i in range(len(layers) - 1, -1, -1):
            table, offset = parts[i]
            table[:] = values[i].T @ back
            if len(offset):
                offset[:] = back.sum(axis=0)
            if i:
                back = (back @ layers[i][0].T) * (1.0 - values[i] ** 2)
        return gradient

    def folded(self, shift: FloatArray, scale: FloatArray) -> FloatArray:
        """Weights that give on rows X the scores of these weights on (X - shift) / scale."""
        weights = self.weights.copy()
        table, offset = unpack_layers(self.layers, weights)[0]
        table /= scale[:, None]
        if len(offset):
            offset -= shift @ table
        return weights


class Adam:
    """Steps scaled by running means of the gradient and of its square (Kingma and Ba 2015)."""

    def __init__(self, n: int, rate: float) -> None:
        self.rate, self.t = rate, 0
        self.mean, self.square = np.zeros(n), np.zeros(n)

    def step(self, gradient: FloatArray) -> FloatArray:
        """What to add to the weights."""
        self.t += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.001 * (gradient**2 - self.square)
        mean, square = self.mean / (1 - 0.9**self.t), self.square / (1 - 0.999**self.t)
        return np.asarray(-self.rate * mean / (np.sqrt(square) + 1e-8))
