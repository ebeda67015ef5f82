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
    >>> print(Explanation("Alien", 3.9, (), ()))
    Alien: score 3.9
    because of what everybody thinks of it: nothing of yours tells more.
    """

    item: Any
    score: float
    viewers: tuple[Viewer, ...]
    ratings: tuple[Liked, ...]

    def __str__(self) -> str:
        viewers = [
            f"  {v.user} gave it {v.rating:g} (weight {v.weight:+.2f})" for v in self.viewers
        ]
        own = [f"  you gave {m.item} {m.rating:g} (adds {m.added:+.2f})" for m in self.ratings]
        reasons = {
            "because these viewers, who agree with you, rated it:": viewers,
            "because of what you rated:": own,
        }
        said = [[head, *lines] for head, lines in reasons.items() if lines]
        for later in said[1:]:
            later[0] = f"and {later[0]}"
        if not said:
            said = [["because of what everybody thinks of it: nothing of yours tells more."]]
        head = f"{self.item}: score {self.score:.4g}"
        return "\n".join([head, *(line for lines in said for line in lines)])
