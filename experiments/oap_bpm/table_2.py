"""OAP-BPM, Table 2: test rank loss of collaborative filtering on three data sets.

``oap_bpm/table_readings`` shows how the cystic fibrosis column comes out under other readings.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

from experiments.oap_bpm.judged import (
    cystic_fibrosis,
    films,
    movies,
    ohsumed,
    two_judges,
    unit_movies,
)
from experiments.oap_bpm.methods import AS_PRINTED, TABLE_2, Method
from experiments.oap_bpm.table import run, show
from experiments.prank.trials import n_trials, save

from rankwright import BayesianPRank, PRank

TRIALS = 500
COLUMNS = {
    "cystic_fibrosis": (cystic_fibrosis, range(1, 4), "cystic fibrosis, four judges"),
    "movies": (movies, range(1, 6), "MovieLens 1M (paper: EachMovie, six ranks)"),
    "films": (films, range(1, 7), "films made after EachMovie's figures, six ranks"),
    "unit_movies": (unit_movies, range(1, 6), "MovieLens 1M, rows of length 1"),
    "two_judges": (two_judges, range(1, 4), "two of three judges, zeros (paper: OHSUMED)"),
    "ohsumed": (ohsumed, range(1, 4), "OHSUMED, one label and 45 features (paper: judges)"),
}
METHODS = [
    *TABLE_2,
    *AS_PRINTED,
    Method("averaged PRank", lambda seed: PRank(average=True)),
    Method("BayesianPRank", lambda seed: BayesianPRank()),
]


def main(argv: Sequence[str] | None = None) -> None:
    warnings.simplefilter("ignore", category=UserWarning)  # WH diverges at times, and says so
    trials = n_trials(argv, TRIALS, 12)
    for column, (prepare, grades, title) in COLUMNS.items():
        print(f"\n{title}; {trials} trials")
        table = show(run(METHODS, prepare(), trials, grades), column)
        save(f"oap_bpm_table_2_{column}", table)


if __name__ == "__main__":
    main(sys.argv[1:])
