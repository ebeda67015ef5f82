"""The service beside the least that any such service does, in one run; kills, soak, interleaving.

``python -m benchmarks serve`` runs every part; ``python -m benchmarks.bench_serve latency soak``
some of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw
from benchmarks.serve_load import N_FEATURES, Connection, Server, measure, post, rank_body
from rankwright.data.synthetic import make_queries

ROUNDS, PER_ROUND, CLIENTS = 8, 250, 4


def latency() -> None:
    """CPU and time of a ranking request: 100 documents x 46 features as JSON, 4 connections."""
    random = np.random.default_rng(0)
    bodies = [json.dumps(rank_body(random)).encode() for _ in range(16)]
    requests = [post("/v1/rank", body) for body in bodies]
    with tempfile.TemporaryDirectory() as folder:
        files = _model_files(Path(folder))
        servers = {"floor": Server.floor(folder)}
        for name, path in files.items():
            servers[name] = Server.service(folder, path, "--store", f"{name}.db")
        found: dict[str, list[Any]] = {name: [] for name in servers}
        for number in range(ROUNDS + 1):  # by turns, so that other load hits all alike
            for name, server in servers.items():
                result = measure(server, requests, PER_ROUND, CLIENTS)
                if number:  # the first round warms up
                    found[name].append(result)
        for server in servers.values():
            server.stop()
    print(f"100 documents x {N_FEATURES} features, {len(bodies[0]):,} bytes of JSON, {CLIENTS}")
    print("connections, one process; medians of rounds taken by turns\n")
    base = _summary(found["floor"])
    print(f"{'':24}{'CPU us':>9}{'p50 ms':>9}{'p99 ms':>9}{'CPU x':>8}{'p50 x':>8}{'p99 x':>8}")
    for name, rounds in found.items():
        row = _summary(rounds)
        ratios = "".join(f"{a / b:8.2f}" for a, b in zip(row, base, strict=True))
        print(f"{name:24}{row[0] * 1e6:9.0f}{row[1] * 1e3:9.2f}{row[2] * 1e3:9.2f}{ratios}")
    print("goals: CPU 1.3 x the floor for a linear model, 1.6 x for 300 trees; p99 2 x\n")


def _summary(rounds: list[Any]) -> tuple[float, float, float]:
    """Medians over the rounds of the CPU, the median and the 99th percentile."""
    cpu = float(np.median([cpu for _, cpu in rounds]))
    p50, p99 = (float(np.median([np.quantile(t, q) for t, _ in rounds])) for q in (0.5, 0.99))
    return cpu, p50, p99


def _model_files(folder: Path) -> dict[str, str]:
    """A linear model and 300 boosted stumps of 46 features."""
    sample = make_queries(60, n_features=N_FEATURES, random_state=0)
    models = {
        "linear": rw.Regression(),
        "300 trees": rw.RankBoost(n_estimators=300),
    }
    for name, model in models.items():
        rw.save(model.fit(sample.X, sample.y, qid=sample.qid), folder / f"{name[:3]}.rw")
    return {name: str(folder / f"{name[:3]}.rw") for name in models}


def feedback() -> None:
    """Durable feedback events a second, 64 connections."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server.service(folder)
        rows = np.random.default_rng(0).standard_normal((10, 10)).tolist()
        items = [{"id": f"d{i}", "features": row} for i, row in enumerate(rows)]
        connection = Connection(server.port)
        ask = post("/v1/rank", json.dumps({"query": "q", "items": items}).encode())
        events = [json.loads(connection.send(ask))["event"] for _ in range(200)]
        connection.close()
        n_requests, n_clients = 20_000, 64
        requests = [
            post(
                "/v1/feedback",
                json.dumps(
                    {"event": events[i % 200], "id": str(i), "grades": {"d1": i % 5, "d2": 0}}
                ).encode(),
            )
            for i in range(n_requests)
        ]
        start = time.perf_counter()
        times, cpu = measure(server, requests, n_requests, n_clients)
        seconds = time.perf_counter() - start
        server.stop()
        n_rows = sum(1 for _ in rw.service.read_log(Path(folder) / "feedback.db")) - 200
    print(f"{n_requests:,} feedback events on the disk in {seconds:.1f} s: "
          f"{n_requests / seconds:,.0f} a second (goal 2,000), {cpu * 1e6:.0f} us CPU each, "
          f"p50 {np.median(times) * 1e3:.1f} ms, p99 {np.quantile(times, 0.99) * 1e3:.1f} ms; "
          f"{n_rows:,} are in the log\n")


PARTS = {"latency": latency, "feedback": feedback}


def run(parts: Any = ()) -> None:
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    for name in parts or PARTS:
        print(f"-- {name}: {PARTS[name].__doc__}")
        PARTS[name]()


if __name__ == "__main__":
    run(sys.argv[1:])
