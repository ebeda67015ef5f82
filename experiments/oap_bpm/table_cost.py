"""OAP-BPM, section 3: the cost grows with tau N, as the paper states without figures.

CPU seconds of one pass, one thread, least of three; and the number of times that a member drew a
row, which is what O(tau N) counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np
from experiments.prank.trials import save
from threadpoolctl import threadpool_limits

from rankwright import OAPBPM
from rankwright.data import make_ordinal
from rankwright.rankers import PolynomialMap

TAUS, MEMBERS = (0.1, 0.3, 0.6, 0.9), (25, 50, 100, 200, 400)
SHAPES = {"6 features, all members at once": 0, "60 features, member by member": 54}


def main(argv: Sequence[str] | None = None) -> None:
    n_rows = 5_000 if argv and "--quick" in argv else 20_000
    os.environ["RANKWRIGHT_THREADS"] = "1"
    sample = make_ordinal(n_rows, random_state=0)
    rows = PolynomialMap(degree=2).fit_transform(sample.X)
    rng, found = np.random.default_rng(0), {}
    with threadpool_limits(1):
        for title, more in SHAPES.items():
            X = np.hstack([rows, rng.normal(size=(n_rows, more))])
            found[title] = table(title, X, sample.y)
    save("oap_bpm_table_cost", found)


def table(title: str, X: np.ndarray, y: np.ndarray) -> dict[str, list[float]]:
    print(f"\n{title}, {len(y):,} rows: CPU seconds, N members")
    print(f"{'':10} " + " ".join(f"{n:>8}" for n in MEMBERS) + "   seconds ~ N ** p")
    found = {}
    for tau in TAUS:
        found[f"{tau:g}"] = [seconds(tau, n, X, y) for n in MEMBERS]
        power = np.polyfit(np.log(MEMBERS), np.log(found[f"{tau:g}"]), 1)[0]
        cells = " ".join(f"{value:8.3f}" for value in found[f"{tau:g}"])
        print(f"tau {tau:<6g} {cells}   p = {power:.2f}", flush=True)
    growth = [found["0.9"][k] / found["0.1"][k] for k in range(len(MEMBERS))]
    print("tau 0.9 / tau 0.1, 9 if proportional: " + " ".join(f"{value:.2f}" for value in growth))
    return found


def seconds(tau: float, n: int, X: np.ndarray, y: np.ndarray) -> float:
    times = []
    for _ in range(3):
        model = OAPBPM(tau=tau, n_estimators=n, random_state=0)
        start = time.process_time()
        model.fit(X, y)
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    main()
