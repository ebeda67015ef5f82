"""MPRank, Table 2: the share of misranked pairs (eq 69), on the runs of Table 1."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.mprank.table_1 import EXPECTED, results, show


def main(argv: Sequence[str] | None = None) -> None:
    found = results(argv)
    show(found, "Misranked", {group: EXPECTED["table_2"].get(group, {}) for group in found})


if __name__ == "__main__":
    main()
