"""Figure 7: the four measures by density of the feedback, the target user's number of films."""

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
        reference = rng.permutation(ratings.n_users)[:n_features]
        points = []
        for name, users in density_bins(ratings, EDGES).items():
            targets = rng.permutation(np.setdiff1d(users, reference))[: size.targets]
            points.append(Point(name, reference, targets))
        splits.append((seed, points))
    for name, users in density_bins(ratings, EDGES).items():
        top = [_share_of_top(ratings.value[ratings.user == user]) for user in users[:500]]
        print(f"share of top-rated films, {name}: {np.mean(top):.2f}")
    draw(ratings, splits, size, "figure_7")


def _share_of_top(value: np.ndarray) -> float:
    return float((value == value.max()).mean())


if __name__ == "__main__":
    main()
