"""The service beside the least that any such service does, in one run; kills, soak, interleaving.

``python -m benchmarks serve`` runs every part; ``python -m benchmarks serve latency soak``
some of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.serve_load import (
    N_FEATURES,
    Connection,
    Server,
    measure,
    post,
    rank_body,
    wrk,
    wrk_feedback,
)

import rankwright as rw
from rankwright.data import make_queries
from rankwright.online_eval import always_valid_interval
from rankwright.selection import progressive
from rankwright.service import Settings, create_app, read_entries
from rankwright.service.api.types import RankRequest
from rankwright.service.experiments import Experiment
from rankwright.service.learning.live import LearningPlan
from rankwright.service.log.entries import Event, LoggedFeedback, encode

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
            servers[name].wait_until_ready()
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
    print("goals: CPU 1.4 x the floor for a linear model, 1.7 x for 300 trees; p99 2 x\n")


def _summary(rounds: list[Any]) -> tuple[float, float, float]:
    """Medians over the rounds of the CPU, the median and the 99th percentile."""
    cpu = float(np.median([cpu for _, cpu in rounds]))
    p50, p99 = (float(np.median([np.quantile(t, q) for t, _ in rounds])) for q in (0.5, 0.99))
    return cpu, p50, p99


def _model_files(folder: Path) -> dict[str, str]:
    """A linear model, 300 boosted stumps and 300 trees of 31 leaves, of 46 features."""
    sample = make_queries(60, n_features=N_FEATURES, random_state=0)
    models = {
        "linear": rw.RidgeRanker(),
        "300 stumps": rw.RankBoost(n_estimators=300),
        "300 trees": rw.LambdaMART(n_estimators=300, tree="leafwise", learning_rate=0.1),
    }
    files = {name: folder / f"{name.replace(' ', '_')}.rw" for name in models}
    for name, model in models.items():
        rw.save(model.fit(sample.X, sample.y, qid=sample.qid), files[name])
    return {name: str(path) for name, path in files.items()}


def workers() -> None:
    """Requests a second of one process and of two workers, 300 trees, with wrk as the load."""
    if shutil.which("wrk") is None:
        print("wrk is not installed (apt-get install wrk)\n")
        return
    body, rounds, seconds = json.dumps(rank_body(np.random.default_rng(0))).encode(), 5, 4
    with tempfile.TemporaryDirectory() as folder:
        path = _model_files(Path(folder))["300 trees"]
        servers = {
            n: Server.service(folder, path, "--store", f"{n}.db", "--workers", str(n))
            for n in (1, 2)
        }
        for server in servers.values():
            server.wait_until_ready()
        found: dict[int, list[tuple[float, float, float, float]]] = {n: [] for n in servers}
        for number in range(rounds + 1):  # by turns, so that other load hits both alike
            for n, server in servers.items():
                before, start = server.cpu_of_all, time.perf_counter()
                n_requests, own = wrk(server, folder, body, seconds, 8)
                took, after = time.perf_counter() - start, server.cpu_of_all
                used = [(after[name] - before[name]) / n_requests for name in before]
                if number:  # the first round warms up
                    found[n].append((n_requests / took, used[0], used[1], own / n_requests))
        for server in servers.values():
            server.stop()
    print(f"{'':12}{'requests/s':>12}{'CPU us: first':>15}{'workers':>9}{'wrk':>6}")
    rates = {}
    for n, rows in found.items():
        rate, first, others, own = np.median(rows, axis=0)
        rates[n] = rate
        name = "one process" if n == 1 else f"{n} workers"
        print(f"{name:12}{rate:12,.0f}{first * 1e6:15.0f}{others * 1e6:9.0f}{own * 1e6:6.0f}")
    print(f"{rates[2] / rates[1]:.2f} times the throughput (goal 1.7 on two idle cores)\n")


def feedback() -> None:
    """Durable feedback events a second, 64 connections."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server.service(folder, "--demo")
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
        n_rows = sum(1 for _ in read_entries(Path(folder) / "feedback.db")) - 200
    print(
        f"{n_requests:,} feedback events on the disk in {seconds:.1f} s: "
        f"{n_requests / seconds:,.0f} a second (goal 2,000), {cpu * 1e6:.0f} us CPU each, "
        f"p50 {np.median(times) * 1e3:.1f} ms, p99 {np.quantile(times, 0.99) * 1e3:.1f} ms; "
        f"{n_rows:,} are in the log\n"
    )


N_EVENTS, N_SHOWN = 100_000, 8
TRUTH = np.array([1.0, -2.0, 0.5, 0.0, 1.5])


