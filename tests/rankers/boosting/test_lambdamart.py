"""LambdaMART: a plain grower, constraints, categories, continued training, initial scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import rankwright as rw
from rankwright.exceptions import MemoryLimitError
from rankwright.feedback.base import Grades
from rankwright.metrics.pairwise import pairwise_accuracy
from rankwright.rankers import checks
from rankwright.rankers.boosting import grower
from rankwright.rankers.boosting.binning import BinnedRows, QuantileBins
from rankwright.rankers.boosting.grower import Grower, Shared, TreeOptions
from rankwright.rankers.early_stopping import nearby_means
from rankwright.runtime import Team

EVERY_LOSS = ("logistic", "exponential", "fidelity", "squared_hinge", "smooth_hinge", "squared")
SMALL = {"n_estimators": 12, "max_leaf_nodes": 6, "min_samples_leaf": 5, "random_state": 0}


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    """Numbers with gaps, a category in column 3, 30 queries."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    X[:, 3] = rng.integers(0, 6, 600)
    worth = X[:, 0] + np.where(X[:, 3] == 2, 2.0, 0.0) - (X[:, 3] == 4) + 0.3 * rng.normal(size=600)
    X[::7, 1] = np.nan
    worth[::7] += 1.0  # to lack column 1 says something
    return X, np.digitize(worth, [0.0, 1.0, 2.0]).astype(float), np.repeat(np.arange(30), 20)


def scores_of(model: Any, data: Any) -> Any:
    X, y, qid = data
    return model.fit(X, y, qid=qid).decision_function(X)


# ---- one tree ----


def plain_tree(X: Any, g: Any, h: Any, options: TreeOptions) -> tuple[Any, list[Any]]:
    """Grow leaf by leaf, trying every split by adding up its rows; returns values and splits."""
    ridge = options.l2_regularization * h.sum() / len(g)

    def worth(rows: Any) -> float:
        return float(g[rows].sum() ** 2 / (h[rows].sum() + ridge))

    def best(rows: Any) -> tuple[Any, ...]:
        found: tuple[Any, ...] = (1e-9, None)
        for feature in range(X.shape[1]):
            x = X[rows, feature]
            known = np.unique(x[~np.isnan(x)])
            for threshold in [-np.inf, *((known[:-1] + known[1:]) / 2)]:
                for default in (False, True):
                    up = np.where(np.isnan(x), default, x > threshold)
                    if min(up.sum(), (~up).sum()) < options.min_samples_leaf:
                        continue
                    gain = worth(rows[up]) + worth(rows[~up]) - worth(rows)
                    if gain > found[0] * (1 + 1e-7):
                        found = gain, rows[up], rows[~up]
        return found

    leaves = [(np.arange(len(g)), best(np.arange(len(g))))]
    gains = []
    while len(leaves) < options.max_leaf_nodes and max(split[0] for _, split in leaves) > 1e-9:
        at = int(np.argmax([split[0] for _, split in leaves]))
        _, (gain, up, down) = leaves.pop(at)
        gains.append(gain)
        leaves += [(down, best(down)), (up, best(up))]
    values = np.zeros(len(g))
    for rows, _ in leaves:
        values[rows] = g[rows].sum() / (h[rows].sum() + ridge)
    return values, gains


@pytest.mark.parametrize("seed", range(6))
def test_a_tree_is_that_of_a_plain_grower(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(120, 5)), 1)
    X[rng.random((120, 5)) < 0.15] = np.nan
    g, h = rng.normal(size=120) + np.nan_to_num(X[:, 0]) * (X[:, 1] > 0), rng.random(120) + 0.1
    options = TreeOptions(8, 4, 1.0)
    count, rows = np.ones(120, np.int64), np.arange(120)
    with Team(1) as pool:
        bins = QuantileBins.learn(X, rows, count, 255, np.zeros(5, bool), pool)
        binned = bins.binned(X, rows, np.zeros(5), pool)
        plain = Grower(binned, count, bins.name_split, options, pool)
        tree, scores = plain.grow(g, h), np.zeros(120)
        plain.add_values(1.0, scores)
    values, gains = plain_tree(X, g, h, options)
    np.testing.assert_allclose(scores, values, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        sorted(node.gain for node in tree.nodes if node.feature >= 0), sorted(gains), rtol=1e-6
    )


