"""How a trained model turns rows into scores: NumPy only, no training code.

A ranker's ``decision_function`` and a model file opened by ``load_scorer`` run the same code here,
so a score cannot depend on which of the two computed it. Kinds are a closed table: the name in a
model file looks a class up, it never imports one.
"""

from rankwright.scoring.base import Scorer, Transform
from rankwright.scoring.linear import Linear
from rankwright.scoring.ordinal import Ordinal
from rankwright.scoring.transforms import Affine, QueryScale

__all__ = ["KINDS", "Affine", "Linear", "Ordinal", "QueryScale", "Scorer", "Transform"]

KINDS: dict[str, type[Scorer] | type[Transform]] = {
    cls.kind: cls for cls in (Linear, Ordinal, Affine, QueryScale)
}
