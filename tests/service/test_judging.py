"""The queue, who judges what, and that the log alone rebuilds all of it."""

from __future__ import annotations

import csv
import io
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwright as rw
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.service.demo import JUDGES, demo_judgments, demo_queue
from rankwright.service.judging.active_learning import FIRST, rank_variance
from rankwright.service.judging.queue import Queue, read_queue
from rankwright.service.judging.state import Judging, consensus, to_csv, to_letor, to_qrels
from rankwright.service.log.entries import MODES
from rankwright.service.pages.rendering import render_markdown


def small_queue(n_queries=3, n_docs=5, n_grades=5) -> Queue:
    rng = np.random.default_rng(0)
    rows = [
        {"query": f"q{q}", "id": f"d{d}", "a": rng.normal(), "b": rng.normal()}
        for q in range(n_queries)
        for d in range(n_docs)
    ]
    return Queue.from_rows(rows, n_grades=n_grades)


def judge_all(judging: Judging, judge: str, mode="grades", value=lambda task: 1, limit=1000) -> int:
    """Answer everything that a judge is shown; how many answers that were."""
    for number in range(limit):
        task = judging.next(judge, mode)
        if task is None:
            return number
        ids = [document.id for document in task.documents]
        judgment = judging.answer(mode, task.query, ids, value(task))
        assert judging.apply(f"{judge}/{mode}/{number}", judge, judgment)
    return limit


# Reading.


def test_csv_jsonl_and_runs_give_the_same_queue(tmp_path) -> None:
    (tmp_path / "queue.csv").write_text(
        'qid,docid,score,rank\n1,a,3.5,1\n1,b,2.5,2\n2,a,1.5,1\n'
    )  # fmt: skip
    (tmp_path / "queue.jsonl").write_text(
        '{"qid": 1, "docid": "a", "score": 3.5, "rank": 1}\n'
        '{"qid": 1, "docid": "b", "score": 2.5, "rank": 2}\n'
        '{"qid": 2, "docid": "a", "score": 1.5, "rank": 1}\n'
    )
    (tmp_path / "queue.run").write_text("1 Q0 a 1 3.5 x\n1 Q0 b 2 2.5 x\n2 Q0 a 1 1.5 x\n")
    (tmp_path / "documents.tsv").write_text(
        "id\ttitle\ttext\turl\na\tSalt\tLoss of salt\thttp://x.org/a\nb\tLung\t\t\n"
    )
    (tmp_path / "queries.tsv").write_text("1\tsalt loss\n2\tlung function\n")
    (tmp_path / "guide.md").write_text("*Grade* the answer.")
    more = {
        "documents": tmp_path / "documents.tsv",
        "queries": tmp_path / "queries.tsv",
        "guidelines": tmp_path / "guide.md",
    }
    queues = [
        read_queue(tmp_path / name, **more) for name in ("queue.csv", "queue.jsonl", "queue.run")
    ]
    for queue in queues:
        assert queue.documents == queues[0].documents
        np.testing.assert_array_equal(queue.X, queues[0].X)
        assert queue.query_texts == {"1": "salt loss", "2": "lung function"}
        assert queue.guidelines.startswith("*Grade*")
    assert queues[0].documents[0][2:] == ("Salt", "Loss of salt", "http://x.org/a", "")
    assert queues[0].feature_names[:2] == ("score", "rank")
    assert "title BM25" in queues[0].feature_names


def test_numbers_of_a_file_are_features_but_grades_are_not(tmp_path) -> None:
    path = tmp_path / "queue.csv"
    path.write_text("query,id,title,bm25,clicks,label\nq,a,A,1.5,,2\nq,b,B,0.5,3,0\n")
    queue = read_queue(path)
    assert queue.feature_names == ("bm25", "clicks")
    np.testing.assert_array_equal(queue.X, [[1.5, np.nan], [0.5, 3.0]])


def test_a_query_id_and_a_query_text_are_told_apart() -> None:
    queue = Queue.from_rows([{"qid": 7, "query": "salt loss", "docid": "a", "x": 1.0}])
    assert queue.query_texts == {"7": "salt loss"}


# Orders and shares.


