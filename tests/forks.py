"""Fork while other threads fit: ``python forks.py N [SECONDS]`` forks N children that fit as well.

Prints how many children hung, and exits with 1 if one was still running after SECONDS. BLAS has one
thread: OpenBLAS stops its threads at a fork, and a product that another thread computes with them
at that moment never ends.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
import warnings
from itertools import cycle
from threading import Event, Thread
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import rankwright as rw

RANKERS = {
    "LambdaMART": rw.LambdaMART(n_estimators=5),
    "RankBoost": rw.RankBoost(n_estimators=5),
    "RankSVM": rw.RankSVM(),
    "MPRank": rw.MPRank(kernel="rbf"),  # many products of BLAS
    "PRank": rw.PRank(),
    "Regression": rw.Regression(),
}


def main(tries: int, seconds: float = 60.0) -> None:
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(400, 50)), np.repeat(np.arange(20), 20)
    y = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)
    warnings.simplefilter("ignore")

    def fit(model: Any) -> None:
        model.fit(X, y, qid=qid).decision_function(X)

    for model in RANKERS.values():
        fit(model)  # imports and compilation are over
    stop = Event()
    threads = [Thread(target=_repeat, args=(fit, model, stop)) for model in RANKERS.values()]
    for thread in threads:
        thread.start()
    hung = 0
    for _, (name, model) in zip(range(tries), cycle(RANKERS.items()), strict=False):
        time.sleep(rng.uniform(0.0, 0.05))
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(seconds)
            fit(type(model)(**model.get_params(deep=False)))
            model.decision_function(X)  # the object that a thread of the parent was fitting
            os._exit(0)
        hung += _hangs(child, name, seconds + 1.0)
    stop.set()
    for thread in threads:
        thread.join(seconds)
    hung += sum(thread.is_alive() for thread in threads)
    print(f"{tries} forks during a fit, {hung} hung", flush=True)
    os._exit(bool(hung))


def _repeat(fit: Any, model: Any, stop: Event) -> None:
    while not stop.is_set():
        fit(model)


def _hangs(child: int, name: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if status:
                sys.exit(f"the child that fitted {name} ended with status {status}")
            return False
        time.sleep(0.01)
    print(f"the child that fitted {name} still runs after {seconds:.0f} s", flush=True)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(float, sys.argv[2:]))
