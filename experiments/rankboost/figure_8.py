"""Figure 8: what random guessing achieves, exactly, as an expectation over all orders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import rankwright as rw

RESULTS = Path(__file__).parents[1] / "_results"
MEASURES = ["AP", "PROT", "Coverage"]
FRACTIONS = (1 / 2, 1 / 3, 1 / 4, 1 / 5)
SIZES = (8, 20, 40, 60, 80, 100, 200, 400)


def guess(n_films: int, n_good: int) -> list[float]:
    """The measures of equal scores: ties stand in random order."""
    grades = (np.arange(n_films) < n_good).astype(float)
    scores = rw.evaluate(np.zeros(n_films), grades, None, MEASURES)
    return [float(scores[measure]) for measure in MEASURES]


def main(argv: list[str] | None = None) -> None:
    left = {f"{fraction:.2f}": guess(60, round(60 * fraction)) for fraction in FRACTIONS}
    right = {str(n): guess(n, n // 4) for n in SIZES}
    for title, rows in (("60 films, share good", left), ("a quarter good, films", right)):
        print(f"\n{title:<24}" + "".join(f"{measure:>10}" for measure in MEASURES))
        for name, row in rows.items():
            print(f"{name:<24}" + "".join(f"{value:>10.3f}" for value in row))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "rankboost_figure_8.json").write_text(json.dumps([left, right], indent=1))


if __name__ == "__main__":
    main()
