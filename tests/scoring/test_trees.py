"""Step functions and trees: NumPy, kernels and a plain walk agree; impossible values fail."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankwright.exceptions import DataError
from rankwright.scoring import base, linear
from rankwright.scoring import trees as tree_module
from rankwright.scoring.linear import Additive, Slopes
from rankwright.scoring.trees import Trees

VALUES = np.array([-np.inf, -2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, np.inf, np.nan])


def random_trees(rng: np.random.Generator, n_trees: int, max_depth: int, with_cats: bool) -> Trees:
    """Trees of random shape on three features; with categories, about half of the nodes."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("feature", "threshold", "default", "low", "high", "value")
    }
    lists: list[list[float]] = []

    def grow(depth: int) -> int:
        node = len(lists)
        is_leaf = depth == 0 or rng.random() < 0.25
        listed = with_cats and not is_leaf and rng.random() < 0.5
        columns["feature"].append(-1 if is_leaf else rng.integers(3))
        columns["threshold"].append(0.0 if is_leaf or listed else rng.choice(VALUES[:-1]))
        columns["default"].append(int(rng.integers(2)))
        columns["value"].append(rng.normal())
        columns["low"].append(0)
        columns["high"].append(0)
        lists.append(sorted({*rng.choice([0.0, 1.0, 2.0, 3.0, 7.0], 2)}) if listed else [])
        if not is_leaf:
            columns["low"][node] = grow(depth - 1)
            columns["high"][node] = grow(depth - 1)
        return node

    root = [grow(max_depth) for _ in range(n_trees)]
    kinds = {"feature": int, "default": int, "low": int, "high": int}
    trees = Trees(
        n_inputs=3,
        root=np.array(root, np.int64),
        weight=rng.normal(size=n_trees),
        **{name: np.array(column, kinds.get(name, float)) for name, column in columns.items()},
    )
    return trees.with_categories({n: values for n, values in enumerate(lists) if values})


def walk(trees: Trees, row: Any) -> float:
    """The plain twin: one row, one tree after the other."""
    score = 0.0
    for root, weight in zip(trees.root, trees.weight, strict=True):
        node = root
        while trees.feature[node] >= 0:
            x, listed = row[trees.feature[node]], trees.categories(node)
            up = x in listed if len(listed) else x > trees.threshold[node]
            if np.isnan(x):
                up = trees.default[node] == 1
            node = trees.high[node] if up else trees.low[node]
        score += weight * trees.value[node]
    return score


def _sets(trees: Trees) -> Any:
    return tree_module.NO_SETS if trees._level_sets is None else trees._level_sets


def _compiled_trees(trees: Trees, X: Any) -> Any:
    from rankwright.scoring import _kernels

    nodes, sets, scores = trees._nodes, trees._level_sets, np.zeros(len(X))
    default = nodes.default if np.isnan(X).any() else None
    if sets is not None:
        wide = np.empty((len(X), X.shape[1] + len(sets.feature)))
        _kernels.append_levels(base.read_only(X), sets, wide)
        assert wide.tobytes() == tree_module.append_levels(X, sets).tobytes()
        X = wide
    _kernels.add_trees(base.read_only(X), nodes, default, sets, scores)
    return scores


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 7), st.booleans())
def test_numpy_and_compiled_trees_are_a_plain_walk_bit_for_bit(
    seed: int, max_depth: int, with_cats: bool
) -> None:
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, int(rng.integers(1, 6)), max_depth, with_cats)
    X = rng.choice(VALUES, (int(rng.integers(1, 20)), 3))
    plain = np.array([walk(trees, row) for row in X])
    sets = trees._level_sets
    wide = X if sets is None else tree_module.append_levels(X, sets)
    assert tree_module._sum_trees(wide, trees._nodes, sets).tobytes() == plain.tobytes()
    assert _compiled_trees(trees, X).tobytes() == plain.tobytes()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 6), st.booleans())
def test_masks_of_leaves_are_a_plain_walk_bit_for_bit(
    seed: int, max_depth: int, with_cats: bool
) -> None:
    from rankwright.scoring import _kernels

    rng = np.random.default_rng(seed)
    trees = random_trees(rng, int(rng.integers(1, 9)), max_depth, with_cats)
    X = rng.choice(VALUES, (int(rng.integers(1, 200)), 3))
    scores = np.zeros(len(X))
    _kernels.add_masked_trees(base.read_only(X), trees._masks, _sets(trees), scores)
    assert scores.tobytes() == np.array([walk(trees, row) for row in X]).tobytes()


