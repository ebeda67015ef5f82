"""How a trained model turns rows into scores: NumPy only, no training code.

A ranker's ``decision_function`` and a model file opened by ``load_scorer`` run the same code here,
so a score cannot depend on which of the two computed it. Kinds are a closed table: the name in a
model file looks a class up, it never imports one.
"""

from rankwright.scoring.base import Scorer, State, Transform
from rankwright.scoring.kernel import Kernel, KernelExpansion
from rankwright.scoring.linear import Linear
from rankwright.scoring.ordinal import Ordinal
from rankwright.scoring.transforms import Affine, QueryScale

__all__ = [
    "KINDS",
    "Affine",
    "Kernel",
    "KernelExpansion",
    "Linear",
    "Ordinal",
    "QueryScale",
    "Scorer",
    "State",
    "Transform",
]

KINDS: dict[str, type[State]] = {
    cls.kind: cls for cls in (Linear, Ordinal, Kernel, KernelExpansion, Affine, QueryScale)
}
