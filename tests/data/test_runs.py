"""Runs are ordered as trec_eval orders them, and stand beside their qrels row by row."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from rankwright.data.runs import Qrels, Run, align, items_from_runs

DOCS = st.text("abc", min_size=1, max_size=3)
RUNS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(DOCS, st.integers(0, 3).map(float), min_size=1, max_size=8),
    min_size=1,
)
QRELS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(DOCS, st.integers(-1, 2), min_size=1, max_size=8),
    min_size=1,
)


@given(RUNS)
def test_a_run_is_the_dictionary_it_was_made_of(nested):
    assert Run.from_dict(nested).to_dict() == nested


@given(QRELS)
def test_qrels_are_the_dictionary_they_were_made_of(nested):
    assert Qrels.from_dict(nested).to_dict() == nested


@given(RUNS)
def test_documents_stand_by_score_then_by_id_both_descending(nested):
    run = Run.from_dict(nested)
    got = [(run.query[row], run.docs[run.doc[row]]) for row in run.order]
    expected = [
        (number, doc)
        for number, listed in enumerate(nested.values())
        for doc in sorted(listed, key=lambda d: (listed[d], d), reverse=True)
    ]
    assert got == expected


@given(RUNS, st.integers(1, 4))
def test_the_top_of_a_run_is_the_head_of_each_list(nested, cutoff):
    top = Run.from_dict(nested).top(cutoff)
    for query, listed in nested.items():
        best = sorted(listed, key=lambda d: (listed[d], d), reverse=True)[:cutoff]
        assert sorted(top.to_dict()[query]) == sorted(best)


@given(RUNS, QRELS)
def test_aligned_rows_are_all_retrieved_and_all_judged_documents_once(run, qrels):
    aligned = align(Run.from_dict(run), Qrels.from_dict(qrels))
    got = list(zip(aligned.qid.tolist(), aligned.docid.tolist(), strict=True))
    expected = {(q, d) for q in qrels for d in {**qrels[q], **run.get(q, {})}}
    assert len(got) == len(set(got))
    assert set(got) == expected
    for (query, doc), score, grade in zip(got, aligned.scores, aligned.y, strict=True):
        assert score == run.get(query, {}).get(doc, -np.inf)
        assert grade == max(qrels[query].get(doc, 0), 0)


def average_precision(y: np.ndarray, found: np.ndarray) -> float:
    hits = (y[found] > 0).astype(float)
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / max((y > 0).sum(), 1))


@given(RUNS, QRELS)
def test_the_order_of_aligned_rows_gives_trec_evals_average_precision(run, qrels):
    aligned = align(Run.from_dict(run), Qrels.from_dict(qrels), queries="both")
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"map"}).evaluate(run)
    assert set(aligned.qid.tolist()) == set(theirs)
    for query, measures in theirs.items():
        mine = aligned.qid == query
        found = np.isfinite(aligned.scores[mine])
        assert average_precision(aligned.y[mine], found) == pytest.approx(measures["map"], abs=1e-9)


def test_ids_are_compared_as_text_whatever_their_type():
    aligned = align(Run.from_arrays([1], [7], [0.5]), Qrels.from_dict({"1": {"7": 2}}))
    assert aligned.y.tolist() == [2.0]


def test_a_run_and_qrels_may_be_dictionaries_as_pytrec_eval_has_them():
    run, qrels = {"q": {"a": 0.5, "b": 0.9}}, {"q": {"a": 1, "c": 2}}
    plain = align(run, qrels)
    made = align(Run.from_dict(run), Qrels.from_dict(qrels))
    assert [each.tolist() for each in plain] == [each.tolist() for each in made]


def test_single_precision_makes_the_ties_that_trec_eval_sees():
    run = Run.from_dict({"q": {"a": 1.0 + 1e-12, "b": 1.0}})
    assert run.docs[run.doc[run.order]].tolist() == ["a", "b"]
    rounded = run.in_single_precision()
    assert rounded.docs[rounded.doc[rounded.order]].tolist() == ["b", "a"]


def test_arrays_of_a_run_cannot_be_written():
    run = Run.from_dict({"q": {"a": 1.0}})
    with pytest.raises(ValueError, match="read-only"):
        run.score[0] = 2


def test_an_empty_run_finds_nothing_of_what_was_judged():
    aligned = align(Run.from_dict({}), Qrels.from_dict({"q": {"d": 1}}))
    assert aligned.scores.tolist() == [-np.inf]


# --- several runs as features -----------------------------------------------------------------


@given(st.lists(RUNS, min_size=1, max_size=3), QRELS)
def test_each_engine_has_a_column_of_its_positions_and_abstains_elsewhere(nested, qrels):
    runs = [Run.from_dict(each, name=f"e{number}") for number, each in enumerate(nested)]
    items = items_from_runs(runs, Qrels.from_dict(qrels))
    rows = list(zip(items.qid.tolist(), items.docid.tolist(), strict=True))
    assert set(rows) == {(q, d) for each in nested for q in each if q in qrels for d in each[q]}
    for row, (query, doc) in enumerate(rows):
        assert items.y[row] == max(qrels[query].get(doc, 0), 0)
        for column, each in enumerate(nested):
            listed = each.get(query, {})
            best = sorted(listed, key=lambda d: (listed[d], d), reverse=True)
            expected = -best.index(doc) - 1 if doc in listed else np.nan
            np.testing.assert_equal(items.X[row, column], expected)


def test_scores_can_be_the_features():
    run = Run.from_dict({"q": {"a": 0.25, "b": 0.5}}, name="one")
    items = items_from_runs([run], Qrels.from_dict({"q": {"b": 1}}), features="score")
    assert (items.X.tolist(), items.feature_names) == ([[0.5], [0.25]], ("one",))