def test_each_judge_has_a_random_order_that_survives_a_restart() -> None:
    queue = small_queue()
    orders = {j: Judging(queue, overlap=1.0).assignment.order(j, "grades") for j in "abcdefgh"}
    assert all(sorted(order) == [(row,) for row in range(15)] for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) == 8
    assert Judging(queue, overlap=1.0).assignment.order("a", "grades") == orders["a"]
    firsts = [Judging(queue).assignment.order(str(j), "grades")[0][0] for j in range(600)]
    assert max(Counter(firsts).values()) < 80  # 40 each on average


def test_documents_change_sides_from_judge_to_judge() -> None:
    assignment = Judging(small_queue()).assignment
    left = sum(assignment.sides(str(judge), (3, 4))[0] == 3 for judge in range(400))
    assert 160 < left < 240


@pytest.mark.parametrize("overlap, shared", [(0.0, 0), (1.0, 15)])
def test_the_overlap_is_judged_by_all_and_the_rest_by_one(overlap, shared) -> None:
    judging = Judging(small_queue(), overlap=overlap)
    first = judge_all(judging, "ann", limit=6)
    second = judge_all(judging, "bob")
    assert (first, second) == (6, 15 if shared else 9)
    counts = Counter(item for given in judging.values("grades").values() for item in given)
    assert sum(count == 2 for count in counts.values()) == (6 if shared else 0)


def test_a_part_overlaps() -> None:
    assignment = Judging(small_queue(40, 10), overlap=0.3).assignment
    assert 90 < sum(map(assignment.is_shared, assignment.documents)) < 150


def test_an_item_on_the_screen_of_one_judge_is_not_given_to_another() -> None:
    judging = Judging(small_queue(1, 2), overlap=0.0)
    first, second = judging.next("ann", "grades"), judging.next("bob", "grades")
    assert first.documents != second.documents
    assert judging.next("eve", "grades") is None
    assert judging.next("ann", "grades").documents == first.documents


def test_pairs_connect_all_documents_of_a_query() -> None:
    queue = small_queue(3, 6)
    judging = Judging(queue, overlap=1.0)
    assert len(judging.assignment.pairs) == 18
    for a, b in judging.assignment.pairs:
        assert queue.documents[a].query == queue.documents[b].query
    assert Counter(row for pair in judging.assignment.pairs for row in pair) == dict.fromkeys(
        range(18), 2
    )
    assert len(Judging(small_queue(1, 2)).assignment.pairs) == 1
    assert Judging(small_queue(2, 1)).next("ann", "pairs") is None


# Answers.


def test_skip_later_and_cannot_judge() -> None:
    judging = Judging(small_queue(1, 3), overlap=1.0)
    shown = []
    for number, action in enumerate(["later", "skip", "cannot"]):
        task = judging.next("ann", "grades")
        shown.append(task.documents[0].id)
        judgment = judging.answer(
            "grades", task.query, [task.documents[0].id], None, action=action, note=" why "
        )
        judging.apply(str(number), "ann", judgment)
        assert judgment.note == "why"
        assert judgment.features == []
    assert len(set(shown)) == 3
    assert judging.progress("ann", "grades") == (2, 3)
    assert judging.next("ann", "grades").documents[0].id == shown[0]
    assert judging.values("grades")["ann"] == {}
    assert judging.next("bob", "grades") is not None


def test_a_preference_does_not_depend_on_the_side() -> None:
    judging = Judging(small_queue(), overlap=1.0)
    judging.apply("1", "ann", judging.answer("pairs", "q0", ["d0", "d1"], 1))
    judging.apply("2", "bob", judging.answer("pairs", "q0", ["d1", "d0"], -1))
    assert judging.values("pairs") == {"ann": {(0, 1): 1.0}, "bob": {(0, 1): 1.0}}


def test_undo_restores_the_grade_before() -> None:
    judging = Judging(small_queue(), overlap=1.0)
    for key, grade in (("1", 3), ("2", 4)):
        judging.apply(key, "ann", judging.answer("grades", "q0", ["d0"], grade))
    judging.apply("3", "bob", judging.answer("grades", "q0", ["d0"], 0))
    for key, grades in (("4", {(0,): 3.0}), ("5", {})):
        judging.apply(key, "ann", judging.undo("ann", "grades"))
        assert judging.values("grades")["ann"] == grades
    with pytest.raises(DataError, match="no judgment of grades to take back"):
        judging.undo("ann", "grades")
    assert judging.values("grades")["bob"] == {(0,): 0.0}


