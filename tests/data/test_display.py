"""How results look in notebooks."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_queries, make_ratings

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def items() -> rw.Items:
    data = make_queries(8, n_features=3, random_state=0).items
    names = (EVIL, "b", "c")
    return rw.Items(data.X, data.y, data.qid, feature_names=names)


def test_items_show_their_first_rows_and_escape_names(items) -> None:
    shown = items._repr_html_()
    assert shown.count("<tr>") == 6
    assert EVIL not in shown
    assert "&lt;script&gt;" in shown


def test_findings_show_the_status_of_each_rule(items) -> None:
    shown = rw.validate(items)._repr_html_()
    assert "PASS" in shown
    assert shown.count("<tr>") == 1 + len(rw.validate(items))


def test_an_explanation_shows_bars(items) -> None:
    model = rw.RankBoost(n_estimators=5).fit(items.X, items.y, qid=items.qid)
    found = model.explain(items.X[0], items.X[1])
    assert found._repr_html_().count("background:") == len(found.contributions)


def test_a_fitted_ranker_shows_what_it_learned(items) -> None:
    model = rw.RidgeRanker()
    assert "coef_" not in model._repr_html_()
    assert "coef_" in model.fit(items.X, items.y)._repr_html_()


def test_lists_of_recommendations_show_the_first_users() -> None:
    ratings = make_ratings(12, 20, random_state=0).ratings
    lists = rw.Recommender(random_state=0).fit(ratings).recommend_all(n=3)
    assert "lists of 12 users" in lists._repr_html_()
    assert lists._repr_html_().count("<tr>") == 6
    assert np.shape(lists.number) == (12, 3)