def test_every_leaf_holds_enough_rows_and_covers_add_up(data: Any) -> None:
    X, y, qid = data
    model = rw.LambdaMART(**{**SMALL, "min_samples_leaf": 17}).fit(X, y, qid=qid)
    leaves = model.node_feature_ < 0
    assert model.node_cover_[leaves].min() >= 17
    inner = ~leaves
    children = (
        model.node_cover_[model.node_low_[inner]] + model.node_cover_[model.node_high_[inner]]
    )
    np.testing.assert_array_equal(model.node_cover_[inner], children)
    np.testing.assert_array_equal(model.node_cover_[model.root_], len(y))


# ---- the same bits ----


@pytest.mark.parametrize(
    "options", [{}, {"subsample": 0.6, "colsample_bytree": 0.5}, {"categorical_features": [3]}]
)
def test_any_number_of_threads_gives_the_same_bits(data: Any, options: dict[str, Any]) -> None:
    one, *others = (
        scores_of(rw.LambdaMART(**SMALL, **options, n_jobs=n_jobs), data) for n_jobs in (1, 2, 5)
    )
    for other in others:
        np.testing.assert_array_equal(one, other)


def test_the_order_of_queries_and_rows_changes_no_bit(data: Any) -> None:
    X, y, qid = data
    order = np.random.default_rng(1).permutation(len(y))
    plain = rw.LambdaMART(**SMALL).fit(X, y, qid=qid)
    shuffled = rw.LambdaMART(**SMALL).fit(X[order], y[order], qid=qid[order])
    np.testing.assert_array_equal(plain.decision_function(X), shuffled.decision_function(X))


# ---- going on ----


def test_fit_more_and_warm_start_equal_one_longer_fit(data: Any, tmp_path: Path) -> None:
    X, y, qid = data
    options: Any = {**SMALL, "subsample": 0.7, "colsample_bytree": 0.5, "categorical_features": [3]}
    options["eval_set"], options["eval_qid"] = None, None
    fit = {"qid": qid, "eval_set": (X[:200], y[:200]), "eval_qid": qid[:200]}
    options = {k: v for k, v in options.items() if not k.startswith("eval")}
    whole = rw.LambdaMART(**options).fit(X, y, **fit)
    part = rw.LambdaMART(**{**options, "n_estimators": 7}).fit(X, y, **fit)
    rw.save(part, tmp_path / "part.rw")
    loaded = rw.load(tmp_path / "part.rw").fit_more(5, X, y, **fit)
    warm = rw.LambdaMART(**{**options, "n_estimators": 7, "warm_start": True}).fit(X, y, **fit)
    warm.set_params(n_estimators=12).fit(X, y, **fit)
    for model in (part.fit_more(5), loaded, warm):
        np.testing.assert_array_equal(model.decision_function(X), whole.decision_function(X))
        np.testing.assert_array_equal(model.validation_, whole.validation_)
        np.testing.assert_array_equal(model.node_set_, whole.node_set_)
        np.testing.assert_array_equal(model.node_set_bits_, whole.node_set_bits_)
        np.testing.assert_array_equal(model.node_level_, whole.node_level_)
        assert model.best_iteration_ == 12


def test_initial_scores_are_where_training_starts(data: Any) -> None:
    X, y, qid = data
    first = rw.LambdaMART(**SMALL).fit(X, y, qid=qid)
    start = first.decision_function(X)
    rest = rw.LambdaMART(**SMALL).fit(X, y, qid=qid, init_score=start)
    longer = rw.LambdaMART(**{**SMALL, "n_estimators": 24}).fit(X, y, qid=qid)
    np.testing.assert_allclose(
        start + rest.decision_function(X), longer.decision_function(X), rtol=1e-9, atol=1e-9
    )
    more = rw.LambdaMART(**{**SMALL, "n_estimators": 6}).fit(X, y, qid=qid, init_score=start)
    np.testing.assert_array_equal(more.fit_more(6).decision_function(X), rest.decision_function(X))
    plain = rw.LambdaMART(**{**SMALL, "n_estimators": 6}).fit(X, y, qid=qid).decision_function(X)
    np.testing.assert_array_equal(more.fit(X, y, qid=qid).decision_function(X), plain)


def test_held_out_queries_start_from_their_own_initial_scores(data: Any) -> None:
    X, y, qid = data
    model = rw.LambdaMART(**{**SMALL, "early_stopping": 5})
    model.fit(X, y, qid=qid, init_score=10.0 * y)
    assert model.validation_[0] > 0.99  # the initial scores are in perfect order


# ---- losses ----


