"""Two workers whose connection is delayed, as on a network: what each exchange costs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster.setup import cluster, files, fit_on

DELAYS = (0.0, 0.001, 0.01)


def relay(options: Any) -> None:
    """LambdaMART on two workers through a relay that delays bytes by 0, 1 and 10 ms"""
    # Both send at the same time, so an exchange should cost one delay: the time in which trees grow
    # without any, and the number of exchanges, predict the others.
    import rankwright as rw

    def model() -> Any:
        return rw.LambdaMART(n_estimators=options.rounds, random_state=0)

    for n in options.rows:
        with files(n) as folder, cluster(2, {"LambdaMART": model}) as client:
            fit_on(client, model(), folder)
            best = dict.fromkeys(DELAYS, float("inf"))
            for _ in range(options.repeats):
                for delay in DELAYS:
                    client.run(install, delay)
                    fit_on(client, model(), folder)
                    seconds, exchanges, n_bytes = max(client.run(counted).values())
                    best[delay] = min(best[delay], seconds)
            per_tree, megabytes = exchanges / options.rounds, n_bytes / options.rounds / 1e6
            print(f"{n:,} rows, {options.rounds} trees: {per_tree:.1f} exchanges and "
                  f"{megabytes:.2f} MB a tree from each worker", flush=True)  # fmt: skip
            for delay, seconds in best.items():
                expected = best[0.0] + exchanges * delay
                print(f"  {1e3 * delay:4.0f} ms: {seconds:6.2f} s, predicted {expected:6.2f} "
                      f"({seconds / expected:.2f})", flush=True)  # fmt: skip


def install(delay: float) -> None:
    """Let the doors of this worker be reached through relays; count from 0."""
    from rankwright.distributed.lambdamart import Rank
    from rankwright.distributed.ring import Door, Ring

    here: Any = sys.modules[__name__]
    here.seconds, here.exchanges, here.sent = 0.0, 0, 0
    if not hasattr(here, "direct"):
        here.direct, exchange, grow = Door.address.fget, Ring._exchange, Rank.grow  # type: ignore[attr-defined]

        def counting(self: Any, sent: dict[int, Any], received: dict[int, Any]) -> None:
            before = self.n_bytes
            exchange(self, sent, received)
            here.exchanges, here.sent = here.exchanges + 1, here.sent + self.n_bytes - before

        def timing(self: Any, draws: Any) -> Any:
            start = time.perf_counter()
            trees = grow(self, draws)
            here.seconds += time.perf_counter() - start
            return trees

        Ring._exchange, Rank.grow = counting, timing  # type: ignore[method-assign]

    def address(door: Any) -> tuple[str, int]:
        host, port = here.direct(door)
        command = [sys.executable, str(Path(__file__).with_name("forward.py"))]
        command += [host, str(port), str(delay)]
        started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None
        return host, int(started.stdout.readline())

    Door.address = property(address)  # type: ignore[assignment, method-assign]


def counted() -> tuple[float, int, int]:
    """Seconds in which this worker grew trees, its exchanges, and the bytes that it sent."""
    here: Any = sys.modules[__name__]
    return here.seconds, here.exchanges, here.sent
