"""Figure 5: the four measures as the number of features (reference users) grows.

``--features=2000`` computes that point alone.
"""

from __future__ import annotations

import sys

import numpy as np
from experiments.rankboost.movies import Point, draw, load, size_of

SIZES = (100, 200, 500, 750, 1000, 2000)


def main(argv: list[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    size = size_of(words, splits=5, targets=2000)
    only = [int(word.split("=")[1]) for word in words if word.startswith("--features=")]
    sizes = only or (SIZES[:3] if size.quick else SIZES)
    ratings = load()
    splits = []
    for seed in range(size.splits):
        people = np.random.default_rng(seed).permutation(ratings.n_users)
        targets = people[2000 : 2000 + size.targets]
        splits.append((seed, [Point(str(n), people[:n], targets) for n in sizes]))
    print("columns: number of features")
    draw(ratings, splits, size, "figure_5")


if __name__ == "__main__":
    main()