@pytest.mark.parametrize("n_leaves", [8, 9, 64, 65])
@pytest.mark.parametrize("side", ["low", "high"])
def test_masks_have_room_for_64_leaves(n_leaves: int, side: str) -> None:
    """A chain: each node has a leaf on one side and the rest of the tree on the other."""
    inner = np.arange(n_leaves - 1)
    empty = np.zeros(n_leaves, np.int64)
    leaf, rest = n_leaves - 1 + inner, np.append(inner[1:], 2 * n_leaves - 2)
    low, high = (leaf, rest) if side == "high" else (rest, leaf)
    threshold = inner.astype(float) if side == "high" else -inner.astype(float)
    trees = Trees(
        1, np.array([0]), np.array([0.5]), np.append(0 * inner, empty - 1),
        np.append(threshold, empty * 0.0), np.append(0 * inner, empty), np.append(low, empty),
        np.append(high, empty), np.random.default_rng(0).normal(size=2 * n_leaves - 1),
    )  # fmt: skip
    assert (trees._masks is None) == (n_leaves > 64)
    X = np.linspace(-67.0, 67.0, 269)[:, None]
    plain = np.array([walk(trees, row) for row in X])
    base.compile_kernels()
    assert trees.decision_function(X).tobytes() == plain.tobytes()


@pytest.mark.parametrize("n_trees", [255, 256, 700])
def test_masks_take_any_number_of_thresholds(n_trees: int) -> None:
    """Stumps on one feature, each with a threshold of its own; NaN goes either way."""
    rng, each, node = np.random.default_rng(n_trees), np.arange(n_trees), np.arange(3 * n_trees)
    inner, default = node % 3 == 0, np.repeat(rng.integers(2, size=n_trees), 3)
    default = np.where(each.repeat(3) < 3, 1, default) if n_trees > 255 else 0 * default
    trees = Trees(
        1, 3 * each, rng.normal(size=n_trees), np.where(inner, 0, -1),
        np.where(inner, rng.permutation(n_trees).repeat(3), 0.0), default,
        np.where(inner, node + 1, 0), np.where(inner, node + 2, 0), rng.normal(size=3 * n_trees),
    )  # fmt: skip
    X = np.append(rng.uniform(-1, n_trees, 60).round(1), [0.0, n_trees - 1, np.inf, np.nan])[
        :, None
    ]
    plain = np.array([walk(trees, row) for row in X])
    base.compile_kernels()
    assert trees.decision_function(X).tobytes() == plain.tobytes()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_sparse_matrix_scores_like_its_dense_form(seed: int, abstains: bool) -> None:
    rng = np.random.default_rng(seed)
    values = random_trees(rng, 4, 5, bool(rng.integers(2))).values()
    trees = Trees(**{**values, "absent_abstains": abstains})
    shape = (int(rng.integers(1, 70)), 3)
    X = np.where(rng.random(shape) < 0.6, rng.choice(VALUES[:-1], shape), 0.0)
    filled = np.where(X == 0, np.nan if abstains else 0.0, X)
    scores = trees.decision_function(sparse.csr_array(X))
    assert scores.tobytes() == trees.decision_function(filled).tobytes()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_numpy_and_compiled_steps_are_equal_bit_for_bit(seed: int) -> None:
    from rankwright.scoring import _kernels

    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9)) if rng.integers(2) else int(rng.integers(9, 300))
    thresholds = rng.choice(VALUES[:-2], n) if n < 9 else rng.normal(size=n)
    steps = Additive.from_rounds(
        3, rng.integers(3, size=n), thresholds, rng.integers(2, size=n),
        rng.normal(size=n),
    )  # fmt: skip
    n_rows = int(rng.integers(1, 200))  # with a whole block of the kernel, or without
    X, scores = rng.choice(VALUES, (n_rows, 3)), np.zeros(n_rows)
    _kernels.add_steps(base.read_only(X), steps._steps, scores)
    assert linear._sum_few(X, steps._steps).tobytes() == scores.tobytes()
    assert linear._sum_steps(X, steps._steps).tobytes() == scores.tobytes()


