"""Recommendations and the reasons for them, as objects that print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple


class Recommendation(NamedTuple):
    """An item and its score; higher comes first."""

    item: Any
    score: float


class SimilarUser(NamedTuple):
    """A user and the similarity to another one; higher comes first."""

    user: Any
    score: float


def as_list(items: list[Any], scores: list[float]) -> list[Recommendation]:
    """Recommendations of items and their scores, without a Python call for each.

    >>> as_list([7], [0.5])
    [Recommendation(item=7, score=0.5)]
    """
    return list(map(partial(tuple.__new__, Recommendation), zip(items, scores, strict=True)))


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


class Taken(NamedTuple):
    """An item that you took, and what it adds to the score."""

    item: Any
    added: float


@dataclass(frozen=True)
class RatingExplanation:
    """Why an item has its score. What lowers the score is listed as "although", not "because".

    >>> viewers, liked = (Viewer("bob", 5.0, 0.81),), (Liked("Heat", 5.0, 0.4),)
    >>> print(RatingExplanation("Alien", 4.25, viewers, liked))
    Alien: score 4.25
    because these viewers, who agree with you, rated it:
      bob gave it 5 (agreement 0.81)
    and because of what you rated:
      you gave Heat 5 (adds +0.4)
    >>> viewers = Viewer("eve", 5.0, 0.5), Viewer("joe", 1.0, 0.3), Viewer("ann", 4.0, -0.2)
    >>> print(RatingExplanation("Alien", 1.2, viewers, (), by_agreement=False, middle=3.0))
    Alien: score 1.2
    because of what these viewers gave it:
      eve gave it 5 (adds +0.5)
    and unlike these viewers, who rated it low:
      joe gave it 1 (adds +0.3)
    and although these viewers rated it:
      ann gave it 4 (adds -0.2)
    >>> print(RatingExplanation("Alien", 3.9, (), ()))
    Alien: score 3.9
    because of its average rating: none of your ratings says more.
    >>> print(RatingExplanation("Alien", 3.9, (), (), by_features=0.2))
    Alien: score 3.9
    because users with features like yours rate it higher than others do (adds +0.2).
    """

    item: Any
    score: float
    viewers: tuple[Viewer, ...]
    ratings: tuple[Liked, ...]
    by_agreement: bool = True  # else the weight of a viewer is what the rating adds to the score
    middle: float | None = None  # a rating below is low, and no "because"
    titles: Mapping[Any, str] = field(default_factory=dict)  # of the items named here
    by_features: float = 0.0  # what users with features like yours add

    def __str__(self) -> str:
        parts = [
            title + "".join(f"\n  {line}" for line in lines)
            for title, lines in self._sections()
            if lines
        ]
        if self.by_features:
            why, how = ("because", "higher") if self.by_features > 0 else ("although", "lower")
            parts.append(
                f"{why} users with features like yours rate it {how} than others do (adds "
                f"{self.by_features:+.2g})."
            )
        if not parts:
            parts = ["because of its average rating: none of your ratings says more."]
        title = self.titles.get(self.item, self.item)
        return f"{title}: score {self.score:.4g}\n" + "\nand ".join(parts)

    def _sections(self) -> list[tuple[str, list[str]]]:
        """Titles, and the lines below them."""
        form = "agreement {:.2g}" if self.by_agreement else "adds {:+.2g}"

        def theirs(viewers: Iterable[Viewer]) -> list[str]:
            return [f"{v.user} gave it {v.rating:g} ({form.format(v.weight)})" for v in viewers]

        def own(ratings: Iterable[Liked]) -> list[str]:
            return [
                f"you gave {self.titles.get(r.item, r.item)} {r.rating:g} (adds {r.added:+.2g})"
                for r in ratings
            ]

        low = -float("inf") if self.middle is None else self.middle
        high_viewers = theirs(v for v in self.viewers if v.weight >= 0 and v.rating >= low)
        low_viewers = theirs(v for v in self.viewers if v.weight >= 0 and v.rating < low)
        if self.by_agreement:
            because = "because these viewers, who agree with you, rated it:"
            unlike = "although these viewers, who agree with you, rated it low:"
        else:
            because = "because of what these viewers gave it:"
            unlike = "unlike these viewers, who rated it low:"
        up = [r for r in self.ratings if r.added >= 0]
        return [
            (because, high_viewers),
            (unlike, low_viewers),
            ("although these viewers rated it:", theirs(v for v in self.viewers if v.weight < 0)),
            ("because of what you rated:", own(r for r in up if r.rating >= low)),
            ("unlike what you rated low:", own(r for r in up if r.rating < low)),
            ("although you rated:", own(r for r in self.ratings if r.added < 0)),
        ]


# Why an item without a reason in the history has its score, by the expert that adds most.
_WITHOUT_HISTORY = {
    "UserContent": "users like you take it",
    "items like it": "items like it have high scores",
}


@dataclass(frozen=True)
class EventExplanation:
    """Why an item has its score: the part of each expert, and what you took.

    >>> parts = {"NextItems": 1.5, "Popularity": 0.25}
    >>> print(EventExplanation("Alien", 1.75, parts, (Taken("Heat", 1.5),)))
    Alien: score 1.75 (NextItems 1.5, Popularity 0.25)
    because you took:
      Heat (adds +1.5)
    """

    item: Any
    score: float
    experts: Mapping[str, float]
    taken: tuple[Taken, ...]
    titles: Mapping[Any, str] = field(default_factory=dict)  # of the items named here

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {value:.3g}" for name, value in self.experts.items())
        lines = [f"{self.titles.get(self.item, self.item)}: score {self.score:.4g} ({parts})"]
        if not self.taken:
            first = max(self.experts, key=self.experts.__getitem__, default="")
            why = _WITHOUT_HISTORY.get(first, "many users take it")
            return lines[0] + f"\nbecause {why}: nothing that you took says more."
        lines.append("because you took:")
        for item, added in self.taken:
            lines.append(f"  {self.titles.get(item, item)} (adds {added:+.2g})")
        return "\n".join(lines)