@pytest.mark.parametrize("weighting", [None, "grade_difference"])
def test_the_exponential_loss_bounds_the_share_of_misordered_pairs(
    data: Any, weighting: Any
) -> None:
    X, y, qid = data
    model = rw.LambdaMART(**SMALL, loss="exponential", weighting=weighting).fit(X, y, qid=qid)
    pairs = Grades(y, qid, magnitude=weighting is not None).to_pairs()
    scores = model.decision_function(X)
    wrong = scores[pairs.upper] <= scores[pairs.lower]
    mean = np.average(np.exp(scores[pairs.lower] - scores[pairs.upper]), weights=pairs.weight)
    assert np.average(wrong, weights=pairs.weight) <= model.training_bound_ < 1
    assert model.training_bound_ == pytest.approx(mean, rel=1e-9)


@pytest.mark.parametrize(
    "loss", ["logistic", "fidelity", "squared_hinge", "smooth_hinge", "squared"]
)
def test_every_loss_learns(data: Any, loss: str) -> None:
    X, y, qid = data
    model = rw.LambdaMART(**SMALL, loss=loss).fit(X, y, qid=qid)
    assert model.score(X, y, qid=qid) > 0.85
    assert model.training_bound_ is None


# ---- features ----


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000))
def test_monotone_constraints_hold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    y = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2], [-0.5, 0.5]).astype(float)
    options: Any = {**SMALL, "min_samples_leaf": 2, "n_estimators": 8}
    model = rw.LambdaMART(**options, monotonic_cst=[1, -1, 0]).fit(X, y, qid=np.arange(200) // 20)
    grid = np.linspace(-3, 3, 60)
    for feature, sign in ((0, 1), (1, -1)):
        rows = np.repeat(rng.normal(size=(20, 3)), 60, axis=0)
        rows[:, feature] = np.tile(grid, 20)
        steps = np.diff(model.decision_function(rows).reshape(20, 60), axis=1)
        assert (sign * steps >= -1e-12).all()


def test_a_categorical_split_separates_categories_that_no_threshold_does(data: Any) -> None:
    X, y, qid = data
    options: Any = {**SMALL, "max_leaf_nodes": 2, "n_estimators": 1}
    X = X[:, [3]]
    model = rw.LambdaMART(**options, categorical_features=[0]).fit(X, y, qid=qid)
    high = model.node_level_.tolist()  # one set: every known category is in it
    assert model.node_set_.tolist() == [0, -1, -1]
    assert np.unpackbits(model.node_set_bits_).sum() == len(high)
    scores = dict(zip(range(6), model.decision_function(np.arange(6.0)[:, None]), strict=True))
    assert scores[2] > scores[4]
    assert 2.0 in high
    assert 4.0 not in high
    unknown = model.decision_function([[17.0], [2.5], [-1.0]])
    np.testing.assert_array_equal(unknown, [scores[4]] * 3)  # with those that go low


def test_missing_values_go_the_way_that_gains(data: Any) -> None:
    X, y, qid = data
    model = rw.LambdaMART(**{**SMALL, "n_estimators": 40}).fit(X, y, qid=qid)
    rows = np.zeros((2, 4))
    rows[0, 1] = np.nan
    lacks, has = model.decision_function(rows)
    assert lacks > has


def features_by_branch(model: Any) -> set[frozenset[int]]:
    """The features of each branch of each tree."""
    branches = set()
    waiting = [(int(root), frozenset[int]()) for root in model.root_]
    while waiting:
        node, path = waiting.pop()
        if model.node_feature_[node] < 0:
            branches.add(path)
            continue
        path |= {int(model.node_feature_[node])}
        waiting += [(int(model.node_low_[node]), path), (int(model.node_high_[node]), path)]
    return branches


@pytest.mark.parametrize(
    ("constraint", "groups"),
    [
        ("no_interactions", [{0}, {1}, {2}, {3}]),
        ([{0, 1}], [{0, 1}, {2, 3}]),
        ([[0, 1], [1, 2, 3]], [{0, 1}, {1, 2, 3}]),
    ],
)
def test_interaction_constraints_hold(
    data: Any, constraint: Any, groups: Any, tmp_path: Path
) -> None:
    X, y, qid = data
    model = rw.LambdaMART(**SMALL, interaction_cst=constraint).fit(X, y, qid=qid)
    assert all(any(branch <= group for group in groups) for branch in features_by_branch(model))
    rw.save(model, tmp_path / "model.rw")
    again = rw.load(tmp_path / "model.rw").fit_more(2, X, y, qid=qid)
    np.testing.assert_array_equal(
        again.decision_function(X), model.fit_more(2).decision_function(X)
    )


def test_features_are_found_by_name(data: Any) -> None:
    pandas = pytest.importorskip("pandas")
    X, y, qid = data
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "kind"])
    named: Any = {"categorical_features": ["kind"], "monotonic_cst": {"a": 1}}
    plain: Any = {"categorical_features": [3], "monotonic_cst": [1, 0, 0, 0]}
    one = rw.LambdaMART(**SMALL, **named).fit(frame, y, qid=qid).decision_function(frame)
    two = rw.LambdaMART(**SMALL, **plain).fit(X, y, qid=qid).decision_function(X)
    np.testing.assert_array_equal(one, two)


