"""PRank in batch: its last rule on unseen rows, beside large-margin ordinal regression.

The paper has one sentence on it: PRank ran over the training data as an online algorithm, its last
hypothesis ranked the test data, and it outperformed the algorithms of Herbrich, Graepel and
Obermayer (2000), in their set-up. Those are large-margin ordinal regression, a multiclass support
vector machine and support vector regression; the data are the generator of Figure 3, the kernel is
the polynomial of degree 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from experiments.prank.trials import interval, n_trials, rank_loss, save
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from rankwright.data import make_ordinal
from rankwright.rankers import (
    BayesianPRank,
    LargeMarginOrdinal,
    OrdinalSVM,
    PolynomialMap,
    PRank,
    ProportionalOdds,
)

SIZES = (10, 25, 50, 100, 250, 500, 1000)
TRIALS, N_TEST = 30, 1000
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # C; chosen on as many fresh rows as there are to test
# What each of them stands for where a method has another parameter.
PASSES = dict(zip(STRENGTHS, (1, 3, 10, 30, 100), strict=True))
SHARES = dict(zip(STRENGTHS, (1.05, 1.5, 2.0, 5.0, 10.0), strict=True))

Maker = Callable[[float], Any]


def _support_vectors(machine: type, **options: Any) -> Maker:
    return lambda C: make_pipeline(StandardScaler(), machine(kernel="linear", C=C, **options))


# method -> how to make it for a value of C, and whether it has one
METHODS: dict[str, tuple[Maker, bool]] = {
    "PRank, one pass": (lambda C: PRank(), False),
    "PRank, 100 passes": (lambda C: PRank(max_iter=100), False),
    "PRank, passes by validation": (lambda C: PRank(max_iter=PASSES[C]), True),
    "large-margin ordinal regression": (lambda C: LargeMarginOrdinal(C=C), True),
    "Shashua and Levin, fixed margins (new)": (lambda C: OrdinalSVM(C=C), True),
    "Shashua and Levin, sum of margins (new)": (
        lambda C: OrdinalSVM(margins="sum", C=SHARES[C]),
        True,
    ),
    "proportional odds (new)": (lambda C: ProportionalOdds(C=10 * C), True),
    "multiclass SVM": (_support_vectors(SVC), True),
    "support vector regression": (_support_vectors(SVR, epsilon=0.1), True),
    "PRank, MIRA, 100 passes (new)": (lambda C: PRank(update="mira", C=C, max_iter=100), True),
    "PRank, ALMA, 100 passes (new)": (lambda C: PRank(update="alma", max_iter=100), False),
    "averaged PRank, 100 passes (new)": (lambda C: PRank(max_iter=100, average=True), False),
    "BayesianPRank, one pass (new)": (lambda C: BayesianPRank(), False),
}


def one_trial(n_rows: int, trial: int) -> dict[str, float]:
    """The test loss of each method; C is the best of its grid on validation rows."""
    expand = PolynomialMap(degree=2)
    train, valid, test = (
        make_ordinal(n, random_state=[trial, part])
        for part, n in enumerate((n_rows, N_TEST, N_TEST))
    )
    X = expand.fit_transform(train.X)
    losses = {}
    for name, (make, has_strength) in METHODS.items():
        models = [make(C).fit(X, train.y) for C in (STRENGTHS if has_strength else (1.0,))]
        judged = [_loss(model, expand.transform(valid.X), valid.y) for model in models]
        best = models[int(np.argmin(judged))]
        losses[name] = _loss(best, expand.transform(test.X), test.y)
    return losses


def _loss(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return rank_loss(np.clip(np.round(model.predict(X)), 1, 5), y)


def main(argv: Sequence[str] | None = None) -> None:
    import warnings

    warnings.simplefilter("ignore", category=UserWarning)  # ten rows may lack a grade
    trials = n_trials(argv, TRIALS, 5)
    found = {n: [one_trial(n, trial) for trial in range(trials)] for n in SIZES}
    table = {m: [interval([t[m] for t in found[n]]) for n in SIZES] for m in METHODS}
    print(f"rank loss on {N_TEST:,} unseen rows, {trials} trials, by rows to train on")
    width = max(map(len, METHODS))
    print(f"{'':{width}} " + " ".join(f"{n:>13,}" for n in SIZES))
    for name, cells in table.items():
        print(f"{name:{width}} " + " ".join(f"{m:6.3f} ±{half:.3f}" for m, half in cells))
    print("paper: PRank came first, outperforming the algorithms of Herbrich et al.")
    save("prank_table_batch", {name: [mean for mean, _ in cells] for name, cells in table.items()})


if __name__ == "__main__":
    main()
