"""The registry of pair losses and pair weights: their names, and their codes in the kernels.

A loss is a function of the difference d = s_u - s_l of the scores of a pair, P = 1 / (1 + exp(-d)).
Each ranker declares which losses and weights it takes (``loss_names``, ``weighting_names``). A new
loss is an entry here, its terms in the kernels of the ranker (for LambdaMART ``pair_terms``, in
rankers/boosting/_kernels/pair_gradients.py), and its name in the ranker: three files.

The fidelity loss (FRank) is not convex. Trees take ``|slope| (1 + 3 P**2) / 4`` as its Hessian: the
second derivative where the pair is in order, and positive everywhere.

The smooth hinge (Rennie and Srebro, 2005) has no curvature below d = 0. Trees take slope / (1 - d):
that of the parabola with the value and slope of the loss at d, and its minimum at the margin, which
lies above the loss everywhere, so that a step lowers the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple

import numpy as np

from rankwright._typing import FloatArray

# Codes, which kernels import.
LOGISTIC, EXPONENTIAL, FIDELITY, SQUARED_HINGE, SQUARED, HINGE, SMOOTH_HINGE = range(7)
PLAIN, GRADE_DIFFERENCE, NDCG, AP, ERR, RR = range(6)  # those from NDCG on depend on the order


def logistic(
    difference: FloatArray, target: FloatArray | float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """-P* log P - (1 - P*) log(1 - P) and its derivative, P* being the target.

    >>> value, slope = logistic(np.array([0.0]))
    >>> value.round(4), slope
    (array([0.6931]), array([-0.5]))
    """
    value = target * np.logaddexp(0.0, -difference) + (1 - target) * np.logaddexp(0.0, difference)
    return value, (1 - target) * _chance(difference) - target * _chance(-difference)


def fidelity(
    difference: FloatArray, target: FloatArray | float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """1 - sqrt(P* P) - sqrt((1 - P*) (1 - P)) and its derivative, P* being the target.

    >>> value, slope = fidelity(np.array([-1000.0, 0.0]))
    >>> value.round(4), slope.round(4) + 0.0
    (array([1.    , 0.2929]), array([ 0.    , -0.1768]))
    """
    above, below = _chance(difference), _chance(-difference)
    right, wrong = np.sqrt(target * above), np.sqrt((1 - target) * below)
    return 1.0 - right - wrong, 0.5 * (wrong * above - right * below)


def _chance(difference: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-np.logaddexp(0.0, -difference)))


Terms = Callable[[FloatArray, FloatArray | float], tuple[FloatArray, FloatArray]]


class PairLoss(NamedTuple):
    """A loss: its code, its formula, and value and slope for pairs with a target chance.

    ``samples``: sums over the pairs of a query have no shorter form, so that those of long queries
    are sampled.
    """

    code: int
    formula: str
    terms: Terms | None = None
    samples: bool = False

    def at(
        self, difference: FloatArray, target: FloatArray | float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """Value and slope by the difference of scores."""
        if self.terms is None:
            raise NotImplementedError(f"{self.formula} has no form for pairs with a target")
        return self.terms(difference, target)


LOSSES = {
    "logistic": PairLoss(LOGISTIC, "log(1 + exp(-d))", logistic, samples=True),
    "exponential": PairLoss(EXPONENTIAL, "exp(-d)"),
    "fidelity": PairLoss(FIDELITY, "1 - sqrt(P)", fidelity, samples=True),
    "squared_hinge": PairLoss(SQUARED_HINGE, "max(0, 1 - d) ** 2"),
    "squared": PairLoss(SQUARED, "(y_u - y_l - d) ** 2"),
    "hinge": PairLoss(HINGE, "max(0, 1 - d)"),
    "smooth_hinge": PairLoss(
        SMOOTH_HINGE, "1/2 - d if d < 0 else max(0, 1 - d) ** 2 / 2", samples=True
    ),
}

# By the difference of grades, or by the change of a measure if the rows of the pair were swapped.
WEIGHTINGS = {
    "grade_difference": GRADE_DIFFERENCE, "NDCG": NDCG, "AP": AP, "ERR": ERR, "RR": RR,
}  # fmt: skip


def loss_names(*names: str) -> tuple[str, ...]:
    """The losses that a ranker takes.

    >>> loss_names("logistic", "fidelity")
    ('logistic', 'fidelity')
    """
    return _registered(names, LOSSES)


def weighting_names(*names: str) -> tuple[str, ...]:
    """The pair weights that a ranker takes, besides None."""
    return _registered(names, WEIGHTINGS)


def _registered(names: tuple[str, ...], registry: Container[str]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in registry]
    if unknown:
        raise KeyError(f"{unknown[0]!r} is not in the registry of rankwright.feedback.losses")
    return names