def test_the_model_learns_only_the_last_answer_to_an_item() -> None:
    judging, other = Judging(small_queue(), overlap=1.0), Judging(small_queue(), overlap=1.0)
    query, document = "q0", ["d0"]
    judging.model("grades")
    for key, grade in (("a", 4.0), ("b", 0.0)):
        judging.apply(key, "ann", judging.answer("grades", query, document, grade))
    other.apply("b", "ann", other.answer("grades", query, document, 0.0))
    assert judging.model("grades").n_seen == other.model("grades").n_seen == 1
    assert [record.key for record in judging.answered("ann", "grades")] == ["b"]
    judging.apply("c", "ann", judging.undo("ann", "grades"))
    assert [record.judgment.value for record in judging.answered("ann", "grades")] == [4.0]
    assert judging.again("ann", "grades", "b") is None
    assert judging.again("bob", "grades", "a") is None


def test_what_was_deleted_from_the_log_is_forgotten() -> None:
    judging = Judging(small_queue(), overlap=1.0)
    judge_all(judging, "ann", limit=5)
    expected = list(judging.model("grades").losses)
    judge_all(judging, "bob", limit=7)
    judging.forget("bob")
    assert judging.judges == ["ann"]
    assert judging.progress("bob", "grades") == (0, 15)
    assert judging.model("grades").losses == expected


def test_nobody_takes_back_the_judgment_of_another() -> None:
    judging = Judging(small_queue(), overlap=1.0)
    judging.apply("1", "ann", judging.answer("grades", "q0", ["d0"], 3))
    judging.apply("2", "bob", judging.undo("ann", "grades"))
    assert judging.values("grades")["ann"] == {(0,): 3.0}


class LogEntry:
    """An entry of the log, as the store gives it."""

    def __init__(self, key, user, judgment) -> None:
        from rankwright.service.log.entries import encode

        self.key, self.user, self.time, self.body = key, user, float(len(key)), encode(judgment)


class FakeLog(list):
    """Entries that are numbered from 1."""

    def entries(self, kinds, *, after):
        assert kinds == ("judgment",)
        for seq, entry in enumerate(self, 1):
            entry.seq = seq
            if seq > after:
                yield entry


actions = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "eve"]),
        st.sampled_from(["judge", "judge", "judge", "later", "skip", "cannot", "undo", "repeat"]),
        st.sampled_from(MODES),
        st.integers(0, 2),
    ),
    max_size=40,
)


