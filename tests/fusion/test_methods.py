"""Fixed rules: arithmetic written out, ranx's values, and what every rule must keep."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwright as rw
from rankwright.fusion.methods import BY_SCORE, METHODS, UNWEIGHTED, as_runs
from rankwright.fusion.normalization import NORMS, normalized
from rankwright.fusion.pool import Pool

RANX = json.loads((Path(__file__).parent / "ranx.json").read_text())
ONE = {"q": {"a": 4.0, "b": 3.0, "c": 0.0}}
TWO = {"q": {"b": 10.0, "d": 5.0}}
WRITTEN_OUT = {
    "sum": {"a": 1.0, "b": 0.75 + 1.0, "c": 0.0, "d": 0.0},
    "mnz": {"a": 1.0, "b": 2 * 1.75, "c": 0.0, "d": 0.0},
    "anz": {"a": 1.0, "b": 1.75 / 2, "c": 0.0, "d": 0.0},
    "med": {"a": 1.0, "b": (0.75 + 1.0) / 2, "c": 0.0, "d": 0.0},
    "min": {"a": 1.0, "b": 0.75, "c": 0.0, "d": 0.0},
    "max": {"a": 1.0, "b": 1.0, "c": 0.0, "d": 0.0},
    "rrf": {"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 63, "d": 1 / 62},
    # four candidates: ONE gives 4 3 2 and 1 to d; TWO gives 4 3, and (2 + 1) / 2 to a and c
    "borda": {"a": 4 + 1.5, "b": 3 + 4.0, "c": 2 + 1.5, "d": 1 + 3.0},
    # places 1 2 3 and 4; 1 2 and 3.5 for a and c
    "median_rank": {"a": -(1 + 3.5) / 2, "b": -1.5, "c": -(3 + 3.5) / 2, "d": -(4 + 2) / 2},
    # a-b even, a beats c, a-d even; b beats c and d; c-d even
    "condorcet": {"a": 1.0, "b": 2.0, "c": -2.0, "d": -1.0},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_rule_gives_what_arithmetic_gives(method) -> None:
    fused = rw.fuse([rw.Run.from_dict(ONE, "one"), rw.Run.from_dict(TWO, "two")], method)
    assert fused.to_dict()["q"] == pytest.approx(WRITTEN_OUT[method], abs=1e-15)


@pytest.mark.parametrize("key", RANX["fuse"])
def test_a_rule_gives_what_ranx_gives(key) -> None:
    method, norm = (key + " minmax").split()[:2]
    options = {"weights": {"one": 0.5, "two": 0.3, "three": 0.2}} if method == "wsum" else {}
    fused = rw.fuse(RANX["runs"], method.replace("wsum", "sum"), norm=norm, **options).to_dict()
    for query, theirs in RANX["fuse"][key].items():
        assert fused[query] == pytest.approx(theirs, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("norm", RANX["norm"])
def test_a_normalization_gives_what_ranx_gives(norm) -> None:
    pool = Pool.of(as_runs(RANX["runs"]))
    values = normalized(pool, norm)
    for column, theirs in enumerate(RANX["norm"][norm]):
        mine: dict = {}
        for query, doc, value in zip(pool.query, pool.doc, values[:, column], strict=True):
            if not np.isnan(value):
                mine.setdefault(pool.queries[query], {})[pool.docs[doc]] = value
        assert mine.keys() == theirs.keys()
        for query in mine:
            assert mine[query] == pytest.approx(theirs[query], abs=1e-12)


def test_a_document_that_wins_every_duel_comes_first_where_borda_puts_another() -> None:
    lists = {f"run-{i}": ["a", "b", "c"] for i in range(3)}
    lists |= {f"other-{i}": ["b", "c", "a"] for i in range(2)}
    assert _order(rw.fuse(lists, "condorcet"))[0] == "a"
    assert _order(rw.fuse(lists, "borda"))[0] == "b"


def test_duels_in_blocks_equal_duels_at_once(monkeypatch) -> None:
    lists = [np.random.default_rng(seed).permutation(20)[:12].tolist() for seed in range(5)]
    whole = rw.fuse(lists, "condorcet").score
    monkeypatch.setattr("rankwright.fusion.methods.BLOCK_CELLS", 50)
    assert rw.fuse(lists, "condorcet").score.tolist() == whole.tolist()


@pytest.mark.parametrize("method", [m for m in METHODS if m not in UNWEIGHTED])
def test_a_weight_of_two_is_a_run_given_twice(method) -> None:
    once = rw.fuse({"one": ONE, "two": TWO}, method, weights={"one": 2, "two": 1})
    twice = rw.fuse({"one": ONE, "again": ONE, "two": TWO}, method)
    if method == "mnz":  # which counts runs, not weights
        twice = rw.fuse({"one": ONE, "two": TWO}, "sum", weights=[2, 1])
        listed = np.array([1, 2, 1, 1])
        assert once.score.tolist() == (twice.score * listed).tolist()
    else:
        assert once.score == pytest.approx(twice.score)


def test_what_only_runs_of_weight_0_list_scores_0() -> None:
    fused = rw.fuse({"one": ONE, "two": TWO}, "anz", weights=[1, 0])
    assert fused.to_dict()["q"]["d"] == 0.0


def test_fractional_weights_that_balance_are_a_draw() -> None:
    lists = {"x": ["a", "b"], "y": ["a", "b"], "z": ["b", "a"]}
    assert rw.fuse(lists, "condorcet", weights=[0.1, 0.2, 0.3]).score.tolist() == [0.0, 0.0]


scores = st.floats(-100, 100, allow_nan=False).map(lambda value: round(value, 3))
rankings = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(st.sampled_from(list("abcdefgh")), scores, min_size=1),
    min_size=1,
)
rules = st.sampled_from([(m, n) for m in METHODS for n in NORMS if n != "max" or m in BY_SCORE])


@settings(deadline=None, max_examples=80)
@given(st.lists(rankings, min_size=1, max_size=5), rules, st.randoms())
def test_the_order_of_the_runs_changes_not_a_bit(lists, rule, random) -> None:
    method, norm = rule
    norm = "minmax" if norm == "max" else norm
    named = [rw.Run.from_dict(one, f"run-{i}") for i, one in enumerate(lists)]
    shuffled = random.sample(named, len(named))
    assert rw.fuse(named, method, norm=norm).to_dict() == (
        rw.fuse(shuffled, method, norm=norm).to_dict()
    )


@settings(deadline=None, max_examples=80)
@given(st.lists(rankings, min_size=1, max_size=5), rules)
def test_every_listed_document_is_fused_with_a_finite_score(lists, rule) -> None:
    method, norm = rule
    norm = "minmax" if norm == "max" else norm
    fused = rw.fuse(lists, method, norm=norm).to_dict()
    listed: dict = {}
    for one in lists:
        for query, docs in one.items():
            listed.setdefault(query, set()).update(docs)
    assert {query: set(docs) for query, docs in fused.items()} == listed
    assert all(np.isfinite(value) for docs in fused.values() for value in docs.values())


@settings(deadline=None, max_examples=50)
@given(st.permutations("abcdef"), st.integers(1, 5), rules, st.integers(0, 99))
def test_an_order_on_which_all_runs_agree_is_kept(order, n_runs, rule, seed) -> None:
    method, norm = rule
    rng = np.random.default_rng(seed)
    steps = [np.sort(rng.choice(1000, 6, replace=False) / 7.0)[::-1] for _ in range(n_runs)]
    lists = [{"q": dict(zip(order, step.tolist(), strict=True))} for step in steps]
    assert _order(rw.fuse(lists, method, norm=norm)) == list(order)


@pytest.mark.parametrize("method", METHODS)
def test_one_run_alone_keeps_its_order(method) -> None:
    run = rw.Run.from_dict({"q1": {"b": 3, "a": 2, "c": 1}, "q2": {"x": 1}}, "only")
    fused = rw.fuse([run], method)
    assert fused.docs[fused.doc[fused.order]].tolist() == ["b", "a", "c", "x"]


@pytest.mark.parametrize("method", METHODS)
def test_runs_without_a_query_or_document_in_common_are_all_kept(method) -> None:
    fused = rw.fuse([{"q1": ["a", "b"]}, {"q2": ["c"]}, {"q1": ["d"]}], method)
    assert {q: set(docs) for q, docs in fused.to_dict().items()} == {"q1": set("abd"), "q2": {"c"}}


@pytest.mark.parametrize("method", METHODS)
def test_runs_that_list_nothing_fuse_to_nothing(method) -> None:
    assert len(rw.fuse([{}, {"q": []}], method)) == 0


@pytest.mark.parametrize(
    "norm, value", [("minmax", 1.0), ("max", 1.0), ("sum", 0.5), ("zscore", 0)]
)
def test_equal_scores_are_all_the_best(norm, value) -> None:
    run = rw.Run.from_dict({"q": {"a": 0.1, "b": 0.1}})
    assert rw.fusion.normalize(run, norm).score.tolist() == [value, value]


@pytest.mark.parametrize("size", [1e308, 1e-308])
@pytest.mark.parametrize("norm", ["minmax", "sum", "zscore"])
def test_scores_near_the_end_of_what_a_float_holds_are_scaled_like_others(norm, size) -> None:
    extreme = rw.Run.from_dict({"q": {"a": size, "b": 0.5 * size, "c": -size}})
    plain = rw.Run.from_dict({"q": {"a": 1.0, "b": 0.5, "c": -1.0}})
    after, expected = (rw.fusion.normalize(run, norm).score for run in (extreme, plain))
    assert after == pytest.approx(expected)


@pytest.mark.parametrize("norm", [norm for norm in NORMS if norm != "none"])
def test_normalizing_keeps_rows_names_and_order(norm) -> None:
    run = rw.Run.from_arrays([2, 10, 2, 10, 2], ["b", "b", "a", "c", "c"], [5, 1, 7, 3, 6.0], "me")
    after = rw.fusion.normalize(run, norm)
    assert (after.name, after.doc.tolist(), after.query.tolist()) == (
        "me",
        run.doc.tolist(),
        run.query.tolist(),
    )
    assert after.rank.tolist() == run.rank.tolist()


def test_ids_of_different_types_are_compared_as_text() -> None:
    assert rw.fuse([{1: ["a"]}, {"1": ["a"]}], "sum").to_dict() == {1: {"a": 2.0}}


def test_runs_that_were_given_no_name_are_named_by_place() -> None:
    runs = [rw.Run.from_dict(ONE), rw.Run.from_dict(TWO)]
    assert [run.name for run in as_runs(runs)] == ["run-0", "run-1"]
    assert rw.fuse(runs).to_dict() == rw.fuse([ONE, TWO]).to_dict()


def test_names_of_runs_and_weights_are_compared_as_text() -> None:
    by_name = rw.fuse({1: ONE, 2: TWO}, "sum", weights={2: 3.0, 1: 0.5})
    assert by_name.to_dict() == rw.fuse([ONE, TWO], "sum", weights=[0.5, 3.0]).to_dict()


def _order(run: rw.Run) -> list:
    return run.docs[run.doc[run.order]].tolist()


def by_hand(runs: list[dict], method: str, weights: list[float]) -> dict:
    """Every rule of one query, document by document, with loops."""
    docs = sorted({doc for run in runs for doc in run})
    scaled, place = [], []
    for run in runs:
        low, high = min(run.values()), max(run.values())
        scaled.append({d: (s - low) / (high - low) if high > low else 1.0 for d, s in run.items()})
        ranks = {d: 1 + sum(other > s for other in run.values()) for d, s in run.items()}
        rest = (len(run) + 1 + len(docs)) / 2  # the mean of the places that are left
        place.append({d: ranks.get(d, rest) for d in docs})
    fused = {}
    for doc in docs:
        listed = [i for i, run in enumerate(runs) if doc in run]
        values = [scaled[i][doc] for i in listed]
        total = sum(weights[i] * scaled[i][doc] for i in listed)
        mass = sum(weights[i] for i in listed)
        places = [place[i][doc] for i in range(len(runs))]
        duels = 0
        for other in docs:
            margin = sum(
                w * ((p[doc] < p[other]) - (p[doc] > p[other]))
                for w, p in zip(weights, place, strict=True)
            )
            duels += (margin > 1e-12) - (margin < -1e-12)
        fused[doc] = {
            "sum": total,
            "mnz": total * len(listed),
            "anz": total / mass,
            "med": np.median(values),
            "min": min(values),
            "max": max(values),
            "rrf": sum(weights[i] / (60 + place[i][doc]) for i in listed),
            "borda": sum(w * (len(docs) + 1 - p) for w, p in zip(weights, places, strict=True)),
            "median_rank": -np.median(places),
            "condorcet": duels,
        }[method]
    return fused


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", METHODS)
def test_a_rule_gives_what_loops_give(method, seed) -> None:
    rng = np.random.default_rng(seed)
    runs = [
        {
            f"d{d}": float(score)
            for d, score in zip(rng.permutation(9)[:n], rng.normal(size=n), strict=True)
        }
        for n in (5, 7, 4)
    ]
    weights = [1.0, 1.0, 1.0] if method in UNWEIGHTED else [1.0, 2.0, 0.5]
    options = {} if method in UNWEIGHTED else {"weights": weights}
    fused = rw.fuse([{"q": run} for run in runs], method, **options).to_dict()["q"]
    assert fused == pytest.approx(by_hand(runs, method, weights), abs=1e-12)
