"""Click models: likelihoods by enumeration, EM against written-out steps, recovery of the truth."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from rankwright.data import ClickSimulator, ImpressionLog, Items
from rankwright.exceptions import ConvergenceWarning
from rankwright.feedback import CascadeModel, DynamicBayesianNetwork, PositionBasedModel
from rankwright.feedback.clicks.click_models import _expectations, _Lists


def every_session(n: int) -> ImpressionLog:
    """One session for each pattern of clicks on the same n items."""
    patterns = list(product([0, 1], repeat=n))
    return ImpressionLog.from_arrays(
        ["q"] * n * len(patterns),
        list(range(n)) * len(patterns),
        [click for pattern in patterns for click in pattern],
        position=list(range(1, n + 1)) * len(patterns),
        session=np.repeat(np.arange(len(patterns)), n),
    )


def fitted(kind: str, n: int) -> Any:
    rng = np.random.default_rng(5)
    model: Any = {
        "pbm": PositionBasedModel,
        "cascade": CascadeModel,
        "dbn": DynamicBayesianNetwork,
    }[kind]()
    model.keys_ = np.arange(n)
    model.attractiveness_ = rng.uniform(0.2, 0.8, n)
    model.examination_, model.satisfaction_ = rng.uniform(0.2, 1, n), rng.uniform(0.2, 0.8, n)
    model.continuation_ = 0.7
    return model


@pytest.mark.parametrize("kind", ["pbm", "dbn"])
def test_the_probabilities_of_all_sessions_add_up_to_one(kind: str) -> None:
    log = every_session(4)
    terms = fitted(kind, 4)._log_terms(log)
    likelihood = np.exp(np.bincount(log.session, terms, log.n_sessions))
    assert likelihood.sum() == pytest.approx(1.0)


def dbn_worlds(model: Any, n: int) -> Any:
    """All courses of a session: (probability, clicks, examined, satisfied, decisions, went on)."""
    a, s, go = model.attractiveness_, model.satisfaction_, model.continuation_

    def walk(k: int, chance: float, clicks: tuple, seen: int, happy: tuple, decided: int, on: int):  # type: ignore[no-untyped-def, type-arg]
        if k == n:
            yield chance, clicks, seen, happy, decided, on
            return
        stop = (0,) * (n - k - 1)
        for click, p in ((1, a[k]), (0, 1 - a[k])):
            for content, q in ((1, s[k]), (0, 1 - s[k])) if click else ((0, 1.0),):
                now, pleased = (*clicks, click), (*happy, content)
                if content or k == n - 1:
                    yield chance * p * q, now + stop, seen + 1, pleased + stop, decided, on
                    continue
                yield (
                    chance * p * q * (1 - go),
                    now + stop,
                    seen + 1,
                    pleased + stop,
                    decided + 1,
                    on,
                )
                yield from walk(
                    k + 1, chance * p * q * go, now, seen + 1, pleased, decided + 1, on + 1
                )

    return list(walk(0, 1.0, (), 0, (), 0, 0))


def test_the_dbn_likelihood_and_expectations_are_those_of_all_courses() -> None:
    n, model = 3, fitted("dbn", 3)
    log, worlds = every_session(3), dbn_worlds(model, 3)
    lists = _Lists.of(log)
    terms = np.bincount(log.session, model._log_terms(log), log.n_sessions)
    for session in range(log.n_sessions):
        pattern = tuple(lists.clicked[session].astype(int))
        same = [world for world in worlds if world[1] == pattern]
        total = sum(world[0] for world in same)
        assert np.exp(terms[session]) == pytest.approx(total)
        one = log.take([session])
        post = _expectations(
            _Lists.of(one), model.attractiveness_, model.satisfaction_, model.continuation_
        )
        for k in range(n):
            looked = sum(w[0] for w in same if w[2] > k) / total
            happy = sum(w[0] * w[3][k] for w in same) / total
            assert post.examined[0, k] == pytest.approx(looked)
            assert post.satisfied[0, k] == pytest.approx(happy)
        assert post.n_decisions == pytest.approx(sum(w[0] * w[4] for w in same) / total)
        assert post.n_continued == pytest.approx(sum(w[0] * w[5] for w in same) / total)


def test_em_on_counts_is_em_on_rows(users: ClickSimulator, scores: np.ndarray) -> None:
    log = users.sessions(scores, 300, experiment="shuffle", random_state=2)
    with pytest.warns(ConvergenceWarning, match="max_iter=4"):
        model = PositionBasedModel(max_iter=4, prior=0.0).fit(log)
    document, first = log.documents
    place = log.position - 1
    rates = log.click_rates()
    gamma, r = np.clip(rates / rates.max(), 0.01, 1), np.full(len(first), min(rates.max(), 0.9))
    for _ in range(4):
        looked, relevant = np.zeros(5), np.zeros(len(first))
        for row in range(len(log)):
            g, a = gamma[place[row]], r[document[row]]
            looked[place[row]] += 1 if log.clicked[row] else g * (1 - a) / (1 - g * a)
            relevant[document[row]] += 1 if log.clicked[row] else a * (1 - g) / (1 - g * a)
        gamma = looked / np.bincount(place)
        r = relevant / np.bincount(document)
    assert model.examination_ == pytest.approx(np.clip(gamma / gamma[0], 1e-4, 1.0))
    assert model.attractiveness_ == pytest.approx(r * gamma[0])


MODELS = {
    "position": PositionBasedModel(),
    "cascade": CascadeModel(),
    "dbn": DynamicBayesianNetwork(),
}


@pytest.mark.parametrize("browsing", MODELS)
def test_held_out_sessions_prefer_the_model_that_made_them(
    browsing: str, items: Items, scores: np.ndarray
) -> None:
    users = ClickSimulator(items, [1.0, 0.5, 0.3, 0.2, 0.1], browsing=browsing)
    log = users.sessions(scores, 20_000, experiment="shuffle", random_state=3)
    train, test = log.split()
    assert train.n_sessions + test.n_sessions == log.n_sessions
    likelihood = {name: model.fit(train).log_likelihood(test) for name, model in MODELS.items()}
    if browsing == "cascade":  # the network contains the cascade: it may do as well
        assert likelihood["cascade"] > likelihood["dbn"] - 0.01
        assert likelihood["cascade"] > likelihood["position"]
    else:
        assert max(likelihood, key=likelihood.__getitem__) == browsing
        perplexity = {name: model.perplexity(test) for name, model in MODELS.items()}
        assert min(perplexity, key=perplexity.__getitem__) == browsing
        assert 1.0 < perplexity[browsing] < 2.0


def test_the_network_recovers_continuation_and_attractiveness(
    items: Items, scores: np.ndarray
) -> None:
    users = ClickSimulator(items, [1.0] * 6, browsing="dbn", continuation=0.75)
    log = users.sessions(scores, 30_000, experiment="shuffle", random_state=4)
    model = DynamicBayesianNetwork().fit(log)
    assert model.continuation_ == pytest.approx(0.75, abs=0.05)
    truth = users.relevance[log.rows_in(items)]
    assert np.abs(model.relevance(log) - truth).mean() < 0.05


def test_unseen_documents_get_the_mean(users: ClickSimulator, scores: np.ndarray) -> None:
    log = users.sessions(scores, 400)
    first, second = log.take(log.query[log.starts[:-1]] < 15), log
    model = CascadeModel().fit(first)
    unseen = second.query >= 15
    assert model.relevance(second)[unseen] == pytest.approx(model.attractiveness_.mean())
