"""OAP-BPM, Table 2: the cystic fibrosis column under every reading of the paper that was tried."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from experiments.oap_bpm import table_1
from experiments.oap_bpm.judged import Reading, cystic_fibrosis
from experiments.oap_bpm.methods import TABLE_2, VOTED, LateVotes, Method, ensembles
from experiments.oap_bpm.table import EXPECTED, meets, order_of, run
from experiments.prank.trials import interval, load_or_leave, n_trials, save

import rankwright as rw
from rankwright.rankers import PolynomialMap, VotedPRank

TRIALS = 40
RIGHT = Method("PRank-VP", lambda seed: VotedPRank(count="correct"), votes=True)
LATE = Method("PRank-VP", lambda seed: LateVotes(), votes=True)
AS_IN_THE_TABLE = Reading()


def poly(rows: Any) -> Any:
    return PolynomialMap(degree=2).fit_transform(rows)


def homogeneous(rows: Any) -> Any:
    return PolynomialMap(degree=2, coef0=0.0).fit_transform(rows)


def one_hot(marks: Any) -> Any:
    return np.hstack([1.0 * (marks == mark) for mark in range(3)])


def other(name: str, **changes: Any) -> tuple[Reading, list[Method]]:
    return replace(AS_IN_THE_TABLE, name=name, **changes), TABLE_2


def instead(*methods: Method) -> list[Method]:
    """The methods of the table, some of them replaced by others of the same name."""
    new = {method.name: method for method in methods}
    return [new.get(method.name, method) for method in TABLE_2]


READINGS: list[tuple[Reading, list[Method]]] = [
    (AS_IN_THE_TABLE, TABLE_2),
    other("a judge for each pair", judge_per_pair=True),
    other("a judge for each pair, kernel of degree 2", judge_per_pair=True, kernel=poly),
    other("kernel of degree 2", kernel=poly),
    other("kernel of degree 2, for WH too", kernel=poly, kernel_for_wh=True),
    other("kernel of degree 2, homogeneous", kernel=homogeneous),
    other("features 0 .. 2", coding=lambda marks: 1.0 * marks),
    other("features one-hot", coding=one_hot),
    other("test on the last 12 queries", last_queries=True),
    other("in the order of the file", file_order=True),
    other("two passes", passes=2),
    (Reading("OAP-VP by all right answers"), instead(*ensembles((0.1, 0.2, 0.3), "correct"))),
    (Reading("PRank-VP by correct rounds"), instead(RIGHT)),
    (Reading("PRank-VP, counts one rule late"), instead(LATE)),
]


def main(argv: Sequence[str] | None = None) -> None:
    """Print how near each reading comes: cells, order, mean distance, and widths of intervals."""
    warnings.simplefilter("ignore", category=UserWarning)  # WH diverges at times, and says so
    trials = n_trials(argv, TRIALS, 8)
    expected = EXPECTED["cystic_fibrosis"]
    print(f"cystic fibrosis, readings of the paper; {trials} trials, intervals as of 500")
    print(f"{'':44} {'cells':>6} {'pairs':>6} {'distance':>9} {'widths':>7}")
    found = {}
    for reading, methods in READINGS:
        losses = run(methods, cystic_fibrosis(reading), trials, range(1, 4))
        cells = {
            name: (interval(loss["paper"])[0], 1.96 * np.std(loss["paper"], ddof=1) / 500**0.5)
            for name, loss in losses.items()
        }
        met = sum(meets(expected[name], *cell) for name, cell in cells.items())
        apart, wrong = order_of({name: mean for name, (mean, _) in cells.items()}, expected)
        distance = np.mean([abs(mean - expected[name][0]) for name, (mean, _) in cells.items()])
        widths = sum(abs(half - expected[name][1]) <= 0.0075 for name, (_, half) in cells.items())
        print(
            f"{reading.name:44} {met:3}/{len(cells)} {apart - len(wrong):3}/{apart} "
            f"{distance:9.3f} {widths:4}/{len(cells)}",
            flush=True,
        )
        found[reading.name] = {name: [float(v) for v in cell] for name, cell in cells.items()}
    print_reasons(found)
    save("oap_bpm_table_readings", found)


def print_reasons(found: dict[str, dict[str, list[float]]]) -> None:
    """The figures behind the choice of a reading."""
    table, last = found["as in the table"], found["PRank-VP, counts one rule late"]
    each, right = found["a judge for each pair"], found["OAP-VP by all right answers"]
    slow = "WH, eta 0.001"
    print(f"interval of {slow}: {table[slow][1]:.3f} as in the table, "
          f"{each[slow][1]:.3f} with a judge for each pair")  # fmt: skip
    marks = load_or_leave(lambda: rw.load_dataset("cystic-fibrosis")).scores
    apart = [
        np.abs(marks[:, judge] - np.median(np.delete(marks, judge, axis=1), axis=1)).mean()
        for judge in range(4)
    ]
    print("distance of each judge from the median of the others: "
          + ", ".join(f"{value:.2f}" for value in apart)
          + f"; rank 1 for every pair costs {marks.mean():.3f}")  # fmt: skip
    synthetic = run([Method("late", LATE.make, votes=True), VOTED], table_1.draw, 20, range(1, 6))
    late, voted = (np.mean(losses["paper"]) for losses in synthetic.values())
    print(f"PRank-VP: {table['PRank-VP'][0]:.3f}, counts one rule late {last['PRank-VP'][0]:.3f}; "
          f"on the data of Table 1 {voted:.3f} and {late:.3f}")  # fmt: skip
    for name, cells in (("survived rounds", table), ("all right answers", right)):
        gap = max(abs(cells[f"OAP-VP, tau {tau}"][0] - cells[f"OAP-Bagg, tau {tau}"][0])
                  for tau in (0.1, 0.2, 0.3))  # fmt: skip
        print(f"OAP-VP by {name}: at most {gap:.3f} from OAP-Bagg")


if __name__ == "__main__":
    main()
