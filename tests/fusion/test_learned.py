"""Fusion that is learned: from grades, from preferences, for engines that come and go."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import rankwright as rw
from persist.conftest import Forgery
from rankwright.data.datasets.synthetic import make_engines
from rankwright.exceptions import DataError, DegenerateDataWarning, ModelFileError, ParameterError


def _ap(run: rw.Run, qrels: rw.Qrels) -> float:
    aligned = rw.data.align(run, qrels)
    return rw.evaluate(aligned.scores, aligned.y, aligned.qid, "AP")["AP"]


@pytest.fixture(scope="module")
def seen():
    return make_engines(80, 60, 5, noise=(0.4, 4.0), random_state=1)


@pytest.fixture(scope="module")
def unseen():
    return make_engines(80, 60, 5, noise=(0.4, 4.0), random_state=2)


@pytest.fixture(scope="module")
def fusion(seen):
    return rw.LearnedFusion().fit(seen.runs, seen.qrels)


def test_it_beats_the_best_engine_and_rules_that_believe_all_engines_alike(fusion, unseen) -> None:
    learned = _ap(fusion.fuse(unseen.runs), unseen.qrels)
    engines = [_ap(run, unseen.qrels) for run in unseen.runs]
    rules = [_ap(rw.fuse(unseen.runs, method), unseen.qrels) for method in ("rrf", "mnz", "borda")]
    assert learned > max(engines)
    assert learned > max(rules)


def test_its_features_are_those_of_items_from_runs(fusion, seen) -> None:
    items = rw.data.items_from_runs(seen.runs, seen.qrels)
    plain = rw.RankBoost(default=0, cumulative=True, criterion="z")
    plain.fit(items.X, items.y, qid=items.qid)
    assert fusion.ranker_.alpha_.tolist() == pytest.approx(plain.alpha_.tolist())
    assert fusion.ranker_.feature_.tolist() == plain.feature_.tolist()
    fused = fusion.fuse(seen.runs).to_dict()
    for query, doc, score in zip(
        items.qid, items.docid, plain.decision_function(items.X), strict=True
    ):
        assert fused[query][doc] == pytest.approx(score)


def test_engines_are_known_by_name_in_any_order(fusion, unseen) -> None:
    forward = fusion.fuse(unseen.runs)
    backward = fusion.fuse(list(unseen.runs)[::-1])
    assert forward.to_dict() == backward.to_dict()


def test_an_engine_that_is_missing_abstains(fusion, unseen) -> None:
    without = fusion.fuse(unseen.runs[1:])
    nothing = rw.Run.from_arrays([], [], [], name="engine-0")
    assert without.to_dict() == fusion.fuse([nothing, *unseen.runs[1:]]).to_dict()


def test_an_engine_that_was_not_there_is_refused(fusion) -> None:
    with pytest.raises(DataError, match="'run-0' was not among the engines"):
        fusion.fuse([["a", "b"]])


def test_nothing_listed_fuses_to_nothing(fusion) -> None:
    assert len(fusion.fuse({"engine-0": {}})) == 0


def test_preferences_that_spell_out_the_grades_teach_the_same(seen) -> None:
    judged = seen.qrels.to_dict()
    listed = [set() for _ in judged]
    for run in seen.runs:
        for number, query in enumerate(judged):
            listed[number] |= set(run.to_dict()[query])
    preferences = [
        (query, upper, lower)
        for number, query in enumerate(judged)
        for upper in listed[number]
        for lower in listed[number]
        if judged[query][upper] > judged[query][lower]
    ]
    ranker = rw.RankBoost(n_estimators=20, default=0, cumulative=True)
    from_pairs = rw.LearnedFusion(ranker).fit_preferences(seen.runs, preferences)
    from_grades = rw.LearnedFusion(ranker).fit(seen.runs, seen.qrels)
    assert from_pairs.ranker_.alpha_ == pytest.approx(from_grades.ranker_.alpha_)
    assert from_pairs.engines_ == from_grades.engines_


def test_preferences_of_documents_nobody_lists_are_left_out_and_counted() -> None:
    runs = {"one": {"q": ["a", "b"]}, "two": {"q": ["b", "a"]}}
    with pytest.warns(DegenerateDataWarning, match="1 of 3 preferences"):
        fusion = rw.LearnedFusion().fit_preferences(
            runs, [("q", "a", "b"), ("q", "zzz", "b"), ("q", "a", "b", 2.0)]
        )
    assert fusion.fuse(runs).to_dict()["q"]["a"] > fusion.fuse(runs).to_dict()["q"]["b"]


@pytest.mark.parametrize("features", ["position", "minmax", "zscore", "borda"])
@pytest.mark.parametrize("ranker", [None, rw.RidgeRanker()])
def test_rankers_with_and_without_abstention_learn_from_any_features(
    ranker, features, seen, unseen
) -> None:
    fusion = rw.LearnedFusion(ranker, features=features).fit(seen.runs, seen.qrels)
    mean_engine = np.mean([_ap(run, unseen.qrels) for run in unseen.runs])
    assert _ap(fusion.fuse(unseen.runs), unseen.qrels) > mean_engine


@pytest.mark.parametrize("ranker", [None, rw.RidgeRanker(alpha=0.1), rw.RankSVM()])
def test_a_saved_fusion_fuses_again(ranker, seen, unseen, tmp_path) -> None:
    fusion = rw.LearnedFusion(ranker, features="minmax").fit(seen.runs, seen.qrels)
    rw.save(fusion, tmp_path / "fusion.rw")
    again = rw.load(tmp_path / "fusion.rw")
    assert repr(again) == repr(fusion)
    assert again.engines_ == fusion.engines_
    assert again.fuse(unseen.runs).to_dict() == fusion.fuse(unseen.runs).to_dict()


FORGED = {
    "one engine too few": lambda learned: learned["engines_"]["tuple"].pop(),
    "one engine twice": lambda learned: learned["engines_"]["tuple"].__setitem__(0, "engine-1"),
    "an engine that is a number": lambda learned: learned["engines_"]["tuple"].__setitem__(0, 7),
    "engines that are a text": lambda learned: learned.update(engines_="abcde"),
    "no engines": lambda learned: learned.pop("engines_"),
    "no ranker": lambda learned: learned.pop("ranker_"),
    "a ranker that is a fusion": lambda learned: learned.update(
        ranker_={"model": {"kind": "LearnedFusion", "params": {}, "learned": {}}}
    ),
    "a ranker never fitted": lambda learned: learned["ranker_"]["model"].update(learned={}),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_fusion_is_refused(forged, fusion, tmp_path) -> None:
    rw.save(fusion, tmp_path / "fusion.rw")
    file = Forgery(tmp_path / "fusion.rw")
    FORGED[forged](file.manifest["model"]["learned"])
    with pytest.raises(ModelFileError):
        rw.load(file.write(tmp_path / "forged.rw"))


def test_it_can_be_cloned_and_says_when_it_is_not_fitted() -> None:
    fusion = clone(rw.LearnedFusion(rw.RankBoost(n_estimators=7), features="rank"))
    assert (fusion.ranker.n_estimators, fusion.features) == (7, "rank")
    with pytest.raises(NotFittedError):
        fusion.fuse([["a"]])


def test_runs_and_ranker_given_are_left_as_they_were(seen) -> None:
    ranker = rw.RankBoost(n_estimators=3, default=0)
    rw.LearnedFusion(ranker).fit(seen.runs, seen.qrels)
    assert not hasattr(ranker, "alpha_")


def test_junk_and_unjudged_documents_have_grade_0() -> None:
    runs = {"one": {"q": ["a", "b", "c"]}}
    with_junk = rw.LearnedFusion().fit(runs, {"q": {"a": 1, "b": -2}})
    unjudged = rw.LearnedFusion().fit(runs, {"q": {"a": 1}})
    assert with_junk.ranker_.alpha_.tolist() == unjudged.ranker_.alpha_.tolist()


def test_one_grade_throughout_is_warned_of_and_gives_equal_scores() -> None:
    runs = {"one": {"q": ["a", "b", "c"]}}
    with pytest.warns(DegenerateDataWarning, match="no preference"):
        fusion = rw.LearnedFusion().fit(runs, {"q": {"a": 0}})
    assert set(fusion.fuse(runs).score.tolist()) == {0.0}


HEDGE = {
    "good": {"p": ["a", "b", "c"], "q": ["a", "c", "b"]},
    "bad": {"p": ["c", "b", "a"], "q": ["b", "a"]},
}
JUDGED = {"p": {"a": 2, "b": 1}, "q": {"a": 1}}


def test_hedge_multiplies_weights_by_losses_computed_by_hand() -> None:
    fusion = rw.LearnedFusion(method="hedge", beta=0.25).fit(HEDGE, JUDGED)
    # p: pairs a > b, a > c, b > c; good has all, bad none. q: a > b, a > c; bad lists b, a, and
    # not c, so one of its two is right.
    weights = np.array([1.0, 0.25**1.0])
    weights /= weights.sum()
    after = weights * [1.0, 0.25**0.5]
    np.testing.assert_allclose(fusion.weights_, after / after.sum())
    together = 0.5 * 1.0 + weights[1] * 0.5
    np.testing.assert_allclose(fusion.loss_, [0.0, 1.5, together])
    same = rw.LearnedFusion(method="hedge", beta=0.25).fit_preferences(
        HEDGE, [("p", "a", "b"), ("p", "a", "c"), ("p", "b", "c"), ("q", "a", "b"), ("q", "a", "c")]
    )
    np.testing.assert_allclose(same.weights_, fusion.weights_)


def test_hedge_orders_greedily_by_weighted_preferences(seen, unseen) -> None:
    fusion = rw.LearnedFusion(method="hedge").fit(seen.runs, seen.qrels)
    runs = {run.name: run.to_dict() for run in unseen.runs}
    fused = fusion.fuse(unseen.runs).to_dict()
    for query in list(fused)[:10]:
        docs = sorted({doc for run in runs.values() for doc in run[query]})

        def prefers(u: str, v: str, query: str = query) -> float:
            total = 0.0
            for weight, name in zip(fusion.weights_, fusion.engines_, strict=True):
                scores = runs[name][query]
                one, other = scores.get(u, -np.inf), scores.get(v, -np.inf)
                total += weight * (0.5 if one == other else float(one > other))
            return total

        left, order = list(docs), []
        while left:
            favor = [sum(prefers(u, v) - prefers(v, u) for v in left) for u in left]
            order.append(left.pop(int(np.argmax(np.round(favor, 9)))))
        assert sorted(fused[query], key=fused[query].get, reverse=True) == order


def test_hedge_keeps_its_bound_and_finds_good_engines(seen, unseen) -> None:
    fusion = rw.LearnedFusion(method="hedge", beta=0.7).fit(seen.runs, seen.qrels)
    *engines, together = fusion.loss_
    bound = (min(engines) * np.log(1 / 0.7) + np.log(len(engines))) / (1 - 0.7)
    assert together <= bound
    assert np.argmax(fusion.weights_) == np.argmin(engines)
    equal = rw.LearnedFusion(method="hedge", beta=1.0).fit(seen.runs, seen.qrels)
    learned, plain = (_ap(f.fuse(unseen.runs), unseen.qrels) for f in (fusion, equal))
    assert learned > plain


def test_hedge_is_saved_and_is_not_a_file_of_scores(seen, unseen, tmp_path) -> None:
    fusion = rw.LearnedFusion(method="hedge").fit(seen.runs, seen.qrels)
    rw.save(fusion, tmp_path / "hedge.rw")
    loaded = rw.load(tmp_path / "hedge.rw")
    assert loaded.fuse(unseen.runs).to_dict() == fusion.fuse(unseen.runs).to_dict()
    with pytest.raises(ParameterError):
        rw.export(fusion, tmp_path / "hedge.sql", to="sql")
