"""Preferences from clicks, against the rules written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwright.feedback.clicks import last_click, position_propensity, skip_above

Shown = list[tuple[int, bool, int]]
shown_lists = st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 2)), max_size=20)


def written_out(shown: Shown, last_only: bool) -> list[tuple[int, int, int]]:
    """(session, lower, upper) by the rules in words: a click beats the skipped items above it."""
    found = []
    for session in sorted({s for _, _, s in shown}):
        items = [(row, click) for row, click, s in shown if s == session]
        clicks = [place for place, (_, click) in enumerate(items) if click]
        for place in clicks[-1:] if last_only else clicks:
            for row, click in items[:place]:
                if not click and row != items[place][0]:
                    found.append((session, row, items[place][0]))
    return sorted(found)


@pytest.mark.parametrize("rule", [skip_above, last_click])
@given(shown_lists)
def test_preferences_are_those_the_rule_names(rule: object, shown: Shown) -> None:
    rows, clicked, session = ([item[i] for item in shown] for i in range(3))
    pairs = rule(rows, clicked, session)  # type: ignore[operator]
    assert pairs.query is not None
    found = sorted(
        zip(pairs.query.tolist(), pairs.lower.tolist(), pairs.upper.tolist(), strict=True)
    )
    assert found == written_out(shown, last_only=rule is last_click)


def test_positions_decide_who_stood_above() -> None:
    pairs = skip_above(rows=[5, 6, 7], clicked=[1, 0, 0], position=[3, 1, 2])
    assert sorted(pairs.lower.tolist()) == [6, 7]
    assert pairs.upper.tolist() == [5, 5]


def test_of_two_items_at_one_position_neither_stood_above() -> None:
    for rows, clicked in (([5, 6, 7], [0, 1, 0]), ([6, 5, 7], [1, 0, 0])):
        assert skip_above(rows, clicked, position=[1, 1, 2]).n_pairs == 0
    pairs = skip_above([4, 5, 6], [0, 0, 1], position=[1, 2, 2])
    assert (pairs.lower.tolist(), pairs.upper.tolist()) == ([4], [6])


def test_time_decides_which_click_was_the_last() -> None:
    pairs = last_click([0, 1, 2, 3], [0, 1, 0, 1], time=[0, 9.0, 0, 2.0])
    assert (pairs.lower.tolist(), pairs.upper.tolist()) == ([0], [1])


def test_a_click_weighs_one_over_the_chance_that_its_position_is_seen() -> None:
    chance = position_propensity(4)
    pairs = skip_above([0, 1, 2, 3], [0, 1, 0, 1], propensity=chance)
    by_winner = dict(zip(pairs.upper.tolist(), pairs.weight.tolist(), strict=True))
    assert by_winner == {1: 2.0, 3: 4.0}
    capped = skip_above([0, 1, 2, 3], [0, 1, 0, 1], propensity=chance, max_weight=3.0)
    assert capped.weight.max() == 3.0


def test_inverse_propensity_removes_the_position_bias() -> None:
    """Two equally liked items shown at places 2 and 4: unweighted counts differ, weighted agree."""
    rng = np.random.default_rng(0)
    chance, n = position_propensity(4), 20_000
    seen = rng.random((n, 4)) < chance
    liked = np.array([False, True, False, True])
    clicked = seen & liked
    pairs = skip_above(
        np.tile(np.arange(4), n), clicked.ravel(), np.repeat(np.arange(n), 4), propensity=chance
    )
    first = pairs.lower == 0  # both are compared with the item at the top
    mass = np.bincount(pairs.upper[first], pairs.weight[first], minlength=4)
    assert mass[3] / mass[1] == pytest.approx(1.0, abs=0.05)
    count = np.bincount(pairs.upper[first], minlength=4)
    assert count[3] / count[1] == pytest.approx(0.5, abs=0.05)
