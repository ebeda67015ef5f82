"""Seconds of fits against rows and workers, and the overhead of a round."""

from __future__ import annotations

import operator
from contextlib import nullcontext
from typing import Any

import numpy as np
from benchmarks.cluster.setup import (
    cluster,
    files,
    fingerprint,
    fit_local,
    fit_on,
    models,
    on_engine,
    timed,
)


def workers(options: Any) -> None:
    """seconds of a fit against the number of workers, files read by the workers"""
    for n in options.rows:
        with files(n) as folder:
            chosen, local = models(options), {}
            for name, make in chosen.items():
                fit_local(make(), folder)
                local[name] = timed(fit_local, make(), folder)
            prints = {
                name: {fingerprint(on_engine(make(), folder))} for name, make in chosen.items()
            }
            texts: dict[str, list[str]] = {name: [] for name in chosen}
            for count in options.workers:
                with cluster(count, chosen) as client:
                    for name, make in chosen.items():
                        took, model = timed(fit_on, client, make(), folder)
                        prints[name].add(fingerprint(model))
                        texts[name].append(f"{count}: {took:.1f} s")
            for name, (took, _) in local.items():
                print(f"{n:>9,} rows  {name:<11} local {took:5.1f} s   workers "
                      f"{'  '.join(texts[name])}   different files {len(prints[name])}",
                      flush=True)  # fmt: skip


def overhead(options: Any) -> None:
    """milliseconds of a round: a map over 64 shards and a sum, with nothing to compute"""
    import rankwright as rw

    places: list[tuple[Any, str]] = [("local:2", "threads")]
    places += [(count, f"{count} workers") for count in options.workers]
    for where, text in places:
        opened = cluster(where) if isinstance(where, int) else nullcontext(where)
        with opened as place, rw.engine(place) as engine:
            values = engine.scatter([np.zeros(46 * 256)] * 64, blocks=engine.n_blocks)
            one = [timed(_round, engine, values)[0] for _ in range(30)]
        low, middle = 1e3 * min(one), 1e3 * float(np.median(one))
        print(f"{text:<10} best {low:6.1f} ms   median {middle:6.1f} ms", flush=True)


def _round(engine: Any, values: Any) -> Any:
    return engine.reduce(engine.map(abs, values), operator.add)


def crossover(options: Any) -> None:
    """rows from which the cluster is faster than a fit on one machine"""
    count, chosen = max(options.workers), models(options)
    found: dict[str, int] = {}
    with cluster(count, chosen) as client, files(2000) as few:
        for make in chosen.values():
            fit_local(make(), few)  # loads and compiles
        for n in options.rows:
            with files(n) as folder:
                for name, make in chosen.items():
                    there, _ = timed(fit_on, client, make(), folder)
                    here, _ = timed(fit_local, make(), folder)
                    print(f"{name:<11} {n:>9,} rows  local {here:6.1f} s  "
                          f"{count} workers {there:6.1f} s", flush=True)  # fmt: skip
                    if there < here:
                        found.setdefault(name, n)
    for name in chosen:
        text = f"{found[name]:,} rows" if name in found else "not reached"
        print(f"{name:<11} crossover: {text}")


def weak(options: Any) -> None:
    """seconds as rows grow with the workers (rows are those of the largest cluster)"""
    chosen, most = models(options), max(options.workers)
    seconds: dict[tuple[str, int], list[str]] = {}
    for count in options.workers:
        with cluster(count, chosen) as client:
            for n in options.rows:
                size = n * count // most
                with files(size) as folder:
                    for name, make in chosen.items():
                        took, _ = timed(fit_on, client, make(), folder)
                        text = f"{size:,} on {count}: {took:.1f} s"
                        seconds.setdefault((name, n), []).append(text)
    for (name, _), texts in seconds.items():
        print(f"{name:<11} {'   '.join(texts)}", flush=True)
