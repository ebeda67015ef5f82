"""Interleaving: the published algorithms written out, and fairness to all rankers."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright.online_eval import credit, interleave, stable_seed
from rankwright.online_eval.interleaving import METHODS, Interleaved

A, B, C = list("abcdef"), list("bdface"), list("fbxyac")
two_lists = st.lists(
    st.lists(st.integers(0, 8), unique=True, max_size=7), min_size=2, max_size=2
).filter(any)


def draws(method: str, lists: list[Any], n: int, count: int = 4000) -> list[Interleaved]:
    return [interleave(lists, n, method=method, seed=seed) for seed in range(count)]


def mean_credit_by_position(shown: list[Interleaved]) -> Any:
    """What a user who clicks one position at random gives each ranker, per position."""
    rows = [[credit(one, [item]) for item in one.items] for one in shown]
    return np.mean(rows, axis=0)


@pytest.mark.parametrize("method", METHODS)
@given(two_lists, st.integers(1, 9), st.integers(0, 99))
def test_the_list_shows_known_items_once(method: str, lists: Any, n: int, seed: int) -> None:
    shown = interleave(lists, n, method=method, seed=seed)
    union = set(lists[0]) | set(lists[1])
    assert len(set(shown.items)) == len(shown.items) == min(n, len(union))
    assert set(shown.items) <= union
    assert interleave(lists, n, method=method, seed=seed) == shown
    assert Interleaved.from_dict(json.loads(json.dumps(shown.to_dict()))) == shown


def team_draft_lists(a: list[Any], b: list[Any], n: int) -> Counter[Any]:
    """All outcomes of team draft as Radlinski et al. (2008) write it, with their probabilities."""
    outcomes: Counter[Any] = Counter()
    for coins in product([0, 1], repeat=n):
        shown: list[Any] = []
        teams: list[int] = []
        for coin in coins:
            if len(shown) == n:
                break
            sizes = [teams.count(0), teams.count(1)]
            ranker = coin if sizes[0] == sizes[1] else int(sizes[1] < sizes[0])
            shown.append(next(item for item in (a, b)[ranker] if item not in shown))
            teams.append(ranker)
        outcomes[tuple(shown), tuple(teams)] += 2.0**-n
    return outcomes


def test_team_draft_draws_the_lists_of_the_paper_with_its_probabilities() -> None:
    expected = team_draft_lists(A, B, 5)
    found = Counter((one.items, one.teams) for one in draws("team_draft", [A, B], 5))
    assert set(found) == set(expected)
    for outcome, chance in expected.items():
        assert found[outcome] / 4000 == pytest.approx(chance, abs=0.03)


def balanced_list(a: list[Any], b: list[Any], a_first: bool, n: int) -> list[Any]:
    """Balanced interleaving as Joachims (2003) writes it."""
    shown: list[Any] = []
    ka = kb = 0
    while ka < len(a) and kb < len(b) and len(shown) < n:
        if ka < kb or (ka == kb and a_first):
            shown += [a[ka]] if a[ka] not in shown else []
            ka += 1
        else:
            shown += [b[kb]] if b[kb] not in shown else []
            kb += 1
    return shown


def test_balanced_is_one_of_the_two_lists_of_the_paper() -> None:
    found = Counter(one.items for one in draws("balanced", [A, B], 5, 400))
    expected = {tuple(balanced_list(A, B, first, 5)) for first in (True, False)}
    assert set(found) == expected
    assert min(found.values()) > 150


def test_balanced_counts_clicks_within_the_ranks_reached() -> None:
    shown = Interleaved("balanced", ("a", "b", "c"), 2, ranks=((1, 2), (2, 0), (3, 1)))
    # The lowest click is c: rank 3 of the first list, rank 1 of the second; both count to rank 1.
    assert credit(shown, ["a", "c"]) == (1.0, 1.0)
    assert credit(shown, ["a"]) == (1.0, 0.0)
    assert credit(shown, []) == (0.0, 0.0)


def test_probabilistic_draws_and_credits_as_the_paper_computes() -> None:
    weights = np.arange(1, 4) ** -3.0
    first = {"a": weights[0], "b": weights[1], "c": weights[2]}
    second = {"c": weights[0], "a": weights[1], "b": weights[2]}
    chance = {k: (first[k] + second[k]) / weights.sum() / 2 for k in "abc"}
    shown = draws("probabilistic", [list("abc"), list("cab")], 2)
    tops = Counter(one.items[0] for one in shown)
    for item, probability in chance.items():
        assert tops[item] / len(shown) == pytest.approx(probability, abs=0.03)
    top = next(one for one in shown if one.items[0] == "a")
    posterior = first["a"] / (first["a"] + second["a"])
    assert credit(top, ["a"]) == pytest.approx((posterior, 1 - posterior))


@pytest.mark.parametrize("method", ["team_draft", "probabilistic", "optimized"])
@pytest.mark.parametrize(
    "lists, n",
    [
        ([A, B], 5),
        ([A, B[:2]], 6),
        ([["a"], ["a", "b"]], 2),
        ([["a", "b"], ["c", "d"]], 4),
        ([A, B, C], 6),
        ([list("abcde"), list("cdaeb"), list("ebcad")], 5),
    ],
)
def test_random_clicks_credit_all_rankers_equally(method: str, lists: list[Any], n: int) -> None:
    mean = mean_credit_by_position(draws(method, lists, n, 3000))
    assert mean == pytest.approx(np.repeat(mean.mean(axis=1)[:, None], len(lists), 1), abs=0.05)


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_optimized_credits_no_ranker_more_whatever_the_lists(random: Random) -> None:
    from rankwright.online_eval.interleaving import _program

    size = random.choice([3, 6, 8])
    lists = tuple(tuple(random.sample(range(size), size)) for _ in range(random.choice([2, 3])))
    candidates, cumulative, credits = _program(lists, random.choice([2, 5]))
    chances = np.diff(cumulative, prepend=0.0)
    mean = np.einsum("c,rcp->rp", chances, credits)
    assert chances.min() >= 0
    assert cumulative[-1] == pytest.approx(1.0)
    assert mean == pytest.approx(np.repeat(mean[:1], len(lists), 0), abs=1e-9)
    for shown in candidates:  # every item is some ranker's best among those not yet shown
        for place, item in enumerate(shown):
            best = {next(k for k in r if k not in shown[:place]) for r in lists}
            assert item in best


def test_optimized_needs_no_correction_where_the_paper_finds_a_fair_solution() -> None:
    shown = interleave([A, B], 5, method="optimized", seed=0)
    for item, row in zip(shown.items, shown.credits, strict=True):
        assert row == pytest.approx((1 / (A.index(item) + 1), 1 / (B.index(item) + 1)), abs=1e-6)


def test_teams_are_of_equal_size_when_no_list_runs_out() -> None:
    for one in draws("team_draft", [A, B], 6, 200):
        assert Counter(one.teams) == {0: 3, 1: 3}


def test_a_round_that_a_ranker_may_miss_credits_nobody() -> None:
    shown = interleave([["a"], ["a", "b", "c"]], 3, seed=4)
    assert shown.items[0] == "a"
    assert shown.teams == (-1, -1, -1)
    assert credit(shown, ["a", "c"]) == (0.0, 0.0)


@pytest.mark.parametrize("method", ["team_draft", "probabilistic", "optimized"])
def test_the_better_ranker_earns_more(method: str) -> None:
    good, poor = ["x", "a", "b", "c", "d"], ["a", "b", "c", "x", "d"]
    earned = [credit(one, {"x"} & set(one.items)) for one in draws(method, [good, poor], 3, 600)]
    assert np.mean(earned, axis=0)[0] > np.mean(earned, axis=0)[1] + 0.05


def test_the_seed_depends_on_every_part() -> None:
    seeds = {stable_seed(q, u, s) for q in ("a", 1, "1") for u in ("x", None) for s in (0, 1)}
    assert len(seeds) == 12
