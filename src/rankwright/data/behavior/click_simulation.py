"""Simulated users: clicks on ranked lists of graded items, with known biases and relevance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.items import Items
from rankwright.data.vocabulary import check_probabilities, encode
from rankwright.exceptions import DataError, ParameterError

BROWSING = ("position", "cascade", "dbn")
EXPERIMENTS = (None, "shuffle", "swap")


@dataclass(frozen=True, eq=False)
class ClickSimulator:
    """Simulate users who examine ranked lists and click relevant items.

    An item is *attractive* with a probability that grows with its grade. With ``browsing =
    "position"``, position k is examined with probability ``examination[k - 1]``, whatever else is
    clicked. With ``"cascade"``, users read from the top and stop at their first click. With
    ``"dbn"`` (dynamic Bayesian network), a click satisfies the user with the probability of the
    item's attractiveness, and an unsatisfied user continues with probability ``continuation``.

    A user who examines an item clicks it if it is attractive, and otherwise with probability
    ``noise + trust / position`` (trust bias).

    Parameters
    ----------
    items : Items with grades
    examination : (n_positions,) probabilities; the length is the number of positions shown
    attractiveness : {grade: probability}; by default from 0.05 to 0.95 as 2 ** grade grows
    noise, trust : click probabilities of unattractive items
    browsing : {"position", "cascade", "dbn"}
    continuation : probability of continuing after an item, for ``"dbn"``

    Examples
    --------
    >>> items = Items([[0.0], [1.0], [2.0]], [0, 1, 2], qid=[7, 7, 7])
    >>> users = ClickSimulator(items, examination=[1.0, 0.5, 0.2])
    >>> log = users.sessions(items.X[:, 0], 1000)
    >>> log.n_sessions, log.n_positions
    (1000, 3)
    >>> round(users.expected_clicks(items.X[:, 0]), 3) > round(users.expected_clicks(-items.y), 3)
    True
    """

    items: Items
    examination: ArrayLike = tuple(1.0 / k for k in range(1, 11))
    attractiveness: Mapping[float, float] | None = None
    noise: float = 0.0
    trust: float = 0.0
    browsing: str = "position"
    continuation: float = 0.9

    def __post_init__(self) -> None:
        gamma = np.asarray(self.examination, dtype=np.float64)
        object.__setattr__(self, "examination", gamma)
        if gamma.ndim != 1 or len(gamma) == 0:
            raise ParameterError(
                f"examination has shape {gamma.shape}: give a probability for each position shown."
            )
        check_probabilities(gamma, "examination", error=ParameterError)
        if self.browsing not in BROWSING:
            raise ParameterError(
                f"browsing is {self.browsing!r}; use one of {BROWSING}.", parameter="browsing"
            )
        if not (self.noise >= 0 and self.trust >= 0 and self.noise + self.trust <= 1):
            raise ParameterError(
                f"noise={self.noise}, trust={self.trust}: both must be >= 0, and their sum at most "
                "1.",
            )

    @property
    def n_positions(self) -> int:
        return len(self.examination)  # type: ignore[arg-type]

    @cached_property
    def relevance(self) -> FloatArray:
        """The true relevance: the probability that each item attracts a user who examines it."""
        grades, grade_index = np.unique(self.items.y, return_inverse=True)
        if self.attractiveness is not None:
            if missing := [g for g in grades.tolist() if g not in self.attractiveness]:
                raise DataError(
                    f"attractiveness has no probability for grade {missing[0]:g}: add it."
                )
            return np.array([self.attractiveness[g] for g in grades.tolist()])[grade_index]
        gain = 2.0 ** (grades - grades.min()) - 1.0
        return np.asarray((0.05 + 0.9 * gain / max(gain.max(), 1.0))[grade_index])

    @cached_property
    def affine(self) -> tuple[FloatArray, FloatArray]:
        """Slope and offset per position: a click has probability slope * relevance + offset."""
        gamma = np.asarray(self.examination)
        wrong = self.noise + self.trust / np.arange(1, self.n_positions + 1)
        return gamma * (1.0 - wrong), gamma * wrong

    def lists(self, scores: ArrayLike) -> IntArray:
        """(n_queries, n_positions) rows of the items that these scores show; -1 is none."""
        queries = self.items.queries
        rank = queries.places(np.asarray(scores, dtype=np.float64)) - 1
        shown = np.full((queries.n_queries, self.n_positions), -1, dtype=np.int64)
        top = np.flatnonzero(rank < self.n_positions)
        shown[queries.codes[top], rank[top]] = top
        return shown

    def sessions(
        self,
        scores: ArrayLike | Mapping[str, ArrayLike],
        n_sessions: int,
        *,
        experiment: str | None = None,
        query_weight: ArrayLike | None = None,
        random_state: int = 0,
    ) -> ImpressionLog:
        """Simulate clicks in ``n_sessions`` sessions on lists ordered by the scores.

        Parameters
        ----------
        scores : (n_items,) array, or {name: array} for rankers that take turns at random
        experiment : "shuffle" shows the same items in random order; "swap" swaps the first item
            with one drawn from all positions
        query_weight : (n_queries,) relative frequency of each query; equal by default
        """
        if experiment not in EXPERIMENTS:
            raise ParameterError(
                f"experiment is {experiment!r}; use one of {EXPERIMENTS}.", parameter="experiment"
            )
        rng = np.random.default_rng(random_state)
        rankers = dict(scores) if isinstance(scores, Mapping) else {"logger": scores}
        lists = np.stack([self.lists(s) for s in rankers.values()])
        arm = rng.integers(len(lists), size=n_sessions)
        share = None
        if query_weight is not None:
            share = np.asarray(query_weight, dtype=np.float64) / np.sum(query_weight)
        shown = lists[arm, rng.choice(lists.shape[1], size=n_sessions, p=share)]
        if experiment is not None:
            shown = _reordered(shown, experiment, rng)
        clicks = self._clicks(shown, rng)
        return self._log(shown, clicks, np.array(list(rankers), dtype=object)[arm])

    def expected_clicks(self, scores: ArrayLike, measure: str = "CTR") -> float:
        """The true expected clicks (``CTR``) or discounted relevance (``DCG``) per list.

        CTR is the number of clicks per list if positions are examined independently.
        """
        shown = self.lists(scores)
        relevance = np.where(shown >= 0, self.relevance[shown], 0.0)
        if measure == "DCG":
            weights = 1.0 / np.log2(np.arange(2, self.n_positions + 2))
            return float((relevance @ weights).mean())
        slope, offset = self.affine
        return float((relevance @ slope + (shown >= 0) @ offset).mean())

    def _clicks(self, shown: IntArray, rng: np.random.Generator) -> Any:
        relevance = np.where(shown >= 0, self.relevance[shown], 0.0)
        wrong = self.noise + self.trust / np.arange(1, self.n_positions + 1)
        would = rng.random(shown.shape) < relevance + (1.0 - relevance) * wrong
        would &= shown >= 0
        if self.browsing == "position":
            return would & (rng.random(shown.shape) < np.asarray(self.examination))
        clicks, active = np.zeros(shown.shape, bool), np.ones(len(shown), bool)
        for k in range(self.n_positions):
            clicks[:, k] = would[:, k] & active
            if self.browsing == "cascade":
                active &= ~clicks[:, k]
            else:
                satisfied = clicks[:, k] & (rng.random(len(shown)) < relevance[:, k])
                active &= ~satisfied & (rng.random(len(shown)) < self.continuation)
        return clicks

    def _log(self, shown: IntArray, clicks: BoolArray, ranker: NDArray[Any]) -> ImpressionLog:
        session, rank = np.nonzero(shown >= 0)
        rows = shown[session, rank]
        queries, items = self.items.queries, self.items
        number, ids = np.arange(items.n_items), np.arange(items.n_items)
        if items.docid is not None:
            number, ids = encode(items.docid, "docid")
        columns: dict[str, NDArray[Any] | None] = {
            "query": queries.codes[rows],
            "item": number[rows],
            "clicks": clicks[session, rank].astype(np.int64),
            "position": rank.astype(np.int64) + 1,
            "ranker": ranker[session],
        }
        columns |= dict.fromkeys(("user", "time", "dwell"))
        lists = session.astype(np.int64), np.arange(len(shown))
        return ImpressionLog.from_codes(columns, lists, queries.ids, ids)


def _reordered(shown: IntArray, experiment: str, rng: np.random.Generator) -> IntArray:
    """The lists in random order, or with the first item exchanged with a random one."""
    n, filled = len(shown), (shown >= 0).sum(axis=1)
    if experiment == "shuffle":
        keys = np.where(shown >= 0, rng.random(shown.shape), 2.0)
        return np.take_along_axis(shown, np.argsort(keys, axis=1), axis=1)
    other, result = (rng.random(n) * filled).astype(np.int64), shown.copy()
    result[np.arange(n), other], result[:, 0] = shown[:, 0], shown[np.arange(n), other]
    return result
