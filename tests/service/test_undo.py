"""Judgments teach the live ranker; what is taken back is unlearned, with the bits of a replay."""

from __future__ import annotations

import math
import time
from itertools import count

import numpy as np
import pytest

from rankwright.service.experiments import Experiments
from rankwright.service.learning import log_learner as learner_module
from rankwright.service.learning.live import LEARNERS, LearningPlan, LiveRanker
from rankwright.service.learning.log_learner import LogLearner
from rankwright.service.log.entries import Event, Judgment, LoggedFeedback, encode
from rankwright.service.log.store import Store
from rankwright.service.models import Models
from service.replay import replayed

GRADES = (0.0, 1.0, 2.0)
NAMES = ["x", "y"]
DOCUMENTS = np.random.default_rng(5).normal(size=(6, 2))


class Log:
    """A store, and a learner that is run step by step instead of in its thread."""

    def __init__(self, path, ranker="PRank", every=3, **options):
        self.store, self.number = Store(path), count(1)
        self.plan, self.every, self.options = LearningPlan(ranker, grades=GRADES), every, options
        self.start()

    def start(self):
        """A learner that knows what the store has: as after a kill."""
        models, experiments = Models(self.store, ()), Experiments(self.store)
        self.learner = LogLearner(
            self.store, models, experiments, self.plan, snapshot_every=self.every, **self.options
        )

    def restart(self):
        self.store.close()
        self.store = Store(self.store.path)
        self.start()

    def feedback(self, grade):
        event = f"e{next(self.number)}"
        shown = Event("q", "m", ["a"], b"", DOCUMENTS[:1].tobytes(), NAMES)
        self.store.append_event(event, encode(shown))
        body = encode(LoggedFeedback("1", grades={"a": grade}))
        self.store.append("feedback", f"{event}/1", body, event=event)

    def judge(self, judge, document, value, action="judge", mode="grades"):
        key = f"k{next(self.number)}"
        features = [DOCUMENTS[document % 6].tolist()] if action == "judge" else []
        judgment = Judgment(
            action, mode, "q", (f"d{document}",), value, features=features, names=NAMES
        )
        self.store.append("judgment", key, encode(judgment), user=judge)
        return key

    def undo(self, judge, key, mode="grades"):
        body = encode(Judgment("undo", mode, of=key))
        self.store.append("judgment", f"k{next(self.number)}", body, user=judge)

    def learn(self):
        self.store.flush()
        self.learner._follow()
        return self.learner.live

    def check(self):
        """The ranker has the bits of a replay, and so does the snapshot in the store."""
        assert self.learn().snapshot() == replayed(self.store, self.plan).snapshot()
        kept = self.store.state("live")
        if kept is not None:
            last = LiveRanker.restore(kept).progress.last_seq
            assert kept == replayed(self.store, self.plan, last).snapshot()


@pytest.fixture
def open_log(tmp_path):
    logs = []

    def open_(name="log.db", **options):
        logs.append(Log(tmp_path / name, **options))
        return logs[-1]

    yield open_
    for log in logs:
        log.store.close()


@pytest.mark.parametrize("ranker", LEARNERS)
def test_a_judgment_that_is_taken_back_was_never_learned(open_log, ranker):
    log, other = open_log(ranker=ranker), open_log("other.db", ranker=ranker)
    for each in (log, other):
        each.feedback(2.0)
        each.judge("ann", 1, 0.0)
    key = log.judge("ann", 2, 2.0)
    assert log.learn().progress.n_examples == 3
    log.undo("ann", key)
    for each in (log, other):
        each.judge("bob", 3, 1.0)
    log.check()
    ours, theirs = log.learn(), other.learn()
    assert ours.progress.n_examples == theirs.progress.n_examples == 3
    assert ours.progress.n_taken_back == 1
    assert ours.rank_loss == theirs.rank_loss
    assert ours.progress.curve == theirs.progress.curve
    rows = np.vstack([DOCUMENTS, DOCUMENTS + 1])
    scores = [each.served().model.decision_function(rows).tobytes() for each in (ours, theirs)]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_answers_undos_changes_and_kills_gives_the_bits_of_a_replay(open_log, seed):
    log, random, keys = open_log(every=2 + seed), np.random.default_rng(seed), []
    for _ in range(60):
        judge = str(random.choice(["ann", "bob"]))
        document, step = int(random.integers(6)), random.random()
        if step < 0.25:
            log.feedback(float(random.integers(3)))
        elif step < 0.6:
            keys.append((judge, log.judge(judge, document, float(random.integers(3)))))
        elif step < 0.65:
            action = str(random.choice(["skip", "later", "cannot"]))
            keys.append((judge, log.judge(judge, document, None, action)))
        elif step < 0.7:
            keys.append((judge, log.judge(judge, document, 50.0, mode="magnitudes")))
        elif step < 0.85 and keys:
            back = min(len(keys), int(random.geometric(0.4)))
            log.undo(*keys[-back])  # also what was taken back before
        elif step < 0.88 and keys:
            log.undo("eve", keys[-1][1])  # not hers: nothing happens
        elif step < 0.94:
            log.check()
        else:
            log.start()
    log.check()
    log.start()
    log.check()


