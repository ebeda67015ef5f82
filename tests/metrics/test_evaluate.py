"""What goes into evaluate, and what it says about queries that have nothing to measure."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright.exceptions import DataError, DegenerateDataWarning
from rankwright.metrics import NDCG
from rankwright.metrics import ranked_lists as lists_module
from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.measure import CATALOG

EVERY = [f"{d.name}@5" if d.cutoff == "required" else d.name for d in CATALOG.values()]


def _data(seed: int = 0, n: int = 300, n_queries: int = 12) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "scores": rng.integers(0, 30, n) / 4,
        "y": rng.integers(0, 4, n),
        "qid": rng.integers(0, n_queries, n),
    }


def test_rows_may_come_in_any_order() -> None:
    data = _data() | {"scores": np.random.default_rng(1).permutation(300)}
    shuffled = np.random.default_rng(2).permutation(300)
    one = evaluate(**data, measures=EVERY)
    other = evaluate(**{k: v[shuffled] for k, v in data.items()}, measures=EVERY)
    places = [other.query_ids.tolist().index(q) for q in one.query_ids.tolist()]
    for name in EVERY:
        assert one.per_query(name) == pytest.approx(other.per_query(name)[places], abs=1e-12)


def test_many_queries_at_once_equal_one_query_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(lists_module, "BLOCK_CELLS", 64)
    data = _data(3)
    together = evaluate(**data, measures=EVERY)
    for number, query in enumerate(together.query_ids):
        rows = data["qid"] == query
        alone = evaluate(data["scores"][rows], data["y"][rows], measures=EVERY)
        for name in EVERY:
            assert together.per_query(name)[number] == pytest.approx(alone[name], abs=1e-12)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([16, 1 << 16]))
def test_the_size_of_blocks_changes_nothing(seed, cells) -> None:
    data = _data(seed, 120, 7)
    reference = evaluate(**data, measures=EVERY, empty="zero")
    before = lists_module.BLOCK_CELLS
    lists_module.BLOCK_CELLS = cells
    try:
        result = evaluate(**data, measures=EVERY, empty="zero")
    finally:
        lists_module.BLOCK_CELLS = before
    assert result.matrix == pytest.approx(reference.matrix, abs=1e-12)


@pytest.mark.parametrize("kind", ["list", "float32", "pandas", "polars", "column", "bool"])
def test_columns_of_many_kinds_are_read(kind) -> None:
    data = _data()
    data["y"] = (data["y"] > 1).astype(int)
    convert = {
        "list": lambda a: a.tolist(),
        "float32": lambda a: a.astype(np.float32),
        "pandas": pd.Series,
        "polars": pl.Series,
        "column": lambda a: a.reshape(-1, 1),
        "bool": lambda a: a,
    }[kind]
    given = {k: convert(v) for k, v in data.items()}
    if kind == "bool":
        given["y"] = data["y"].astype(bool)
    assert evaluate(**given)["AP"] == pytest.approx(evaluate(**data)["AP"], abs=1e-12)


def test_inputs_are_not_changed() -> None:
    data = _data()
    copies = {k: v.copy() for k, v in data.items()}
    for like in ("trec_eval", "ranx", None):
        evaluate(**data, measures=EVERY, like=like, docid=np.arange(300))
    for key, value in copies.items():
        assert np.array_equal(data[key], value)


@pytest.mark.parametrize(
    ("empty", "values"), [("skip", [1, np.nan]), ("zero", [1, 0]), ("one", [1, 1])]
)
def test_a_query_without_relevant_items_is_left_out_or_counts(empty, values) -> None:
    result = evaluate(
        [2, 1, 3, 2], [1, 0, 0, 0], [0, 0, 1, 1], ["AP", "NDCG@2", "P@1"], empty=empty
    )
    for name in result:
        assert result.per_query(name) == pytest.approx(values, nan_ok=True)
        assert result.n_skipped(name) == (empty == "skip")
        assert result[name] == np.nanmean(values)


def test_a_measure_may_bring_its_own_rule_for_empty_queries() -> None:
    result = evaluate([2, 1, 3], [1, 0, 0], [0, 0, 1], ["AP", "AP(empty=one)", "AP(empty=zero)"])
    assert [result[name] for name in result] == [1.0, 1.0, 0.5]


def test_nothing_to_measure_at_all_warns_and_has_no_mean() -> None:
    with pytest.warns(DegenerateDataWarning, match="undefined for all 2 queries"):
        result = evaluate([1, 2], [0, 0], [1, 2], ["AP", "RankLoss"])
    with pytest.raises(DataError, match="AP has no mean"):
        result["AP"]
    assert result["RankLoss"] == 1.5
    assert result.to_dict() == {"AP": None, "RankLoss": 1.5}


def test_one_item_lists_have_no_pair() -> None:
    pair_measures = ["Disagreement", "MSD", "KendallTau", "HR", "AUC"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        result = evaluate([1, 2], [1, 2], [1, 2], [*pair_measures, "NDCG", "ERR"])
    assert [result.n_skipped(name) for name in result] == [2] * 5 + [0, 0]


def test_no_measure_is_ever_nan_on_any_data_that_is_accepted() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 30))
        scores = rng.choice([-1e300, -1, 0, 0, 1, 1e300], n)
        y = rng.choice([0, 0, 1, 3], n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # 1e300 squared is inf, not NaN
            result = evaluate(scores, y, rng.integers(0, 5, n), EVERY, empty="zero")
        order_only = [m for m in EVERY if CATALOG[m.split("@")[0]].reads == "order"]
        for name in order_only:
            assert np.isfinite(result.per_query(name)).all(), name


def test_query_weights_weigh_the_mean() -> None:
    data = ([2, 1, 1, 2], [1, 0, 1, 0], ["a", "a", "b", "b"], "RR")
    assert evaluate(*data, query_weight=[3, 1])["RR"] == pytest.approx((3 * 1 + 0.5) / 4)
    assert evaluate(*data)["RR"] == 0.75


def test_linear_gains_take_any_size_of_grade() -> None:
    result = evaluate([2, 1], [50, 100], measures=NDCG(gain="linear"))
    discount = 1 / np.log2(3)
    expected = (50 + 100 * discount) / (100 + 50 * discount)
    assert result["NDCG(gain=linear)"] == pytest.approx(expected, abs=1e-15)


def test_small_gains_beside_huge_ones_keep_their_digits() -> None:
    scores, y = [2.0, 1.0, 2.0, 1.0], [30, 29, 0, 1]
    result = evaluate(scores, y, [0, 0, 1, 1], "NDCG")
    assert result.per_query("NDCG")[1] == pytest.approx(1 / np.log2(3), abs=1e-15)


def test_predictions_are_for_measures_in_the_units_of_y() -> None:
    names = ["RankLoss", "MSD", "M1D", "AP"]
    scores, y = np.array([0.3, 0.2, 0.1]), np.array([2, 1, 0])
    result = evaluate(scores, y, measures=names, predictions=y)
    assert [result[name] for name in names] == [0.0, 0.0, 0.0, 1.0]


def test_evaluating_loads_neither_scipy_nor_numba_nor_scikit_learn() -> None:
    code = (
        "import sys, rankwright as rw; rw.evaluate([1, 2], [0, 1], measures=['NDCG', 'AP', 'MSD']);"
        "print([m for m in ('scipy', 'numba', 'sklearn', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