def soak() -> None:
    """100,000 lists and their grades by simulated users: loss and memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "feedback.db")
        app = create_app(Settings(store=path, learn="BayesianPRank", grades=(0, 1, 2, 3, 4)))
        start, cpu = time.perf_counter(), time.process_time()
        memory = asyncio.run(_simulate(app))
        learner = app.service.learner
        while learner.behind:
            time.sleep(0.05)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        app.service.close()
        live = learner.live
        size = os.path.getsize(path) / 2**20
        print(f"{N_EVENTS:,} lists and their grades: {seconds:.0f} s, {cpu:.0f} s CPU with the")
        print(
            f"simulated users; log {size:.0f} MB; an hour at {N_EVENTS / 3600:.0f} lists a second"
        )
        print("memory in MB after each fifth: " + ", ".join(f"{each:.0f}" for each in memory))
        offline, X, y = _offline(path)
        test = np.random.default_rng(1).standard_normal((20_000, len(TRUTH)))
        truth = _grades(test, np.random.default_rng(2))
        ours, theirs = (
            float(np.abs(each.predict(test) - truth).mean()) for each in (live.ranker, offline)
        )
        *_, last = progressive(
            LearningPlan("BayesianPRank").make(), X, y, classes=range(5), every=len(y)
        )
        print(
            f"rank loss so far, live: {live.rank_loss:.4f}; offline on the log: "
            f"{last['RankLoss']:.4f}"
        )
        print(
            f"rank loss on new items, live: {ours:.4f}; trained offline on the log: "
            f"{theirs:.4f} ({ours / theirs - 1:+.1%}; goal within 5 %)\n"
        )


async def _simulate(app: Any) -> list[float]:
    """Users who rank and grade, 32 at a time; the memory of this process at five moments."""
    random, memory = np.random.default_rng(0), []
    for part in range(5):
        for _ in range(N_EVENTS // 5 // 32):
            await asyncio.gather(*(_visit(app, random) for _ in range(32)))
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        memory.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        print(f"  {part + 1} of 5", file=sys.stderr, flush=True)
    return memory


async def _visit(app: Any, random: np.random.Generator) -> None:
    rows = random.standard_normal((N_SHOWN, len(TRUTH)))
    items = [{"id": f"d{i}", "features": row} for i, row in enumerate(rows.tolist())]
    answer = await _call(app, "/v1/rank", {"query": "q", "items": items})
    grades = _grades(rows, random)
    seen = [item["id"] for item in answer["items"][:4]]
    feedback = {item: float(grades[int(item[1:])]) for item in seen}
    await _call(app, "/v1/feedback", {"event": answer["event"], "id": "1", "grades": feedback})


def _grades(rows: Any, random: np.random.Generator) -> Any:
    return np.clip(np.round(rows @ TRUTH / 2 + 2 + 0.3 * random.standard_normal(len(rows))), 0, 4)


async def _call(app: Any, path: str, content: Any) -> Any:
    """A request without a socket."""
    body, parts = json.dumps(content).encode(), []

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        parts.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    await app({**scope, "query_string": b"", "client": ("127.0.0.1", 1)}, receive, send)
    if parts[0]["status"] != 200:
        raise RuntimeError(parts[1]["body"].decode())
    return json.loads(parts[1]["body"])


def _offline(path: str) -> Any:
    """The same ranker, trained on everything in the log at once."""
    lists, rows, grades = {}, [], []
    for line in read_entries(path):
        if line["kind"] == "event":
            lists[line["event"]] = line["items"]
        else:
            for item in lists.pop(line["event"]):
                if item["id"] in line["grades"]:
                    rows.append(item["features"])
                    grades.append(line["grades"][item["id"]])
    X, y = np.array(rows), np.array(grades)
    return LearningPlan("BayesianPRank").make().fit(X, y), X, y


def start() -> None:
    """From kill -9 to the first answer, with a log of 100,000 lists and their grades."""
    with tempfile.TemporaryDirectory() as folder:
        path, learn = str(Path(folder) / "feedback.db"), "BayesianPRank"
        service = create_app(Settings(store=path, learn=learn, grades=(0, 1, 2, 3, 4))).service
        random, ids = np.random.default_rng(0), [f"d{i}" for i in range(N_SHOWN)]
        for number in range(N_EVENTS):
            rows = random.standard_normal((N_SHOWN, len(TRUTH)))
            event, scores = f"e{number}", np.zeros(N_SHOWN).tobytes()
            body = encode(Event(f"q{number}", "demo", ids, scores, rows.tobytes()))
            service.store.append_event(event, body)
            grades = dict(zip(ids[:4], _grades(rows[:4], random).tolist(), strict=True))
            body = encode(LoggedFeedback("1", grades=grades))
            answer = service.store.append("feedback", f"{event}/1", body, event=event)
            if number % 1000 == 999:
                answer.result()
        while service.learner.behind:
            time.sleep(0.05)
        service.close()
        seconds, cpu = zip(*(_start_after_kill(folder, learn) for _ in range(3)), strict=True)
    shown = ", ".join(f"{a:.2f} s ({b:.2f} s CPU)" for a, b in zip(seconds, cpu, strict=True))
    print(f"{N_EVENTS:,} lists: {shown}; goal 2 s\n")


def _start_after_kill(folder: str, learn: str) -> tuple[float, float]:
    """Kill a server that has 200 feedback entries since its start; time and CPU of the next."""
    options = ("--learn", learn, "--grades", "0-4")
    server = Server.service(folder, *options)
    row = np.zeros(len(TRUTH)).tolist()
    ask = post("/v1/rank", json.dumps({"items": [{"id": "d0", "features": row}]}).encode())
    connection = Connection(server.port)
    for number in range(200):
        event = json.loads(connection.send(ask))["event"]
        body = {"event": event, "id": str(number), "grades": {"d0": 2}}
        connection.send(post("/v1/feedback", json.dumps(body).encode()))
    server.stop(signal.SIGKILL)
    begin = time.perf_counter()
    server = Server.service(folder, *options)
    Connection(server.port).send(ask)
    seconds, cpu = time.perf_counter() - begin, server.cpu
    server.stop()
    return seconds, cpu


def interleaving() -> None:
    """200 experiments between a better and a worse ranker, and 200 between equals."""
    for method in ("team_draft", "probabilistic"):
        for name, noise in (("one is better", (0.3, 1.0)), ("both are equal", (0.6, 0.6))):
            found, sessions = Counter(), []
            for seed in range(200):
                winner, n_sessions = _experiment(method, noise, seed)
                found[winner] += 1
                sessions.append(n_sessions)
            print(
                f"{method}, {name}: better {found['better']}, worse {found['worse']}, "
                f"undecided {found[None]} of 200; median {np.median(sessions):.0f} sessions"
            )
    print("promised: at most 5 % wrong (10 of 200), however often one looks\n")


def _experiment(method: str, noise: tuple[float, float], seed: int) -> tuple[str | None, int]:
    """Run one experiment until it decides, looking every 20 sessions, 1,500 at most."""
    random = np.random.default_rng(seed)
    trial = Experiment("t", ["better", "worse"], method, 1.0, seed, 0.05, 0.0)
    for number in range(1, 1501):
        value = random.standard_normal(10)
        lists = [
            [f"d{i}" for i in np.argsort(-(value + each * random.standard_normal(10)))]
            for each in noise
        ]
        request = RankRequest(query=str(number), user=str(seed), n=10)
        shown = trial.interleave(lists, request)
        look = random.random(10) < 1 / np.arange(1, 11)  # people look at the top
        like = random.random(10) < 1 / (1 + np.exp(-2 * value))
        clicks = [x for x, seen in zip(shown.items, look, strict=True) if seen and like[int(x[1:])]]
        event = Event("q", "m", list(shown.items), b"", interleaved=_without_items(shown))
        trial.count(str(number), clicks, event)
        if number % 20 == 0:
            low, high = always_valid_interval(trial.wins, trial.losses)
            if low > 0.5 or high < 0.5:
                return ("better" if low > 0.5 else "worse"), number
    return None, 1500


def _without_items(shown: Any) -> dict[str, Any]:
    return {name: value for name, value in shown.to_dict().items() if name != "items"}


def endurance() -> None:
    """Ranking, feedback, uploads, pages for RANKWRIGHT_MINUTES (60): memory, descriptors, p99."""
    minutes = float(os.environ.get("RANKWRIGHT_MINUTES", "60"))
    n_workers = os.environ.get("RANKWRIGHT_WORKERS", "1")
    n_rounds = 6
    with tempfile.TemporaryDirectory() as folder:
        path = _model_files(Path(folder))["300 trees"]
        options = ("--learn", "BayesianPRank", "--retention-days", "0.001", "--workers", n_workers)
        server = Server.service(folder, path, *options)
        server.wait_until_ready()
        ask = post("/v1/rank", json.dumps(rank_body(np.random.default_rng(0))).encode())
        upload = post("/v1/models?name=again", Path(path).read_bytes())
        print(
            f"{'minutes':>8}{'requests':>10}{'p50 ms':>8}{'p99 ms':>8}{'MB':>7}{'open files':>12}"
        )
        total, begin = 0, time.monotonic()
        held: list[tuple[int, int]] = []
        for number in range(1, n_rounds + 1):
            times: list[float] = []
            while time.monotonic() - begin < 60 * minutes * number / n_rounds:
                connection = Connection(server.port)  # a new one for every hundred requests
                for _ in range(50):
                    start = time.perf_counter()
                    event = json.loads(connection.send(ask))["event"]
                    times.append(time.perf_counter() - start)
                    body = {"event": event, "id": "1", "clicks": ["d001"]}
                    connection.send(post("/v1/feedback", json.dumps(body).encode()))
                for page in ("/", "/v1/models", "/metrics", "/api"):
                    connection.send(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % page.encode())
                if len(times) % 500 == 0:
                    connection.send(upload)
                connection.close()
                total += 104
            memory, files = server.memory_of_all
            p50, p99 = (1e3 * np.quantile(times, q) for q in (0.5, 0.99))
            spent = (time.monotonic() - begin) / 60
            print(
                f"{spent:8.1f}{total:10,}{p50:8.2f}{p99:8.2f}{memory / 1e6:7.0f}{files:7}",
                flush=True,
            )
            held.append((memory, files))
        server.stop()
    # The first third fills what is kept for a while: recent events, snapshots, caches.
    grown = held[-1][0] / held[1][0] - 1, held[-1][1] - held[1][1]
    print(f"from the second row to the last: memory {grown[0]:+.1%}, open files {grown[1]:+}\n")
    if grown[0] > 0.1 or grown[1] > 5:
        raise RuntimeError("memory or open files grow")


def backups() -> None:
    """Backups of a store while feedback comes in as fast as it can: digests, the restored store."""
    from rankwright.service.log.backups import backup, restore
    from rankwright.service.log.checking import check_store

    if shutil.which("wrk") is None:
        print("wrk is not installed (apt-get install wrk)\n")
        return
    seconds, made, sent = 10, [], []
    with tempfile.TemporaryDirectory() as folder:
        source, target = (str(Path(folder) / name) for name in ("feedback.db", "backup.db"))
        server = Server.service(folder, "--learn", "PRank", "--store", source)
        server.wait_until_ready()
        row = json.dumps({"items": [{"id": "d1", "features": [0.5, 1.0]}]}).encode()
        connection = Connection(server.port)
        event = json.loads(connection.send(post("/v1/rank", row)))["event"]
        connection.close()
        writing = threading.Thread(
            target=lambda: sent.append(wrk_feedback(server, folder, event, seconds, 64))
        )
        cpu = server.cpu
        writing.start()
        while writing.is_alive():
            start = time.perf_counter()
            made.append((backup(source, target), time.perf_counter() - start))
            time.sleep(0.2)
        ((n_sent, own),) = sent
        cpu = server.cpu - cpu
        last = backup(source, target)
        server.stop()
        restored = restore(target, str(Path(folder) / "restored.db"))
        report = check_store(Path(folder) / "restored.db")
        same = check_store(source, last.digest.last).digest == restored
    sizes = ", ".join(f"{each.added:,} in {took * 1e3:.0f} ms" for each, took in made[:5])
    print(
        f"{n_sent / seconds:,.0f} entries a second were acknowledged (CPU us each: service "
        f"{cpu / n_sent * 1e6:.0f}, wrk {own / n_sent * 1e6:.0f}), {len(made)} backups meanwhile "
        f"({sizes}, ...); {restored.entries:,} entries restored to the same digest: {same}; "
        f"faults after replay: {report.faults}\n"
    )
    if not same or report.faults or restored.entries < n_sent:
        raise RuntimeError("the restored store is another one")


def failovers() -> None:
    """200 kills of a leader and its replica, with promotions, under writes."""
    _rounds("failovers", 200)


def clocks() -> None:
    """200 jumps of the clock of a service, by seconds to years, under writes."""
    _rounds("clock_jumps", 200)


def kills() -> None:
    """kill -9 at 1,000 random moments under load."""
    _rounds("kills", 1000)


def schema() -> None:
    """20,000 requests generated from the OpenAPI document."""
    _rounds("generated", 20_000)


def _rounds(name: str, total: int) -> None:
    """Run a long count of the tests; its own ``--record`` lets it go on after a cut."""
    words = [sys.executable, "-m", f"tests.service.{name}", str(total)]
    done = subprocess.run(words, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    print("\n".join(done.stdout.splitlines()[-2:]), "\n")
    if done.returncode:
        raise RuntimeError(done.stdout[-3000:] + done.stderr[-3000:])


PARTS = {
    "latency": latency,
    "workers": workers,
    "feedback": feedback,
    "start": start,
    "soak": soak,
    "interleaving": interleaving,
    "endurance": endurance,
    "backups": backups,
    "failovers": failovers,
    "clocks": clocks,
    "kills": kills,
    "schema": schema,
}


def run(*parts: str) -> None:
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    for name in parts or PARTS:
        print(f"-- {name}: {PARTS[name].__doc__}", flush=True)
        PARTS[name]()
