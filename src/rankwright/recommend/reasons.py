"""Why an item is recommended, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Explanation", "Liked", "Viewer"]


class Viewer(NamedTuple):
    """Somebody who rated the item: the rating, and how much it counts."""

    user: Any
    rating: float
    weight: float


class Liked(NamedTuple):
    """A rating of your own, and what it adds to the score."""

    item: Any
    rating: float
    added: float


@dataclass(frozen=True)
class Explanation:
    """Why an item has its score.

    >>> print(Explanation("Alien", 4.25, (Viewer("bob", 5.0, 0.81),), (Liked("Heat", 5.0, 0.4),)))
    Alien: score 4.25
    because these viewers, who agree with you, rated it:
      bob gave it 5 (weight +0.81)
    and because of what you rated:
      you gave Heat 5 (adds +0.40)
    """

    item: Any
    score: float
    viewers: tuple[Viewer, ...]
    ratings: tuple[Liked, ...]

    def __str__(self) -> str:
        lines = [f"{self.item}: score {self.score:.4g}"]
        if self.viewers:
            lines.append("because these viewers, who agree with you, rated it:")
        lines += [f"  {v.user} gave it {v.rating:g} (weight {v.weight:+.2f})" for v in self.viewers]
        if self.ratings:
            lines.append("and because of what you rated:")
        lines += [f"  you gave {m.item} {m.rating:g} (adds {m.added:+.2f})" for m in self.ratings]
        return "\n".join(lines)