@settings(max_examples=30, deadline=None)
@given(actions)
def test_replay_of_the_log_rebuilds_state_models_and_exports(steps) -> None:
    queue = small_queue(2, 4)
    live, log = Judging(queue, overlap=0.5), []
    live.model("grades")  # learns one by one; the replayed one learns all at once
    for number, (judge, action, mode, value) in enumerate(steps):
        key = f"k{number}"
        if action == "undo":
            if live.last(judge, mode) is None:
                continue
            judgment = live.undo(judge, mode)
        elif action == "repeat" and log:
            log.append(log[-1])
            assert not live.apply(log[-1].key, log[-1].user, judgment, log[-1].time)
            continue
        else:
            task = live.next(judge, mode)
            if task is None:
                continue
            ids = [document.id for document in task.documents]
            done = "judge" if action == "repeat" else action
            given = (value - 1 if mode == "pairs" else value) if done == "judge" else None
            judgment = live.answer(mode, task.query, ids, given, action=done)
        log.append(LogEntry(key, judge, judgment))
        assert live.apply(key, judge, judgment, log[-1].time)
    replayed = Judging(queue, overlap=0.5)
    replayed.follow(FakeLog(log[: len(log) // 2]))
    replayed.follow(FakeLog(log))
    replayed.follow(FakeLog(log))
    assert replayed.records == live.records
    assert to_csv(replayed) == to_csv(live)
    for mode in MODES:
        assert replayed.values(mode) == live.values(mode)
        a, b = live.model(mode), replayed.model(mode)
        np.testing.assert_array_equal(a.ranker.coef_, b.ranker.coef_)
        np.testing.assert_array_equal(a.committee.members_coef_, b.committee.members_coef_)
        assert a.losses == b.losses
        for judge in ("ann", "bob", "eve"):
            assert replayed.progress(judge, mode) == live.progress(judge, mode)


# Learning.


@pytest.mark.parametrize("mode", MODES)
def test_the_live_model_learns_in_every_mode(mode) -> None:
    queue = small_queue(12, 8)
    truth = queue.X @ [1.0, -0.5]
    levels = np.digitize(truth, np.quantile(truth, [0.2, 0.4, 0.6, 0.8]))

    def value(task):
        rows = [queue.rows[task.query, document.id] for document in task.documents]
        if mode == "pairs":
            return int(np.sign(levels[rows[0]] - levels[rows[1]]))
        return int(levels[rows[0]]) * (20 if mode == "magnitudes" else 1)

    judging = Judging(queue, overlap=1.0)
    assert judge_all(judging, "ann", mode, value) == 96
    model = judging.model(mode)
    assert model.curve()[-1] < 0.75 * model.baseline()[-1]
    assert rw.evaluate(model.scores(), levels, queue.queries.codes, ["NDCG@5"])["NDCG@5"] > 0.93
    named = pd.DataFrame(queue.X, columns=queue.feature_names)
    raw = model.pipeline().decision_function(named)
    np.testing.assert_allclose(raw, model.scores(), rtol=1e-9, atol=1e-9)


def test_the_baseline_is_the_median_of_the_judgments_before() -> None:
    judging = Judging(small_queue(), overlap=1.0)
    grades = iter([4, 0, 1, 3, 3, 0, 2])
    judge_all(judging, "ann", value=lambda task: next(grades), limit=7)
    given = [record.judgment.value for record in judging.records]
    medians = [2.0, *(np.median(given[:k]) for k in range(1, 7))]
    assert judging.model("grades").baseline_losses == np.abs(np.subtract(medians, given)).tolist()


def test_the_committee_chooses_once_it_has_learned() -> None:
    queue = small_queue(12, 8)
    judging = Judging(queue, overlap=1.0)
    level = lambda task: int(queue.X[queue.rows[task.query, task.documents[0].id], 0] > 0)  # noqa: E731
    assert not judging.next("ann", "grades").by_committee
    judge_all(judging, "ann", value=level, limit=FIRST)
    task = judging.next("ann", "grades")
    assert task.by_committee
    priority = judging.model("grades").priority()
    judged = judging.values("grades")["ann"]
    left = [row for row in range(96) if (row,) not in judged]
    begun = [row for row in left if queue.documents[row].query == task.query]
    left = begun if task.in_query.done else left  # one query after another
    assert priority[queue.rows[task.query, task.documents[0].id]] == priority[left].max()


def test_missing_features_do_not_stop_the_model() -> None:
    rows = [{"query": "q", "id": str(i), "x": float(i), "y": None} for i in range(6)]
    judging = Judging(Queue.from_rows(rows), overlap=1.0)
    judge_all(judging, "ann", value=lambda task: 2)
    assert np.isfinite(judging.model("grades").scores()).all()


# The demo and exports.


def test_the_demo_has_judges_who_agree_to_a_degree() -> None:
    queue = demo_queue()
    judging = Judging(queue, overlap=1.0)
    for key, judge, judgment in demo_judgments(queue):
        assert judging.apply(key, judge, judgment)
    assert judging.judges == list(JUDGES)
    assert 0.6 < judging.agreement("grades").value < 0.95
    pairs = {(p.first[7], p.second[7]): p.difference for p in judging.judge_pairs("grades")}
    assert pairs["A", "B"] < pairs["A", "C"]
    model = judging.model("grades")
    assert model.curve()[-1] < 0.6 * model.baseline()[-1]
    assert to_csv(judging).count("\n") == 1 + 72


def test_exports_are_read_back(tmp_path) -> None:
    judging = Judging(small_queue(2, 3), overlap=1.0)
    with pytest.raises(DataError, match="nothing to export"):
        to_qrels(judging)
    for number, (judge, grade) in enumerate([("ann", 1), ("bob", 2), ("eve", 4)]):
        judging.apply(f"a{number}", judge, judging.answer("grades", "q0", ["d1"], grade))
    judging.apply("b", "ann", judging.answer("grades", "q1", ["d2"], 0))
    judging.apply("c", "bob", judging.answer("grades", "q1", ["d2"], 3))
    assert consensus(judging) == {1: 2.0, 5: 2.0}  # the median; 1.5 is rounded up
    (tmp_path / "a.qrels").write_text(to_qrels(judging))
    assert rw.read_qrels(tmp_path / "a.qrels").to_dict() == {"q0": {"d1": 2}, "q1": {"d2": 2}}
    (tmp_path / "a.txt").write_text(to_letor(judging))
    items = rw.read_letor(tmp_path / "a.txt")
    np.testing.assert_array_equal(items.X, judging.queue.X[[1, 5]])
    assert items.y.tolist() == [2.0, 2.0]
    judging.apply("d", "ann", judging.answer("magnitudes", "q0", ["d0"], 70))
    assert to_letor(judging, "magnitudes").startswith("70 qid:q0")


def test_csv_holds_every_answer_and_no_formula() -> None:
    queue = Queue.from_rows([{"query": "=q()", "id": "@d"}, {"query": "=q()", "id": "e"}])
    judging = Judging(queue, overlap=1.0)
    note = '=cmd(), "quoted"\nand more'
    judging.apply("1", "ann", judging.answer("pairs", "=q()", ["@d", "e"], -1, note=note), 1e9)
    judging.apply("2", "bob", judging.answer("grades", "=q()", ["e"], None, action="skip"))
    rows = list(csv.DictReader(io.StringIO(to_csv(judging))))
    assert rows[0] == {
        "time": "2001-09-09T01:46:40+00:00", "judge": "ann", "mode": "pairs", "action": "judge",
        "query": "'=q()", "document": "'@d", "other": "e", "value": "-1", "note": f"'{note}",
    }  # fmt: skip
    assert (rows[1]["action"], rows[1]["value"], rows[1]["time"]) == ("skip", "", "")


# Guidelines.


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[a](javascript:alert(1))",
        "[a](JaVaScRiPt:alert(1))", "[a](data:text/html,x)", "[a](vbscript:x)", "![a](http://x/y)",
        "[a](http://x/\"onclick=alert(1))", "`<b>`", "[a]: javascript:alert(1)\n[a]",
        "|a|\n|:-:|\n|b|",
    ],
)  # fmt: skip
def test_markdown_brings_no_script_style_or_picture(text) -> None:
    html = render_markdown(text)
    lowered = html.lower()
    assert "<script" not in lowered
    assert "<img" not in lowered
    assert "style=" not in lowered
    assert 'href="javascript' not in lowered
    assert 'href="data' not in lowered
    assert "onclick=" not in lowered.replace("&quot;onclick=", "").replace("%22onclick=", "")


def test_markdown_has_the_usual_marks() -> None:
    html = render_markdown("# Grades\n\n- **4** perfect\n\n[more](https://x.org)")
    assert "<h3>Grades</h3>" in html
    assert "<strong>4</strong>" in html
    assert '<a href="https://x.org">more</a>' in html


def test_rank_variance_is_that_of_relative_places_member_by_member() -> None:
    rng = np.random.default_rng(3)
    X, qid = rng.normal(size=(60, 4)), rng.integers(9, size=60)
    model = rw.OAPBPM(n_estimators=7, random_state=0).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    queries = Queries.from_ids(qid)
    places = [queries.places(column) for column in model.member_scores(X).T]
    relative = np.array(places) / queries.sizes[queries.codes]
    np.testing.assert_allclose(rank_variance(model, X, queries), relative.var(axis=0), atol=1e-12)


def test_lines_of_a_jsonl_file_may_have_different_fields(tmp_path):
    lines = ['{"query": 7, "id": "a", "title": "A", "x": 1}', '{"query": 7, "id": "b", "url": "u"}']
    (tmp_path / "queue.jsonl").write_text("\n".join(lines))
    queue = read_queue(tmp_path / "queue.jsonl")
    assert [tuple(document[:5]) for document in queue.documents] == [
        ("7", "a", "A", "", ""),
        ("7", "b", "", "", "u"),
    ]
    assert queue.feature_names == ("x",)
    assert np.array_equal(queue.X, [[1], [np.nan]], equal_nan=True)


def test_a_model_of_judged_texts_ranks_raw_fields(tmp_path) -> None:
    queue = demo_queue()
    judging = Judging(queue)
    for key, judge, judgment in demo_judgments(queue):
        judging.apply(key, judge, judgment)
    rw.save(judging.model("grades").pipeline(), tmp_path / "judged.rw")
    scorer = rw.load_scorer(tmp_path / "judged.rw")
    rows = [
        {"query": queue.query_texts[doc.query], "title": doc.title, "text": doc.text}
        for doc in queue.documents
    ]
    np.testing.assert_array_equal(scorer.decision_function(rows), scorer.decision_function(queue.X))