def test_threads_and_blocks_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    trees, X = random_trees(rng, 30, 6, True), rng.choice(VALUES, (500, 3))
    plain = np.array([walk(trees, row) for row in X])
    monkeypatch.setattr(base, "PAIRS_PER_THREAD", 1000)
    monkeypatch.setattr(base, "PAIRS_PER_BLOCK", 2000)
    for threads in ("1", "3"):
        monkeypatch.setenv("RANKWRIGHT_THREADS", threads)
        for compiled in (False, True):
            module = base.compile_kernels() if compiled else None
            monkeypatch.setattr(base, "kernels", lambda n_pairs, module=module: module)
            assert trees.decision_function(X).tobytes() == plain.tobytes()


def test_no_rows_and_no_trees_score_nothing() -> None:
    trees = random_trees(np.random.default_rng(1), 2, 3, False)
    assert trees.decision_function(np.zeros((0, 3))).shape == (0,)
    none = Trees(**{**trees.values(), "root": trees.root[:0], "weight": trees.weight[:0]})
    np.testing.assert_array_equal(none.decision_function(np.ones((2, 3))), [0.0, 0.0])


@pytest.mark.parametrize(
    "changes",
    [
        {"set": None},
        {"level": None},
        {"set": np.array([0, -1])},
        {"set": np.array([1, -1, -1])},  # there is one set
        {"set": np.array([-1, 0, -1])},  # a leaf
        {"set_ptr": np.array([0, 2])},
        {"set_bits": np.array([3, 0], np.uint8)},
        {"level_ptr": np.array([0, 1])},
        {"level_ptr": np.array([0, 1, 2])},
        {"level": np.array([2.0, 1.0])},
        {"level": np.array([1.0, 1.0])},
        {"level": np.array([1.0, np.nan])},
        {"threshold": np.array([0.5, 0.0, 0.0])},
    ],
    ids=str,
)
def test_categories_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    values: dict[str, Any] = {
        "n_inputs": 1,
        "root": np.array([0]),
        "weight": np.array([1.0]),
        "feature": np.array([0, -1, -1]),
        "threshold": np.zeros(3),
        "default": np.array([1, 0, 0]),
        "low": np.array([1, 0, 0]),
        "high": np.array([2, 0, 0]),
        "value": np.array([0.0, -1.0, 1.0]),
        "set": np.array([0, -1, -1]),
        "set_ptr": np.array([0, 1]),
        "set_bits": np.array([3], np.uint8),
        "level_ptr": np.array([0, 2]),
        "level": np.array([1.0, 4.0]),
    }
    X = np.array([[1.0], [2.0], [4.0], [np.nan]])
    np.testing.assert_array_equal(Trees(**values).decision_function(X), [1.0, -1.0, 1.0, 1.0])
    with pytest.raises(DataError):
        Trees(**{**values, **changes})


