"""The rankers of the OAP-BPM paper, and ours beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rankwright import (
    OAPBPM,
    BayesianPRank,
    BayesPoint,
    OAPBagging,
    OAPVoting,
    PRank,
    VotedPRank,
    WidrowHoff,
)


@dataclass(frozen=True)
class Method:
    """A row of a table: how to make the ranker, and how the paper scores it.

    ``plain`` rankers get the features themselves where the others get the map of the kernel;
    ``votes`` are scored unrounded by the paper.
    """

    name: str
    make: Callable[[int], Any]
    votes: bool = False
    plain: bool = False


def widrow_hoff(step: float) -> Method:
    return Method(f"WH, eta {step:g}", lambda seed: WidrowHoff(learning_rate=step), plain=True)


def ensembles(taus: tuple[float, ...], count: str = "survived") -> list[Method]:
    """OAP-VP, OAP-BPM and OAP-Bagg; ``count`` is what a member's vote is weighted by."""
    kinds: list[tuple[str, Any, bool]] = [
        ("OAP-VP", partial(OAPVoting, count=count), True),
        ("OAP-BPM", OAPBPM, False),
        ("OAP-Bagg", OAPBagging, True),
    ]
    return [
        Method(
            f"{name}, tau {tau:g}",
            lambda seed, kind=kind, tau=tau: kind(n_estimators=100, tau=tau, random_state=seed),
            votes,
        )
        for name, kind, votes in kinds
        for tau in taus
    ]


class Batch:
    """What OAP-BPM approximates, the Bayes point over permutations of all rows."""

    def __init__(self, seed: int) -> None:
        self.model = BayesPoint(n_estimators=100, random_state=seed)

    def partial_fit(self, X: Any, y: Any, grades: Any) -> Any:
        return self.model.fit(X, y)


class LateVotes:
    """PRank-VP if each count were stored with the rule that came after, not with its own."""

    def partial_fit(self, X: Any, y: Any, grades: Any) -> Any:
        model = VotedPRank().partial_fit(X, y, grades)
        counts = model.rules_votes_
        model.rules_votes_, model.n_votes_ = np.append(1, counts[:-1]), int(counts[-1]) - 1
        return model


PRANK = Method("PRank", lambda seed: PRank())
VOTED = Method("PRank-VP", lambda seed: VotedPRank(), votes=True)
TABLE_2 = [
    *map(widrow_hoff, (0.2, 0.05, 0.01, 0.001)),
    PRANK,
    VOTED,
    *ensembles((0.1, 0.2, 0.3)),
]
AS_PRINTED = [  # v_i is "the number of correct ranks made by each PRank algorithm"
    Method(
        "OAP-VP as printed, tau 0.3",
        lambda seed: OAPVoting(count="correct", tau=0.3, random_state=seed),
        votes=True,
    )
]
NEW = [
    *AS_PRINTED,
    Method("PRank-VP, correct rounds", lambda seed: VotedPRank(count="correct"), votes=True),
    Method("averaged PRank", lambda seed: PRank(average=True)),
    Method("PRank, ROMMA", lambda seed: PRank(update="romma")),
    Method(
        "OAP-BPM, ROMMA, tau 0.3",
        lambda seed: OAPBPM(estimator=PRank(update="romma"), tau=0.3, random_state=seed),
    ),
    Method("PRank, MIRA", lambda seed: PRank(update="mira")),
    Method(
        "OAP-BPM, MIRA, tau 0.3",
        lambda seed: OAPBPM(estimator=PRank(update="mira"), tau=0.3, random_state=seed),
    ),
    Method("PRank, ALMA", lambda seed: PRank(update="alma")),
    Method(
        "OAP-BPM, ALMA, tau 0.3",
        lambda seed: OAPBPM(estimator=PRank(update="alma"), tau=0.3, random_state=seed),
    ),
    Method("Bayes point, permutations", Batch),
    Method("OAP-BPM, Poisson(1)", lambda seed: OAPBPM(sampling="poisson", random_state=seed)),
    Method("BayesianPRank", lambda seed: BayesianPRank()),
]
