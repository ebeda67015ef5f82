"""PRank, Figure 3 (left): time-averaged rank loss on the synthetic data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from experiments.prank.trials import curve, mean_curves, n_trials, print_curves, save

from rankwright.data import make_ordinal
from rankwright.rankers import BayesianPRank, MulticlassPerceptron, PolynomialMap, PRank, WidrowHoff

LENGTH, TRIALS = 7000, 100
METHODS = {
    "PRank": lambda: PRank(),
    "WH, eta 1 (paper)": lambda: WidrowHoff(learning_rate=1.0),
    "WH, eta 0.1": lambda: WidrowHoff(learning_rate=0.1),
    "MC-Perceptron": lambda: MulticlassPerceptron(),
    "averaged PRank (new)": lambda: PRank(average=True),
    "BayesianPRank (new)": lambda: BayesianPRank(),
}


def one_trial(trial: int) -> Iterator[tuple[str, np.ndarray]]:
    sample = make_ordinal(LENGTH, random_state=trial)
    rows = PolynomialMap(degree=2).fit_transform(sample.X)
    for name, make in METHODS.items():
        yield name, curve(make(), rows, sample.y, range(1, 6))


def main(argv: Sequence[str] | None = None) -> None:
    import warnings

    warnings.simplefilter("ignore", category=UserWarning)  # WH with eta 1 diverges, and says so
    trials = n_trials(argv, TRIALS, 5)
    curves = mean_curves(one_trial, trials)
    print(f"time-averaged rank loss, {trials} sequences of {LENGTH:,} rounds")
    print_curves(curves, [10, 50, 100, 250, 500, 1000, 2000, 4000, LENGTH])
    print(
        "paper: WH is best in the first rounds, then PRank; MC-Perceptron is constantly worse than "
        "both."
    )
    save("prank_figure_3_synthetic", {name: c[::50].tolist() for name, c in curves.items()})


if __name__ == "__main__":
    main()
