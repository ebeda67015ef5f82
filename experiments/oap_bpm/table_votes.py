"""OAP-BPM: one more attempt at PRank-VP, .52 on cystic fibrosis and .31 on the synthetic data.

Ways to read "H(x) = sum v_i h_i(x)", on both data sets at once: what v_i counts, which rules vote,
and how the mean vote becomes the number that is scored. Intervals are as of 500 trials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from experiments.oap_bpm import table_1
from experiments.oap_bpm.judged import cystic_fibrosis
from experiments.oap_bpm.methods import LateVotes, Method
from experiments.oap_bpm.table import meets, run
from experiments.prank.trials import n_trials, save

from rankwright.rankers import VotedPRank

TRIALS = 40
PAPER = {"cystic fibrosis": (0.52, 0.01), "synthetic": (0.31, 0.00)}


class Read:
    """A voted PRank whose votes are read in another way."""

    def __init__(self, read: Callable[[Any, Any], Any], **options: Any) -> None:
        self.read, self.model = read, VotedPRank(**options)

    def partial_fit(self, X: Any, y: Any, grades: Any) -> Read:
        self.model.partial_fit(X, y, grades)
        return self

    def predict(self, X: Any) -> Any:
        return self.model.predict(X)

    def predict_expected(self, X: Any) -> Any:
        return self.read(self.model, X)


def mean(model: Any, X: Any) -> Any:
    return model.predict_expected(X)


def down(model: Any, X: Any) -> Any:
    return np.floor(model.predict_expected(X) + 1e-9)


def up(model: Any, X: Any) -> Any:
    return np.ceil(model.predict_expected(X) - 1e-9)


def most_votes(model: Any, X: Any) -> Any:
    return model.classes_[np.argmax(model.predict_proba(X), axis=1)]


def median_vote(model: Any, X: Any) -> Any:
    below = np.cumsum(model.predict_proba(X), axis=1) < 0.5
    return model.classes_[below.sum(axis=1)]


def without_last(model: Any, X: Any) -> Any:
    model.n_votes_ = -1 if model.count == "survived" else 0
    return model.predict_expected(X)


def equal_votes(model: Any, X: Any) -> Any:
    model.rules_votes_, model.n_votes_ = np.ones_like(model.rules_votes_), 0
    return model.predict_expected(X)


WAYS: dict[str, Callable[[int], Any]] = {
    "mean of the votes (as in the tables)": lambda seed: Read(mean),
    "  rounded down": lambda seed: Read(down),
    "  rounded up": lambda seed: Read(up),
    "  the rank with most votes": lambda seed: Read(most_votes),
    "  the median vote": lambda seed: Read(median_vote),
    "  without the last rule": lambda seed: Read(without_last),
    "correct rounds only": lambda seed: Read(mean, count="correct"),
    "  correct, rounded down": lambda seed: Read(down, count="correct"),
    "  correct, without the last rule": lambda seed: Read(without_last, count="correct"),
    "counts one rule late": lambda seed: LateVotes(),
    "one vote for each rule": lambda seed: Read(equal_votes),
}


def as_of_500(losses: list[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % interval if there were 500 trials."""
    return float(np.mean(losses)), 1.96 * float(np.std(losses, ddof=1)) / 500**0.5


def main(argv: Sequence[str] | None = None) -> None:
    trials = n_trials(argv, TRIALS, 4)
    methods = [Method(name, make, votes=True) for name, make in WAYS.items()]
    data = {
        "cystic fibrosis": (cystic_fibrosis(), range(1, 4)),
        "synthetic": (table_1.draw, range(1, 6)),
    }
    found = {name: run(methods, draw, trials, grades) for name, (draw, grades) in data.items()}
    print(f"PRank-VP, {trials} trials: {'':14}" + "".join(f"{name:>17}" for name in data))
    print(f"{'paper':40}" + "".join(f"{cell[0]:17.2f}" for cell in PAPER.values()))
    table = {}
    for way in WAYS:
        cells = {name: as_of_500(found[name][way]["paper"]) for name in data}
        both = all(meets(PAPER[name], *cells[name]) for name in data)
        row = "".join(f"{value:9.3f} ± {half:.3f}" for value, half in cells.values())
        print(f"{way:40}{row}{'  both meet' if both else ''}")
        table[way] = {name: value for name, (value, _) in cells.items()}
    save("oap_bpm_table_votes", table)


if __name__ == "__main__":
    main()
