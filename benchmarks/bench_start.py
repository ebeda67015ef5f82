"""How long a person waits before anything happens, beside what Python and NumPy take to start."""

from __future__ import annotations

import subprocess
import sys
import time

from rankwright.cli.app import VERBS

REPEATS = 7


def run() -> None:
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
