"""Experts of interactions against plain twins, and updates against a new fit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import rankwright as rw
from rankwright.recommend.events import (
    EASE,
    SLIT,
    ImplicitALS,
    ItemContent,
    ItemCosine,
    NextItems,
    Popularity,
)
from rankwright.recommend.events.histories import Histories
from rankwright.recommend.events.least_squares import common_users
from rankwright.recommend.events.weights import (
    NO_LOSS,
    ExpertCandidates,
    learned_by_ranksvm,
    learned_weights,
)


def make_events(n_users=60, n_items=30, n=900, seed=0) -> rw.Interactions:
    """Events of two groups of users, each with its own half of the items."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, n_users, n)
    low = np.where(rng.random(n) < 0.85, user % 2, 1 - user % 2) * (n_items // 2)
    item = low + (rng.random(n) ** 2 * (n_items // 2)).astype(int)
    return rw.Interactions(user, item, time=rng.permutation(n))


@pytest.fixture(scope="module")
def histories() -> Histories:
    return Histories.of(make_events())


def dense(histories: Histories) -> np.ndarray:
    return histories.rows.matrix(histories.n_items).toarray().astype(float)


def test_a_history_has_each_item_once_at_its_last_time() -> None:
    events = rw.Interactions(
        ["a", "a", "b", "a"], [7, 8, 7, 7], time=[3, 2, 1, 1], weight=[1, 1, 1, 2]
    )
    histories = Histories.of(events)
    assert histories.items[histories.rows.row(0)[0]].tolist() == [8, 7]
    assert histories.rows.row(0)[1].tolist() == [1.0, 3.0]


def test_merged_histories_are_those_of_all_events_at_once() -> None:
    events = make_events()
    for cut in (1, 300, 899):
        merged, users = Histories.of(_part(events, slice(0, cut))).merged(
            _part(events, slice(cut, None))
        )
        whole = Histories.of(_part(events, slice(None)))
        for name in ("users", "items", "ptr", "item", "weight", "time"):
            np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name))
        assert set(users) <= set(range(merged.n_users))


def _part(events: rw.Interactions, rows: slice) -> rw.Interactions:
    """Some events, with only their own users and items."""
    columns = events.take(rows).to_columns()
    return rw.Interactions(columns["user"], columns["item"], time=columns["time"])


def test_popularity_halves_with_age() -> None:
    events = rw.Interactions([1, 2, 3], ["old", "new", "new"], time=[0, 10, 10])
    expert = Popularity(half_life=1 / 3).fit(Histories.of(events))  # two of three came later
    assert expert.count_.tolist() == pytest.approx([0.25, 2.0])


@pytest.mark.parametrize("discount", [0.5, 0.3])
def test_item_cosine_is_the_cosine_of_columns(histories, discount) -> None:
    expert = ItemCosine(n_neighbors=100, shrinkage=2.0, discount=discount).fit(histories)
    X = dense(histories)
    common, count = X.T @ X, X.sum(axis=0)
    twin = common / (count[:, None] ** (1 - discount) * count[None, :] ** discount)
    twin *= common / (common + 2.0)
    np.fill_diagonal(twin, 0.0)
    np.testing.assert_allclose(expert.scores(histories.rows), X @ twin, rtol=1e-5)


def test_next_items_count_what_comes_soon_after(histories) -> None:
    expert = NextItems(n_neighbors=100, shrinkage=1.0, discount=0.4, decay=0.5, window=3)
    count = np.maximum(histories.item_counts, 1)
    after = np.zeros((histories.n_items, histories.n_items))
    for user in range(histories.n_users):
        items = histories.rows.row(user)[0]
        for at, item in enumerate(items):
            for distance, other in enumerate(items[at + 1 : at + 4], 1):
                after[item, other] += 3 - distance + 1
    twin = after / (count[:, None] ** 0.6 * count[None, :] ** 0.4) * after / (after + 1.0)
    expected = np.zeros((histories.n_users, histories.n_items))
    for user in range(histories.n_users):
        for back, item in enumerate(histories.rows.row(user)[0][::-1]):
            expected[user] += 0.5**back * twin[item]
    np.testing.assert_allclose(expert.fit(histories).scores(histories.rows), expected, atol=2e-4)


def test_slit_is_the_closed_form_over_all_places_of_all_histories(histories) -> None:
    expert = SLIT(decay=0.7, window=4, l2_regularization=3.0).fit(histories)
    gram, product = 3.0 * np.eye(histories.n_items), np.zeros((histories.n_items,) * 2)
    last = np.zeros((histories.n_users, histories.n_items))
    for user in range(histories.n_users):
        items = histories.rows.row(user)[0]
        for place in range(1, len(items) + 1):
            inputs, targets = np.zeros((2, histories.n_items))
            for back, item in enumerate(items[max(place - 4, 0) : place][::-1]):
                inputs[item] = 0.7**back
            for ahead, item in enumerate(items[place : place + 3]):
                targets[item] = 0.5**ahead
            last[user] = inputs
            if place < len(items):
                gram += np.outer(inputs, inputs)
                product += np.outer(inputs, targets)
    twin = last @ np.linalg.solve(gram, product)
    np.testing.assert_allclose(expert.scores(histories.rows), twin, atol=1e-5)


def test_slit_of_few_items_leaves_the_others_at_zero(histories) -> None:
    expert = SLIT(max_items=10).fit(histories)
    scores = expert.scores(histories.rows)
    assert (scores[:, np.setdiff1d(np.arange(histories.n_items), expert.kept_)] == 0).all()
    assert (scores[:, expert.kept_] != 0).any()


def test_slit_learns_an_order_that_neighbors_without_order_cannot() -> None:
    rng = np.random.default_rng(0)
    start = rng.integers(0, 20, 200)
    item = (start[:, None] + np.arange(5)) % 20  # each item is followed by the next one
    events = rw.Interactions(np.repeat(np.arange(200), 5), item.ravel(), time=np.arange(1000))
    histories = Histories.of(events)
    best = SLIT().fit(histories).scores(histories.rows).argmax(axis=1)
    follows = (histories.items[best] - histories.items[histories.item[histories.ptr[1:] - 1]]) % 20
    assert (follows == 1).all()


def candidates(scores, relevant, length) -> ExpertCandidates:
    """A table of candidates with these scores, (n_experts, n_users, width)."""
    table = ExpertCandidates.__new__(ExpertCandidates)
    table.scores, table.relevant = scores.astype(np.float32), relevant.astype(np.float32)
    table.absent, table.listed = np.zeros_like(table.relevant), np.ones(relevant.shape, bool)
    table.length = length
    return table


def test_an_expert_that_adds_nothing_gets_no_weight() -> None:
    rng = np.random.default_rng(0)
    relevant = np.eye(30)[rng.integers(0, 30, 400)]
    noise = rng.normal(size=(3, 400, 30))
    scores = np.stack([relevant + 0.4 * noise[0], relevant + 0.4 * noise[1], noise[2]])
    found = learned_weights(candidates(scores, relevant, np.ones(400)), "auto", np.zeros(0))
    assert (found.weight[0, :2] > 0.2).all()
    assert found.weight[0, 2] == 0
    assert found.ndcg >= found.alone.max()


def test_users_with_long_histories_get_weights_of_their_own_if_these_are_better() -> None:
    rng = np.random.default_rng(0)
    relevant, noise = np.eye(30)[rng.integers(0, 30, 900)], rng.normal(size=(2, 900, 30))
    length = np.repeat([2, 10, 50], 300)
    knows = np.stack([length < 50, length == 50])[:, :, None]  # each expert knows some users
    scores = knows * 2.0 * relevant + noise
    table, edges = candidates(scores, relevant, length), np.array([10.0, 50.0])
    short, _, long = learned_weights(table, "auto", edges).weight
    assert long[1] > short[1] + 0.1
    same = candidates(np.stack([relevant + noise[0], noise[1]]), relevant, length)
    weights = learned_weights(same, "auto", edges).weight
    assert (weights == weights[0]).all()


def test_ease_is_the_closed_form(histories) -> None:
    X = dense(histories)
    P = np.linalg.inv(X.T @ X + 7.0 * np.eye(X.shape[1]))
    weight = -P / np.diag(P)
    np.fill_diagonal(weight, 0.0)
    expert = EASE(l2_regularization=7.0).fit(histories)
    np.testing.assert_allclose(expert.scores(histories.rows), X @ weight, atol=1e-5)


@pytest.mark.parametrize("n_items", [30, 400])
def test_common_users_are_counted_alike_pair_by_pair_and_by_products(n_items: int) -> None:
    data = Histories.of(make_events(n_items=n_items))
    kept = np.sort(np.argsort(-data.item_counts, kind="stable")[: n_items - 5])
    place = np.full(data.n_items, -1)
    place[kept] = np.arange(len(kept))
    X = dense(data)[:, kept]
    np.testing.assert_array_equal(np.tril(common_users(data, kept, place)), np.tril(X.T @ X))


def test_ease_of_few_items_leaves_the_others_at_zero(histories) -> None:
    expert = EASE(max_items=5).fit(histories)
    scores = expert.scores(histories.rows)
    kept = np.argsort(-histories.item_counts, kind="stable")[:5]
    assert set(np.flatnonzero(np.abs(scores).sum(axis=0))) <= set(kept.tolist())


def test_als_solves_its_least_squares(histories) -> None:
    expert = ImplicitALS(n_factors=6, max_iter=5, l2_regularization=2.0, alpha=3.0).fit(histories)
    Y = expert.factors_.astype(float)
    solved = expert.users(histories.rows)
    for user in (0, 5, 17):
        items, weight = histories.rows.row(user)
        system = Y.T @ Y + 2.0 * np.eye(6) + (Y[items] * 3.0 * weight[:, None]).T @ Y[items]
        exact = np.linalg.solve(system, Y[items].T @ (1.0 + 3.0 * weight))
        np.testing.assert_allclose(solved[user], exact, atol=1e-3)


def test_als_lowers_its_loss_with_every_sweep(histories) -> None:
    X = dense(histories)

    def loss(max_iter: int) -> float:
        expert = ImplicitALS(n_factors=6, max_iter=max_iter, alpha=3.0, l2_regularization=1.0)
        expert.fit(histories)
        users, confidence = expert.users(histories.rows), 1.0 + 3.0 * X
        error = (confidence * (X - users @ expert.factors_.T) ** 2).sum()
        return float(error + (users**2).sum() + (expert.factors_**2).sum())

    losses = [loss(n) for n in (1, 2, 4, 8)]
    assert losses == sorted(losses, reverse=True)


EXPERTS = [
    Popularity(),
    Popularity(half_life=None),
    ItemCosine(),
    NextItems(),
    SLIT(l2_regularization=5.0),
    EASE(),
    ImplicitALS(),
]


@pytest.mark.parametrize("expert", EXPERTS, ids=repr)
def test_what_a_history_adds_is_the_score(expert, histories) -> None:
    expert.fit(histories)
    items, weight = histories.rows.row(3)
    if expert.personal:
        whole = expert.scores(histories.rows.take(np.array([3])))[0, 4]
        parts = expert.contributions(items, weight, 4)
        np.testing.assert_allclose(parts.sum(), whole, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("expert", [e for e in EXPERTS if e.exact], ids=repr)
def test_exact_experts_follow_events_bit_for_bit(expert) -> None:
    events = make_events(n=700)
    before = Histories.of(events.take(slice(0, 600)))
    expert.fit(before)
    for at in range(600, 700):
        histories, users = before.merged(events.take([at]))
        expert.update(histories, before, users)
        before = histories
        expert.scores(before.rows.take(users))
    fresh = type(expert)(**expert.get_params()).fit(before)
    np.testing.assert_array_equal(expert.scores(before.rows), fresh.scores(before.rows))


def test_ease_follows_events_but_for_rounding() -> None:
    events = make_events(n=700)
    before = Histories.of(_part(events, slice(0, 600)))
    expert = EASE(l2_regularization=5.0).fit(before)
    for at in range(600, 700):
        histories, users = before.merged(_part(events, slice(at, at + 1)))
        expert.update(histories, before, users)
        before = histories
    fresh = EASE(l2_regularization=5.0).fit(before)
    np.testing.assert_allclose(expert.scores(before.rows), fresh.scores(before.rows), atol=2e-4)


def test_new_items_get_the_scores_of_items_like_them() -> None:
    histories = Histories.of(make_events(n_items=20)).with_items(np.array([99, 98]))
    genre = {item: "low" if item < 10 else "high" for item in range(20)} | {99: "low", 98: "high"}
    features = rw.Attributes.from_frame({"item": list(genre), "genre": list(genre.values())})
    content = ItemContent().fit(histories, features)
    known = np.array([[float(item < 10) for item in histories.items]], np.float32)
    lent = content.smooth(known.copy())[0]
    place = dict(zip(histories.items.tolist(), range(histories.n_items), strict=True))
    assert lent[place[99]] == pytest.approx(1.0)
    assert lent[place[98]] == pytest.approx(0.0)


@pytest.mark.parametrize("combiner", ["search", "ranksvm"])
@pytest.mark.parametrize("holdout", ["next", "period", "both"])
def test_no_weights_are_worse_than_the_best_expert_on_validation(
    combiner: str, holdout: str
) -> None:
    experts = [Popularity(None), ItemCosine(n_neighbors=20), NextItems(n_neighbors=20)]
    model = rw.Recommender(experts=experts, holdout=holdout, combiner=combiner, random_state=0)
    found = model.fit(make_events()).model_.validation_
    assert set(found) == ({"next", "period"} if holdout == "both" else {holdout})
    for question in found.values():
        best = max(value for name, value in question.items() if name != "blend")
        assert question["blend"] >= (1.0 - NO_LOSS) * best


def test_ranksvm_weighs_the_expert_that_knows() -> None:
    rng = np.random.default_rng(0)
    relevant = np.zeros((40, 30), np.float32)
    relevant[np.arange(40), rng.integers(0, 30, 40)] = 1.0
    noise = rng.normal(size=(2, 40, 30)).astype(np.float32)
    table = SimpleNamespace(
        scores=np.stack([relevant + 0.3 * noise[0], noise[1], -relevant]),
        relevant=relevant,
        listed=np.ones((40, 30), bool),
    )
    weight = learned_by_ranksvm(table)
    assert weight[0] > 5 * weight[1] >= 0
    assert weight[2] == 0
    table.relevant = np.zeros((40, 30), np.float32)
    assert learned_by_ranksvm(table) is None
