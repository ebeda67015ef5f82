"""kill -9 at random moments: nothing acknowledged is lost, and the replay has the same bits.

``RANKWRIGHT_KILLS`` sets how often; ``python -m benchmarks serve kills`` does it 1,000 times.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from tests.service import clock_jumps

from rankwright.service.learning.live import LearningPlan, LiveRanker
from rankwright.service.log.entries import decode_event, decode_feedback
from rankwright.service.log.reader import LogReader

N_KILLS = int(os.environ.get("RANKWRIGHT_KILLS", "200"))
GRADES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("ranker, share", [("BayesianPRank", 0.9), ("OAPBPM", 0.1)])
def test_acknowledged_feedback_survives_kills_and_the_replay_has_the_same_bits(
    tmp_path, ranker, share
):
    script = str(Path(__file__).with_name("kills.py"))
    n_kills = round(N_KILLS * share)
    done = subprocess.run(
        [sys.executable, script, str(tmp_path / "feedback.db"), str(n_kills), ranker],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{n_kills} kills" in done.stdout
    assert "0 lost, bits equal" in done.stdout


class Server:
    """``rankwright serve`` in a process of its own."""

    def __init__(self, folder, *options):
        command = [sys.executable, "-m", "rankwright", "serve", "--port", "0", *options]
        self.process = subprocess.Popen(
            command, cwd=folder, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        self.lines = []
        for line in self.process.stderr:
            self.lines.append(line)
            if "serving on" in line:
                break
        self.url = self.lines[-1].split()[2]
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(120)
        self.process.stderr.close()
        return self.process.returncode


def send_feedback(url, name, said, stop):
    """Rank and send feedback until the server is gone; keep what it acknowledged."""
    try:
        with httpx.Client(base_url=url) as client:
            for number in range(10**6):
                rows = [[random.random() for _ in range(4)] for _ in range(3)]
                items = [{"id": f"d{i}", "features": row} for i, row in enumerate(rows)]
                event = client.post("/v1/rank", json={"query": name, "items": items}).json()
                grades = {"d0": number % 6, "d2": 1}
                body = {"event": event["event"], "id": f"{name}-{number}", "grades": grades}
                answer = client.post("/v1/feedback", json=body)
                if answer.status_code == 200:
                    said.append(f"{event['event']}/{name}-{number}")
                if stop.is_set():
                    return
    except httpx.HTTPError:
        return


def test_the_server_survives_kills_under_load(tmp_path):
    said, options = [], ("--learn", "PRank", "--snapshot-every", "20")
    for _ in range(3):
        server, stop = Server(tmp_path, *options), threading.Event()
        threads = [
            threading.Thread(target=send_feedback, args=(server.url, f"t{i}", said, stop))
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        deadline, enough = time.monotonic() + 300, len(said) + 15
        while len(said) < enough and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 0.2))
        server.stop(signal.SIGKILL)
        for thread in threads:
            thread.join()
    server = Server(tmp_path, *options)
    deadline = time.monotonic() + 300
    while httpx.get(f"{server.url}/readyz").status_code != 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.stop() in (0, 128 + signal.SIGTERM)
    log = LogReader(tmp_path / "feedback.db")
    replay, keys = LiveRanker(LearningPlan("PRank", grades=GRADES)), []
    for entry in log.entries(("feedback",)):
        keys.append(entry.key)
        event = decode_event(log.find(entry.event, "event").body)
        replay.apply(entry.seq, decode_feedback(entry.body), event)
    assert len(said) >= 45
    assert len(keys) == len(set(keys))
    assert set(said) <= set(keys)
    assert log.state("live") == replay.snapshot()
    log.close()


def test_the_server_says_that_it_is_the_demo(tmp_path):
    server = Server(tmp_path, "--demo")
    assert "demo model" in "".join(server.lines)
    assert "this machine only" in "".join(server.lines)
    assert server.stop(signal.SIGINT) in (0, -signal.SIGINT, 130)
    assert (tmp_path / "feedback.db").exists()


def test_other_machines_need_a_token_file(tmp_path):
    command = [sys.executable, "-m", "rankwright", "serve", "--host", "0.0.0.0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--token-file" in done.stderr


def test_a_clock_that_jumps_loses_nothing(tmp_path):
    """``python -m tests.service.clock_jumps`` does it 200 times."""
    lost, report = clock_jumps.run(tmp_path, 4, seed=0)
    assert not lost
    assert not report.faults
