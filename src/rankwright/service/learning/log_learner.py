"""One thread that follows the log: it teaches the live ranker and counts experiments.

A ranker cannot unlearn an example. When a judgment is taken back or replaced, the ranker goes back
to the last snapshot before that judgment, and learns the log again from there, without it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import islice, takewhile
from typing import Any

import msgspec
from apsw import Connection

from rankwright.service.experiments import Experiments
from rankwright.service.learning.live import LearningPlan, LiveRanker
from rankwright.service.log.entries import (
    Event,
    Judgment,
    decode_event,
    decode_feedback,
    decode_judgment,
)
from rankwright.service.log.reader import CurrentJudgments, LogEntry, LogReader
from rankwright.service.log.store import Store, put_state
from rankwright.service.models import LIVE, DeployedModel, Models

PUBLISH_SECONDS = 0.2
ANSWERS = "log INDEXED BY log_answers WHERE kind != 'event'"
RETENTION_SECONDS = 3600.0  # between two sweeps, or less if entries are kept for less than a day
MOST_AT_ONCE = 200  # entries in a batch
EARLIER = "live/"  # names of the earlier snapshots in the store
log = logging.getLogger("rankwright.service")


class _Interrupted(Exception):
    """The service stops, or entries were deleted, while the log is learned again."""


class LogLearner:
    """Applies the feedback and the judgments of the log in order, and keeps snapshots in the store.

    The ranker has learned, in log order, all feedback and the judgments that count: those that were
    neither taken back nor replaced (:class:`CurrentJudgments`). Where entries change which earlier
    ones count, the ranker goes back to a snapshot before them and learns again from there, once for
    a batch of entries. So its state is a function of the log up to its last entry, whenever the
    service was stopped or killed.

    ``snapshots`` has the oldest snapshot, where a log with a retention begins, and the two latest.

    Only this thread changes the ranker. Requests see copies (:class:`DeployedModel`).
    """

    def __init__(
        self,
        store: Store,
        models: Models,
        experiments: Experiments,
        plan: LearningPlan | None = None,
        *,
        snapshot_every: int = 1000,
        retention_days: float | None = None,
    ) -> None:
        self.store, self.models, self.experiments = store, models, experiments
        self.plan, self.snapshot_every, self.retention_days = plan, snapshot_every, retention_days
        judged = plan is not None and plan.labels == "grades"
        self._kinds = ("feedback", "judgment") if judged else ("feedback",)
        self.live = self._restored(plan)
        self.snapshots = self._stored_snapshots()
        self.judgments = self._current_judgments()
        self.lag = 0.0  # seconds between the last feedback and its being learned
        self.error: str | None = None
        self._unsaved, self._published, self._swept = 0, 0.0, -math.inf
        self._wake, self._stop, self._rebuild = threading.Event(), False, False
        self._moved = threading.Condition()
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
        return int(self._select("count(*)", after=0 if self._rebuild else self.seen) or 0)

    def learns(self, names: Iterable[str], grades: Iterable[float]) -> bool:
        """Whether the ranker learns judgments with these features and these grades."""
        if self.live is None or "judgment" not in self._kinds:
            return False
        known = self.live.progress.names
        fits = not self.live.started or (known is not None and set(known) <= set(names))
        return fits and set(grades) <= set(self.live.plan.grades)

    def wait_for(self, seq: int, seconds: float) -> bool:
        """Wait until an entry is learned, but not for long."""
        with self._moved:
            return self._moved.wait_for(lambda: self.seen >= seq, seconds)

    def begin(self, n_features: int, names: Sequence[str] | None) -> DeployedModel:
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
        """Stop, and keep a snapshot of what was learned."""
        self.stop()
        if self._unsaved:
            self._snapshot()

    def stop(self) -> None:
        """Stop; the next learner begins with the last snapshot."""
        self._stop = True
        self._wake.set()
        self.store.off_commit(self._wake.set)
        if self._thread.ident is not None:
            self._thread.join()

    # The thread.

    def _run(self) -> None:
        while not self._stop:
            self._wake.clear()
            try:
                self._follow()
                self._sweep()
                self.error = None
            except _Interrupted:
                continue
            except Exception as error:  # the disk may be full; the log keeps everything
                self.error = str(error)
                log.exception("the learner failed; it tries again")
                time.sleep(0.5)
            self._wake.wait(min(60.0, self._sweep_seconds()))

    def _follow(self) -> None:
        """Learn everything that is in the log now."""
        if self._rebuild:
            self._forget()
        elif self.error is not None:  # it may have failed between two changes
            self.judgments = self._current_judgments()
        entries = self.store.entries(self._kinds, after=self.seen)
        while batch := list(islice(entries, min(self.snapshot_every, MOST_AT_ONCE))):
            self._apply(batch)
            if self._unsaved >= self.snapshot_every:
                self._snapshot()
            if time.monotonic() - self._published > PUBLISH_SECONDS:
                self._publish()
            if self._rebuild:
                return
        self.seen = max(self.seen, self._target)
        self._publish()
        with self._moved:
            self._moved.notify_all()

    def _apply(self, batch: list[LogEntry]) -> None:
        if self.live is not None:
            last = self.live.progress.last_seq
            self._learn_batch(self.live, [entry for entry in batch if entry.seq > last])
        for entry in batch:
            if entry.kind == "feedback":
                feedback, event = decode_feedback(entry.body), self._event(entry.event)
                self.experiments.apply(entry.seq, str(entry.event), feedback, event)
        self.seen = batch[-1].seq
        self._unsaved += len(batch)
        self.lag = max(0.0, time.time() - batch[-1].time)

    def _learn_batch(self, live: LiveRanker, batch: list[LogEntry]) -> None:
        """Learn what counts at the end of a batch; go back if earlier judgments count no more.

        The ranker is replaced at the end: on the way it may lack a judgment that a later entry of
        the batch takes back.
        """
        if not batch:
            return
        judgments, last = [e for e in batch if e.kind == "judgment"], live.progress.last_seq
        changed = [seq for e in judgments for seq in self.judgments.apply(e) if seq <= last]
        first = min(changed, default=batch[0].seq)
        try:
            if changed:
                self._drop_snapshots(from_seq=first)
                self.live = self._relearned(batch[-1].seq)
                return
            live = live.copy() if judgments and len(batch) > 1 else live
            for entry in batch:
                self._learn(live, entry)
            self.live = live
        except BaseException:
            self._drop_snapshots(from_seq=first)  # those on the way to the end of the batch
            raise

    def _learn(self, live: LiveRanker, entry: LogEntry) -> None:
        _learn(live, entry, self.judgments, self._event)

    def _relearned(self, last: int) -> LiveRanker:
        """The ranker after an entry, learned from the latest snapshot before it."""
        assert self.plan is not None
        before = max((seq for seq in self.snapshots if seq < last), default=None)
        live = LiveRanker.restore(self.snapshots[before]) if before else LiveRanker(self.plan)
        entries = self.store.entries(self._kinds, after=live.progress.last_seq)
        for number, entry in enumerate(takewhile(lambda entry: entry.seq <= last, entries), 1):
            if self._stop or self._rebuild:  # the next start begins with the last snapshot
                raise _Interrupted
            self._learn(live, entry)
            if number % self.snapshot_every == 0:
                self._keep_snapshot(live)
        return live

    def _keep_snapshot(self, live: LiveRanker) -> None:
        self.snapshots[live.progress.last_seq] = live.snapshot()
        oldest, *later = sorted(self.snapshots)
        self.snapshots = {seq: self.snapshots[seq] for seq in (oldest, *later[-2:])}

    def _drop_snapshots(self, from_seq: int) -> None:
        """Drop snapshots that learned an entry which does not count, or lack one."""
        self.snapshots = {seq: kept for seq, kept in self.snapshots.items() if seq < from_seq}

    def _event(self, event: str | None) -> Event | None:
        entry = None if event is None else self.store.event(event)
        return None if entry is None else decode_event(entry.body)

    def _publish(self, begin: Event | None = None) -> None:
        if self.live is None:
            return
        current = self.models.peek(LIVE)
        width = None if current is None else current.n_features
        if self.live.started or current is None:
            rows = None if begin is None else begin.rows().shape[1]
            names = None if begin is None else begin.names
            self.models.publish(self.live.served(rows, names))
        elif current.measures:  # its only examples were taken back
            self.models.publish(self.live.served(width, current.features))
        self._published = time.monotonic()

    def _snapshot(self, submit: Callable[..., Future[Any]] | None = None) -> None:
        earlier: dict[int, bytes] = {}
        if self.live is not None:
            self._keep_snapshot(self.live)
            earlier = dict(self.snapshots)
        latest = earlier.pop(max(earlier), None) if earlier else None
        counts = self.experiments.snapshot()

        def write(db: Connection) -> None:
            if latest is not None:
                put_state(db, "live", latest)
                db.execute(f"DELETE FROM state WHERE name GLOB '{EARLIER}*'")
                for seq, content in earlier.items():
                    put_state(db, f"{EARLIER}{seq}", content)
            put_state(db, "experiments", counts)

        (submit or self.store.write)(write).result()
        self._unsaved = 0

    def _sweep_seconds(self) -> float:
        days = math.inf if self.retention_days is None else self.retention_days
        return max(min(RETENTION_SECONDS, 3600.0 * days), min(RETENTION_SECONDS, 1.0))

    def _sweep(self) -> None:
        """Delete entries older than the retention, once they are in a snapshot."""
        if self.retention_days is None or time.monotonic() - self._swept < self._sweep_seconds():
            return
        if self.store.refusal is not None:  # the leader deletes
            return
        now = self.store.clock.now()
        moment = now - 86400 * self.retention_days
        # What follows an entry that is kept is younger, whatever a wrong clock stamped it with.
        sql = "SELECT seq FROM log WHERE time BETWEEN ? AND ? ORDER BY seq LIMIT 1"
        kept = self.store.select(sql, (moment, now))
        n_old = kept[0][0] - 1 if kept else 2**62
        sql = "SELECT max(seq) FROM log WHERE time < ? AND seq <= ?"
        last = int(self.store.select(sql, (moment, min(self.seen, n_old)))[0][0] or 0)
        if self.live is not None and last:  # a judgment after it may still be taken back
            oldest = self._relearned(last)
            oldest.pass_over(last)
            self.snapshots = {seq: kept for seq, kept in self.snapshots.items() if seq >= last}
            self._keep_snapshot(oldest)
            self.judgments.forget_until(last)
        self._snapshot()
        waiting = self._select("min(seq)", after=self.seen)  # lists after the last feedback go, too
        self.store.delete_before(moment, n_old if waiting is None else min(self.seen, n_old))
        self._swept = time.monotonic()

    def _forget(self) -> None:
        self.seen = 0
        self._rebuild = False
        self.live = None if self.plan is None else LiveRanker(self.plan)
        self.snapshots, self.judgments = {}, CurrentJudgments()
        self.experiments.reset_counts()
        self._snapshot(self.store.change)  # replicas forget, too

    # The start.

    def _restored(self, plan: LearningPlan | None) -> LiveRanker | None:
        """The snapshot of the same plan, or a ranker that learns the log from its beginning."""
        if plan is None:
            return None
        content = self.store.state("live")
        if content is not None and (live := _of_plan(content, plan)) is not None:
            return live
        plan.make()  # refuse wrong names and parameters now
        return LiveRanker(plan)

    def _stored_snapshots(self) -> dict[int, bytes]:
        """The snapshots of the restored ranker by their last entries."""
        if self.live is None or not self.live.progress.last_seq:
            return {}
        rows = self.store.select(f"SELECT name, value FROM state WHERE name GLOB '{EARLIER}*'")
        earlier = {int(name.removeprefix(EARLIER)): value for name, value in rows}
        return earlier | {self.live.progress.last_seq: self.live.snapshot()}

    def _current_judgments(self) -> CurrentJudgments:
        """Which judgments counted when the ranker learned its last entry."""
        if self.live is None:
            return CurrentJudgments()
        last = self.live.progress.last_seq
        entries = self.store.entries(("judgment",))
        return CurrentJudgments(takewhile(lambda entry: entry.seq <= last, entries))

    def _first_seq(self) -> int:
        """Where to begin: everything before it is in the snapshots, or matters to nobody."""
        seqs = [] if self.live is None else [self.live.progress.last_seq]
        if self.experiments.running():
            seqs.append(self.experiments.last_seq)
        return min(seqs, default=self._last_seq())

    def _last_seq(self) -> int:
        return int(self._select("max(seq)") or 0)

    def _select(self, what: str, after: int = 0) -> Any:
        """A count or a maximum over the entries that are learned."""
        kinds = ", ".join("?" * len(self._kinds))
        sql = f"SELECT {what} FROM {ANSWERS} AND seq > ? AND kind IN ({kinds})"
        return self.store.select(sql, (after, *self._kinds))[0][0]

    def _first_event(self) -> Event | None:
        """The first list of the log with features; it says what the live ranker sees."""
        for entry in self.store.entries(("event",)):
            event = decode_event(entry.body)
            if event.features:
                return event
        return None


def replayed(log: LogReader, plan: LearningPlan, last: int) -> LiveRanker:
    """The ranker that has learned the log up to an entry, from its beginning."""
    current = CurrentJudgments(takewhile(lambda e: e.seq <= last, log.entries(("judgment",))))
    kinds = ("feedback", "judgment") if plan.labels == "grades" else ("feedback",)

    def event_of(event: str | None) -> Event | None:
        entry = None if event is None else log.find(event, "event")
        return None if entry is None else decode_event(entry.body)

    live = LiveRanker(plan)
    for entry in takewhile(lambda entry: entry.seq <= last, log.entries(kinds)):
        _learn(live, entry, current, event_of)
    return live


def _learn(
    live: LiveRanker,
    entry: LogEntry,
    judgments: CurrentJudgments,
    event_of: Callable[[str | None], Event | None],
) -> None:
    if entry.kind == "feedback":
        live.apply(entry.seq, decode_feedback(entry.body), event_of(entry.event))
    elif entry.seq in judgments:
        live.apply(entry.seq, *decode_judgment(entry.body).as_feedback())
    else:
        live.pass_over(entry.seq, taken_back=_is_graded(decode_judgment(entry.body)))


def _of_plan(content: bytes, plan: LearningPlan) -> LiveRanker | None:
    """The ranker of a snapshot; None if it is of another plan, or of another version."""
    try:
        live = LiveRanker.restore(content)
    except msgspec.DecodeError:
        return None
    same = live.plan == plan and len(live.progress.n_graded) == len(plan.grades)
    return live if same else None


def _is_graded(judgment: Judgment) -> bool:
    return judgment.mode == "grades" and judgment.value is not None
