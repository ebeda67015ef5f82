"""kill -9 at random moments: nothing acknowledged is lost, and the replay has the same bits.

``python -m benchmarks serve kills`` does it 1,000 times.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time

import httpx
import pytest
from tests.service import clock_jumps, kills
from tests.service.processes import Server, refused

from rankwright.service.learning.live import LearningPlan, LiveRanker
from rankwright.service.log.entries import decode_event, decode_feedback
from rankwright.service.log.reader import LogReader

GRADES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("n_kills, seed", [(40, 0), (5, 9)], ids=["BayesianPRank", "OAPBPM"])
def test_acknowledged_feedback_survives_kills_and_the_replay_has_the_same_bits(
    tmp_path, n_kills, seed
):
    """``python -m tests.service.kills`` does it 1,000 times."""
    found = kills.run(tmp_path, n_kills, seed)
    assert found["faults"] == []
    assert found["acknowledged"] >= n_kills


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
    said, options = [], ("--learn", "PRank", "--snapshot-every", "20", "--port", "0")
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
    server.wait_until_ready()
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
    server = Server(tmp_path, "--demo", "--port", "0", fresh=True)
    assert "demo model" in "".join(server.lines)
    assert "this machine only" in "".join(server.lines)
    assert server.stop(signal.SIGINT) in (0, -signal.SIGINT, 130)
    assert (tmp_path / "feedback.db").exists()


def test_other_machines_need_a_token_file(tmp_path):
    code, said = refused(tmp_path, "--host", "0.0.0.0")
    assert code == 2
    assert "--token-file" in said


def test_a_clock_that_jumps_loses_nothing(tmp_path):
    """``python -m tests.service.clock_jumps`` does it 200 times."""
    assert clock_jumps.run(tmp_path, 4, seed=0)["faults"] == []
