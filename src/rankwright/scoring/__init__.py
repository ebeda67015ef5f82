"""How a trained model turns rows into scores: NumPy only, no training code.

A ranker's ``decision_function`` and a model file opened by ``load_scorer`` run the same code here,
so a score cannot depend on which of the two computed it. Kinds are a closed table: the name in a
model file looks a class up, it never imports one.
"""

from rankwright.scoring.additive import Additive
from rankwright.scoring.base import RowMap, Scorer, State, Transform
from rankwright.scoring.deviations import Deviations, WithDeviations
from rankwright.scoring.filled import FilledAverage
from rankwright.scoring.kernel import Kernel, KernelExpansion, KernelValues
from rankwright.scoring.linear import Linear
from rankwright.scoring.network import Network
from rankwright.scoring.ordinal import Ordinal, OrdinalProbit
from rankwright.scoring.polynomial import Mapped, Polynomial
from rankwright.scoring.prototypes import Prototypes
from rankwright.scoring.slopes import Slopes
from rankwright.scoring.transforms import Affine, QueryScale
from rankwright.scoring.trees import Trees
from rankwright.scoring.votes import Votes

__all__ = [
    "KINDS",
    "Additive",
    "Affine",
    "Deviations",
    "FilledAverage",
    "Kernel",
    "KernelExpansion",
    "KernelValues",
    "Linear",
    "Mapped",
    "Network",
    "Ordinal",
    "OrdinalProbit",
    "Polynomial",
    "Prototypes",
    "QueryScale",
    "RowMap",
    "Scorer",
    "Slopes",
    "State",
    "Transform",
    "Trees",
    "Votes",
    "WithDeviations",
]

KINDS: dict[str, type[State]] = {
    cls.kind: cls
    for cls in (
        Linear,
        Additive,
        Slopes,
        Trees,
        Ordinal,
        OrdinalProbit,
        Votes,
        Prototypes,
        Kernel,
        KernelExpansion,
        KernelValues,
        Mapped,
        Network,
        Affine,
        QueryScale,
        Polynomial,
        Deviations,
        WithDeviations,
        FilledAverage,
    )
}