def test_early_stopping_keeps_the_best_rounds_and_a_callback_ends_training(data: Any) -> None:
    X, y, qid = data
    fit: Any = {"qid": qid[200:], "eval_set": (X[:200], y[:200]), "eval_qid": qid[:200]}
    model = rw.LambdaMART(**{**SMALL, "n_estimators": 200}, early_stopping=5)
    model.fit(X[200:], y[200:], **fit)
    smooth = nearby_means(model.validation_, 0.3)
    assert model.best_iteration_ == int(np.argmax(smooth)) + 1 == len(model.alpha_)
    assert len(model.validation_) >= model.best_iteration_ + 5
    last = [*model.staged_decision_function(X[:200])][-1]
    np.testing.assert_allclose(last, model.decision_function(X[:200]), rtol=1e-12, atol=1e-12)
    value = rw.evaluate(last, y[:200], qid[:200], ["NDCG@10"])["NDCG@10"]
    assert float(value) == pytest.approx(model.validation_[model.best_iteration_ - 1])
    ended = rw.LambdaMART(**SMALL, callbacks=[lambda report: report.number == 4])
    assert ended.fit(X, y, qid=qid).best_iteration_ == 4


def test_it_orders_better_than_one_feature(data: Any) -> None:
    X, y, qid = data
    model = rw.LambdaMART(**SMALL).fit(X[:400], y[:400], qid=qid[:400])
    own = model.score(X[400:], y[400:], qid=qid[400:])
    queries = Grades(y[400:], qid[400:]).queries
    assert own > pairwise_accuracy(X[400:, 0], y[400:], queries, None)[0]


