"""The default recommender on MovieLens 1M, by the protocol of RecTools' table of transformers.

The README has the protocol line by line. Items with fewer than five ratings are left out, as in
the file that RecTools' benchmark reads; all users are tested on their last item, over the whole
catalog. With ``--all-items`` nothing is left out.

    python -m experiments.rankboost.rectools_protocol [--all-items]
"""

from __future__ import annotations

import sys
import time

import rankwright as rw
from rankwright.recommend import evaluate_top_n

LEAST = 5  # ratings of a user and of an item


def five_core(ratings: rw.Ratings) -> rw.Ratings:
    """Users and items with five ratings or more, until nothing changes."""
    while True:
        kept = (ratings.user_counts[ratings.user] >= LEAST) & (
            ratings.item_counts[ratings.item] >= LEAST
        )
        if kept.all():
            return ratings
        ratings = ratings.take(kept).compact()


def main(words: list[str]) -> None:
    ratings = rw.load_dataset("movielens-1m")
    if "--all-items" not in words:
        ratings = five_core(ratings)
    events = rw.Interactions.from_ratings(ratings)
    print(events, flush=True)
    start = time.process_time()
    report = evaluate_top_n(rw.Recommender(random_state=0), events, "last")
    print(f"Recommender(): {time.process_time() - start:.0f} s of CPU for fit and lists")
    print("\n".join(str(report).splitlines()[:5]))


if __name__ == "__main__":
    main(sys.argv[1:])
