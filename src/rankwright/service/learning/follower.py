"""One thread that follows the log: it teaches the live ranker and counts experiments."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from rankwright.service.experiments import Experiments
from rankwright.service.learning.live import LiveRanker, Plan
from rankwright.service.log.entries import Event, decode_event, decode_feedback
from rankwright.service.log.reader import Entry
from rankwright.service.log.store import Store, put_state
from rankwright.service.models import LIVE, Models, Served

PUBLISH_SECONDS = 0.2
ANSWERS = "log INDEXED BY log_answers WHERE kind != 'event'"
RETENTION_SECONDS = 3600.0
log = logging.getLogger("rankwright.service")


class Follower:
    """Applies every feedback of the log in order, once, and keeps snapshots in the store.

    The thread is the only one that changes the ranker. Requests see copies (:class:`Served`).
    """

    def __init__(
        self,
        store: Store,
        models: Models,
        experiments: Experiments,
        plan: Plan | None = None,
        *,
        snapshot_every: int = 1000,
        retention_days: float | None = None,
    ) -> None:
        self.store, self.models, self.experiments = store, models, experiments
        self.plan, self.snapshot_every, self.retention_days = plan, snapshot_every, retention_days
        self.live = self._restored(plan)
        self.lag = 0.0  # seconds between the last feedback and its being learned
        self.error: str | None = None
        self._unsaved, self._published, self._swept = 0, 0.0, 0.0
        self._wake, self._stop, self._rebuild = threading.Event(), False, False
        self.seen = self._first_seq()
        self._target = self._last_seq()
        if self.live is not None:
            self._publish(begin=self._first_event())
        store.on_commit(self._wake.set)
        self._thread = threading.Thread(target=self._run, name="rankwright-learner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether everything that was in the log at the start has been learned."""
        return self.seen >= self._target

    @property
    def behind(self) -> int:
        """Entries that wait to be learned."""
        sql = f"SELECT count(*) FROM {ANSWERS} AND seq > ? AND kind = 'feedback'"
        return int(self.store.select(sql, (0 if self._rebuild else self.seen,))[0][0])

    def begin(self, n_features: int, names: Any) -> Served:
        """The live ranker before its first example, for requests with these features."""
        assert self.live is not None
        if self.live.started:  # since the request looked
            return self.live.served()
        served = self.live.served(n_features, names)
        self.models.publish(served)
        return served

    def rebuild(self) -> None:
        """Forget what was learned and learn the log again, after entries were deleted."""
        self._rebuild = True
        self._wake.set()

    def close(self) -> None:
        """Learn what is committed, keep a snapshot, stop."""
        self._stop = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._unsaved:
            self._snapshot()

    # The thread.

    def _run(self) -> None:
        while not self._stop:
            self._wake.clear()
            try:
                self._follow()
                self._sweep()
                self.error = None
            except Exception as error:  # the disk may be full; the log keeps everything
                self.error = str(error)
                log.exception("the learner failed; it tries again")
                time.sleep(0.5)
            self._wake.wait(60.0)

    def _follow(self) -> None:
        """Learn everything that is in the log now."""
        if self._rebuild:
            self._forget()
        for entry in self.store.entries(("feedback",), after=self.seen):
            self._apply(entry)
            if self._unsaved >= self.snapshot_every:
                self._snapshot()
            if time.monotonic() - self._published > PUBLISH_SECONDS:
                self._publish()
            if self._rebuild:
                return
        self.seen = max(self.seen, self._target)
        self._publish()

    def _apply(self, entry: Entry) -> None:
        feedback = decode_feedback(entry.body)
        event = self._event(entry.event)
        if self.live is not None and entry.seq > self.live.progress.last_seq:
            self.live.apply(entry.seq, feedback, event)
        self.experiments.apply(entry.seq, str(entry.event), feedback, event)
        self.seen = entry.seq
        self._unsaved += 1
        self.lag = max(0.0, time.time() - entry.time)

    def _event(self, event: str | None) -> Event | None:
        entry = None if event is None else self.store.event(event)
        return None if entry is None else decode_event(entry.body)

    def _publish(self, begin: Event | None = None) -> None:
        if self.live is None:
            return
        current = self.models.peek(LIVE)
        if self.live.started or current is None:
            rows = None if begin is None else begin.rows().shape[1]
            names = None if begin is None else begin.names
            self.models.publish(self.live.served(rows, names))
        self._published = time.monotonic()

    def _snapshot(self) -> None:
        live = None if self.live is None else self.live.snapshot()
        counts = self.experiments.snapshot()

        def write(db: Any) -> None:
            if live is not None:
                put_state(db, "live", live)
            put_state(db, "experiments", counts)

        self.store.write(write).result()
        self._unsaved = 0

    def _sweep(self) -> None:
        """Delete entries older than the retention, once they are in a snapshot."""
        if self.retention_days is None or time.monotonic() - self._swept < RETENTION_SECONDS:
            return
        self._swept = time.monotonic()
        self._snapshot()
        self.store.delete_before(time.time() - 86400 * self.retention_days, self.seen)

    def _forget(self) -> None:
        self.seen = 0
        self._rebuild = False
        self.live = None if self.plan is None else LiveRanker(self.plan)
        self.experiments.reset_counts()
        self._snapshot()

    # The start.

    def _restored(self, plan: Plan | None) -> LiveRanker | None:
        """The snapshot of the same plan, or a ranker that learns the log from its beginning."""
        if plan is None:
            return None
        content = self.store.state("live")
        if content is not None:
            live = LiveRanker.restore(content)
            if live.plan == plan:
                return live
        plan.make()  # refuse wrong names and parameters now
        return LiveRanker(plan)

    def _first_seq(self) -> int:
        """Where to begin: everything before it is in the snapshots, or matters to nobody."""
        places = [] if self.live is None else [self.live.progress.last_seq]
        if self.experiments.running():
            places.append(self.experiments.last_seq)
        return min(places, default=self._last_seq())

    def _last_seq(self) -> int:
        rows = self.store.select(f"SELECT max(seq) FROM {ANSWERS} AND kind = 'feedback'")
        return int(rows[0][0] or 0)

    def _first_event(self) -> Event | None:
        """The first list of the log with features; it says what the live ranker sees."""
        for entry in self.store.entries(("event",)):
            event = decode_event(entry.body)
            if event.features:
                return event
        return None
