"""Why an item is recommended, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Viewer(NamedTuple):
    """Somebody who rated the item: the rating, and the agreement with you or what it adds."""

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
      bob gave it 5 (agreement 0.81)
    and because of what you rated:
      you gave Heat 5 (adds +0.4)
    >>> print(Explanation("Alien", 1.2, (Viewer("eve", 1.0, 0.5),), (), by_agreement=False))
    Alien: score 1.2
    because of what these viewers gave it:
      eve gave it 1 (adds +0.5)
    >>> print(Explanation("Alien", 3.9, (), ()))
    Alien: score 3.9
    because of what everybody thinks of it: nothing of yours tells more.
    """

    item: Any
    score: float
    viewers: tuple[Viewer, ...]
    ratings: tuple[Liked, ...]
    by_agreement: bool = True  # what a viewer's weight is; else what the rating adds to the score

    def __str__(self) -> str:
        if self.by_agreement:
            because = "because these viewers, who agree with you, rated it:"
            weights = [f"agreement {v.weight:.2g}" for v in self.viewers]
        else:  # somebody of opposite taste counts too: who dislikes it, speaks for it
            because = "because of what these viewers gave it:"
            weights = [f"adds {v.weight:+.2g}" for v in self.viewers]
        reasons = {
            because: [
                f"  {v.user} gave it {v.rating:g} ({weight})"
                for v, weight in zip(self.viewers, weights, strict=True)
            ],
            "because of what you rated:": [
                f"  you gave {m.item} {m.rating:g} (adds {m.added:+.2g})" for m in self.ratings
            ],
        }
        said = [[head, *lines] for head, lines in reasons.items() if lines]
        for later in said[1:]:
            later[0] = f"and {later[0]}"
        if not said:
            said = [["because of what everybody thinks of it: nothing of yours tells more."]]
        head = f"{self.item}: score {self.score:.4g}"
        return "\n".join([head, *(line for lines in said for line in lines)])
