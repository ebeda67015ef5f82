"""Categorical features: a plain grower of levels in order, few levels, many levels, unseen ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import rankwright as rw
from rankwright.rankers.boosting.binning import QuantileBins
from rankwright.rankers.boosting.categories import FOLDS, Folds, LevelCodes
from rankwright.rankers.boosting.grower import Grower, TreeOptions
from rankwright.runtime import Team

TREES = ("symmetric", "leafwise")


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    """Two numbers and categories of 30 and of 3 levels with gaps, 60 queries of 20 rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 4))
    X[:, 2], X[:, 3] = rng.integers(0, 30, 1200), rng.integers(0, 3, 1200)
    worth = X[:, 0] + rng.normal(size=30)[X[:, 2].astype(int)] + (X[:, 3] == 1) * (X[:, 1] > 0)
    X[::11, 2] = np.nan
    y = np.digitize(worth + 0.5 * rng.normal(size=1200), [0.0, 1.0, 2.0]).astype(float)
    return X, y, np.repeat(np.arange(60), 20)


# ---- one tree ----


class PlainCategory:
    """Column 2 as a plain grower reads it: values of rows, values of levels, and thresholds."""

    def __init__(self, x: Any, fold: Any, g: Any, h: Any, smooth: float) -> None:
        ridge = smooth * h.mean()

        def statistic(rows: Any) -> float:
            return float(g[rows].sum() / (h[rows].sum() + ridge))

        self.of_row = np.array(
            [
                np.nan if np.isnan(x[i]) else statistic((x == x[i]) & (fold != fold[i]))
                for i in range(len(x))
            ]
        )
        levels = np.unique(x[~np.isnan(x)])
        self.of_level = {float(level): statistic(x == level) for level in levels}
        known = np.unique([*self.of_level.values(), 0.0])  # 0: a level that training did not have
        self.thresholds = (known[1:] + known[:-1]) / 2
        self.everywhere = np.array([self.of_level.get(float(value), np.nan) for value in x])