def test_without_an_example_the_ranker_is_as_at_its_start(open_log):
    log = open_log()
    key = log.judge("ann", 0, 2.0)
    assert log.learn().started
    log.undo("ann", key)
    live = log.learn()
    assert not live.started
    assert live.progress.names is None
    served = log.learner.models.peek("live")
    assert served.features == tuple(NAMES)
    assert not served.model.decision_function(DOCUMENTS).any()
    log.check()


def count_learning(monkeypatch):
    """A list that gets the number of each entry that is learned or passed over."""
    calls, learn = [], LogLearner._learn

    def counted(self, live, entry):
        calls.append(entry.seq)
        learn(self, live, entry)

    monkeypatch.setattr(LogLearner, "_learn", counted)
    return calls


def test_going_back_learns_few_entries_again_and_the_store_stays_small(open_log, monkeypatch):
    log = open_log(every=10)
    keys = [log.judge("ann", i, 1.0) for i in range(400)]
    log.learn()
    assert len(log.learner.snapshots) == 3
    names = log.store.select("SELECT count(*) FROM state WHERE name GLOB 'live/*'")
    assert names[0][0] == 2
    calls = count_learning(monkeypatch)
    for back in (1, 5, 8):
        calls.clear()
        log.undo("ann", keys[-back])
        log.learn()
        assert len(calls) <= 2 * 10 + 3, f"{len(calls)} entries for the {back}th last"
    log.check()


def test_many_changes_that_wait_are_learned_once_a_batch(open_log, monkeypatch):
    log, calls = open_log(every=100), count_learning(monkeypatch)
    for i in range(400):  # each judgment replaces the fifth before it
        log.judge("ann", i % 5, float(i % 3))
    log.learn()
    assert len(calls) <= 2 * 400
    log.check()


@pytest.mark.parametrize("n_before", [0, 9])
def test_a_failure_within_a_batch_changes_no_bit(open_log, monkeypatch, n_before):
    log = open_log(every=20)
    keys = [log.judge("ann", i, float(i % 3)) for i in range(n_before)]
    log.learn()
    for i in range(8):
        log.judge("ann", i % 3, float(i % 2))  # replaces earlier ones, of this batch too
    for key in keys[:1]:
        log.undo("ann", key)
    with monkeypatch.context() as patch:
        calls, learn = [], LogLearner._learn

        def failing(self, live, entry):
            calls.append(entry)
            if len(calls) == 5:
                raise OSError("disk I/O error")
            learn(self, live, entry)

        patch.setattr(LogLearner, "_learn", failing)
        with pytest.raises(OSError, match="disk"):
            log.learn()
    log.learner.error = "disk I/O error"  # as its thread notes it
    log.judge("bob", 1, 2.0)
    log.check()


def test_a_stop_while_the_log_is_learned_again_loses_nothing(open_log):
    log = open_log(every=1000)
    keys = [log.judge("ann", i, float(i % 3)) for i in range(6)]
    log.learn()
    log.learner.snapshots = {}  # so that it goes back to the beginning
    log.undo("ann", keys[0])
    log.learner._stop = True
    with pytest.raises(learner_module._Interrupted):
        log.learn()
    log.learner.close()
    kept = LiveRanker.restore(log.store.state("live"))
    assert kept.progress.n_examples == 6
    log.start()
    log.check()
    assert log.learn().progress.n_examples == 5


def test_after_retention_what_is_left_can_be_taken_back(open_log, monkeypatch):
    log = open_log(retention_days=1.0)
    old = [log.judge("ann", i, 1.0) for i in range(4)]
    log.learn()
    log.store.write(lambda db: db.execute("UPDATE log SET time = ?", (0.0,))).result()
    new = [log.judge("ann", i, 2.0) for i in range(4, 6)]
    expected = LiveRanker(log.plan)
    for seq, document, grade in [(i + 1, i, 1.0) for i in range(4)] + [(6, 5, 2.0)]:
        judgment = Judgment("judge", "grades", "q", (f"d{document}",), grade,
                            features=[DOCUMENTS[document].tolist()], names=NAMES)  # fmt: skip
        expected.apply(seq, *judgment.as_feedback())
    log.learn()
    log.learner._sweep()
    assert [entry.key for entry in log.store.entries()] == new
    log.undo("ann", new[0])
    log.undo("ann", old[0])  # no longer in the log: it stays learned
    live = log.learn()
    assert live.progress.n_examples == 5
    weights = [each.served().model.decision_function(DOCUMENTS) for each in (live, expected)]
    assert weights[0].tobytes() == weights[1].tobytes()
    log.start()
    assert log.learn().snapshot() == live.snapshot()


