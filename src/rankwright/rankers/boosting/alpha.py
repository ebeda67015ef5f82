"""The weight of a weak ranking: the three methods of the paper, smoothed.

A perfect weak ranking would get an infinite weight. ``smoothing`` s acts as if a share s of the
pairs were ordered rightly, and another wrongly, by every weak ranking.
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["from_curve", "from_edge", "from_split"]

Curve = Callable[[float], tuple[float, float, float]]


def from_edge(r: float, smoothing: float) -> float:
    """Method 3 (eq. 6), from r, the weight of right pairs minus that of wrong ones.

    >>> round(from_edge(0.5, 1e-12), 6), from_edge(1.0, 0.05) == from_edge(0.9, 0.05)
    (0.549306, True)
    """
    limit = 1.0 - 2.0 * smoothing
    r = min(max(r, -limit), limit)
    return 0.5 * math.log((1.0 + r) / (1.0 - r))


def from_split(right: float, wrong: float, smoothing: float) -> float:
    """Method 2 (eq. 2), for 0/1 rankings, from the weights of right and wrong pairs.

    >>> round(from_split(0.75, 0.25, 1e-12), 6)
    0.549306
    """
    return 0.5 * math.log((right + smoothing) / (wrong + smoothing))


def from_curve(curve: Curve, width: float, smoothing: float, tolerance: float = 1e-12) -> float:
    """Method 1, for any real-valued ranking h: the minimum of Z, found by Newton in a bracket.

    Z(a) is a sum of exponentials, hence convex: its derivative crosses zero once. The crossing is
    first enclosed by doubling (smoothing makes Z grow on either side, so that ends), then every
    step is Newton's if that stays inside and halves the bracket's derivative, else the bracket is
    halved. Each step shrinks the bracket or the derivative by two: convergence is certain.

    Parameters
    ----------
    curve : function of the weight a, giving Z and its first two derivatives
    width : float > 0
        The range of h over the rows: smoothing adds ``s (exp(a width) + exp(-a width))``.

    Examples
    --------
    >>> split = lambda a: (
    ...     0.75 * math.exp(-a) + 0.25 * math.exp(a),
    ...     -0.75 * math.exp(-a) + 0.25 * math.exp(a),
    ...     0.75 * math.exp(-a) + 0.25 * math.exp(a),
    ... )
    >>> round(from_curve(split, 1.0, 1e-12), 6)
    0.549306
    """

    def slopes(a: float) -> tuple[float, float]:
        _, first, second = curve(a)
        up, down = smoothing * math.exp(a * width), smoothing * math.exp(-a * width)
        return first + width * (up - down), second + width * width * (up + down)

    first, second = slopes(0.0)
    if first == 0.0 or second <= 0.0:
        return 0.0
    sign = -1.0 if first > 0 else 1.0
    near, far, at_far = 0.0, 1.0 / width, -first
    while True:
        at_far = slopes(sign * far)[0] * sign
        if at_far >= 0:
            break
        near, far = far, 2.0 * far
    return sign * _enclosed(lambda a: _turned(slopes(sign * a), sign), near, far, tolerance)


def _turned(slopes: tuple[float, float], sign: float) -> tuple[float, float]:
    return sign * slopes[0], slopes[1]


def _enclosed(
    slopes: Callable[[float], tuple[float, float]], low: float, high: float, tolerance: float
) -> float:
    """The zero of an increasing derivative, negative at low and not negative at high."""
    a, last = low, math.inf
    while high - low > tolerance * max(1.0, high):
        first, second = slopes(a)
        if first == 0.0:
            return a
        if first < 0:
            low = a
        else:
            high = a
        step = a - first / second if second > 0 else math.inf
        if not low < step < high or abs(first) > 0.5 * last:
            step = 0.5 * (low + high)
        if abs(step - a) <= tolerance * max(1.0, abs(a)):
            return step
        a, last = step, abs(first)
    return 0.5 * (low + high)
