"""The protocol that compares AutoRanker with its peers does the arithmetic that it describes."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("experiments.letor.table_default", reason="not in the root of a checkout")

from experiments.letor import sets, systems, table_default
from experiments.letor.table_default import Result


def values(rng: np.random.Generator, queries: dict[int, list[str]]) -> dict[int, dict[str, float]]:
    return {seed: {q: float(rng.uniform()) for q in names} for seed, names in queries.items()}


def test_a_difference_is_the_mean_of_a_query_over_the_seeds_that_test_it() -> None:
    rng = np.random.default_rng(0)
    queries = {1: ["a", "b"], 2: ["b", "c"], 3: ["b"], 4: ["d"]}
    ours, theirs = values(rng, queries), values(rng, queries)
    del theirs[4]  # a seed that only one of them has
    expected = []
    for query in "abc":
        total, n_seeds = 0.0, 0
        for seed in (1, 2, 3):
            if query in queries[seed]:
                total += ours[seed][query] - theirs[seed][query]
                n_seeds += 1
        expected.append(total / n_seeds)
    assert table_default.differences(ours, theirs).tolist() == pytest.approx(expected)


def test_the_pooled_mean_gives_every_set_the_same_weight_or_the_weight_asked_for() -> None:
    rng = np.random.default_rng(1)
    groups = [rng.normal(0.1, 0.2, 40), rng.normal(-0.05, 0.1, 300), rng.normal(0, 0.3, 90)]
    for weights in (None, [40, 300, 90]):
        share = [1 / 3] * 3 if weights is None else [w / 430 for w in weights]
        found = table_default.pooled(groups, weights)
        mean = sum(s * sum(g) / len(g) for s, g in zip(share, groups, strict=True))
        error = math.sqrt(
            sum(s**2 * np.var(g) / len(g) for s, g in zip(share, groups, strict=True))
        )
        assert found.mean == pytest.approx(mean)
        assert found.low == pytest.approx(mean - 1.96 * error, abs=0.1 * error)
        assert found.high == pytest.approx(mean + 1.96 * error, abs=0.1 * error)


def test_the_best_peer_is_chosen_on_validation_queries_for_each_seed_or_for_the_set() -> None:
    def peer(name: str, vali: dict[int, float]) -> Result:
        return Result({seed: {f"{name}{seed}": 0.0} for seed in vali}, vali, dict.fromkeys(vali, 1))

    peers = {
        "p": peer("p", {1: 0.5, 2: 0.1, 3: 0.6}),
        "q": peer("q", {1: 0.4, 2: 0.7, 3: 0.5}),
        "r": peer("r", {1: 0.4, 2: 0.6}),
    }  # not every peer has seed 3 yet, so it is left out
    test, chosen = table_default.best_peer(peers, "set and seed")
    assert chosen == {1: "p", 2: "q"}
    assert [list(test[seed]) for seed in (1, 2)] == [["p1"], ["q2"]]
    assert table_default.best_peer(peers, "set")[1] == {1: "q", 2: "q"}


def test_significantly_below_is_a_randomization_test_with_holms_correction() -> None:
    rng = np.random.default_rng(2)
    means = (-0.5, -0.08, 0.0, 0.5)
    leads = {(f"set {i}", "peer"): rng.normal(mean, 0.2, 12) for i, mean in enumerate(means)}
    plain = []
    for lead in leads.values():
        sums = [sum(s * d for s, d in zip(signs, lead, strict=True))
                for signs in product((-1, 1), repeat=12)]  # fmt: skip
        plain.append(np.mean([abs(each) >= abs(sum(lead)) - 1e-9 for each in sums]))
    order, highest, expected = np.argsort(plain), 0.0, [0.0] * 4
    for place, i in enumerate(order):
        highest = max(highest, min(1.0, plain[i] * (4 - place)))
        expected[i] = highest
    found = table_default.compare(leads)
    assert [c.p for c in found] == pytest.approx(expected)
    below = [
        bool(p <= 0.05 and lead.mean() < 0)
        for p, lead in zip(expected, leads.values(), strict=True)
    ]
    assert [c.is_below for c in found] == below
    assert plain[1] <= 0.05 < expected[1]  # only before the correction
    assert expected[3] <= 0.05  # significantly above


def test_trials_are_drawn_from_the_space_and_repeat_with_the_seed() -> None:
    for seed in (1, 2):
        drawn = [system for system in systems.systems(seed) if system.trial]
        assert len(drawn) == systems.TRIALS * len(systems.SPACES)
        for system in drawn:
            for name, value in system.parameters.items():
                space = systems.SPACES[system.family][name]
                inside = (
                    value in space if isinstance(space, list) else space[0] <= value <= space[1]
                )
                assert inside, (system, name)
    assert systems.systems(1) == systems.systems(1) != systems.systems(2)


@pytest.mark.parametrize(
    "name", [name for name, each in sets.SETS.items() if each.parts == "drawn"]
)
def test_generated_sets_repeat_with_the_seed_and_share_no_queries(name: str) -> None:
    first, again, other = sets.load(name, 1), sets.load(name, 1), sets.load(name, 2)
    assert np.array_equal(first.train.X, again.train.X)
    assert sets.identity(name, 1) == sets.identity(name, 1) != sets.identity(name, 2)
    parts = [set(part.qid.tolist()) for part in (first.train, first.vali, first.test)]
    assert sum(map(len, parts)) == len(set.union(*parts))
    assert other.train.n_queries == first.train.n_queries
    names = [set(sets.query_names(name, seed, first.test.qid)) for seed in (1, 2)]
    assert not names[0] & names[1]


def test_a_search_is_its_best_trial_on_validation_queries_and_costs_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_default, "KEPT", tmp_path)
    family = next(iter(systems.SPACES))
    trials = [each for each in systems.systems(1) if each.family == family and each.trial]
    if not trials[0].installed:
        pytest.skip(f"{trials[0].library} is not installed")

    def keep(system: Any, **content: Any) -> None:
        path = table_default.kept_path("mslr", 1, system)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content), "utf-8")

    for system in trials[:-1]:
        keep(system, vali=0.1 * system.trial, cpu=1.0, test={"q": float(system.trial)})
    assert table_default.read("mslr", [1]) == ({}, {})  # one trial is missing
    keep(trials[-1], vali=0.2, cpu=3.0, test={"q": 8.0})
    keeprank = next(each for each in systems.systems(1) if each.family == "KeepRank()")
    keep(keeprank, refused="MemoryLimitError: too large")
    found, refused = table_default.read("mslr", [1])
    best = Result({1: {"q": 7.0}}, {1: pytest.approx(0.7)}, {1: 10.0})
    assert found == {f"{family}, search": best}
    assert refused == {"KeepRank()": "MemoryLimitError: too large"}