@pytest.mark.parametrize("categorical", [None, [3, 350], np.array([3, 350])])
def test_columns_with_fewer_values_than_a_leaf_has_rows_change_nothing(
    monkeypatch, categorical: Any
) -> None:
    rng = np.random.default_rng(0)
    columns = np.concatenate([rng.integers(0, 6, 800), rng.integers(0, 300, 1600)])
    where = (np.repeat(np.arange(200), 12), columns)
    X = sparse.csr_array((rng.normal(size=2400), where), shape=(200, 400))
    X.data[X.indices == 3] = np.abs(X.data[X.indices == 3]).round()
    y = np.digitize(X[:, [0]].toarray().ravel(), [-0.3, 0.3]).astype(float)
    y += X[:, [3]].toarray().ravel() == 1
    model = rw.LambdaMART(n_estimators=10, min_samples_leaf=8, categorical_features=categorical)
    expected = model.fit(X, y, qid=np.arange(200) // 20).decision_function(X)
    monkeypatch.setattr(checks, "MANY_COLUMNS", 300)
    assert len(checks.used_columns(X, 8)) < 100
    dropped = model.fit(X, y, qid=np.arange(200) // 20).decision_function(X)
    np.testing.assert_array_equal(dropped, expected)
    assert checks.used_columns(X, 201).tolist() == [0]  # one column is left
    model.set_params(n_estimators=15).fit(X, y, qid=np.arange(200) // 20)
    longer = model.decision_function(X)
    for more in ({}, {"X": X, "y": y, "qid": np.arange(200) // 20}):  # trees that know all columns
        model.set_params(n_estimators=10).fit(X, y, qid=np.arange(200) // 20)
        np.testing.assert_array_equal(model.fit_more(5, **more).decision_function(X), longer)
    assert model.n_features_in_ == 400


def test_constraints_may_be_an_array(data: Any) -> None:
    X, y, qid = data
    sign = [1] + [0] * (X.shape[1] - 1)
    as_list = rw.LambdaMART(**SMALL, monotonic_cst=sign).fit(X, y, qid=qid)
    as_array = rw.LambdaMART(**SMALL, monotonic_cst=np.array(sign)).fit(X, y, qid=qid)
    np.testing.assert_array_equal(as_array.decision_function(X), as_list.decision_function(X))


@pytest.mark.parametrize(
    "ranker",
    [
        rw.LambdaMART(n_estimators=10, min_samples_leaf=1, categorical_features=[2]),
        rw.RankBoost(estimator=rw.TreeRanking(min_samples_leaf=1), n_estimators=10),
    ],
)
def test_histograms_of_the_bins_in_use_give_the_same_bits(monkeypatch, ranker: Any) -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (150, 23)).astype(float)  # blocks with few bins, one with many
    X[:, 5], X[:, 9] = rng.normal(size=150), rng.integers(0, 70, 150)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 2] = np.nan_to_num(X[:, 2])
    y, qid = np.nan_to_num(X[:, 5] + X[:, 0]).round(), np.arange(150) // 15
    expected = clone(ranker).fit(X, y, qid=qid)
    monkeypatch.setattr(grower, "MANY_FEATURES", 0)
    narrow = clone(ranker).fit(X, y, qid=qid)
    for name in ("node_feature_", "node_threshold_", "node_default_", "node_value_", "node_gain_"):
        np.testing.assert_array_equal(getattr(narrow, name), getattr(expected, name))
    assert len(np.unique(narrow.decision_function(X))) > 20


def test_histograms_are_estimated_before_they_take_memory() -> None:
    none = np.zeros(1_000_000, np.int64)
    bins = BinnedRows(np.zeros((250_000, 1), np.uint32), none + 255, none, none)
    with pytest.raises(MemoryLimitError, match="histograms of 1,000,000 columns for 3100 leaves"):
        Shared.of(bins, 3100)


# ---- data that are easy to separate ----

EVERY_WEIGHTING = ("NDCG@30", "NDCG", "AP", "ERR", "RR", "grade_difference", None)


@pytest.mark.filterwarnings("ignore::rankwright.exceptions.DegenerateDataWarning")
@pytest.mark.parametrize("weighting", EVERY_WEIGHTING)
@pytest.mark.parametrize("loss", EVERY_LOSS)
@given(st.data())
@settings(max_examples=8)
def test_a_set_that_is_separable_ends_with_finite_scores(
    loss: str, weighting: Any, data: Any
) -> None:
    y = np.array(data.draw(st.lists(st.integers(0, 3), min_size=2, max_size=12)))
    qid = np.arange(len(y)) % data.draw(st.integers(1, 3))
    rate = data.draw(st.sampled_from([0.1, 1.0]))
    options: Any = {"loss": loss, "weighting": weighting, "learning_rate": rate}
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        model = rw.LambdaMART(n_estimators=500, min_samples_leaf=1, **options)
        model.fit(y[:, None].astype(float), y, qid=qid)
    for learned in (model.node_value_, model.node_gain_, model.feature_importances_):
        assert np.isfinite(learned).all()
    assert np.isfinite(model.decision_function(y[:, None].astype(float))).all()


@pytest.mark.parametrize("loss", ["logistic", "fidelity", "squared_hinge"])
@pytest.mark.parametrize("weighting", ["NDCG@30", "AP", "ERR", None])
def test_training_ends_when_no_gradient_is_left(loss: str, weighting: Any) -> None:
    y = np.array([0, 0, 1, 1])
    options: Any = {"loss": loss, "weighting": weighting, "learning_rate": 1.0}
    model = rw.LambdaMART(n_estimators=2000, min_samples_leaf=1, **options).fit(y[:, None], y)
    assert 0 < model.best_iteration_ == len(model.alpha_) < 2000
    assert model.score(y[:, None], y) == 1.0
    more = model.fit_more(10)  # there is nothing to add
    assert more.best_iteration_ == len(more.alpha_) < 2000


def test_the_weight_of_a_nearly_perfect_query_keeps_its_digits() -> None:
    from rankwright.rankers.boosting._kernels.pair_gradients import log_share

    for total in (1e-300, 1e-17, 1e-12, 9.9e-7, 1.1e-6, 1e-3, 1.0, 1e6):
        exact = np.log1p(total) / (total * np.log(2.0))
        assert log_share(total) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("categorical", [None, [2]])
def test_truncated_trees_are_those_of_a_shorter_training(
    categorical: Any, model_bytes: Any
) -> None:
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(400, 4)), np.repeat(np.arange(20), 20)
    X[:, 2] = rng.integers(0, 6, 400)
    y = np.digitize(X[:, 0] + (X[:, 2] == 3), [0, 1])
    how = {"subsample": 0.5, "random_state": 0, "categorical_features": categorical}
    long = rw.LambdaMART(n_estimators=12, **how).fit(X, y, qid=qid)
    for n in (9, 4, 1):
        short = rw.LambdaMART(n_estimators=n, **how).fit(X, y, qid=qid)
        long.truncate(n).set_params(n_estimators=n)
        assert model_bytes(long) == model_bytes(short)
    assert long.truncate(5).best_iteration_ == 1
    with pytest.raises(rw.exceptions.ParameterError):
        long.truncate(-1)
