"""Save two models over each other without end, in a child that is killed at random moments.

Run as ``python killed_saver.py PATH N_KILLS``; prints what was found after each kill, as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw


def model(value: float, n_features: int = 10_000) -> Any:
    fitted = rw.RidgeRanker()
    fitted.n_features_in_, fitted.n_queries_in_, fitted.rank_ = n_features, 1, 1
    fitted.coef_, fitted.intercept_ = np.full(n_features, value), value
    return fitted


def save_without_end(path: Path) -> None:
    models = [model(1.0), model(2.0)]
    while True:
        for each in models:
            rw.save(each, path)


def content(path: Path) -> str:
    try:
        values = np.unique(rw.load_scorer(path).scorer.coef)
    except (rw.RankwrightError, OSError) as error:
        return f"broken: {error}"
    return str(values.tolist())


def main(path: Path, n_kills: int) -> None:
    rw.save(model(1.0), path)
    gc.freeze()  # a child that collects garbage would copy the memory of its parent
    chance, seen = random.Random(0), Counter()
    for _ in range(n_kills):
        child = os.fork()
        if child == 0:
            try:
                save_without_end(path)
            finally:
                os._exit(1)
        time.sleep(chance.uniform(0.001, 0.012))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        seen[content(path)] += 1
    strays = [entry for entry in path.parent.iterdir() if entry.name != path.name]
    print(json.dumps({"seen": seen, "strays": len(strays)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
