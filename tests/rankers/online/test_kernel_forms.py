"""Budgets, averages and votes of kernel PRank against a plain twin that writes everything out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankwright import OAPBPM, KernelPRank, ParameterError, PRank, VotedPRank

GAMMA = 0.8


def stream(n: int = 120, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, np.digitize((X**2).sum(axis=1) + 0.1 * rng.normal(size=n), [0.4, 0.8]) + 1


def gram(A: Any, B: Any) -> Any:
    return np.exp(-GAMMA * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def row_to_drop(coef: Any, K: Any, rule: str) -> tuple[int, Any]:
    """The row, and the combination of the others in its place: by least squares, row by row."""
    n = len(K)
    if rule == "oldest":
        return 0, np.zeros(n)
    if rule == "smallest":
        return int(np.argmin(np.abs(coef).sum(axis=1) * np.sqrt(np.diag(K)))), np.zeros(n)
    best = (np.inf, 0, np.zeros(n))
    for p in range(n):
        others = np.delete(np.arange(n), p)
        weights = np.linalg.solve(K[np.ix_(others, others)], K[others, p])
        distance = K[p, p] - weights @ K[others, p]  # squared, of row p to the others' span
        loss = (coef[p] ** 2).sum() * distance
        if loss < best[0]:
            instead = np.zeros(n)
            instead[others] = weights
            best = (loss, p, instead)
    return best[1], best[2]


class Twin:
    """Kernel PRank with every model it went through, and the sum of these, on one support."""

    def __init__(self, k: int, budget: int | None, rule: str, by_all: bool) -> None:
        self.k, self.budget, self.rule, self.by_all = k, budget, rule, by_all
        self.numbers: list[int] = []
        self.coef = np.zeros((0, 2))  # present model, sum over time, then one column a past model
        self.c, self.c_sum = np.zeros(k - 1), np.zeros(k - 1)
        self.past_c: list[Any] = []
        self.votes: list[int] = []
        self.survived = 1

    def learn(self, X: Any, t: int, grade: int) -> None:
        values = gram(X[self.numbers], X[t : t + 1])[:, 0] if self.numbers else np.zeros(0)
        score = float(values @ self.coef[:, 0])
        if 1 + int((self.c <= score).sum()) == grade:
            self.survived += 1
        else:
            self.past_c.append(self.c.copy())
            self.votes.append(self.survived)
            self.coef = np.column_stack([self.coef, self.coef[:, 0]])
            self.survived = 1
            side = np.where(grade <= np.arange(1, self.k), -1, 1)
            step = np.where((score - self.c) * side <= 0, side, 0)
            self.c = self.c - step
            self.numbers.append(t)
            new = np.zeros((1, self.coef.shape[1]))
            new[0, 0] = step.sum()
            self.coef = np.vstack([self.coef, new])
            if self.budget is not None and len(self.numbers) > self.budget:
                self.drop(X)
        self.coef[:, 1] += self.coef[:, 0]
        self.c_sum += self.c

    def drop(self, X: Any) -> None:
        rows = X[self.numbers]
        chosen = np.delete(self.coef, 1, axis=1) if self.by_all else self.coef[:, :1]
        p, instead = row_to_drop(chosen, gram(rows, rows), self.rule)
        self.coef = np.delete(self.coef + np.outer(instead, self.coef[p]), p, axis=0)
        del self.numbers[p]


def twin(X: Any, y: Any, budget: int | None, rule: str = "project", by_all: bool = False) -> Twin:
    model = Twin(3, budget, rule, by_all)
    for t in range(len(y)):
        model.learn(X, t, int(y[t]))
    return model


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", ["project", "smallest", "oldest"])
def test_a_budget_drops_what_the_twin_drops(rule: str, seed: int) -> None:
    X, y = stream(seed=seed)
    wanted = twin(X, y, 12, rule)
    model = KernelPRank(gamma=GAMMA, budget=12, budget_rule=rule).fit(X, y)
    assert model.support_.tolist() == wanted.numbers
    np.testing.assert_allclose(model.dual_coef_, wanted.coef[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(model.thresholds_, wanted.c)


@pytest.mark.parametrize("rule", ["project", "smallest", "oldest"])
@pytest.mark.parametrize("budget", [None, 12])
def test_the_average_is_the_mean_of_all_models(budget: int | None, rule: str) -> None:
    X, y = stream()
    wanted = twin(X, y, budget, rule)
    options: Any = {"gamma": GAMMA, "budget": budget, "budget_rule": rule}
    model = KernelPRank(**options, average=True).fit(X, y)
    assert model.support_.tolist() == wanted.numbers
    np.testing.assert_allclose(model.dual_coef_, wanted.coef[:, 1] / len(y), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.thresholds_, wanted.c_sum / len(y))
    np.testing.assert_array_equal(model.last_thresholds_, wanted.c)
    np.testing.assert_array_equal(
        model.last_thresholds_, KernelPRank(**options).fit(X, y).thresholds_
    )


@pytest.mark.parametrize("rule", ["project", "smallest"])
@pytest.mark.parametrize("budget", [None, 12])
def test_every_kernel_model_votes_with_the_rows_it_survived(budget: int | None, rule: str) -> None:
    X, y = stream()
    wanted = twin(X, y, budget, rule, by_all=True)
    model = VotedPRank(kernel="rbf", gamma=GAMMA, budget=budget, budget_rule=rule).fit(X, y)
    assert model.support_.tolist() == wanted.numbers
    assert model.rules_votes_.tolist() == wanted.votes
    np.testing.assert_allclose(model.rules_dual_coef_, wanted.coef[:, 2:], rtol=1e-5, atol=1e-6)
    scores = gram(X, X[wanted.numbers]) @ np.column_stack([wanted.coef[:, 2:], wanted.coef[:, :1]])
    thresholds = np.array([*wanted.past_c, wanted.c])
    grades = 1 + (scores[:, :, None] >= thresholds).sum(axis=2)
    votes = np.array([*wanted.votes, wanted.survived])
    np.testing.assert_allclose(model.predict_expected(X), grades @ votes / votes.sum())


VARIANTS: dict[str, Any] = {
    "average": KernelPRank(gamma=GAMMA, average=True),
    "average, budget": KernelPRank(gamma=GAMMA, average=True, budget=9),
    "average, monomials": KernelPRank(kernel="poly", degree=2, gamma=1.0, average=True),
    "votes": VotedPRank(kernel="rbf", gamma=GAMMA),
    "votes, budget": VotedPRank(kernel="rbf", gamma=GAMMA, budget=9, max_rules=4),
    "votes, monomials": VotedPRank(kernel="poly", degree=2, gamma=1.0, max_rules=4),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_predicting_while_learning_in_chunks_equals_row_by_row(name: str) -> None:
    X, y = stream(n=60)
    base = VARIANTS[name]
    slow, whole = type(base)(**base.get_params()), type(base)(**base.get_params())
    slow.start(2, [1, 2, 3])
    wanted = []
    for i in range(len(y)):
        wanted.append(slow.predict_expected(X[i : i + 1])[0])
        slow.partial_fit(X[i : i + 1], y[i : i + 1])
    parts = [slice(0, 25), slice(25, 60)]
    found = [
        whole.partial_fit_predict(X[part], y[part], [1, 2, 3], expected=True) for part in parts
    ]
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=1e-12)
    np.testing.assert_array_equal(whole.decision_function(X), slow.decision_function(X))


@pytest.mark.parametrize("kind", [KernelPRank, VotedPRank])
def test_mapped_and_support_forms_agree_on_whole_numbers(kind: Any) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.integers(-3, 4, (150, 2)).astype(float), rng.integers(0, 3, 150)
    options: Any = {"kernel": "poly", "degree": 2, "gamma": 1.0}
    if kind is KernelPRank:
        options["average"] = True
    mapped, dual = kind(**options).fit(X, y), kind(**options, budget=10**6).fit(X, y)
    np.testing.assert_array_equal(mapped.thresholds_, dual.thresholds_)
    np.testing.assert_allclose(
        mapped.decision_function(X), dual.decision_function(X), rtol=1e-12, atol=1e-12
    )


def test_a_linear_kernel_averages_and_votes_as_the_linear_rankers_do() -> None:
    X, y = stream()
    average = KernelPRank(kernel="linear", average=True).fit(X, y)
    np.testing.assert_array_equal(average.coef_, PRank(average=True).fit(X, y).coef_)
    support = VotedPRank(kernel="linear", budget=10**6).fit(X, y)
    plain = VotedPRank().fit(X, y)
    np.testing.assert_allclose(support.predict_expected(X), plain.predict_expected(X))


def test_precomputed_values_vote_like_the_kernel() -> None:
    X, y = stream()
    named = VotedPRank(kernel="rbf", gamma=GAMMA, max_iter=2).fit(X, y)
    table = VotedPRank(kernel="precomputed", max_iter=2).fit(gram(X, X), y)
    np.testing.assert_allclose(
        table.predict_expected(gram(X, X)), named.predict_expected(X), rtol=1e-9
    )
    assert len(np.unique(named.support_)) == len(named.support_)


def test_ensembles_average_kernel_members_but_not_over_time_too() -> None:
    X, y = stream()
    with pytest.raises(ParameterError, match="average=False"):
        OAPBPM(estimator=KernelPRank(average=True)).fit(X, y)
    member = KernelPRank(kernel="poly", degree=2, gamma=1.0, average=True)
    assert OAPBPM(estimator=member, n_estimators=5, random_state=0).fit(X, y).score(X, y) > 0.8
