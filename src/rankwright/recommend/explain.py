"""Explanations of recommendations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from rankwright._typing import FloatArray, IntArray


class Reasons(NamedTuple):
    """What a model says about the score of one item, in numbers of users and ratings."""

    users: IntArray  # other users who rated the item
    points: FloatArray  # their ratings
    weight: FloatArray  # their agreement with the user, or what their rating adds
    rated: IntArray  # which of the user's own ratings matter
    added: FloatArray  # what they add


class Viewer(NamedTuple):
    """A user who rated the item: the rating, and the agreement with you or what it adds."""

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
    because of its average rating: none of your ratings says more.
    """

    item: Any
    score: float
    viewers: tuple[Viewer, ...]
    ratings: tuple[Liked, ...]
    by_agreement: bool = True  # else the weight of a viewer is what the rating adds to the score

    def __str__(self) -> str:
        if self.by_agreement:
            first, form = "these viewers, who agree with you, rated it:", "agreement {:.2g}"
        else:
            first, form = "of what these viewers gave it:", "adds {:+.2g}"
        parts = []
        if self.viewers:
            viewers = (
                f"  {viewer.user} gave it {viewer.rating:g} ({form.format(viewer.weight)})"
                for viewer in self.viewers
            )
            parts.append("\n".join([f"because {first}", *viewers]))
        if self.ratings:
            own = (
                f"  you gave {own.item} {own.rating:g} (adds {own.added:+.2g})"
                for own in self.ratings
            )
            parts.append("\n".join(["because of what you rated:", *own]))
        if not parts:
            parts = ["because of its average rating: none of your ratings says more."]
        return f"{self.item}: score {self.score:.4g}\n" + "\nand ".join(parts)
