"""How long a person waits before anything happens, beside what Python and NumPy take to start.

Also the first fit of rankers in a new process without any compiled code: ``python -m
benchmarks start cold``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from rankwright.cli.app import VERBS

REPEATS = 7
COLD = ("LambdaMART", "RankBoost", "RankNet", "RankSVM", "KeepRank", "OAPBPM", "PRank")
FIT = """
import sys, time, warnings
import numpy as np
import rankwright as rw

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, qid = rng.normal(size=(400, 10)), np.repeat(np.arange(20), 20)
y = np.digitize(X[:, 0] + rng.normal(size=400), [-0.5, 0.5]).astype(float)
ranker = getattr(rw, sys.argv[1])
for _ in range(2):
    wall, cpu = time.perf_counter(), time.process_time()
    ranker().fit(X, y, qid=qid)
    print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def run(*parts: str) -> None:
    for part in parts or ("commands", "cold"):
        {"commands": commands, "cold": cold}[part]()


def cold() -> None:
    """Print seconds of the first fit in a new process, with an empty folder of compiled code."""
    print("first fit, nothing compiled    seconds    of CPU    second fit")
    for name in COLD:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            done = subprocess.run(
                [sys.executable, "-c", FIT, name],
                check=True, capture_output=True, text=True, env=environment,
            )  # fmt: skip
        wall, cpu, again, _ = map(float, done.stdout.split())
        print(f"{name:<30} {wall:7.2f} {cpu:9.2f} {again:13.3f}", flush=True)


def commands() -> None:
    """Print seconds of whole processes: the least of several."""
    shell = [sys.executable, "-m", "rankwright"]
    limits = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
        "python -c 'import sklearn'": [sys.executable, "-c", "import sklearn"],
    }
    ours = {
        "python -c 'import rankwright'": [sys.executable, "-c", "import rankwright"],
        "rankwright --version": [*shell, "--version"],
        "rankwright --help": [*shell, "--help"],
        **{f"rankwright {verb} --help": [*shell, verb, "--help"] for verb in VERBS},
    }
    bare = None
    for name, words in (limits | ours).items():
        seconds = min(_seconds(words) for _ in range(REPEATS))
        bare = bare or seconds
        print(f"{name:<30} {seconds:6.3f} s {seconds / bare:6.1f}x a bare Python", flush=True)


def _seconds(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    return time.perf_counter() - began
