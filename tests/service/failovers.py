"""Kill leaders and replicas at random, promote, and compare what was acknowledged with the logs.

``python -m tests.service.failovers 200`` runs 200 kills.
"""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
from tests.service.test_replication import ITEMS, Pair, keys_of

from rankwright.client import Client, ServiceError


class Writer(threading.Thread):
    """Sends feedback to whichever service accepts it; notes what was acknowledged."""

    def __init__(self, pair):
        super().__init__(daemon=True)
        self.pair, self.stopped = pair, threading.Event()
        self.acknowledged, self.count = [], 0

    def run(self):
        while not self.stopped.is_set():
            for name in ("a", "b"):
                client = Client(f"http://127.0.0.1:{self.pair.ports[name]}", retries=0, timeout=15)
                try:
                    while not self.stopped.is_set():
                        event = client.rank(ITEMS, query="q")["event"]
                        if not event:
                            break
                        self.count += 1
                        client.feedback(event, id=str(self.count), grades={"d1": 3})
                        self.acknowledged.append(f"{event}/{self.count}")
                except (ServiceError, ValueError):
                    time.sleep(0.01)
                finally:
                    client.close()


def term_of(port):
    """The term that a service leads now; None if it does not lead."""
    try:
        about = httpx.get(f"http://127.0.0.1:{port}/v1/replica", timeout=5).json()
        return about["term"] if about["role"] == "leader" else None
    except (httpx.HTTPError, ValueError, KeyError):
        return None


def rivals(seen):
    """How often a service led although another one led a later term, or the same one, before.

    >>> rivals([(1, 0), (2, 1), (1, 0), (2, 1)])
    1
    """
    faults, latest = 0, (None, -1)
    for port, term in seen:
        if term > latest[1]:
            latest = port, term
        elif (port, term) != latest:
            faults += 1
    return faults


def run(folder, n_kills, seed, note=lambda text: None):
    """What was acknowledged and is not in the leader's log, and how often two services led."""
    chance = random.Random(seed)
    pair = Pair(folder, "--ack", "replica")
    writer = Writer(pair)
    writer.start()
    leader, follower = "a", "b"
    stop = threading.Event()
    seen = []

    def watch():
        while not stop.is_set():
            terms = ((port, term_of(port)) for port in pair.ports.values())
            seen.extend(pair for pair in terms if pair[1] is not None)
            time.sleep(0.02)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        for number in range(n_kills):
            time.sleep(chance.uniform(0.2, 1.0))
            if chance.random() < 0.4:  # the replica is killed and comes back
                pair[follower].stop(signal.SIGKILL)
                time.sleep(chance.uniform(0, 0.5))
                pair.restart(follower, "--replica-of", pair[leader].url)
            else:  # the leader is killed, the replica promoted, the old leader follows
                pair[leader].stop(signal.SIGKILL)
                pair.client(follower).promote()
                leader, follower = follower, leader
                time.sleep(chance.uniform(0, 0.5))
                pair.restart(follower, "--replica-of", pair[leader].url)
            pair[follower].wait_until_ready()
            note(f"{number + 1} kills, {len(writer.acknowledged):,} acknowledged")
        time.sleep(0.5)
        writer.stopped.set()
        writer.join(30)
        stop.set()
        watcher.join(30)
        pair.wait_until_equal()
        kept = set(keys_of(pair.store(leader)))
        lost = [key for key in writer.acknowledged if key not in kept]
        assert len(writer.acknowledged) > n_kills
        note(f"{len(writer.acknowledged):,} acknowledged, {len(lost)} lost, {pair.digest(leader)}")
        return lost, rivals(seen)
    finally:
        writer.stopped.set()
        stop.set()
        pair.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as path:
        n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
        lost, n_rivals = run(Path(path), n, seed=int(time.time()), note=print)
        print(f"lost: {lost}; two leaders seen: {n_rivals}")
        sys.exit(bool(lost) or n_rivals > 0)
