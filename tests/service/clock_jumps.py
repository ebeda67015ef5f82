"""Put the clock of a running service forward and back, and compare what was acknowledged.

``python -m tests.service.clock_jumps 200 --record FILE`` makes 200 jumps of seconds to years, with
a retention of 30 days, in rounds of 20; every tenth time the service is killed and starts again.
"""

from __future__ import annotations

import os
import random
import signal

from tests.service.processes import Server
from tests.service.rounds import run_rounds
from tests.service.test_replication import keys_of, teach

from rankwright.client import Client
from rankwright.service.log.checking import check_store
from rankwright.service.log.reader import LogReader

SHIFTED = """
import os, time
path, real, real_ns = os.environ["SHIFT_FILE"], time.time, time.time_ns
def shift():
    with open(path) as file:
        return int(file.read() or 0)
time.time = lambda: real() + shift()
time.time_ns = lambda: real_ns() + 1_000_000_000 * shift()
"""
SECONDS = (1, 60, 3600, 86400, 40 * 86400, 5 * 365 * 86400)
SHIFTS = (0, *SECONDS, *(-seconds for seconds in SECONDS))
LEARN = ("--learn", "PRank", "--grades", "0-4", "--retention-days", "30", "--snapshot-every", "5")


def run(folder, n_jumps, seed):
    """A round: what was acknowledged and lost, and what the check of the store says."""
    chance, kept = random.Random(seed), []
    (folder / "sitecustomize.py").write_text(SHIFTED)
    clock = folder / "shift"
    clock.write_text("0")
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "SHIFT_FILE": str(clock)}
    server = None
    try:
        for number in range(n_jumps):
            if server is None:  # a start with a wrong clock is what nobody can see
                clock.write_text("0")
                server = Server(folder, *LEARN, "--port", "0", environment=environment)
                server.wait_until_ready()
                client = Client(server.url, timeout=30)
            moved = folder / "moved"
            moved.write_text(str(chance.choice(SHIFTS)))
            moved.replace(clock)
            kept += teach(client, number, 5)
            if number % 10 == 9:
                client.close()
                server.stop(signal.SIGKILL)
                server = None
        found = set(keys_of(folder / "feedback.db"))
        log = LogReader(folder / "feedback.db")
        ((spread,),) = log.select("SELECT max(time) - min(time) FROM log")
        log.close()
        faults = [f"lost: {key}" for key in kept if key not in found]
        faults += map(str, check_store(folder / "feedback.db").faults)
        days = round(spread / 86400)
        return {"done": n_jumps, "acknowledged": len(kept), "days": days, "faults": faults}
    finally:
        if server is not None:
            client.close()
            server.stop(signal.SIGKILL)


if __name__ == "__main__":
    run_rounds("jumps", run, total=200, per_round=20, description=__doc__)
