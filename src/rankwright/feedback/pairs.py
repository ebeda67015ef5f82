"""Preferences between rows: a list of pairs, or all pairs between two sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import Column, FloatArray, Id, IntArray
from rankwright.exceptions import FeedbackError, Message, Setting
from rankwright.feedback.base import Feedback, frozen_rows, frozen_weights

if TYPE_CHECKING:
    from rankwright.data.items import Items


@dataclass(frozen=True, eq=False)
class Pairs(Feedback):
    """A list of weighted preferences: row ``upper[p]`` belongs above row ``lower[p]``.

    Pairs may cross queries, contradict each other and form cycles. A row cannot be above itself.

    Parameters
    ----------
    lower, upper : (n_pairs,) row numbers
    weight : (n_pairs,) numbers >= 0, default 1
    query : (n_pairs,) ids of any type, optional
        The query (user, session) of each pair, for splitting and counting.
    confidence : (n_pairs,) numbers from 0 to 1, default 1
        The probability that ``upper`` belongs above ``lower``: 1/2 means that the two are equally
        good, 0 is the opposite preference. ``RankNet`` and ``FRank`` fit these probabilities; other
        rankers accept only 1. It is not a weight: weights determine how much a pair counts.

    Examples
    --------
    >>> pairs = Pairs(lower=[0, 0, 0], upper=[1, 2, 1], weight=[1, 2, 3])
    >>> pairs.n_pairs, pairs.total_weight
    (3, 6.0)
    >>> merged = pairs.merge()
    >>> merged.lower, merged.upper, merged.weight
    (array([0, 0]), array([1, 2]), array([4., 2.]))
    >>> Pairs([0, 1], [1, 2], confidence=[0.9, 0.5]).is_certain  # the second pair is a tie
    False
    """

    lower: IntArray
    upper: IntArray
    weight: FloatArray
    query: NDArray[Any] | None
    confidence: FloatArray

    def __init__(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        weight: ArrayLike | None = None,
        query: Column | None = None,
        confidence: ArrayLike | None = None,
    ) -> None:
        below, above = frozen_rows(lower, "lower"), frozen_rows(upper, "upper")
        if len(below) != len(above):
            raise FeedbackError(
                f"lower has {len(below)} rows, upper has {len(above)}. Give one of each per pair."
            )
        if len(same := np.flatnonzero(below == above)):
            where = f"pair {same[0]} puts row {below[same[0]]} above itself"
            raise FeedbackError(f"{where}. Remove such pairs.")
        ids = None if query is None else np.array(query)
        if ids is not None:
            if len(ids) != len(below):
                raise FeedbackError(
                    f"query has {len(ids)} entries, lower has {len(below)}. Give one per pair."
                )
            ids.setflags(write=False)
        weights = frozen_weights(weight, len(below), "weight")
        chances = frozen_weights(confidence, len(below), "confidence")
        if len(high := np.flatnonzero(chances > 1.0)):
            raise FeedbackError(
                f"confidence[{high[0]}] is {chances[high[0]]}: it is a probability from 0 to 1. To "
                "give a pair more weight, use weight."
            )
        self.__dict__.update(
            lower=below, upper=above, weight=weights, query=ids, confidence=chances
        )

    @classmethod
    def from_ids(
        cls,
        items: Items,
        winner: Sequence[Id] | NDArray[Any],
        loser: Sequence[Id] | NDArray[Any],
        weight: ArrayLike | None = None,
        query: Any = None,
    ) -> Pairs:
        """Convert pairs of ids to pairs of rows of a feature table.

        Parameters
        ----------
        items : Items with ids
        winner, loser : (n_pairs,) ids, compared as text
        weight : (n_pairs,) numbers >= 0, default 1
        query : (n_pairs,) query ids; None looks ids up in the whole table, where they are unique

        Examples
        --------
        >>> from rankwright.data.items import Items
        >>> items = Items([[1.0], [2.0]], [0, 0], docid=["a", "b"])
        >>> Pairs.from_ids(items, winner=["b"], loser=["a"]).upper
        array([1])
        """
        if items.docid is None:
            fix = Message("Give their column as ", Setting("docid"), ".")
            raise FeedbackError("the items have no ids.", fix=fix)
        by_query = query is not None and items.qid is not None
        groups: Any = items.qid if by_query else np.zeros(items.n_items, np.int64)
        rows: dict[tuple[str, str], int] = {}
        for row, key in enumerate(zip(map(str, groups), map(str, items.docid), strict=True)):
            if rows.setdefault(key, row) != row:
                raise FeedbackError(
                    f"item {key[1]} is in rows {rows[key] + 1} and {row + 1} of the table. Give "
                    "the query of each pair, or keep one row."
                )
        queries = list(map(str, query)) if by_query else ["0"] * len(winner)
        row_numbers = []
        for side in (loser, winner):
            keys = zip(queries, map(str, side), strict=True)
            row_numbers.append([rows.get(key, -1) for key in keys])
        if len(missing := np.flatnonzero(np.min(row_numbers, axis=0, initial=0) < 0)):
            pair = f"{winner[missing[0]]} above {loser[missing[0]]}"
            raise FeedbackError(
                f"pair {missing[0] + 1}, {pair}: an item is not in the table ({len(missing):,} "
                "such pairs). Compare the ids of both files."
            )
        lower, upper = np.array(row_numbers, dtype=np.int64).reshape(2, -1)
        return cls(lower, upper, weight, query)

    @property
    def n_rows(self) -> int:
        return int(max(self.lower.max(initial=-1), self.upper.max(initial=-1))) + 1

    @property
    def n_pairs(self) -> int:
        return len(self.lower)

    @property
    def total_weight(self) -> float:
        return float(self.weight.sum())

    def to_pairs(self) -> Pairs:
        return self

    @property
    def is_certain(self) -> bool:
        """Whether every confidence is 1."""
        return bool((self.confidence == 1.0).all())

    def merge(self) -> Pairs:
        """The same preferences with the weights of equal pairs summed, sorted by (lower, upper).

        Pairs are equal if their confidence is equal too.
        """
        order = np.lexsort((self.confidence, self.upper, self.lower))
        keys = np.stack([self.lower, self.upper, self.confidence])[:, order]
        new = np.ones(len(order), bool)
        new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
        weight = np.bincount(np.cumsum(new) - 1, self.weight[order], minlength=int(new.sum()))
        first = order[new]
        return Pairs(
            self.lower[first], self.upper[first], weight, confidence=self.confidence[first]
        )


@dataclass(frozen=True, eq=False)
class Bipartite(Feedback):
    """Every row of ``upper`` belongs above every row of ``lower``.

    The weight of a pair is the product of its rows' weights. For several queries, add them up.

    Examples
    --------
    >>> feedback = Bipartite(lower=[0, 1, 2], upper=[3, 4])
    >>> feedback.n_pairs, feedback.total_weight
    (6, 6.0)
    """

    lower: IntArray
    upper: IntArray
    lower_weight: FloatArray
    upper_weight: FloatArray

    def __init__(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        lower_weight: ArrayLike | None = None,
        upper_weight: ArrayLike | None = None,
    ) -> None:
        below, above = frozen_rows(lower, "lower"), frozen_rows(upper, "upper")
        if len(both := np.intersect1d(below, above)):
            where = f"row {both[0]} is in both lower and upper"
            raise FeedbackError(f"{where}; a row cannot be above itself.")
        for name, rows in (("lower", below), ("upper", above)):
            distinct, counts = np.unique(rows, return_counts=True)
            if len(distinct) < len(rows):
                raise FeedbackError(
                    f"{name} lists row {distinct[np.argmax(counts > 1)]} more than once. List it "
                    f"once, and give its weight as {name}_weight."
                )
        self.__dict__.update(
            lower=below,
            upper=above,
            lower_weight=frozen_weights(lower_weight, len(below), "lower_weight"),
            upper_weight=frozen_weights(upper_weight, len(above), "upper_weight"),
        )

    @property
    def n_rows(self) -> int:
        return int(max(self.lower.max(initial=-1), self.upper.max(initial=-1))) + 1

    @property
    def n_pairs(self) -> int:
        return len(self.lower) * len(self.upper)

    @property
    def total_weight(self) -> float:
        return float(self.lower_weight.sum() * self.upper_weight.sum())

    def to_pairs(self) -> Pairs:
        return Pairs(
            np.repeat(self.lower, len(self.upper)),
            np.tile(self.upper, len(self.lower)),
            np.outer(self.lower_weight, self.upper_weight).reshape(-1),
        )
