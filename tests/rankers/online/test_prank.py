"""PRank against the algorithm as printed, and against what its paper proves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse

from rankwright import DataError, PRank
from rankwright.exceptions import DegenerateDataWarning
from rankwright.feedback.base import Grades

UPDATES = ["perceptron", "romma", "mira", "alma"]


def stream(n: int = 400, d: int = 5, k: int = 5, noise: float = 0.4, seed: int = 0) -> Any:
    """Rows whose products are whole multiples of 1/64: exact in any order of summation."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-16, 17, size=(n, d)) / 8.0
    latent = X @ rng.normal(size=d) + noise * rng.normal(size=n)
    return X, 1 + np.searchsorted(np.quantile(latent, np.arange(1, k) / k), latent)


class PrintedPRank:
    """Algorithm 1 of the OAP-BPM paper, line by line (ranks 1 .. k)."""

    def __init__(self, d: int, k: int) -> None:
        self.k, self.w, self.c = k, [0.0] * d, [0.0] * (k - 1)
        self.loss = self.mistakes = 0

    def predict(self, x: Any) -> int:
        score = sum(a * b for a, b in zip(self.w, x, strict=True))
        for r in range(1, self.k):
            if score - self.c[r - 1] < 0:
                return r
        return self.k

    def update(self, x: Any, y: int) -> None:
        guess = self.predict(x)
        if guess == y:
            return
        self.mistakes += 1
        self.loss += abs(guess - y)
        score = sum(a * b for a, b in zip(self.w, x, strict=True))
        labels = [-1 if y <= r else 1 for r in range(1, self.k)]
        a = [
            label if (score - c) * label <= 0 else 0
            for label, c in zip(labels, self.c, strict=True)
        ]
        self.w = [w + sum(a) * value for w, value in zip(self.w, x, strict=True)]
        self.c = [c - step for c, step in zip(self.c, a, strict=True)]


def printed(X: Any, y: Any) -> tuple[PrintedPRank, list[PrintedPRank]]:
    from copy import deepcopy

    twin, rounds = PrintedPRank(X.shape[1], len(np.unique(y))), []
    for x, grade in zip(X.tolist(), y.tolist(), strict=True):
        twin.update(x, grade)
        rounds.append(deepcopy(twin))
    return twin, rounds


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_it_is_the_printed_algorithm(convert: Any) -> None:
    X, y = stream()
    twin, _ = printed(X, y)
    model = PRank().fit(convert(X), y)
    np.testing.assert_array_equal(model.coef_, twin.w)
    np.testing.assert_array_equal(model.thresholds_, twin.c)
    assert (model.n_mistakes_, model.n_seen_) == (twin.mistakes, len(y))
    np.testing.assert_array_equal(model.predict(convert(X)), [twin.predict(x) for x in X])


def test_the_average_is_the_mean_of_the_rules_after_each_round() -> None:
    X, y = stream()
    _, rounds = printed(X, y)
    model = PRank(average=True).fit(X, y)
    np.testing.assert_allclose(model.coef_, np.mean([r.w for r in rounds], axis=0), rtol=1e-12)
    np.testing.assert_allclose(
        model.thresholds_, np.mean([r.c for r in rounds], axis=0), rtol=1e-12
    )
    np.testing.assert_array_equal(model.last_coef_, rounds[-1].w)


def test_several_passes_show_all_rows_again() -> None:
    X, y = stream()
    twin, _ = printed(np.vstack([X, X]), np.concatenate([y, y]))
    np.testing.assert_array_equal(PRank(max_iter=2).fit(X, y).coef_, twin.w)


def test_shuffling_shows_the_rows_in_the_order_that_the_seed_says() -> None:
    X, y = stream()
    order = np.random.RandomState(3).permutation(len(y))
    shuffled = PRank(shuffle=True, random_state=3).fit(X, y)
    np.testing.assert_array_equal(shuffled.coef_, PRank().fit(X[order], y[order]).coef_)


@given(st.integers(0, 10_000), st.integers(2, 7), st.sampled_from(UPDATES))
def test_thresholds_stay_sorted_after_every_round(seed: int, k: int, update: str) -> None:
    X, y = stream(n=60, d=3, k=k, noise=2.0, seed=seed)
    model = PRank(update=update)
    for i in range(len(y)):
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=np.unique(y) if i == 0 else None)
        assert (np.diff(model.thresholds_) >= 0).all()


