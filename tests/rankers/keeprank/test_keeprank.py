"""KeepRank and OnlineKeepRank against the printed rule, one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankwright import KeepRank, OnlineKeepRank
from rankwright.exceptions import DataError, DegenerateDataWarning
from rankwright.feedback.base import Grades
from rankwright.feedback.clicks import skip_above
from rankwright.feedback.pairs import Pairs
from rankwright.rankers.keeprank.expansion import SupportTable
from rankwright.scoring.kernel import Kernel
from rankwright.testing.inputs import make_problem

PROBLEM = make_problem(n_queries=5, n_items=60, n_features=3)  # 300 rows: more than one block


class Twin:
    """The rule as printed: no blocks, no tricks; every mean is the mean of a list."""

    def __init__(self, K: Any, *, dense: bool, n_levels: int, budget: int = 0) -> None:
        self.K, self.dense, self.budget = K, dense, budget
        self.alpha, self.c = np.zeros(len(K)), np.zeros(n_levels - 1)
        self.history: list[Any] = []
        self.unit = self.length(0)

    def direction(self, p: int) -> Any:
        if self.dense:
            return self.K[p]
        one = np.zeros(len(self.K))
        one[p] = 1.0
        return one

    def length(self, p: int) -> float:
        return float(self.K[p] @ self.K[p] if self.dense else self.K[p, p])

    def grade(self, p: int, code: int, margin: float, step: float) -> None:
        score = self.K[p] @ self.alpha
        if len(self.c) == 0:
            label = 1 if code > 0 else -1
            if label * score <= margin:
                total = step * (margin - label * score) * label
                self.alpha += total * self.direction(p) / self.length(p)
        else:
            labels = np.where(code > np.arange(len(self.c)), 1.0, -1.0)
            lack = labels * np.maximum(margin - labels * (score - self.c), 0)
            length = self.length(p)
            whole = step / (np.count_nonzero(lack) * length + self.unit)
            self.c = self.c - whole * self.unit * lack
            self.alpha += whole * lack.sum() * self.direction(p)
        self.finish()

    def pair(self, up: int, low: int, margin: float, step: float) -> None:
        gap = self.K[up] @ self.alpha - self.K[low] @ self.alpha
        if gap <= margin:
            direction = self.direction(up) - self.direction(low)
            rise = self.K[up] @ direction - self.K[low] @ direction
            self.alpha += step * (margin - gap) * direction / rise
        self.finish()

    def finish(self) -> None:
        while self.budget and np.count_nonzero(self.alpha) > self.budget:
            weights = np.where(self.alpha != 0, np.abs(self.alpha), np.inf)
            self.alpha[np.argmin(weights)] = 0.0
        self.history.append((self.alpha.copy(), self.c.copy()))

    def mean(self) -> tuple[Any, Any]:
        alphas, thresholds = zip(*self.history, strict=True)
        return np.mean(alphas, axis=0), np.mean(thresholds, axis=0)


def kernel_of(model: Any, X: Any) -> Any:
    return model._kernel().block(X, X)


@pytest.mark.parametrize("make", [KeepRank, OnlineKeepRank])
@pytest.mark.parametrize("levels, n_levels", [("binary", 1), ("ordinal", 3)])
@pytest.mark.parametrize("average", [True, False])
def test_blocks_equal_one_row_at_a_time(
    make: Any, levels: str, n_levels: int, average: bool
) -> None:
    model = make(levels=levels, average=average, max_iter=2, learning_rate=0.4).fit(
        PROBLEM.X, PROBLEM.y
    )
    K = kernel_of(model, PROBLEM.X)
    twin = Twin(K, dense=make is KeepRank, n_levels=n_levels)
    for _ in range(2):
        for p, grade in enumerate(PROBLEM.y):
            twin.grade(p, int(grade), 1.0, 0.4)
    alpha, thresholds = twin.mean() if average else (twin.alpha, twin.c)
    np.testing.assert_allclose(model.decision_function(PROBLEM.X), K @ alpha, atol=1e-9)
    np.testing.assert_allclose(model.thresholds_, thresholds, atol=1e-9)


@pytest.mark.parametrize("make", [KeepRank, OnlineKeepRank])
@pytest.mark.parametrize("kernel", ["poly", "linear"])
def test_other_kernels_equal_one_row_at_a_time(make: Any, kernel: str) -> None:
    model = make(kernel=kernel, gamma=0.5, max_iter=1).fit(PROBLEM.X, PROBLEM.y)
    K = kernel_of(model, PROBLEM.X)
    twin = Twin(K, dense=make is KeepRank, n_levels=1)
    for p, grade in enumerate(PROBLEM.y):
        twin.grade(p, int(grade), 1.0, 0.1)
    np.testing.assert_allclose(model.decision_function(PROBLEM.X), K @ twin.mean()[0], atol=1e-9)


@pytest.mark.parametrize("make", [KeepRank, OnlineKeepRank])
def test_pairs_equal_one_pair_at_a_time(make: Any) -> None:
    rng = np.random.default_rng(4)
    pairs = Pairs(*np.array([rng.permutation(300)[:2] for _ in range(500)]).T)
    model = make(learning_rate=0.5, max_iter=1).fit_feedback(PROBLEM.X, pairs)
    K = kernel_of(model, PROBLEM.X)
    twin = Twin(K, dense=make is KeepRank, n_levels=1)
    for up, low in zip(pairs.upper, pairs.lower, strict=True):
        twin.pair(up, low, 1.0, 0.5)
    np.testing.assert_allclose(model.decision_function(PROBLEM.X), K @ twin.mean()[0], atol=1e-9)


@pytest.mark.parametrize("make", [KeepRank, OnlineKeepRank])
def test_clicks_teach_the_order_of_what_was_clicked(make: Any) -> None:
    X = [[0.0], [1.0], [2.0], [3.0]]
    clicks = skip_above(rows=[3, 2, 0, 1], clicked=[0, 0, 0, 1])
    scores = make(max_iter=20).fit_feedback(X, clicks).decision_function(X)
    assert scores[1] > max(scores[0], scores[2], scores[3])


def test_a_budget_drops_the_weakest_row_at_every_visit() -> None:
    model = OnlineKeepRank(budget=25, average=False, learning_rate=0.5).fit(PROBLEM.X, PROBLEM.y)
    K = kernel_of(model, PROBLEM.X)
    twin = Twin(K, dense=False, n_levels=1, budget=25)
    for p, grade in enumerate(PROBLEM.y):
        twin.grade(p, int(grade), 1.0, 0.5)
    assert len(model.support_) == 25
    np.testing.assert_allclose(model.decision_function(PROBLEM.X), K @ twin.alpha, atol=1e-9)


@pytest.mark.parametrize("budget", [None, 40])
def test_a_stream_in_pieces_equals_one_pass(budget: int | None) -> None:
    whole = OnlineKeepRank(levels="ordinal", budget=budget).fit(PROBLEM.X, PROBLEM.y)
    stream = OnlineKeepRank(levels="ordinal", budget=budget)
    for part in np.array_split(np.arange(300), 23):
        stream.partial_fit(PROBLEM.X[part], PROBLEM.y[part], classes=[0, 1, 2])
    found, wanted = stream.decision_function(PROBLEM.X), whole.decision_function(PROBLEM.X)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert stream.n_seen_ == 300


@pytest.mark.parametrize("make", [KeepRank, OnlineKeepRank])
@pytest.mark.parametrize("levels", ["binary", "ordinal"])
def test_a_row_of_weight_two_is_shown_twice(make: Any, levels: str) -> None:
    weight = np.random.default_rng(1).integers(0, 3, 300)
    copies = np.repeat(np.arange(300), weight)
    wanted = make(levels=levels).fit(PROBLEM.X[copies], PROBLEM.y[copies])
    found = make(levels=levels).fit_feedback(PROBLEM.X, Grades(PROBLEM.y, sample_weight=weight))
    if make is KeepRank:
        np.testing.assert_allclose(
            found.decision_function(PROBLEM.X), wanted.decision_function(PROBLEM.X), atol=1e-9
        )
    else:  # a copy is another row to the stream: one pass, then it is the same
        one = make(levels=levels, max_iter=1)
        np.testing.assert_allclose(
            one.fit_feedback(PROBLEM.X, Grades(PROBLEM.y, sample_weight=weight)).decision_function(
                PROBLEM.X
            ),
            wanted.decision_function(PROBLEM.X),
            atol=1e-9,
        )


def test_thresholds_stay_sorted_after_every_row() -> None:
    stream = OnlineKeepRank(levels="ordinal", learning_rate=1.0, gamma=2.5, average=False)
    y = np.random.default_rng(0).integers(0, 6, 300)
    for row, grade in zip(PROBLEM.X, y, strict=True):
        stream.partial_fit(row[None], [grade], classes=range(6))
        assert (np.diff(stream.last_thresholds_) >= 0).all()


def test_single_precision_is_close_to_double() -> None:
    problem = make_problem(n_queries=12, n_items=100, n_features=8)  # 1,200 rows: float32 inside
    model = OnlineKeepRank(average=False).fit(problem.X, problem.y)
    K = kernel_of(model, problem.X)
    twin = Twin(K, dense=False, n_levels=1)
    for p, grade in enumerate(problem.y):
        twin.grade(p, int(grade), 1.0, 0.1)
    size = K @ np.abs(twin.alpha)
    error = np.abs(model.decision_function(problem.X) - K @ twin.alpha) / size
    assert error.max() < 1e-5


@pytest.mark.parametrize("n", [5, 2000])
def test_kernel_values_in_single_precision_equal_those_in_double(n: int) -> None:
    rng = np.random.default_rng(0)
    rows, others = rng.normal(size=(7, 5)), rng.normal(size=(n, 5)) * 3
    kernel = Kernel("rbf", gamma=0.7)
    support = SupportTable.of(kernel, others, 5000, others[:0])
    wanted = kernel.block(rows, others)
    np.testing.assert_allclose(
        support.kernel_with(support.cast(rows)), wanted, rtol=2e-4, atol=1e-6
    )
    coef = rng.normal(size=n)
    found = support.scores(support.cast(rows), coef)
    np.testing.assert_allclose(found, wanted @ coef, atol=1e-5 * np.abs(coef).sum())


def test_a_dense_step_of_one_meets_the_margin_at_once() -> None:
    model = KeepRank(learning_rate=1.0, max_iter=1, average=False).fit([[0.0], [1.0]], [0, 1])
    assert model.decision_function([[1.0]])[0] == pytest.approx(1.0)


def test_it_stops_when_the_error_is_small_enough() -> None:
    X, y = [[0.0], [5.0]], [0, 1]
    assert KeepRank(max_iter=500, tol=0.01).fit(X, y).n_iter_ < 50
    assert KeepRank(max_iter=3).fit(X, y).n_iter_ == 3


def test_default_steps_are_steady_from_pass_to_pass() -> None:
    """Averaged small steps: one pass more changes the order of the training rows very little."""
    scores = [KeepRank(max_iter=n).fit(PROBLEM.X, PROBLEM.y) for n in (5, 6)]
    one, other = (model.score(PROBLEM.X, PROBLEM.y) for model in scores)
    assert abs(one - other) < 0.01


def test_a_refused_first_call_begins_nothing() -> None:
    stream = OnlineKeepRank()
    with pytest.raises(DataError, match="grade 2 was not declared"):
        stream.partial_fit([[0.0], [1.0]], [0, 2], classes=[0, 1])
    stream.partial_fit([[0.0, 1.0], [1.0, 0.0]], [0, 2], classes=[0, 1, 2])
    assert stream.classes_.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(DataError, match="finite numbers"):
        OnlineKeepRank().partial_fit([[0.0]], [0], classes=[0, np.nan])


@pytest.mark.parametrize("make", [KeepRank, OnlineKeepRank])
@pytest.mark.parametrize("kernel, gamma", [("rbf", 10.0), ("rbf", 0.01), ("poly", 1.0)])
def test_thresholds_do_not_drift_away(make: Any, kernel: str, gamma: float) -> None:
    """Kernel columns of very different lengths; a step is at most the margin it repairs."""
    X = PROBLEM.X * np.linspace(0.01, 2.0, 300)[:, None]
    model = make(kernel=kernel, gamma=gamma, levels="ordinal", max_iter=10).fit(X, PROBLEM.y)
    assert np.abs(model.thresholds_).max() < 20
    assert model.score(X, PROBLEM.y, PROBLEM.qid) > 0.6


def test_ordinal_models_predict_grades() -> None:
    X = np.linspace(0, 3, 31)[:, None]
    y = np.digitize(X[:, 0], [1.0, 2.0]).astype(float) * 10
    model = KeepRank(levels="ordinal", max_iter=100, gamma=5 / 3).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.9


@pytest.mark.parametrize("levels", ["binary", "ordinal"])
@pytest.mark.parametrize("kind", [KeepRank, OnlineKeepRank])
def test_one_single_grade_gives_equal_scores_and_a_warning(kind: Any, levels: str) -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.warns(DegenerateDataWarning, match="no preference"):
        model = kind(levels=levels).fit(X, np.ones(12))
    assert np.unique(model.decision_function(X)).tolist() == [0.0]
    if kind is OnlineKeepRank:
        with pytest.warns(DegenerateDataWarning, match="only one grade"):
            model = kind(levels=levels).partial_fit(X, np.ones(12))
        assert np.unique(model.decision_function(X)).tolist() == [0.0]


@pytest.mark.parametrize(("kernel", "scale"), [("rbf", 1e20), ("poly", 1e10)])
def test_large_features_do_not_overflow_single_precision(kernel: str, scale: float) -> None:
    rng = np.random.default_rng(0)  # more than 1,024 rows: Gaussian kernels are single if they fit
    X, y = scale * rng.normal(size=(1100, 3)), rng.integers(0, 2, 1100)
    model = OnlineKeepRank(kernel=kernel, degree=2).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


def test_n_components_gives_nearly_the_same_scores_with_few_support_rows():
    rng = np.random.default_rng(0)
    X, y, weight = rng.random((400, 5)), rng.integers(0, 3, 400), rng.integers(0, 3, 400)
    grades = Grades(y, sample_weight=weight)
    new = rng.random((300, 5))
    for how in ({}, {"levels": "ordinal", "average": False}):
        whole = KeepRank(gamma=1.0, **how).fit_feedback(X, grades)
        expected = whole.decision_function(new)
        for n, error in ((60, 0.02), (400, 1e-4)):
            small = KeepRank(gamma=1.0, n_components=n, **how).fit_feedback(X, grades)
            assert small.support_.shape[0] <= n
            assert np.var(small.decision_function(new) - expected) < error * np.var(expected)
