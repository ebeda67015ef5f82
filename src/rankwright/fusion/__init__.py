"""Metasearch: several ranked lists of the same queries made into one.

``pool`` puts the lists side by side, ``normalize`` makes their scores comparable, ``by_score`` and
``by_rank`` hold the fixed rules, ``methods`` is the door to them (:func:`fuse`), and ``learned``
trains the combination from judgements (:class:`LearnedFusion`).
"""

from typing import TYPE_CHECKING, Any

from rankwright.fusion.methods import fuse
from rankwright.fusion.normalize import normalize

if TYPE_CHECKING:
    from rankwright.fusion.learned import LearnedFusion

__all__ = ["LearnedFusion", "fuse", "normalize"]


def __getattr__(name: str) -> Any:
    if name == "LearnedFusion":  # what only fuses by a rule need not load scikit-learn
        from rankwright.fusion.learned import LearnedFusion

        return LearnedFusion
    raise AttributeError(f"module 'rankwright.fusion' has no attribute {name!r}")
