"""Tests, intervals and Holm's correction; the table of several systems."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rankwright.exceptions import DataError
from rankwright.metrics.comparison import Comparison, compare
from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.scores import Cell, Table
from rankwright.metrics.significance import (
    bootstrap_interval,
    holm,
    paired_t,
    randomization,
    wilcoxon,
)


def test_the_t_test_is_students() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(40), rng.random(40)
    assert paired_t(a, b) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-12)


def test_the_randomization_test_goes_through_all_signs_of_few_queries() -> None:
    d = np.array([0.3, -0.1, 0.25, 0.4, 0.05])
    all_means = [np.mean(d * signs) for signs in product([1, -1], repeat=5)]
    p = np.mean([abs(mean) >= abs(d.mean()) - 1e-12 for mean in all_means])
    assert randomization(d, np.zeros(5)) == pytest.approx(p)


@pytest.mark.parametrize("test", [paired_t, wilcoxon, randomization])
def test_equal_systems_are_not_different(test) -> None:
    values = np.array([0.2, 0.5, 0.9])
    assert test(values, values + 1e-16) == 1.0
    assert test([0.3], [0.3]) == 1.0


@pytest.mark.parametrize("test", [paired_t, wilcoxon, randomization])
def test_queries_left_out_do_not_count(test) -> None:
    a, b = np.array([0.1, 0.5, np.nan, 0.9, 0.3]), np.array([0.2, np.nan, 0.1, 0.4, 0.1])
    kept = ~np.isnan(a - b)
    assert test(a, b) == test(a[kept], b[kept])


@pytest.mark.parametrize("test", [paired_t, wilcoxon, randomization])
def test_tests_do_not_depend_on_which_system_comes_first(test) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random(30), rng.random(30)
    assert test(a, b) == pytest.approx(test(b, a))


def test_a_constant_gain_is_certain_for_the_t_test() -> None:
    assert paired_t(np.array([0.5, 0.6, 0.7]), np.array([0.25, 0.35, 0.45])) < 1e-6


def test_holm_is_the_step_down_rule() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]).tolist() == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holm_keeps_the_order_and_never_lowers(p) -> None:
    adjusted = holm(p)
    assert (adjusted >= np.array(p)).all()
    assert (adjusted <= 1).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for seed in range(100):
        low, high = bootstrap_interval(rng.random(60), n_resamples=400, random_state=seed)
        hits += low <= 0.5 <= high
    assert 85 <= hits <= 100


def test_intervals_of_nothing_or_one_value_are_points() -> None:
    assert bootstrap_interval([np.nan, 0.4]) == (0.4, 0.4)
    assert bootstrap_interval([]) == (0.0, 0.0)
    assert bootstrap_interval([0.5, 0.5]) == (0.5, 0.5)


@pytest.fixture(scope="module")
def systems() -> dict:
    rng = np.random.default_rng(5)
    y, qid = rng.integers(0, 3, 900), np.repeat(np.arange(90), 10)
    noise = {"sharp": 0.7, "middling": 1.0, "blunt": 6.0}
    return {
        name: evaluate(y + scale * rng.normal(size=900), y, qid, ["NDCG@5", "AP", "Disagreement"])
        for name, scale in noise.items()
    }


@pytest.mark.parametrize("test", ["randomization", "t", "wilcoxon"])
def test_compare_finds_the_better_systems(systems, test) -> None:
    result = compare(systems, test=test, n_resamples=2000)
    assert result.beaten("sharp", "AP") == ("middling", "blunt")
    assert result.beaten("middling", "Disagreement") == ("blunt",)
    assert result.beaten("blunt", "AP") == ()
    low, high = result.interval("sharp", "AP")
    assert low < systems["sharp"]["AP"] < high


def test_the_same_seed_gives_the_same_table(systems) -> None:
    tables = [compare(systems, n_resamples=500, random_state=3).to_json() for _ in range(2)]
    assert tables[0] == tables[1]


def test_holm_is_over_the_pairs_of_one_measure(systems) -> None:
    raw = compare(systems, "AP", test="t", correction=None)
    adjusted = compare(systems, "AP", test="t")
    pairs = [(0, 1), (0, 2), (1, 2)]
    expected = holm([raw.p_values[0, i, j] for i, j in pairs])
    assert [adjusted.p_values[0, i, j] for i, j in pairs] == pytest.approx(list(expected))


def test_a_baseline_is_the_only_one_tested_against(systems) -> None:
    result = compare(systems, "AP", test="t", baseline="blunt")
    assert np.isnan(result.p_value("sharp", "middling", "AP"))
    assert result.p_value("sharp", "blunt", "AP") < 0.001
    assert result.beaten("sharp", "AP") == ("blunt",)
    assert not result.is_tested("sharp", "middling")
    told = json.loads(result.to_json())
    assert told["measures"]["AP"]["p_value"][0][1] is None
    assert told["n_queries"] == 90
    text = str(result)
    assert "other pairs were not tested" in text
    assert "90 queries" in text


def test_a_baseline_prints_the_difference_and_its_interval(systems) -> None:
    result = compare(systems, ["AP", "Disagreement"], baseline="blunt", n_resamples=500)
    mean, (low, high) = result.difference("sharp", "blunt", "AP")
    values = systems["sharp"].per_query("AP") - systems["blunt"].per_query("AP")
    assert mean == pytest.approx(values.mean())
    assert (low, high) == bootstrap_interval(values)
    assert f"{mean:+.4f} [{low:+.4f}, {high:+.4f}]" in str(result)
    assert json.loads(result.to_json())["measures"]["AP"]["difference"]["sharp"]["mean"] == mean


def test_a_frame_has_a_row_for_each_pair_and_says_which_were_tested(systems) -> None:
    frame = compare(systems, "AP", baseline="middling", n_resamples=500).to_frame()
    assert list(zip(frame["system"], frame["other"], strict=True)) == [
        ("sharp", "middling"), ("blunt", "sharp"), ("blunt", "middling"),
    ]  # fmt: skip
    assert frame["tested"].tolist() == [True, False, True]
    assert frame["p_value"].isna().tolist() == [False, True, False]
    assert frame["difference"].tolist() == pytest.approx(
        (frame["mean"] - frame["other_mean"]).tolist()
    )
    assert (frame["n_queries"] == 90).all()
    assert compare(systems, "AP", n_resamples=500).to_frame("polars")["tested"].all()


def test_queries_with_nothing_to_measure_are_counted_by_measure() -> None:
    y, qid = [1, 0, 0, 0], [1, 1, 2, 2]
    both = {name: evaluate(s, y, qid, ["AP", "RankLoss"]) for name, s in
            (("x", [2, 1, 2, 1]), ("y", [1, 2, 2, 1]))}  # fmt: skip
    assert "2 queries (AP on 1)" in str(compare(both))


def test_queries_are_matched_by_id_not_by_place() -> None:
    y, qid = np.array([1, 0, 0, 1, 1, 0]), np.array([1, 1, 2, 2, 3, 3])
    s = np.array([2, 1, 2, 1, 2, 1])
    back = slice(None, None, -1)
    result = compare(
        {"x": evaluate(s, y, qid, "AP"), "y": evaluate(s[back], y[back], qid[back], "AP")}
    )
    assert result.p_value("x", "y", "AP") == 1.0


def test_one_system_is_a_table_too() -> None:
    result = compare({"alone": evaluate([2, 1], [1, 0], measures="AP")})
    assert isinstance(result, Comparison)
    assert "alone" in repr(result)


def test_the_table_prints_in_every_format(systems) -> None:
    result = compare(systems, test="t")
    assert "*" in repr(result)
    assert "lower is better: Disagreement" in repr(result)
    assert "**" in result.to_markdown()
    assert r"\textbf" in result.to_latex(intervals=True)
    assert "<sup>bc</sup>" in result._repr_html_()
    data = json.loads(result.to_json())
    assert data["measures"]["AP"]["mean"]["sharp"] == systems["sharp"]["AP"]


def test_text_in_tables_is_escaped() -> None:
    table = Table(
        ("a|b_", "x"), ((Cell("<i>&%", best=True), Cell("1", above="c", beside="[0]")),), ("n<",)
    )
    assert "a\\|b_" in table.to_markdown()
    assert "&lt;i&gt;" in table.to_html()
    assert r"\&\%" in table.to_latex()
    assert r"b\_" in table.to_latex()
    assert json.loads(table.to_json())["rows"][0]["x"] == "1c [0]"


def test_notes_fit_the_format_they_stand_in(systems) -> None:
    """A star at the start of a line is a list in Markdown, and marks nothing where bold does."""
    result = compare(systems, test="t")
    assert "\n* best; letters" in repr(result)
    for text in (result.to_markdown(), result.to_latex(), result.to_html()):
        assert "* best" not in text
        assert "bold: best; letters" in text
    scores = systems["sharp"].table()
    assert len(scores.to_text().splitlines()[-1]) <= 88
    assert scores.to_html().count("<p>") == 1  # one note, however long


def test_values_by_different_rules_are_not_compared() -> None:
    scores, y, qid = [3, 1, 2, 1, 2, 3], [0, 1, 2, 1, 0, 2], [1, 1, 1, 2, 2, 2]
    ours, theirs = (evaluate(scores, y, qid, ["NDCG@10"], like=like) for like in (None, "sklearn"))
    with pytest.raises(DataError, match=r"different conventions.*empty queries.*same like"):
        compare({"ours": ours, "theirs": theirs})
    linear = evaluate(scores, y, qid, ["NDCG@10"], like="sklearn", empty="skip")
    with pytest.raises(DataError, match=r"gain: 2\^grade - 1, and grade"):
        compare({"ours": ours, "linear": linear})
    more = evaluate(scores, y, qid, ["NDCG@10", "NDCG(gain=linear)@5"])
    assert compare({"ours": ours, "more": more}).p_value("ours", "more", "NDCG@10") == 1
