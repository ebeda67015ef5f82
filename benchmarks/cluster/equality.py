"""Models on clusters beside each other and beside local ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.cluster.setup import cluster, every_model, files, fingerprint, fit_frame, read_frame

BYTES_OF_LOCAL = ("LambdaMART", "RankBoost", "OAPBPM")
NEAR_LOCAL = ("RidgeRanker", "MPRank", "RankSVM")
STREAMS = ("OAPBPM",)  # another order of rows is another stream


def grid(options: Any) -> None:
    """equal model files: workers 1, 2, 3 x partitions 1, 2, 7, 64 x shuffled rows x threads 1, 2"""
    from dask.dataframe import from_pandas

    import rankwright as rw

    for n in options.rows:
        with files(n) as folder:
            frame = read_frame(folder)
        rounds = min(options.rounds, 3)
        chosen = {n: m for n, m in every_model(rounds).items() if n in (options.models or [n])}
        prints: dict[str, set[str]] = {name: set() for name in chosen}
        apart = {name: local_twin(make, frame, prints[name]) for name, make in chosen.items()}
        for name, make in chosen.items():
            for threads, order in ((1, None), (2, 1), (2, None), (1, 2)):
                rows = frame if order is None or name in STREAMS else shuffled(frame, order)
                with rw.engine(f"local:{threads}"):
                    prints[name].add(fingerprint(fit_frame(make(), rows)))
        for count in (1, 2, 3):
            with cluster(count, processes=False) as client, rw.engine(client):
                for parts in (1, 2, 7, 64):
                    mixed = shuffled(frame, 10 * count + parts)
                    torn = [from_pandas(f, npartitions=parts, sort=False) for f in (frame, mixed)]
                    for name, make in chosen.items():
                        ddf = torn[name not in STREAMS]
                        prints[name].add(fingerprint(make().fit(ddf, y="label", qid="query")))
                    print(f"  {count} workers, {parts} partitions: different files "
                          f"{[len(each) for each in prints.values()]}", flush=True)  # fmt: skip
        for name in chosen:
            print(f"{n:>9,} rows  {name:<13} 12 fits on clusters, 4 on threads{apart[name]}: "
                  f"different files {len(prints[name])}", flush=True)  # fmt: skip


def local_twin(make: Callable[[], Any], frame: Any, prints: set[str]) -> str:
    """Add the files of local fits on one and two threads, or say how far the weights are."""
    from rankwright.runtime import one_thread

    model = fit_frame(make(), frame)
    name = type(model).__name__
    if name in BYTES_OF_LOCAL:
        prints.add(fingerprint(model))
        with one_thread():
            prints.add(fingerprint(fit_frame(make(), frame)))
        return ", 2 without an engine"
    if name not in NEAR_LOCAL:
        return ""
    import rankwright as rw

    with rw.engine("local:2"):
        other = fit_frame(make(), frame)
    error = np.abs(other.coef_ - model.coef_).max() / np.abs(model.coef_).max()
    return f", {error:.0e} from a local fit"


def shuffled(frame: Any, seed: int) -> Any:
    return frame.sample(frac=1.0, random_state=seed, ignore_index=True)