def plain_tree(X: Any, g: Any, h: Any, category: PlainCategory, options: TreeOptions) -> Any:
    """The values of rows, trying all splits by adding up rows.

    Rows are grouped by the statistic without their own fold; scores use that of all folds.
    """
    ridge, more = (
        options.l2_regularization * h.mean(),
        (options.l2_regularization + options.cat_l2) * h.mean(),
    )
    own, whole = X.copy(), X.copy()
    own[:, 2], whole[:, 2] = category.of_row, category.everywhere

    def sides(table: Any, rows: Any, feature: int, threshold: float, default: bool) -> Any:
        right = np.where(np.isnan(table[rows, feature]), default, table[rows, feature] > threshold)
        return rows[~right], rows[right]

    def value(rows: Any) -> float:
        return float(g[rows].sum() / (h[rows].sum() + ridge))

    def gain(rows: Any, split: Any) -> float:
        low, high = sides(own, rows, *split)
        if min(len(low), len(high)) < options.min_samples_leaf:
            return 0.0
        if split[0] == 2 and value(high) < value(low):
            return 0.0
        extra = more if split[0] == 2 else ridge
        of_sides = sum(g[part].sum() ** 2 / (h[part].sum() + extra) for part in (low, high))
        return float(of_sides - g[rows].sum() ** 2 / (h[rows].sum() + ridge))

    splits = [
        (feature, threshold, default)
        for feature in range(3)
        for default in (False, True)
        for threshold in (
            *(
                category.thresholds
                if feature == 2
                else (np.unique(X[:, feature])[1:] + np.unique(X[:, feature])[:-1]) / 2
            )[::-1],
            -np.inf,
        )
    ]

    def best(groups: list[Any]) -> Any:
        found: Any = (1e-9, None)
        for split in splits:
            total = sum(gain(rows, split) for rows in groups)
            if total > found[0] * (1 + 1e-7):
                found = total, split
        return found

    every = np.arange(len(g))
    leaves = [(every, every)]  # the rows of a leaf in growing, and in scoring
    if options.symmetric:
        for _ in range(options.max_depth or 0):
            _, split = best([rows for rows, _ in leaves])
            if split is None:
                break
            new = []
            for rows, scored in leaves:
                low, high = sides(own, rows, *split)
                if min(len(low), len(high)) < options.min_samples_leaf or (
                    split[0] == 2 and value(high) < value(low)
                ):
                    new.append((rows, scored))
                    continue
                new += zip((low, high), sides(whole, scored, *split), strict=True)
            leaves = new
    else:
        while len(leaves) < options.max_leaf_nodes:
            found = [best([rows]) for rows, _ in leaves]
            at = int(np.argmax([one[0] for one in found]))
            if found[at][1] is None:
                break
            rows, scored = leaves.pop(at)
            new = zip(
                sides(own, rows, *found[at][1]), sides(whole, scored, *found[at][1]), strict=True
            )
            leaves += new
    scores = np.zeros(len(g))
    for rows, scored in leaves:
        scores[scored] = value(rows)
    return scores


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("seed", range(4))
def test_a_tree_is_that_of_a_plain_grower(seed: int, tree: str) -> None:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(150, 3)), 1)
    X[:, 2] = rng.integers(0, 12, 150)
    X[rng.random(150) < 0.1, 2] = np.nan
    effect = np.append(rng.normal(size=12), 0.0)[np.nan_to_num(X[:, 2], nan=12).astype(int)]
    g, h = effect + X[:, 0] * (X[:, 1] > 0) + 0.5 * rng.normal(size=150), rng.random(150) + 0.1
    symmetric = tree == "symmetric"
    options = TreeOptions(8, 4, 1.0, max_depth=3 if symmetric else None, symmetric=symmetric)
    count, rows, categorical = (
        np.ones(150, np.int64),
        np.arange(150),
        np.array([False] * 2 + [True]),
    )
    folds = Folds.of(np.repeat(np.arange(30), 5).astype(np.uint64))
    with Team(1) as pool:
        bins = QuantileBins.learn(X, rows, count, 255, categorical, pool)
        coded = LevelCodes.of(bins, X, rows, pool)
        binned = bins.coded(coded.codes, np.zeros(3))
        grower = Grower(binned, count, bins.name_split, options, pool, levels=coded, folds=folds)
        for number in range(2):  # the second tree finds nothing of the first
            grown, scores = grower.grow(g, h, number=number), np.zeros(150)
        coded.add(grown, scores)
    fold = folds.draw(1)
    assert 1 < len(np.unique(fold)) <= FOLDS
    category = PlainCategory(X[:, 2], fold, g, h, options.cat_smooth)
    expected = plain_tree(X, g, h, category, options)
    np.testing.assert_allclose(scores, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("tree", TREES)
def test_scores_of_training_are_those_of_the_model(data: Any, tree: str) -> None:
    """Otherwise a fit that continues would go another way than one that was not interrupted."""
    X, y, qid = data
    how: Any = {"tree": tree, "categorical_features": [2, 3], "min_samples_leaf": 5}
    whole = rw.LambdaMART(n_estimators=20, **how).fit(X, y, qid=qid)
    parts = rw.LambdaMART(n_estimators=8, **how).fit(X, y, qid=qid).fit_more(12)
    np.testing.assert_array_equal(whole.decision_function(X), parts.decision_function(X))
    judged = rw.LambdaMART(n_estimators=20, **how)
    judged.fit(X, y, qid=qid, eval_set=(X, y), eval_qid=qid)
    reached = rw.evaluate(whole.decision_function(X), y, qid, "NDCG@10")["NDCG@10"]
    assert judged.validation_ is not None
    assert judged.validation_[-1] == pytest.approx(reached, abs=1e-12)


# ---- levels ----


@pytest.mark.parametrize("tree", TREES)
def test_up_to_four_levels_are_split_one_by_one(data: Any, tree: str) -> None:
    X, y, qid = data
    model = rw.LambdaMART(n_estimators=10, tree=tree, categorical_features=[2, 3])
    trees = model.fit(X, y, qid=qid)._scorer()
    sets = [trees.categories(n).size for n in np.flatnonzero(trees.feature == 3)]
    assert set(sets) == {1}
    assert max(trees.categories(n).size for n in np.flatnonzero(trees.feature == 2)) > 1


@pytest.mark.parametrize("tree", TREES)
def test_levels_of_few_rows_are_not_learned_by_heart(tree: str) -> None:
    """Six hundred levels of five rows without any effect beside one number that has one."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=6000), rng.integers(0, 600, 6000)])
    y = np.digitize(X[:, 0] + rng.normal(size=6000), [0.0, 1.0, 2.0])
    qid, train = np.repeat(np.arange(300), 20), np.arange(6000) < 3000

    def reached(columns: Any) -> float:
        model = rw.LambdaMART(n_estimators=100, tree=tree, categorical_features=columns)
        model.fit(X[train], y[train], qid=qid[train])
        return float(model.score(X[~train], y[~train], qid=qid[~train]))

    alone = rw.LambdaMART(n_estimators=100, tree=tree)
    alone.fit(X[train][:, :1], y[train], qid=qid[train])
    without = alone.score(X[~train][:, :1], y[~train], qid=qid[~train])
    assert reached([1]) > without - 0.01


@pytest.mark.parametrize("tree", TREES)
def test_levels_of_few_rows_that_say_something_are_used(tree: str) -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=6000), rng.integers(0, 400, 6000)])
    effect = rng.normal(size=400)[X[:, 1].astype(int)]
    y = np.digitize(X[:, 0] + effect + 0.5 * rng.normal(size=6000), [0.0, 1.0, 2.0])
    qid, train = np.repeat(np.arange(300), 20), np.arange(6000) < 4500

    def reached(columns: Any) -> float:
        model = rw.LambdaMART(n_estimators=100, tree=tree, categorical_features=columns)
        model.fit(X[train], y[train], qid=qid[train])
        return float(model.score(X[~train], y[~train], qid=qid[~train]))

    assert reached([1]) > reached(None) + 0.05


def test_unseen_levels_are_between_good_and_bad_ones() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, (4000, 1)).astype(float)
    y = np.where(X[:, 0] < 20, 1.0, 0.0)
    model = rw.LambdaMART(n_estimators=5, max_depth=1, categorical_features=[0])
    model.fit(X, y, qid=np.arange(4000) // 20)
    low, high = model.decision_function([[30.0], [3.0]])
    assert low < high
    for value in (77.0, 2.5, -1.0):
        assert low <= model.decision_function([[value]])[0] <= high
    assert np.isfinite(model.decision_function([[np.nan]])).all()


def test_rarer_levels_than_the_most_count_as_unseen() -> None:
    rng = np.random.default_rng(0)
    X = np.minimum(rng.geometric(0.1, (3000, 1)), 40).astype(float)
    y = (X[:, 0] % 2).astype(float)
    model = rw.LambdaMART(n_estimators=12, categorical_features=[True], max_cat_levels=10)
    scores = model.fit(X, y, qid=np.arange(3000) // 20).decision_function(np.arange(50.0)[:, None])
    frequent = np.argsort(-np.bincount(X[:, 0].astype(int), minlength=50), kind="stable")[:10]
    odd = frequent[frequent % 2 == 1]
    assert scores[odd].min() > scores[frequent[frequent % 2 == 0]].max()
    assert len(np.unique(scores[np.setdiff1d(np.arange(50), frequent)])) == 1


@pytest.mark.parametrize("tree", TREES)
def test_a_hundred_thousand_levels(tree: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 200_000
    X = np.column_stack([rng.normal(size=n), rng.permutation(n) % 100_000])
    y, qid = np.digitize(X[:, 0] + (X[:, 1] % 2), [0.0, 1.0]), np.arange(n) // 20
    model = rw.LambdaMART(n_estimators=3, tree=tree, categorical_features=[1])
    model.fit(X, y, qid=qid)
    scores = model.decision_function(X[:100])
    rw.save(model, tmp_path / "model.rw")
    np.testing.assert_array_equal(
        rw.load_scorer(tmp_path / "model.rw").decision_function(X[:100]), scores
    )
    assert (tmp_path / "model.rw").stat().st_size < 4e6


# ---- what changes no bit ----


@pytest.mark.parametrize("tree", TREES)
def test_rows_ids_and_storage_change_no_bit(data: Any, tree: str) -> None:
    X, y, qid = data
    X = np.nan_to_num(X)
    order = np.random.default_rng(1).permutation(len(y))
    how: Any = {"n_estimators": 10, "tree": tree, "categorical_features": [2, 3], "subsample": 1.0}
    plain = rw.LambdaMART(**how).fit(X, y, qid=qid)
    others = [
        rw.LambdaMART(**how).fit(X[order], y[order], qid=qid[order]),
        rw.LambdaMART(**how).fit(X, y, qid=[f"query {number}" for number in 1000 - qid]),
        rw.LambdaMART(**how, random_state=7).fit(X, y, qid=qid),
        rw.LambdaMART(**how).fit(sparse.csr_array(X), y, qid=qid),
    ]
    for other in others:
        np.testing.assert_array_equal(plain.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize("tree", TREES)
def test_one_query_is_divided_by_rows(data: Any, tree: str) -> None:
    X, y, _ = data
    how: Any = {"n_estimators": 10, "tree": tree}
    model = rw.LambdaMART(**how, categorical_features=[2]).fit(X, y)
    assert (model.node_feature_ == 2).any()
    assert model.score(X, y) > rw.LambdaMART(**how).fit(X[:, [0, 1, 3]], y).score(
        X[:, [0, 1, 3]], y
    )
