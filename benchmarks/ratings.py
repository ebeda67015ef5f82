"""``read_ratings`` and ``read_run`` beside pandas on the same generated files, in one run.

pandas reads columns only; rankwright also numbers users and items, checks scale and duplicates.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rankwright.data import read_ratings, read_run

N_USERS, N_ITEMS, N_RATINGS = 6_000, 4_000, 1_000_000
REPEATS = 3


def run() -> None:
    """Print seconds (shortest of several) and how many times faster than pandas."""
    print(f"{'file':<36} {'ours':>7} {'pandas':>7} {'ratio':>6}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        for title, text, ours, pandas in _files():
            path = Path(name) / "file"
            path.write_text(text)
            mine, theirs = _shortest(lambda: ours(path), lambda: pandas(path))  # noqa: B023
            print(f"{title:<36} {mine:>7.2f} {theirs:>7.2f} {theirs / mine:>6.1f}", flush=True)


def _files() -> list[tuple[str, str, Callable[[Path], Any], Callable[[Path], Any]]]:
    rng = np.random.default_rng(0)
    pair = rng.choice(N_USERS * N_ITEMS, N_RATINGS, replace=False)
    rows = list(zip(pair // N_ITEMS, pair % N_ITEMS, rng.integers(1, 6, N_RATINGS), strict=True))
    stars = "".join(f"{u}::{i}::{v}::978300760\n" for u, i, v in rows)
    listed = "".join(
        f"{q}\tQ0\tFBIS3-{d}\t{d}\t{score}\tbm25\n"
        for q in range(200)
        for d, score in enumerate(np.sort(rng.standard_normal(1000))[::-1].tolist())
    )
    return [
        (
            "MovieLens 1M (::), 1,000,000 ratings",
            stars,
            lambda path: read_ratings(path, "movielens-1m"),
            lambda path: pd.read_csv(path, sep="::", engine="python", header=None),
        ),
        (
            "the same with tabs",
            stars.replace("::", "\t"),
            lambda path: read_ratings(path, "movielens-100k"),
            lambda path: pd.read_csv(path, sep="\t", header=None),
        ),
        (
            "the same as CSV with header",
            "userId,movieId,rating,timestamp\n" + stars.replace("::", ","),
            lambda path: read_ratings(path, "csv"),
            pd.read_csv,
        ),
        (
            "TREC run, 200,000 lines",
            listed,
            read_run,
            lambda path: pd.read_csv(path, sep="\t", header=None),
        ),
    ]


def _shortest(*calls: Callable[[], Any]) -> list[float]:
    """Seconds of each call, the shortest of several, one after the other in turn."""
    best = [float("inf")] * len(calls)
    for _ in range(REPEATS):
        for number, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[number] = min(best[number], time.perf_counter() - start)
    return best
