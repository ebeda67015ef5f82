"""Put the clock of a running service forward and back, and compare what was acknowledged.

``python -m tests.service.clock_jumps 200`` makes 200 jumps of seconds to years, with a retention of
30 days; every tenth time the service is killed and starts again.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
from pathlib import Path

from tests.service.processes import Server
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
LEARN = ("--learn", "PRank", "--grades", "0-4", "--retention-days", "30", "--snapshot-every", "5")


def run(folder, n_jumps, seed, note=lambda text: None):
    """What was acknowledged and is not in the log, and what the check of the store says."""
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
            moved.write_text(str(chance.choice((0, *SECONDS))))
            moved.replace(clock)
            kept += teach(client, number, 5)
            if number % 10 == 9:
                client.close()
                server.stop(signal.SIGKILL)
                server = None
                note(f"{number + 1} jumps, {len(kept):,} acknowledged")
        found = set(keys_of(folder / "feedback.db"))
        log = LogReader(folder / "feedback.db")
        ((spread,),) = log.select("SELECT max(time) - min(time) FROM log")
        log.close()
        note(f"entries are {spread / 86400:,.1f} days apart")
        return [key for key in kept if key not in found], check_store(folder / "feedback.db")
    finally:
        if server is not None:
            client.close()
            server.stop(signal.SIGKILL)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as path:
        n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
        lost, report = run(Path(path), n, seed=0, note=lambda text: print(text, flush=True))
        print(f"lost: {len(lost)}; faults after a replay: {list(report.faults)}")
        sys.exit(bool(lost) or bool(report.faults))
