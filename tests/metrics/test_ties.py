"""With ties, a measure is the exact mean over all orders of the tied items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import permutations, product
from math import log2, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright.metrics.evaluation import evaluate

# Plain twins of the definitions, on the grades of one list from the first place to the last.


def ndcg(grades: list[int], k: int, gain: Callable[[float], float], discount=None) -> float:
    discount = discount or (lambda place: 1 / log2(place + 1))
    dcg = [sum(gain(g) * discount(i + 1) for i, g in enumerate(some[:k]))
           for some in (grades, sorted(grades, reverse=True))]  # fmt: skip
    return dcg[0] / dcg[1]


def err(grades: list[int], k: int, top: int) -> float:
    total, still = 0.0, 1.0
    for place, grade in enumerate(grades[:k], 1):
        stop = (2**grade - 1) / 2**top
        total += still * stop / place
        still *= 1 - stop
    return total


def places(grades: list[int], rel: int) -> list[int]:
    return [place for place, grade in enumerate(grades, 1) if grade >= rel]


def ap(grades: list[int], k: int, rel: int) -> float:
    good = places(grades, rel)
    return sum(n / place for n, place in enumerate(good, 1) if place <= k) / len(good)


def bpref(grades: list[int]) -> float:
    good = places(grades, 1)
    least = min(len(good), len(grades) - len(good))
    above = [min(place - n, len(good)) for n, place in enumerate(good, 1)]
    return mean([1 - a / least if a else 1.0 for a in above])


def pairs(grades: list[int]) -> list[bool]:
    """For each pair of different grade, whether the lower one stands above."""
    return [a < b for i, a in enumerate(grades) for b in grades[i + 1 :] if a != b]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _linear(grade: float) -> float:
    return grade


def _exp(grade: float) -> float:
    return 2**grade - 1


TWINS: dict[str, Callable[[list[int]], float]] = {
    "NDCG": lambda g: ndcg(g, 99, _exp),
    "NDCG@1": lambda g: ndcg(g, 1, _exp),
    "NDCG@3": lambda g: ndcg(g, 3, _exp),
    "NDCG(gain=linear)@5": lambda g: ndcg(g, 5, _linear),
    "NDCG(discount=letor3)@4": lambda g: ndcg(g, 4, _exp, lambda p: 1 / log2(max(p, 2))),
    "ERR": lambda g: err(g, 99, 4),
    "ERR@2": lambda g: err(g, 2, 4),
    "ERR(max=3)@5": lambda g: err(g, 5, 3),
    "AP": lambda g: ap(g, 99, 1),
    "AP@3": lambda g: ap(g, 3, 1),
    "AP(rel=max)": lambda g: ap(g, 99, max(g)),
    "P@1": lambda g: len([p for p in places(g, 1) if p <= 1]) / 1,
    "P@4": lambda g: len([p for p in places(g, 1) if p <= 4]) / 4,
    "R@3": lambda g: len([p for p in places(g, 1) if p <= 3]) / len(places(g, 1)),
    "Rprec": lambda g: len([p for p in places(g, 1) if p <= len(places(g, 1))]) / len(places(g, 1)),
    "bpref": lambda g: bpref(g),
    "RR": lambda g: 1 / places(g, 1)[0],
    "RR(rel=2)@2": lambda g: sum(1 / p for p in places(g, 2)[:1] if p <= 2),
    "RBP": lambda g: sum(0.2 * 0.8 ** (p - 1) for p in places(g, 1)),
    "RBP(p=0.5)@3": lambda g: sum(0.5**p for p in places(g, 1) if p <= 3),
    "AUC": lambda g: 1 - mean(pairs([int(x >= 1) for x in g])),
    "PROT": lambda g: 1 / places(g, max(g))[0],
    "Coverage": lambda g: len(places(g, max(g))) / places(g, max(g))[-1],
    "Coverage(rel=1)": lambda g: len(places(g, 1)) / places(g, 1)[-1],
    "Top@1": lambda g: float(places(g, 1)[0] <= 1),
    "Top@3": lambda g: float(places(g, 1)[0] <= 3),
    "AverageRank": lambda g: mean(places(g, 1)),
    "AverageRank(cap=3)": lambda g: mean([min(p, 3) for p in places(g, 1)]),
    "Disagreement": lambda g: mean(pairs(g)),
}


def orders(scores: list[int], grades: list[int]) -> Counter[tuple[int, ...]]:
    """Every list of grades the scores allow, ties in any order, and how many orders give it."""
    ties = [[g for s, g in zip(scores, grades, strict=True) if s == level]
            for level in sorted(set(scores), reverse=True)]  # fmt: skip
    counted = [Counter(permutations(tie)) for tie in ties]
    found: Counter[tuple[int, ...]] = Counter()
    for choice in product(*(counts.items() for counts in counted)):
        found[tuple(g for tie, _ in choice for g in tie)] += prod(count for _, count in choice)
    return found


@st.composite
def lists(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    n = draw(st.integers(2, 8))
    scores = draw(st.lists(st.integers(0, draw(st.integers(0, 4))), min_size=n, max_size=n))
    grades = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return scores, grades


@settings(max_examples=150)
@given(lists(), lists())
def test_every_measure_equals_the_mean_over_all_orders_of_its_ties(one, other) -> None:
    scores, grades, qid = [*one[0], *other[0]], [*one[1], *other[1]], [0] * len(one[0])
    qid += [1] * len(other[0])
    result = evaluate(scores, grades, qid, [*TWINS, "P(rel=9)@1"], empty="zero")
    for query, (some_scores, some_grades) in enumerate((one, other)):
        possible = orders(some_scores, some_grades)
        for name, twin in TWINS.items():
            try:
                values = sum(count * twin(list(order)) for order, count in possible.items())
                expected = values / possible.total()
            except (ZeroDivisionError, IndexError):
                expected = 0.0
            assert result.per_query(name)[query] == pytest.approx(expected, rel=0, abs=1e-12), name


@settings(max_examples=100)
@given(lists())
def test_worst_and_best_are_the_ends_of_what_ties_allow(one) -> None:
    scores, grades = one
    names = [n for n in TWINS if "rel=max" not in n]
    worst, best, expected = (
        evaluate(scores, grades, measures=names, ties=ties, empty="zero")
        for ties in ("worst", "best", "expected")
    )
    possible = orders(scores, grades)
    for name in names:
        low, high = sorted((worst[name], best[name]))
        assert low - 1e-12 <= expected[name] <= high + 1e-12
        try:
            values = [TWINS[name](list(order)) for order in possible]
        except (ZeroDivisionError, IndexError):
            continue
        assert (low, high) == pytest.approx((min(values), max(values)), abs=1e-12), name


@settings(max_examples=60)
@given(lists())
def test_stable_keeps_the_order_given(one) -> None:
    scores, grades = one
    in_order = [g for _, g in sorted(zip(scores, grades, strict=True), key=lambda pair: -pair[0])]
    result = evaluate(scores, grades, measures=list(TWINS), ties="stable", empty="zero")
    for name, twin in TWINS.items():
        try:
            expected = twin(in_order)
        except (ZeroDivisionError, IndexError):
            expected = 0.0
        assert result[name] == pytest.approx(expected, abs=1e-12), name


def test_a_constant_scorer_gets_the_expectation_of_a_random_order() -> None:
    rng = np.random.default_rng(0)
    grades = np.array([0, 0, 1, 2, 0, 3, 1, 0, 0, 0, 2, 1])
    shuffled = np.concatenate([rng.permutation(grades) for _ in range(20000)])
    qid = np.repeat(np.arange(20000), len(grades))
    scores = np.tile(-np.arange(len(grades)), 20000)
    names = ["NDCG@5", "ERR@5", "AP", "RR", "PROT", "Coverage", "Disagreement"]
    drawn = evaluate(scores, shuffled, qid, names)
    exact = evaluate(np.zeros(len(grades)), grades, measures=names)
    for name in names:
        assert drawn[name] == pytest.approx(exact[name], abs=0.01)


def test_misranked_counts_a_tie_as_a_miss_whatever_the_rule() -> None:
    for ties in ("expected", "stable", "worst", "best"):
        result = evaluate([1, 1, 0], [1, 0, 0], measures="Misranked", ties=ties)
        assert result["Misranked"] == 0.5


def test_large_ties_are_exact_for_err() -> None:
    grades = np.array([0] * 700 + [1] * 200 + [4] * 3)
    rng = np.random.default_rng(1)
    by_hand = evaluate(np.zeros(len(grades)), rng.permutation(grades), measures=["ERR", "ERR@20"])
    again = evaluate(np.zeros(len(grades)), grades, measures=["ERR", "ERR@20"])
    assert by_hand["ERR"] == pytest.approx(again["ERR"], abs=1e-13)
    assert by_hand["ERR@20"] == pytest.approx(again["ERR@20"], abs=1e-13)


def test_err_of_one_good_item_in_a_large_tie_is_a_harmonic_number() -> None:
    n = 5000
    grades = np.zeros(n + 40)
    grades[17] = 4
    scores = np.concatenate([np.zeros(n), np.repeat(np.arange(-20, 0), 2)])  # and many small ties
    found = evaluate(scores, grades, measures=["ERR", "ERR@100"])
    harmonic = np.cumsum(1 / np.arange(1, n + 1))
    assert found["ERR"] == pytest.approx(15 / 16 * harmonic[-1] / n, abs=1e-13)
    assert found["ERR@100"] == pytest.approx(15 / 16 * harmonic[99] / n, abs=1e-13)


def test_infinite_scores_tie_only_with_each_other() -> None:
    result = evaluate(
        [np.inf, np.inf, 0.0, -np.inf, -np.inf, 1.0],
        [1, 0, 0, 0, 1, 1],
        qid=[0, 0, 0, 0, 0, 1],
        measures=["AP", "RR"],
    )
    # The relevant item at -inf was never retrieved: it halves the mean and adds nothing to it.
    assert result.per_query("AP")[0] == pytest.approx(mean([1.0, 0.5]) / 2)
    assert result.per_query("RR").tolist() == [0.75, 1.0]
