"""PRank, Figure 3 (middle, right): the taste of a random viewer, MovieLens for EachMovie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from experiments.prank.movies import Viewers
from experiments.prank.trials import curve, interval, n_trials, print_curves, save
from sklearn.preprocessing import normalize

from rankwright import BayesianPRank, MulticlassPerceptron, PRank, WidrowHoff

TRIALS = 500
METHODS = {
    "PRank": lambda: PRank(),
    "WH, eta 0.1": lambda: WidrowHoff(learning_rate=0.1),
    "WH, eta 0.01": lambda: WidrowHoff(learning_rate=0.01),
    "MC-Perceptron": lambda: MulticlassPerceptron(),
    "averaged PRank (new)": lambda: PRank(average=True),
    "BayesianPRank (new)": lambda: BayesianPRank(),
}
# A threshold moves by 1, a score by the squared length of the row: PRank feels the scale of rows.
UNIT_ROWS = {
    "PRank, unit rows": lambda: PRank(),
    "WH, eta 1, unit rows": lambda: WidrowHoff(learning_rate=1.0),
    "MC-Perceptron, unit rows": lambda: MulticlassPerceptron(),
}


def target(viewers: Viewers, rounds: int, trial: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(trial)
    return viewers.target(int(rng.integers(viewers.stars.shape[0])), rounds, rng)


def curves_of(X: Any, y: Any) -> Iterator[tuple[str, np.ndarray]]:
    for rows, methods in ((X, METHODS), (normalize(X), UNIT_ROWS)):
        for name, make in methods.items():
            yield name, curve(make(), rows, y, range(1, 6))


def main(argv: Sequence[str] | None = None) -> None:
    import warnings

    warnings.simplefilter("ignore", category=UserWarning)  # WH diverges at times, and says so
    trials = n_trials(argv, TRIALS, 20)
    for rounds in (100, 200):
        viewers = Viewers.who_rated_more_than(rounds)
        found: dict[str, list[np.ndarray]] = {name: [] for name in METHODS | UNIT_ROWS}
        lengths: list[float] = []
        for trial in range(trials):
            X, y = target(viewers, rounds, trial)
            lengths.append(float(np.square(X).sum(axis=1).mean()))
            for name, values in curves_of(X, y):
                found[name].append(values)
        means = {name: np.mean(values, axis=0) for name, values in found.items()}
        print(
            f"viewers with more than {rounds} ratings: {viewers.stars.shape[0]:,}; "
            f"{trials} random viewers; mean squared length of a row {np.mean(lengths):.0f}"
        )
        print_curves(means, [10, 25, 50, 75, 100] + [150, 200] * (rounds == 200))
        last = {name: interval([v[-1] for v in values]) for name, values in found.items()}
        print("95 %: " + ", ".join(f"{n} {m:.3f} ± {h:.3f}" for n, (m, h) in last.items()))
        save(f"prank_figure_3_movies_{rounds}", {n: c.tolist() for n, c in means.items()})
    print(
        "paper: PRank is significantly better than WH and consistently better than MC-Perceptron "
        "over the entire run."
    )


if __name__ == "__main__":
    main()