def test_sets_of_many_levels_are_a_plain_walk() -> None:
    """20,000 levels of which nodes choose random halves; unknown values, and missing ones."""
    rng = np.random.default_rng(0)
    plain = random_trees(rng, 6, 4, False)
    inner = np.flatnonzero(plain.feature >= 0)
    chosen = {int(n): np.flatnonzero(rng.random(20_000) < 0.5) * 3.0 for n in inner}
    threshold = np.where(plain.feature < 0, plain.threshold, 0.0)
    trees = replace(plain, threshold=threshold).with_categories(chosen)
    for node, values in chosen.items():
        np.testing.assert_array_equal(trees.categories(node), values)
    X = rng.integers(-5, 60_010, (60, 3)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    expected = np.array([walk(trees, row) for row in X])
    assert trees.decision_function(X).tobytes() == expected.tobytes()
    assert _compiled_trees(trees, X).tobytes() == expected.tobytes()


def test_equal_sets_are_stored_once() -> None:
    plain = random_trees(np.random.default_rng(3), 20, 3, False)
    inner = np.flatnonzero(plain.feature == 1)
    threshold = plain.threshold.copy()
    threshold[inner] = 0.0
    chosen = {int(node): [1.0, 5.0] if i % 2 else [2.0, 5.0] for i, node in enumerate(inner)}
    trees = replace(plain, threshold=threshold).with_categories(chosen)
    assert trees.set_ptr is not None
    assert trees.set_ptr.tolist() == [0, 1, 2]
    part = trees.first(4)
    assert part.decision_function(np.ones((2, 3))).shape == (2,)
    for node in np.flatnonzero(part.feature == 1).tolist():
        assert part.categories(node).tolist() == chosen[node]


def _additive(**changes: Any) -> Additive:
    values: dict[str, Any] = {
        "n_inputs": 3,
        "feature": np.array([0, 2]),
        "ptr": np.array([0, 2, 3]),
        "threshold": np.array([0.0, 1.0, -1.0]),
        "value": np.array([0.0, 1.0, 3.0, 0.5, -0.5]),
        "missing": np.array([0.25, 9.0]),
    }
    return Additive(**{**values, **changes})


def _trees(**changes: Any) -> Trees:
    values: dict[str, Any] = {
        "n_inputs": 2,
        "root": np.array([0, 3]),
        "weight": np.array([1.0, 2.0]),
        "feature": np.array([1, -1, -1, -1]),
        "threshold": np.array([0.5, 0.0, 0.0, 0.0]),
        "default": np.array([1, 0, 0, 0]),
        "low": np.array([1, 0, 0, 0]),
        "high": np.array([2, 0, 0, 0]),
        "value": np.array([0.0, -1.0, 1.0, 0.25]),
    }
    return Trees(**{**values, **changes})


def test_each_feature_adds_the_value_of_its_step() -> None:
    X = np.array([[-5.0, 7.0, 0.0], [0.5, 7.0, -1.0], [2.0, 7.0, np.nan], [np.nan, 7.0, -3.0]])
    scores = _additive().decision_function(X)
    np.testing.assert_array_equal(scores, [0 - 0.5, 1 + 0.5, 3 + 9.0, 0.25 + 0.5])


@pytest.mark.parametrize("abstains", [True, False])
def test_what_a_sparse_matrix_does_not_store_is_zero_or_missing(abstains: bool) -> None:
    X = np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 1.0, -3.0]])
    filled = np.where(X == 0, np.nan if abstains else 0.0, X)
    for scorer in (
        _additive(absent_abstains=abstains),
        Slopes(3, np.array([0, 2]), np.ones(2), np.zeros(2), np.full(2, 0.5), abstains),
    ):
        np.testing.assert_array_equal(
            scorer.decision_function(sparse.csr_array(X)), scorer.decision_function(filled)
        )


def test_a_row_falls_into_one_leaf_of_each_tree() -> None:
    X = np.array([[0.0, 0.5], [0.0, 0.6], [0.0, np.nan]])
    np.testing.assert_array_equal(_trees().decision_function(X), [-0.5, 1.5, 1.5])


@pytest.mark.parametrize(
    "changes",
    [
        {"n_inputs": 2},
        {"feature": np.array([0, -1])},
        {"ptr": np.array([0, 4, 3])},
        {"ptr": np.array([0, 2, 9])},
        {"threshold": np.array([1.0, 0.0, -1.0])},
        {"threshold": np.array([0.0, np.nan, -1.0])},
        {"value": np.zeros(3)},
        {"missing": np.array([np.inf, 0.0])},
    ],
    ids=str,
)
def test_step_functions_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        _additive(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"root": np.array([0, 4])},
        {"root": np.array([-1, 3])},
        {"feature": np.array([2, -1, -1, -1])},
        {"low": np.array([0, 0, 0, 0])},  # a node that is its own child would never end
        {"high": np.array([9, 0, 0, 0])},
        {"value": np.array([0.0, np.nan, 1.0, 0.0])},
        {"default": np.array([2, 0, 0, 0])},
    ],
    ids=str,
)
def test_trees_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        _trees(**changes)


PROGRAM = """
import sys
import numpy as np
from rankwright.scoring import base
from rankwright.scoring.trees import Trees
stump = Trees(1, np.array([0]), np.ones(1), np.array([0, -1, -1]), np.zeros(3), np.zeros(3, int),
              np.array([1, 0, 0]), np.array([2, 0, 0]), np.array([0.0, -1.0, 1.0]))
base.PAIRS_TO_IMPORT = 4000
for _ in range(3):
    stump.decision_function(np.ones((1000, 1)))
assert "numba" not in sys.modules, "short predictions imported numba"
{block}
assert stump.decision_function(np.ones((1000, 1))).sum() == 1000
print("numba" in sys.modules)
"""


@pytest.mark.parametrize("block", ["", "base.find_spec = lambda name: None"])
def test_numba_is_imported_after_some_work_only_and_is_not_needed(block: str) -> None:
    program = [sys.executable, "-c", PROGRAM.replace("{block}", block)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(block == "")