def test_a_clock_that_is_put_forward_makes_no_entry_old(open_log, monkeypatch):
    """Retention would delete the whole log, which nothing brings back."""
    log = open_log(retention_days=1.0)
    kept = [log.judge("ann", i, 1.0) for i in range(4)]
    log.learn()
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 40 * 86400)
    log.learner._sweep()
    assert [entry.key for entry in log.store.entries()] == kept


def test_a_clock_that_is_set_back_for_a_while_makes_no_entry_old(open_log, monkeypatch):
    log = open_log(retention_days=1.0)
    now, shift = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: now() + shift)
    kept = []
    for number, days in enumerate((0, -40, 3, -400, 0)):
        shift = 86400.0 * days
        kept.append(log.judge("ann", number, 1.0))
        log.learn()
        log.learner._swept = -math.inf
        log.learner._sweep()
    assert [entry.key for entry in log.store.entries()] == kept


def test_a_start_with_a_clock_that_is_behind_makes_no_entry_old(open_log, monkeypatch):
    now = time.time
    log = open_log(retention_days=1.0)
    kept = [log.judge("ann", 0, 1.0)]
    monkeypatch.setattr(time, "time", lambda: now() - 40 * 86400)
    log.restart()
    kept.append(log.judge("ann", 1, 1.0))
    monkeypatch.setattr(time, "time", now)
    log.restart()
    log.learn()
    log.learner._swept = -math.inf
    log.learner._sweep()
    assert [entry.key for entry in log.store.entries()] == kept


def judge_on_the_page(client, value, key):
    page = client.get("/judge?mode=grades").text
    field = lambda name: page.split(f'name="{name}" value="')[1].split('"')[0]  # noqa: E731
    form = {name: field(name) for name in ("csrf_token", "mode", "query", "document")}
    answer = client.request(
        "POST", "/judge/answer", data={**form, "key": key, "value": value},
        headers={"hx-request": "true"},
    )  # fmt: skip
    assert answer.status_code == 200, answer.text
    return answer.text


def undo_on_the_page(client, key):
    token = client.get("/judge?mode=grades").text.split('name="csrf_token" value="')[1]
    form = {"csrf_token": token.split('"')[0], "mode": "grades", "key": key}
    return client.request("POST", "/judge/undo", data=form, headers={"hx-request": "true"}).text


def seen_on(page):
    value = page.split('id="curve-value">')[1].split("<")[0]
    return value, int(page.split('id="n-seen">')[1].split("<")[0])


def test_the_curve_of_the_page_is_that_of_the_live_ranker(serve, tmp_path):
    queue = tmp_path / "queue.csv"
    lines = [f"q{i % 2},d{i},{i / 8},{-(i % 3)}" for i in range(12)]
    queue.write_text("\n".join(["query,id,x,z", *lines]) + "\n")
    settings = {"learn": "BayesianPRank", "queue": str(queue), "overlap": 1.0}
    client = serve(**settings)
    client.cookies.set("rankwright_judge", "ann")
    for number in range(3):
        page = judge_on_the_page(client, number, f"answer-{number}")
    first = seen_on(page)
    assert first[1] == 3
    assert "BayesianPRank" in page
    second = seen_on(judge_on_the_page(client, 4, "answer-3"))
    assert second[1] == 4
    assert second[0] != first[0]
    assert seen_on(undo_on_the_page(client, "take-back")) == first
    items = [{"id": "a", "features": {"x": 0.1, "z": 1.0}}, {"id": "b", "features": [0.2, 0.0]}]
    answer = client.post("/v1/rank", {"items": items}).json()
    assert answer["model"].startswith("live-")
    client.feedback(answer["event"], grades={"a": 2, "b": 4})
    client.wait_until_learned()
    live, plan = client.service.learner.live, client.service.settings.plan()
    assert live.progress.n_examples == 5
    assert live.snapshot() == replayed(client.service.store, plan).snapshot()
    client.close()
    again = serve(**settings)
    again.wait_until_learned()
    assert again.service.learner.live.snapshot() == live.snapshot()


def test_judgments_with_other_features_leave_the_live_ranker_alone(serve):
    client = serve(learn="PRank")
    event = client.rank([[1.0, 2.0], [3.0, 4.0]])["event"]
    client.feedback(event, grades={"a0": 1})
    client.wait_until_learned()
    client.cookies.set("rankwright_judge", "ann")
    page = judge_on_the_page(client, 3, "answer-1")
    assert seen_on(page)[1] == 73  # of the page's own model: 72 simulated judgments
    client.wait_until_learned()
    assert client.service.learner.live.progress.n_examples == 1
