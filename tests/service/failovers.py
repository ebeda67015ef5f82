"""Kill leaders and replicas at random, promote, and compare what was acknowledged with the logs.

``python -m tests.service.failovers 200 --record FILE`` runs 200 kills in rounds of 20, each with a
new pair, and goes on with those of the file.
"""

from __future__ import annotations

import http.client
import json
import random
import signal
import threading
import time

from tests.service.rounds import run_rounds
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
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/v1/replica")
        about = json.loads(connection.getresponse().read())
        return about["term"] if about["role"] == "leader" else None
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return None
    finally:
        connection.close()


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


def run(folder, n_kills, seed):
    """A round: what was acknowledged and lost, how often two services led, and the digest."""
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
            time.sleep(0.01)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    n_promoted = 0
    try:
        for _ in range(n_kills):
            n_before, deadline = len(writer.acknowledged), time.monotonic() + 60
            while len(writer.acknowledged) == n_before and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(chance.uniform(0.0, 0.3))
            if chance.random() < 0.4:  # the replica is killed and comes back
                pair[follower].stop(signal.SIGKILL)
                time.sleep(chance.uniform(0, 0.2))
                pair.restart(follower, "--replica-of", pair[leader].url)
            else:  # the leader is killed, the replica promoted, the old leader follows
                pair[leader].stop(signal.SIGKILL)
                pair.client(follower).promote()
                n_promoted += 1
                leader, follower = follower, leader
                time.sleep(chance.uniform(0, 0.2))
                pair.restart(follower, "--replica-of", pair[leader].url)
            pair[follower].wait_until_ready()
        writer.stopped.set()
        writer.join(30)
        stop.set()
        watcher.join(30)
        pair.wait_until_equal()
        kept = set(keys_of(pair.store(leader)))
        faults = [f"lost: {key}" for key in writer.acknowledged if key not in kept]
        faults += [f"seen leading: {rivals(seen)} times two"] * bool(rivals(seen))
        faults += ["too little was written"] * (len(writer.acknowledged) < n_kills)
        return {
            "done": n_kills,
            "promotions": n_promoted,
            "acknowledged": len(writer.acknowledged),
            "looks": len(seen),
            "digest": pair.digest(leader),
            "faults": faults,
        }
    finally:
        writer.stopped.set()
        stop.set()
        pair.stop()


if __name__ == "__main__":
    run_rounds("kills", run, total=200, per_round=20, description=__doc__)
