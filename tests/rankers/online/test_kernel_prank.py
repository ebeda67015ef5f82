"""PRank with kernels: the printed expansion, its explicit form, its budgets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from rankwright import OAPBPM, DataError, KernelPRank, OAPVoting, PRank
from rankwright.rankers.online.support_vectors import BUDGET_RULES
from rankwright.scoring.kernel import Kernel
from rankwright.scoring.transforms import Monomials, Polynomial, kernel_coefficients

ENDLESS = 10**9  # a budget never reached: keeps the support form


def stream(n: int = 200, d: int = 3, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    return X, np.digitize((X**2).sum(axis=1) + 0.1 * rng.normal(size=n), [0.6, 1.0, 1.4]) + 1


def printed(X: Any, y: Any, kernel: Any, k: int) -> tuple[list[int], list[float], Any]:
    """f = sum_t alpha_t K(x_t, .), alpha_t = sum_r a_r, as the papers have it."""
    support, alpha, c = [], [], np.zeros(k - 1)
    for t in range(len(y)):
        score = sum(a * kernel(X[s], X[t]) for s, a in zip(support, alpha, strict=True))
        guess = next((r + 1 for r in range(k - 1) if score - c[r] < 0), k)
        if guess == y[t]:
            continue
        side = np.where(y[t] <= np.arange(1, k), -1, 1)
        step = np.where((score - c) * side <= 0, side, 0)
        c -= step
        support.append(t)
        alpha.append(float(step.sum()))
    return support, alpha, c


KERNELS = {
    "rbf": lambda a, b: np.exp(-0.7 * np.sum((a - b) ** 2)),
    "poly": lambda a, b: (0.7 * a @ b + 1.0) ** 3,
    "linear": lambda a, b: a @ b,
}


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_the_printed_expansion(kernel: str, convert: Any) -> None:
    X, y = stream()
    support, alpha, c = printed(X, y, KERNELS[kernel], 4)
    model = KernelPRank(kernel=kernel, gamma=0.7, budget=ENDLESS).fit(convert(X), y)
    assert not model.explicit_
    assert model.support_.tolist() == support
    np.testing.assert_array_equal(model.dual_coef_, alpha)
    np.testing.assert_array_equal(model.thresholds_, c)
    np.testing.assert_array_equal(model.support_vectors_, X[support])
    wanted = [
        sum(a * KERNELS[kernel](X[s], x) for s, a in zip(support, alpha, strict=True)) for x in X
    ]
    np.testing.assert_allclose(model.decision_function(convert(X)), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_explicit_map_gives_the_scores_of_the_polynomial_kernel(degree: int) -> None:
    X, y = stream(n=500)
    options: Any = {"kernel": "poly", "degree": degree, "gamma": 0.5, "coef0": 1.5}
    mapped, dual = KernelPRank(**options), KernelPRank(**options, budget=ENDLESS)
    mapped.fit(X, y), dual.fit(X, y)
    assert (mapped.explicit_, dual.explicit_) == (True, False)
    assert mapped.n_mistakes_ == dual.n_mistakes_ == len(dual.support_)
    scores = dual.decision_function(X)
    np.testing.assert_allclose(
        mapped.decision_function(X), scores, rtol=1e-10, atol=1e-10 * np.abs(scores).max()
    )
    np.testing.assert_array_equal(mapped.predict(X), dual.predict(X))


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("options", [{"gamma": 1.0}, {"gamma": 0.5, "coef0": 2.0}, {"coef0": 0.0}])
def test_on_whole_numbers_both_forms_have_the_same_thresholds(degree: int, options: Any) -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X, y = rng.integers(-3, 4, (120, 2)).astype(float), rng.integers(0, 4, 120)
        chosen: Any = {"kernel": "poly", "degree": degree, **options}
        mapped = KernelPRank(**chosen).fit(X, y)
        dual = KernelPRank(**chosen, budget=ENDLESS).fit(X, y)
        assert (mapped.explicit_, dual.explicit_) == (True, False)
        np.testing.assert_array_equal(mapped.thresholds_, dual.thresholds_)
        np.testing.assert_array_equal(mapped.decision_function(X), dual.decision_function(X))
        np.testing.assert_array_equal(mapped.predict(X), dual.predict(X))


@pytest.mark.parametrize("kind", [OAPBPM, OAPVoting])
def test_on_whole_numbers_members_of_both_forms_agree(kind: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(-3, 4, (300, 2)).astype(float), rng.integers(0, 4, 300)
    member: Any = {"kernel": "poly", "degree": 2, "gamma": 1.0}
    for n_features in (2, 7):  # both layouts of the members' weights
        rows = rng.integers(-1, 2, (300, n_features)).astype(float)
        rows[:, :2] = X
        forms = [KernelPRank(**member), KernelPRank(**member, budget=ENDLESS)]
        mapped, dual = (
            kind(estimator=form, n_estimators=9, random_state=0).fit(rows, y) for form in forms
        )
        np.testing.assert_array_equal(mapped.members_thresholds_, dual.members_thresholds_)


def test_monomials_with_the_kernel_s_coefficients_are_the_kernel() -> None:
    X = np.random.default_rng(0).integers(-4, 5, (6, 3)).astype(float)
    for degree, gamma, coef0 in ((1, 1.0, 0.0), (2, 0.5, 2.0), (4, 2.0, 1.0)):
        rows = Monomials(3, degree).transform(X)
        products = rows @ (rows * kernel_coefficients(3, degree, gamma, coef0)).T
        np.testing.assert_array_equal(products, (gamma * (X @ X.T) + coef0) ** degree)


def test_the_map_s_products_are_the_kernel() -> None:
    X = np.random.default_rng(0).normal(size=(6, 4))
    for degree, gamma, coef0 in ((1, 1.0, 0.0), (2, 0.5, 2.0), (4, 1.3, 0.7)):
        rows = Polynomial(4, degree, gamma, coef0).transform(X)
        wanted = Kernel("poly", gamma=gamma, degree=degree, coef0=coef0).block(X, X)
        np.testing.assert_allclose(rows @ rows.T, wanted, rtol=1e-12, atol=1e-12)


def test_a_linear_kernel_is_plain_prank() -> None:
    X, y = stream()
    model, plain = KernelPRank(kernel="linear").fit(X, y), PRank().fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_precomputed_values_and_functions_equal_the_named_kernel() -> None:
    X, y = stream()
    kernel = Kernel("rbf", gamma=0.7)
    named = KernelPRank(gamma=0.7).fit(X, y)
    function = KernelPRank(kernel=kernel.block).fit(X, y)
    table = KernelPRank(kernel="precomputed").fit(kernel.block(X, X), y)
    for model, rows in ((function, X), (table, kernel.block(X, X))):
        assert model.support_.tolist() == named.support_.tolist()
        np.testing.assert_allclose(
            model.decision_function(rows), named.decision_function(X), rtol=1e-9, atol=1e-9
        )


def test_a_precomputed_stream_goes_through_its_square_in_chunks() -> None:
    X, y = stream(n=60)
    square = Kernel("rbf", gamma=0.7).block(X, X)
    whole = KernelPRank(kernel="precomputed").fit(square, y)
    parts = KernelPRank(kernel="precomputed")
    for at in range(0, 60, 7):
        classes = np.unique(y) if at == 0 else None
        parts.partial_fit(square[at : at + 7], y[at : at + 7], classes)
    np.testing.assert_array_equal(parts.dual_coef_, whole.dual_coef_)
    with pytest.raises(DataError, match="columns"):
        parts.partial_fit(square[:7], y[:7])
    with pytest.raises(DataError, match="square"):
        KernelPRank(kernel="precomputed").fit(square[:10], y[:10])


@pytest.mark.parametrize("rule", BUDGET_RULES)
@pytest.mark.parametrize("size", [1, 9, 300])
def test_a_budget_bounds_the_support_however_the_stream_is_cut(rule: str, size: int) -> None:
    X, y = stream(n=600)
    options: Any = {"gamma": 1.0, "budget": 15, "budget_rule": rule}
    whole, parts = KernelPRank(**options).fit(X, y), KernelPRank(**options).start(3, np.unique(y))
    for at in range(0, len(y), size):
        parts.partial_fit(X[at : at + size], y[at : at + size])
        assert len(parts.support_) <= 15
    assert whole.n_mistakes_ > 30, "the budget was hardly used"
    for name in ("support_", "dual_coef_", "support_vectors_", "thresholds_"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_the_oldest_rows_go_or_the_lightest() -> None:
    X, y = stream(n=300)
    free = KernelPRank(gamma=1.0).fit(X, y)
    oldest = KernelPRank(gamma=1.0, budget=1, budget_rule="oldest").fit(X, y)
    assert len(free.support_) > 5
    assert oldest.support_[0] == oldest.support_.max()
    gone, instead = BUDGET_RULES["smallest"](np.array([2.0, -1.0, 1.5]), np.diag([1.0, 4.0, 1.0]))
    assert gone == 2
    np.testing.assert_array_equal(instead, 0.0)


def test_projection_onto_the_others_loses_nothing_that_they_can_say() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 3))  # five rows in a space of three: two can be said by the others
    dual = rng.normal(size=5)
    gone, instead = BUDGET_RULES["project"](dual, rows @ rows.T)
    left = np.delete(np.arange(5), gone)
    kept = dual + instead * dual[gone]
    np.testing.assert_allclose(kept[left] @ rows[left], dual @ rows, atol=1e-4)


def test_projection_beats_forgetting() -> None:
    X, y = stream(n=2000)
    loss = {
        rule: np.abs(
            KernelPRank(gamma=1.0, budget=25, budget_rule=rule).partial_fit_predict(X, y) - y
        ).mean()
        for rule in BUDGET_RULES
    }
    assert loss["project"] < min(loss["oldest"], loss["smallest"])


def test_a_row_is_in_the_support_once_after_a_pass() -> None:
    X, y = stream(n=100)
    model = KernelPRank(gamma=1.0, max_iter=4).fit(X, y)
    assert len(np.unique(model.support_)) == len(model.support_) <= 100
    assert model.n_mistakes_ > len(model.support_)


def test_ensembles_take_its_weights_where_it_has_them() -> None:
    X, y = stream()
    base = KernelPRank(kernel="poly", degree=2, gamma=1.0)
    model = OAPBPM(estimator=base, n_estimators=8, random_state=0).fit(X, y)
    rows = Polynomial(3, 2).transform(X)
    wanted = OAPBPM(n_estimators=8, random_state=0).fit(rows, y)
    # The kernel's coefficients are all in the weights, not half in the rows.
    root = np.sqrt(kernel_coefficients(3, 2, 1.0, 1.0))
    np.testing.assert_allclose(model.members_coef_, wanted.members_coef_ * root, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), wanted.predict(rows))


def test_predicting_while_learning_equals_predicting_before_each_row() -> None:
    X, y = stream(n=80)
    slow, wanted = KernelPRank(gamma=1.0, budget=20).start(3, np.unique(y)), []
    for i in range(len(y)):
        wanted.append(slow.predict(X[i : i + 1])[0])
        slow.partial_fit(X[i : i + 1], y[i : i + 1])
    model = KernelPRank(gamma=1.0, budget=20)
    np.testing.assert_array_equal(model.partial_fit_predict(X, y, np.unique(y)), wanted)
