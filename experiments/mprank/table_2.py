"""MPRank, Table 2: the share of misranked pairs, ties counted as misses (eq 69) and as 1/2.

"RankBoost" has the features that the paper gives it, with the median in place of a missing rating:
a median is a value like any other, so no weak ranking abstains. "RankBoost, abstaining, .cum" is
the algorithm as its authors run it on ratings: missing is missing, and every feature counts
upwards. All parameters are chosen on the held-out reviewers, for each way of counting by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.mprank.table_1 import EXPECTED, results, show


def main(argv: Sequence[str] | None = None) -> None:
    found = results(argv)
    show(found, "Misranked", {group: EXPECTED["table_2"].get(group, {}) for group in found})
    show(found, "Disagreement", {group: {} for group in found})


if __name__ == "__main__":
    main()
