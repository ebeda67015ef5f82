"""Learning from the log: in order, once, and with the same bits whatever was interrupted."""

from __future__ import annotations

import numpy as np
import pytest

from rankwright.data.datasets.synthetic import make_queries
from rankwright.selection.progressive_validation import progressive
from rankwright.service.learning.labels import grades_of
from rankwright.service.learning.live import LEARNERS, LearningPlan, LiveRanker
from rankwright.service.log.entries import Event, LoggedFeedback

GRADES = (0.0, 1.0, 2.0, 3.0, 4.0)


def stream(n_queries=60, n_features=4, seed=0):
    """Events and feedback that grades every item, in the order of a log."""
    sample = make_queries(
        n_queries, docs_per_query=(2, 6), n_features=n_features, random_state=seed
    )
    for query in range(n_queries):
        rows = np.flatnonzero(sample.qid == query)
        ids = [f"d{row}" for row in rows]
        event = Event(f"q{query}", "m", ids, b"", sample.X[rows].tobytes())
        grades = {f"d{row}": float(sample.y[row]) for row in rows}
        yield query + 1, LoggedFeedback(str(query), grades=grades), event


def state_of(live):
    """Every learned attribute, as bytes."""
    learned = {name: value for name, value in vars(live.ranker).items() if name.endswith("_")}
    return {
        name: value.tobytes() if isinstance(value, np.ndarray) else repr(value)
        for name, value in learned.items()
    }


@pytest.mark.parametrize("name", LEARNERS)
def test_a_snapshot_continues_with_the_same_bits(name):
    plan = LearningPlan(name, grades=GRADES)
    straight, entries = LiveRanker(plan), list(stream())
    for entry in entries:
        straight.apply(*entry)
    interrupted = LiveRanker(plan)
    for number, entry in enumerate(entries):
        if number in (1, 7, 30, 31):
            interrupted = LiveRanker.restore(interrupted.snapshot())
        interrupted.apply(*entry)
    assert interrupted.progress == straight.progress
    assert straight.progress.n_learned == len(entries)
    rows = entries[0][2].rows()
    ours, theirs = (each.served().model.decision_function(rows) for each in (interrupted, straight))
    assert ours.tobytes() == theirs.tobytes()
    assert interrupted.snapshot() == straight.snapshot()


def test_the_rank_loss_is_that_of_progressive_validation():
    live = LiveRanker(LearningPlan("PRank", grades=GRADES))
    entries = list(stream())
    for entry in entries:
        live.apply(*entry)
    X = np.concatenate([event.rows() for _, _, event in entries])
    y = np.concatenate([list(feedback.grades.values()) for _, feedback, _ in entries])
    *_, last = progressive(LearningPlan("PRank").make(), X, y, classes=GRADES)
    assert live.progress.n_examples == len(y)
    assert live.rank_loss == pytest.approx(last["RankLoss"], rel=1e-12)
    medians = [np.median(y[:n] if n else GRADES) for n in range(len(y))]
    assert live.progress.median_loss == pytest.approx(np.abs(y - medians).sum(), rel=1e-12)


def test_features_are_found_by_name_and_others_are_skipped():
    live = LiveRanker(LearningPlan("PRank", grades=(0.0, 1.0)))
    rows = np.array([[1.0, 5.0], [-1.0, 5.0]])
    good = LoggedFeedback("1", grades={"a": 1.0, "b": 0.0})
    for seq in range(5):
        live.apply(seq, good, Event("q", "m", ["a", "b"], b"", rows.tobytes(), ["x", "y"]))
    other = LiveRanker.restore(live.snapshot())
    turned = Event("q", "m", ["a", "b"], b"", rows[:, ::-1].tobytes(), ["y", "x"])
    live.apply(9, good, turned)
    other.apply(9, good, Event("q", "m", ["a", "b"], b"", rows.tobytes(), ["x", "y"]))
    assert state_of(live) == state_of(other)
    for event in (
        None,
        Event("q", "m", ["a", "b"], b""),
        Event("q", "m", ["a", "b"], b"", rows.tobytes()),
        Event("q", "m", ["a", "b"], b"", rows.tobytes(), ["x", "z"]),
        Event("q", "m", ["a", "b"], b"", (rows * np.nan).tobytes(), ["x", "y"]),
    ):
        live.apply(10, good, event)
    live.apply(11, LoggedFeedback("2", clicks=["a"]), turned)
    assert live.progress.n_skipped == 6
    assert state_of(live) == state_of(other)


def test_clicks_teach_what_was_passed_over():
    shown = ["a", "b", "c", "d"]
    assert grades_of(LoggedFeedback("1", clicks=["c", "a"]), shown, "clicks") == {
        "a": 1.0,
        "b": 0.0,
        "c": 1.0,
    }
    assert grades_of(LoggedFeedback("1", clicks=[]), shown, "clicks") == {}
    live = LiveRanker(LearningPlan("PRank", grades=(0.0, 1.0), labels="clicks"))
    rows = np.array([[-1.0], [1.0]])
    for seq in range(5):
        event = Event("q", "m", ["a", "b"], b"", rows.tobytes())
        live.apply(seq, LoggedFeedback(str(seq), clicks=["b"]), event)
    scores = live.served().model.decision_function(rows)
    assert scores[1] > scores[0]


def test_the_curve_stays_short_and_ends_near_the_loss():
    live = LiveRanker(LearningPlan("PRank", grades=GRADES))
    for entry in stream(1200, n_features=2):
        live.apply(*entry)
    examples, losses, medians = zip(*live.progress.curve, strict=True)
    assert len(examples) < 512
    assert list(examples) == sorted(examples)
    assert losses[-1] == pytest.approx(live.rank_loss, rel=0.05)
    assert losses[-1] < medians[-1]
