"""Kill a process that logs and learns, again and again.

A parent that has everything loaded forks a child, the child appends events, feedback and judgments,
takes some of these back, learns from all of it, and is killed after a random time. The parent knows
what the child said was on the disk, and replays the log without ever being killed.

``python -m tests.service.kills 1000 --record FILE`` runs 1,000 kills in rounds of 100, each with a
new log, and goes on with those of the file. Every tenth round learns with OAP-BPM.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from tests.service.replay import replayed
from tests.service.rounds import run_rounds

from rankwright.service.experiments import Experiments
from rankwright.service.learning.live import LearningPlan, LiveRanker
from rankwright.service.learning.log_learner import LogLearner
from rankwright.service.log.entries import Event, Judgment, LoggedFeedback, encode
from rankwright.service.log.reader import LogReader
from rankwright.service.log.store import Store
from rankwright.service.models import Models, demo_model

N_FEATURES = 5
CHECK_EVERY = 20  # kills between two replays of the whole log
TRUTH = np.array([1.0, -2.0, 0.5, 0.0, 1.5])


def child(path: str, plan: LearningPlan, seed: int, said: int) -> None:
    """Log and learn until killed; write the number of each feedback that is on the disk."""
    store = Store(path)
    experiments, models = Experiments(store), Models(store, ())
    learner = LogLearner(store, models, experiments, plan, snapshot_every=5)
    learner.start()
    random, waiting = np.random.default_rng(seed), []
    for number in range(10**9):
        rows = random.standard_normal((4, N_FEATURES))
        grades = np.clip(np.round(rows @ TRUTH / 2 + 2), 0, 4)
        event = f"{seed}-{number}"
        ids = [f"d{i}" for i in range(4)]
        store.append_event(event, encode(Event("q", "m", ids, b"", rows.tobytes())))
        body = encode(LoggedFeedback("1", grades=dict(zip(ids, grades.tolist(), strict=True))))
        waiting.append((f"{event}/1", store.append("feedback", f"{event}/1", body, event=event)))
        if number % 3 == 0:  # a client that did not hear the answer sends it again
            waiting.append(
                (f"{event}/1", store.append("feedback", f"{event}/1", body, event=event))
            )
        for key, entry in judgments(rows[0].tolist(), f"{seed}-{number}", random):
            waiting.append((key, store.append("judgment", key, encode(entry), user="ann")))
        if len(waiting) >= 8:
            for name, future in waiting:
                future.result()
                os.write(said, f"{name}\n".encode())
            waiting = []


def judgments(row: list[float], name: str, random: np.random.Generator) -> Any:
    """A judgment of one of twenty documents; every third one takes a judgment back."""
    document = f"d{random.integers(20)}"
    judged = {"query": "q", "documents": (document,), "features": [row]}
    yield f"j{name}", Judgment("judge", "grades", value=float(random.integers(5)), **judged)
    if random.random() < 0.3:
        yield f"u{name}", Judgment("undo", "grades", of=f"j{name}")


def run_and_kill(path: str, plan: LearningPlan, seed: int, seconds: float) -> set[str]:
    """What a child said was on the disk before it was killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            child(path, plan, seed, writer)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        first = pipe.readline()  # it is at work
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        lines = [first, *pipe.read().splitlines(keepends=True)]
    assert os.WIFSIGNALED(status), "the child failed before it was killed"
    return {line.decode().strip() for line in lines if line.endswith(b"\n")}


class Reference:
    """A learner that is never killed, and what the log held so far."""

    def __init__(self, path: str, plan: LearningPlan) -> None:
        self.path, self.plan, self.seen, self.keys = path, plan, 0, Counter()

    def check(self, said: set[str], thoroughly: bool) -> None:
        """Everything said is in the log once; the snapshot has the bits of a replay."""
        log = LogReader(self.path)
        for entry in log.entries(("feedback", "judgment"), after=self.seen):
            self.keys[entry.key] += 1
            self.seen = entry.seq
        assert all(self.keys[key] == 1 for key in said), "an acknowledged entry is lost"
        assert max(self.keys.values()) == 1, "an entry is there twice"
        snapshot = log.state("live")
        if thoroughly and snapshot is not None:
            last = LiveRanker.restore(snapshot).progress.last_seq
            same = snapshot == replayed(log, self.plan, last).snapshot()
            assert same, f"other bits after entry {last}"
            ok = log.select("PRAGMA quick_check")
            assert ok == [("ok",)], ok
        log.close()


def run(folder: Path, n_kills: int, seed: int) -> dict[str, Any]:
    """A round: what was acknowledged, what the log has, and what was lost."""
    ranker = "OAPBPM" if seed % 10 == 9 else "BayesianPRank"
    context = multiprocessing.get_context("spawn")  # what forks has no threads
    reader, writer = context.Pipe(duplex=False)
    arguments = (str(folder / "feedback.db"), n_kills, seed, ranker, writer)
    process = context.Process(target=_kill, args=arguments)
    process.start()
    writer.close()
    try:
        return dict(reader.recv())
    except EOFError:
        return {"done": n_kills, "faults": ["the process that kills ended with an error"]}
    finally:
        process.join()
        reader.close()


def _kill(path: str, n_kills: int, seed: int, ranker: str, report: Any) -> None:
    plan = LearningPlan(ranker, grades=(0.0, 1.0, 2.0, 3.0, 4.0))
    reference, random, n_said = Reference(path, plan), np.random.default_rng(seed), 0
    demo_model()  # before the first fork, as every child serves it
    LiveRanker(plan).apply(  # compile
        1,
        LoggedFeedback("1", grades={"a": 1.0}),
        Event("q", "m", ["a"], b"", np.ones((1, N_FEATURES)).tobytes()),
    )
    for number in range(n_kills):
        said = run_and_kill(path, plan, 10**6 * seed + number, random.uniform(0.0, 0.04))
        n_said += len(said)
        reference.check(said, thoroughly=number % CHECK_EVERY == 0)
    store = Store(path)  # a last start, which learns what the last kill left
    final = LogLearner(store, Models(store, ()), Experiments(store), plan)
    final.start()
    while not final.ready:
        time.sleep(0.01)
    final.close()
    store.close()
    log = LogReader(path)
    faults = []
    if final.live.snapshot() != replayed(log, plan).snapshot():
        faults.append("the replay has other bits")
    log.close()
    if final.live.progress.n_taken_back <= n_kills // 2:
        faults.append("too few judgments were taken back")
    counts = {"acknowledged": n_said, "logged": sum(reference.keys.values())}
    report.send({"done": n_kills, "ranker": ranker, **counts, "faults": faults})


if __name__ == "__main__":
    run_rounds("kills", run, total=1000, per_round=100, description=__doc__)
