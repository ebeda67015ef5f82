"""Figure 6: the four measures by density of the features, the number of films each user rated.

MovieLens has nobody with fewer than 20 ratings, so the bins begin at 20.
"""

from __future__ import annotations

import sys

import numpy as np
from experiments.rankboost.movies import Point, draw, load, size_of

from rankwright.recommend import density_bins

EDGES = (20, 40, 60, 100)


def main(argv: list[str] | None = None) -> None:
    size = size_of(sys.argv[1:] if argv is None else argv, splits=6, targets=1000)
    ratings = load()
    n_features = 200 if size.quick else 1000
    splits = []
    for seed in range(size.splits):
        rng = np.random.default_rng(seed)
        pool = rng.permutation(ratings.n_users)[:1000]
        points = []
        for name, users in density_bins(ratings, EDGES).items():
            # As many as there are, at most 1,000, none of them a target.
            free = rng.permutation(np.setdiff1d(users, pool))[:n_features]
            points.append(Point(name, free, pool[: size.targets]))
            if seed == 0:
                mean = ratings.user_counts[free].mean()
                print(f"{name}: {len(free)} features, {mean:.0f} films each")
        splits.append((seed, points))
    draw(ratings, splits, size, "figure_6")


if __name__ == "__main__":
    main()
