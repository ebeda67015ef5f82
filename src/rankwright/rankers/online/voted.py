"""Voted PRank: every rule that one PRank went through has a vote."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.rankers import schema
from rankwright.rankers.online.base import STREAM, OnlineRanker, Rows, dense_row, kernels, with_room
from rankwright.rankers.online.prank import PASS_CONSTRAINTS
from rankwright.rankers.schema import floats, integer, integers
from rankwright.scoring.ordinal import Votes, nearest

GROWTH = 1024  # rows shown between two looks at the room that is left
TABLE = ("rules_coef_", "rules_thresholds_", "rules_votes_")


class VotedPRank(OnlineRanker):
    """PRank whose successive rules vote, each with the rounds that it survived.

    Steadier than the last rule, at the price of keeping them all: prediction costs one product per
    rule. ``max_rules`` bounds that, and the memory, on an endless stream: when all places are taken
    the rule with the fewest votes goes (the oldest among equals). ``predict`` rounds the mean grade
    to the nearest grade, ``predict_expected`` gives it as it is (the papers score it unrounded),
    ``decision_function`` orders by it, then by the rules' mean score.

    Parameters
    ----------
    max_rules : int or None, default None
        How many past rules are kept; None keeps all that have a vote.
    count : "survived" or "right", default "survived"
        "survived" counts the rounds at which a rule was right and the one that it was made for
        (Freund and Schapire's count, under which the OAP-BPM paper's figures come out). "right"
        leaves the latter out, so rules that failed at once have no say and are not kept.
    max_iter, shuffle, random_state : see PRank

    Attributes
    ----------
    coef_, thresholds_ : the present rule
    rules_coef_, rules_thresholds_ : (n_rules, ...) arrays
        The past rules, oldest first.
    rules_votes_ : (n_rules,) int array
    n_votes_ : int
        The rounds at which the present rule was right so far.
    n_dropped_ : int
        Past rules that had to go.
    classes_, n_mistakes_, n_seen_ : see PRank

    References
    ----------
    Freund, Schapire: Large margin classification using the perceptron algorithm. Machine Learning
    37, 1999. Applied to PRank by Harrington, ICML 2003 (PRank-VP).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.digitize(X[:, 0] - X[:, 1], [-1.0, 0.0, 1.0])
    >>> model = VotedPRank(max_rules=20).fit(X, y)
    >>> model.rules_coef_.shape, bool(np.abs(model.predict(X) - y).mean() < 0.1)
    ((20, 3), True)
    """

    _constraints: ClassVar = {
        "count": schema.one_of("survived", "right"),
        "max_rules": schema.optional(schema.at_least(1)),
        **PASS_CONSTRAINTS,
    }
    _learned: ClassVar = {
        **STREAM,
        "coef_": floats("n_features"),
        "thresholds_": floats("n_thresholds"),
        "rules_coef_": floats("n_rules", "n_features"),
        "rules_thresholds_": floats("n_rules", "n_thresholds"),
        "rules_votes_": integers("n_rules", low=1),
        "n_votes_": integer(low=0),
        "n_dropped_": integer(low=0),
    }

    def __init__(
        self,
        *,
        max_rules: int | None = None,
        count: str = "survived",
        max_iter: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.max_rules = max_rules
        self.count = count
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state

    def _begin(self, n_features: int) -> None:
        n_thresholds = len(self.classes_) - 1
        self.coef_, self.thresholds_ = np.zeros(n_features), np.zeros(n_thresholds)
        self.rules_coef_ = np.zeros((0, n_features))
        self.rules_thresholds_ = np.zeros((0, n_thresholds))
        self.rules_votes_ = np.zeros(0, np.int64)
        self.n_votes_ = self.n_dropped_ = 0

    def predict_expected(self, X: Any) -> FloatArray:
        """The rules' mean grade, not rounded, in units of ``y``."""
        return self._scorer().expected(self._checked_rows(X))

    def _show(
        self, rows: Rows, grade: IntArray, order: IntArray, asked: bool
    ) -> tuple[Any, int, int]:
        rule = self._writable("coef_", "thresholds_")
        answers, mistakes, skipped = [np.zeros(0)], 0, 0
        size = 1 if asked else GROWTH
        for start in range(0, len(order), size):
            some = order[start : start + size]
            if asked:
                row = dense_row(rows, int(some[0]), len(self.coef_))
                answers.append(self._scorer().expected(row))
            wrong, lost = self._show_stretch(rows, grade, some, rule)
            mistakes, skipped = mistakes + wrong, skipped + lost
        return np.concatenate(answers), mistakes, skipped

    def _show_stretch(
        self, rows: Rows, grade: IntArray, order: IntArray, rule: list[Any]
    ) -> tuple[int, int]:
        state = np.array([len(self.rules_votes_), self.n_votes_, self.n_dropped_])
        bounded = self.max_rules is not None
        wanted = self.max_rules or len(self.rules_votes_) + len(order)
        table = [with_room(self.__dict__[name], wanted, exact=bounded) for name in TABLE]
        predicted = np.empty(len(order), np.int64)
        extra = int(self.count == "survived")
        found = kernels().voted_pass(*rows, grade, order, *rule, *table, state, extra, predicted)
        kept, self.n_votes_, self.n_dropped_ = (int(value) for value in state)
        for name, array in zip(TABLE, table, strict=True):
            self.__dict__[name] = array[:kept]
        return int(found[0]), int(found[1])

    def _scorer(self) -> Votes:
        present = self.n_votes_ + (self.count == "survived")
        votes = np.append(self.rules_votes_, present).astype(np.float64)
        if not votes.any():
            votes[-1] = 1.0  # nothing was right yet: ask the present rule
        return Votes(
            np.vstack([self.rules_coef_, self.coef_]),
            np.vstack([self.rules_thresholds_, self.thresholds_]),
            votes,
            self.classes_,
        )

    def _expected_of(self, answer: Any) -> FloatArray:
        return np.asarray(answer, dtype=np.float64)

    def _grades_of(self, answer: Any) -> FloatArray:
        return nearest(self.classes_, answer)