def separable(seed: int, k: int = 4, n: int = 300, d: int = 4) -> tuple[Any, Any, float, float]:
    """Rows, ranks, and (R, gamma) for a unit-length rule that separates them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    rule = np.append(rng.normal(size=d), np.sort(rng.normal(size=k - 1)))
    rule /= np.linalg.norm(rule)
    gaps = (X @ rule[:d])[:, None] - rule[d:]
    keep = np.abs(gaps).min(axis=1) > 0.05
    X, gaps = X[keep], gaps[keep]
    return X, 1 + (gaps > 0).sum(axis=1), np.linalg.norm(X, axis=1).max(), np.abs(gaps).min()


@pytest.mark.parametrize("seed", range(6))
def test_the_rank_loss_on_separable_rows_keeps_the_bound_of_the_paper(seed: int) -> None:
    X, y, longest, margin = separable(seed)
    model, loss = PRank().start(X.shape[1], np.unique(y)), 0.0
    for _ in range(30):
        loss += np.abs(model.partial_fit_predict(X, y) - y).sum()
    assert 0 < loss <= (len(np.unique(y)) - 1) * (longest**2 + 1) / margin**2


@pytest.mark.parametrize("seed", range(6))
def test_romma_makes_at_most_the_mistakes_that_its_derivation_allows(seed: int) -> None:
    X, y, longest, margin = separable(seed)
    model = PRank(update="romma", max_iter=30).fit(X, y)
    assert model.n_mistakes_ <= (longest**2 + 1) / margin**2


def test_romma_keeps_every_separating_rule_in_its_half_space_and_grows_with_each_mistake() -> None:
    X, y, longest, _ = separable(1)
    perfect = PRank(update="romma", max_iter=2000).fit(X, y)
    gaps = (X @ perfect.coef_)[:, None] - perfect.thresholds_
    sides = np.where(y[:, None] > np.arange(1, 4), 1, -1)
    least = (gaps * sides).min()
    assert least > 0, "2000 passes did not separate a separable set"
    u = np.append(perfect.coef_, -perfect.thresholds_) / least  # margin 1
    model, before = PRank(update="romma").start(X.shape[1], np.unique(y)), 0.0
    for i in range(len(y)):
        wrong = model.n_mistakes_
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        v = np.append(model.coef_, -model.thresholds_)
        assert u @ v >= v @ v - 1e-9 * (u @ u)
        if model.n_mistakes_ > wrong:
            assert v @ v >= before + 1 / (longest**2 + 1) - 1e-9
        before = v @ v


def test_romma_puts_the_row_right_by_the_mean_margin_it_asks_for() -> None:
    model = PRank(update="romma").start(2, [1, 2])
    model.partial_fit([[1.0, 0.5]], [1])
    assert model.coef_ @ [1.0, 0.5] - model.thresholds_[0] == pytest.approx(-1.0)
    model.partial_fit([[1.0, -0.5]], [2])
    assert model.coef_ @ [1.0, -0.5] - model.thresholds_[0] == pytest.approx(1.0)


def test_romma_passes_over_a_row_that_contradicts_it_outright() -> None:
    model = PRank(update="romma").start(1, [1, 2]).partial_fit([[1.0]], [1])
    before = model.coef_.copy()
    model.partial_fit([[1.0]], [2])
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_mistakes_ == 2


def test_romma_stays_finite_on_a_long_noisy_stream() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    model = PRank(update="romma", average=True).fit(X, rng.integers(1, 6, len(X)))
    assert np.isfinite(model.last_coef_).all()
    assert model.margin_ < 1.0, "the rule never had to be scaled down: the test tests nothing"
    assert np.isfinite(model.coef_).all()


def sides(y: Any, k: int) -> Any:
    """+1 where the grade (1 .. k) lies above the threshold, else -1."""
    return np.where(np.reshape(y, (-1, 1)) > np.arange(1, k), 1.0, -1.0)


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_mira_takes_the_steps_of_its_quadratic_program(C: float) -> None:
    X, y = stream(n=80, d=3, k=5, noise=2.0)
    X[7] = 0.0
    model, v = PRank(update="mira", C=C).start(3, np.unique(y)), np.zeros(7)
    for x, grade, side in zip(X, y, sides(y, 5), strict=True):
        Z = side[:, None] * np.hstack([np.tile(x, (4, 1)), np.eye(4)])
        factor = np.linalg.cholesky(Z @ Z.T)
        # 1/2 |v + Z'a|^2 - sum a, as least squares in a
        target = np.linalg.solve(factor, 1.0 - Z @ v)
        steps = optimize.lsq_linear(factor.T, target, bounds=(0.0, C), method="bvls", tol=1e-14).x
        v = v + Z.T @ steps
        model.partial_fit(x[None], [grade])
        np.testing.assert_allclose(np.append(model.coef_, -model.thresholds_), v, atol=1e-9)
    assert 0 < model.n_corrections_ <= len(y)


def test_mira_with_two_grades_is_the_passive_aggressive_step() -> None:
    model = PRank(update="mira", C=10.0).start(2, [1, 2]).partial_fit([[3.0, 4.0]], [2])
    step = 1.0 / 26.0  # margin 1, squared length 25 + 1
    np.testing.assert_allclose(model.coef_, [3.0 * step, 4.0 * step])
    np.testing.assert_allclose(model.thresholds_, [-step])
    assert model.partial_fit([[6.0, 8.0]], [2]).n_corrections_ == 1, "margin 1 is enough"


def test_alma_is_the_published_algorithm_on_the_mean_of_the_near_thresholds() -> None:
    X, y = stream(n=200, d=4, k=4, noise=1.0)
    alpha, k, w, c = 0.8, 1, np.zeros(4), np.zeros(3)
    for x, side in zip(X, sides(y, 4), strict=True):
        length = np.sqrt(x @ x + 1.0)
        near = side * (w @ x - c) / length <= (1 - alpha) * np.sqrt(8.0) / alpha / np.sqrt(k)
        if not near.any():
            continue
        step = np.sqrt(2.0) / np.sqrt(k) / near.sum() / length
        w, c = w + step * side[near].sum() * x, np.sort(c - step * side * near)
        size = max(1.0, np.sqrt(w @ w + c @ c))
        w, c, k = w / size, c / size, k + 1
    model = PRank(update="alma", alpha=alpha).fit(X, y)
    np.testing.assert_allclose(model.coef_, w, atol=1e-12)
    np.testing.assert_allclose(model.thresholds_, c, atol=1e-12)
    assert model.n_corrections_ == k - 1


@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_alma_keeps_its_bound_and_reaches_its_margin(seed: int, alpha: float) -> None:
    X, y, _, _ = separable(seed)
    reach = np.sqrt((X * X).sum(axis=1) + 1.0)[:, None]
    rng = np.random.default_rng(seed)  # the rule of ``separable``
    rng.normal(size=(300, 4))
    rule = np.append(rng.normal(size=4), np.sort(rng.normal(size=3)))
    rule /= np.linalg.norm(rule)
    gamma = (np.abs((X @ rule[:4])[:, None] - rule[4:]) / reach).min()
    model, before = PRank(update="alma", alpha=alpha).start(4, range(1, 5)), -1
    while before != model.n_corrections_:
        before = model.n_corrections_
        model.partial_fit(X, y)
    assert model.n_corrections_ <= 2 / gamma**2 * (2 / alpha - 1) ** 2 + 8 / alpha - 4
    gaps = sides(y, 4) * ((X @ model.coef_)[:, None] - model.thresholds_) / reach
    assert gaps.min() / np.hypot(*map(np.linalg.norm, (model.coef_, model.thresholds_))) >= (
        (1 - alpha) * gamma
    )


@pytest.mark.parametrize("update", ["mira", "alma"])
def test_large_margin_updates_average_their_models(update: str) -> None:
    X, y = stream(n=50)
    model, rules = PRank(update=update).start(5, np.unique(y)), []
    for i in range(len(y)):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        rules.append(np.append(model.coef_, model.thresholds_))
    mean = PRank(update=update, average=True).fit(X, y)
    found = np.append(mean.coef_, mean.thresholds_)
    np.testing.assert_allclose(found, np.mean(rules, axis=0), atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [{}, {"average": True}, {"update": "romma"}, {"update": "mira"}, {"update": "alma"}],
    ids=str,
)
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@given(st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_any_cutting_of_the_stream_gives_the_same_bits(
    options: Any, convert: Any, sizes: list[int]
) -> None:
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(sum(sizes), 11)), rng.integers(0, 4, sum(sizes))
    rows = convert(X)
    whole = PRank(**options).start(11, range(4)).partial_fit(rows, y)
    parts, at = PRank(**options).start(11, range(4)), 0
    for size in sizes:
        parts.partial_fit(rows[at : at + size], y[at : at + size])
        at += size
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    np.testing.assert_array_equal(parts.thresholds_, whole.thresholds_)


@pytest.mark.parametrize(
    "options", [{"average": mean, "update": name} for mean in (False, True) for name in UPDATES]
)
def test_predicting_while_learning_equals_predicting_before_each_row(options: Any) -> None:
    X, y = stream(n=120)
    slow, wanted = PRank(**options).start(5, np.unique(y)), []
    for i in range(len(y)):
        wanted.append(slow.predict(X[i : i + 1])[0])
        slow.partial_fit(X[i : i + 1], y[i : i + 1])
    found = PRank(**options).partial_fit_predict(X, y, classes=np.unique(y))
    np.testing.assert_array_equal(found, wanted)


def test_a_grade_may_come_late_when_it_was_declared() -> None:
    model = PRank().partial_fit([[1.0]], [2], classes=[1, 2, 3]).partial_fit([[9.0]], [3])
    assert model.classes_.tolist() == [1, 2, 3]


def test_a_first_call_that_is_refused_begins_nothing() -> None:
    model = PRank()
    with pytest.raises(DataError, match="grade 3 was not declared"):
        model.partial_fit([[1.0]], [3], classes=[1, 2])
    assert not hasattr(model, "classes_")
    with pytest.raises(DataError, match="finite numbers"):
        model.partial_fit([[1.0]], [1], classes=[1, np.nan])
    assert model.partial_fit([[1.0]], [3], classes=[1, 2, 3]).n_seen_ == 1


def test_grades_keep_their_own_values() -> None:
    X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    model = PRank(max_iter=50).fit(X, [-1.5, 0.25, 10.0])
    assert model.predict(X).tolist() == [-1.5, 0.25, 10.0]
    np.testing.assert_array_equal(model.predict_expected(X), model.predict(X))


def test_one_grade_is_predicted_with_a_warning() -> None:
    with pytest.warns(DegenerateDataWarning, match="only one grade"):
        model = PRank().fit([[1.0], [2.0]], [3, 3])
    assert model.predict([[5.0]]).tolist() == [3.0]


def test_whole_weights_of_a_feedback_show_rows_so_many_times() -> None:
    X, y = stream(n=30)
    times = np.random.default_rng(0).integers(0, 3, 30)
    model = PRank().fit_feedback(X, Grades(y, sample_weight=times))
    copies = PRank().fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_array_equal(model.coef_, copies.coef_)
    with pytest.raises(DataError, match="weights must be integers"):
        PRank().fit_feedback(X, Grades(y, sample_weight=times + 0.5))


def test_values_whose_products_overflow_are_refused() -> None:
    X = np.array([[1e300, 1e300], [-1e300, -1e300], [1e300, 1e300]])
    with pytest.raises(DataError, match="column 0 holds"):
        PRank().fit(X, [1, 3, 2])


def test_a_bad_row_on_the_fast_path_is_refused_by_name_and_changes_nothing() -> None:
    X, y = stream(n=20)
    model = PRank().fit(X, y)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full((1, 5), np.nan), [1])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(np.ones((1, 4)), [1])
    np.testing.assert_array_equal(model.coef_, before)


def test_learning_goes_on_after_a_copy_with_read_only_arrays() -> None:
    X, y = stream(n=40)
    frozen = PRank().fit(X[:20], y[:20])
    for array in (frozen.coef_, frozen.thresholds_):
        array.setflags(write=False)
    whole = PRank().partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    np.testing.assert_array_equal(frozen.partial_fit(X[20:], y[20:]).coef_, whole.coef_)
