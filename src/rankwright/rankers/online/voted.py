"""Voted PRank: every model that one PRank went through has a vote."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rankwright.rankers import schema
from rankwright.rankers.online.base import (
    PASS_CONSTRAINTS,
    STREAM,
    Examples,
    OnlineRanker,
    kernels,
    with_room,
)
from rankwright.rankers.schema import floats, integer, integers
from rankwright.scoring.ordinal import Votes

BLOCK = 1024  # examples between two enlargements of the tables


class VotedPRank(OnlineRanker):
    """PRank whose successive models vote, each with the number of rows that it survived.

    Steadier than the last model, at the price of keeping them all: prediction costs one product per
    model. ``max_rules`` bounds that, and the memory, on an endless stream: beyond it the model with
    the fewest votes is dropped (the oldest among equals). ``predict`` rounds the mean grade to the
    nearest grade, ``predict_expected`` returns the mean itself (the papers score it unrounded),
    ``decision_function`` orders by the mean, then by the models' mean score.

    Parameters
    ----------
    max_rules : int or None, default None
        How many past models are kept; None keeps all that have a vote.
    count : "survived" or "right", default "survived"
        "survived" counts the rows that a model got right and the one that it was made for (Freund
        and Schapire's count, which reproduces the figures of the OAP-BPM paper). "right" leaves out
        the latter, so models that failed at once have no vote and are not kept.
    max_iter, shuffle, random_state, early_stopping : see PRank

    Attributes
    ----------
    coef_, thresholds_ : (n_features,) and (n_grades - 1,) arrays
        The present model.
    rules_coef_, rules_thresholds_ : (n_rules, n_features) and (n_rules, n_grades - 1) arrays
        The past models, oldest first.
    rules_votes_ : (n_rules,) int array
    n_votes_ : int
        The rows that the present model got right so far.
    n_dropped_ : int
        Past models that were dropped.
    classes_, n_mistakes_, n_seen_, validation_, best_iteration_ : see PRank

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
        early_stopping: Any = None,
    ) -> None:
        self.max_rules = max_rules
        self.count = count
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.early_stopping = early_stopping

    def _begin(self, n_features: int) -> None:
        n_thresholds = len(self.classes_) - 1
        self.coef_, self.thresholds_ = np.zeros(n_features), np.zeros(n_thresholds)
        self.rules_coef_ = np.zeros((0, n_features))
        self.rules_thresholds_ = np.zeros((0, n_thresholds))
        self.rules_votes_ = np.zeros(0, np.int64)
        self.n_votes_ = self.n_dropped_ = 0

    def _pass(self, examples: Examples, predict: bool) -> tuple[Any, int, int]:
        answers, mistakes, skipped = [np.zeros(0)], 0, 0
        size = 1 if predict else BLOCK
        for _, block in examples.blocks(size):
            if predict:
                answers.append(self._scorer().expected(block.first_row(len(self.coef_))))
            wrong, lost = self._block_pass(block)
            mistakes, skipped = mistakes + wrong, skipped + lost
        return np.concatenate(answers), mistakes, skipped

    def _block_pass(self, block: Examples) -> tuple[int, int]:
        model = self._writable("coef_", "thresholds_")
        n_rules = self.max_rules or len(self.rules_votes_) + len(block.order)
        past = (
            with_room(self.rules_coef_, n_rules)[: self.max_rules],
            with_room(self.rules_thresholds_, n_rules)[: self.max_rules],
            with_room(self.rules_votes_, n_rules)[: self.max_rules],
        )
        kept = min(len(self.rules_votes_), len(past[0]))
        counts = np.array([kept, self.n_votes_, self.n_dropped_])
        extra = int(self.count == "survived")
        wrong, lost = kernels("prank").voted_pass(tuple(block), *model, past, counts, extra)
        kept, self.n_votes_, self.n_dropped_ = counts.tolist()
        self.rules_coef_, self.rules_thresholds_, self.rules_votes_ = (t[:kept] for t in past)
        return int(wrong), int(lost)

    def _scorer(self) -> Votes:
        present = self.n_votes_ + (self.count == "survived")
        votes = np.append(self.rules_votes_, present).astype(np.float64)
        if not votes.any():
            votes[-1] = 1.0  # nothing was right yet: only the present model votes
        return Votes(
            np.vstack([self.rules_coef_, self.coef_]),
            np.vstack([self.rules_thresholds_, self.thresholds_]),
            votes,
            self.classes_,
        )
