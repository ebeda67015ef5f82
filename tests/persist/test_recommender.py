"""Recommenders as files: they come back whole, and files made to do harm are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import rankwright as rw
from persist.conftest import Forgery
from persist.make_museum import MUSEUM, recommenders
from rankwright.data.datasets.synthetic import make_ratings
from rankwright.exceptions import ModelFileError, ParameterError
from rankwright.persist.format import FORMAT

PIECES = sorted(MUSEUM.glob("format-*/recommenders/*.rw"))
MODELS = [
    rw.Recommender(random_state=3),
    rw.Recommender(ranker=rw.VSIM(), n_reference=20, random_state=3),
    rw.Recommender(ranker=rw.KNN(n_neighbors=3), n_reference=20, reference="dense"),
    rw.Recommender(ranker=rw.RidgeRanker(alpha=1.0), n_reference=9, reference="similar"),
    rw.Recommender(ranker=make_pipeline(rw.rankers.VSIMFeature(), rw.RankBoost(n_estimators=5))),
]


@pytest.fixture(scope="module")
def ratings() -> rw.Ratings:
    return make_ratings(40, 25, density=0.5, random_state=0).ratings


@pytest.fixture(scope="module")
def path(ratings: rw.Ratings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "recommender.rw"
    rw.save(rw.Recommender(random_state=0).fit(ratings), path)
    return path


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_recommender_comes_back_whole(model: Any, ratings: rw.Ratings, tmp_path: Path) -> None:
    model = model.fit(ratings)
    rw.save(model, tmp_path / "model.rw")
    loaded = rw.load(tmp_path / "model.rw")
    mine = {0: 5.0, 3: 1.0, 7: 4.0, 9: 2.0}
    assert repr(loaded) == repr(model)
    assert loaded.recommend_new(mine) == model.recommend_new(mine)
    assert loaded.recommend_all(n=3) == model.recommend_all(n=3)
    assert str(loaded.explain(mine, 2)) == str(model.explain(mine, 2))
    np.testing.assert_array_equal(loaded.predict_ratings(ratings), model.predict_ratings(ratings))


def test_ids_may_be_text_and_times_stay(tmp_path: Path) -> None:
    ratings = rw.Ratings.from_arrays(["a", "b", "b"], ["X", "X", "Ü"], [5, 5, 3], [1, 2, 3])
    rw.save(rw.Recommender(random_state=0).fit(ratings), tmp_path / "model.rw")
    loaded = rw.load(tmp_path / "model.rw")
    assert [each.item for each in loaded.recommend("a")] == ["Ü"]
    np.testing.assert_array_equal(loaded.ratings_.time, ratings.time)


def test_a_loaded_recommender_can_be_fitted_again(path: Path, ratings: rw.Ratings) -> None:
    again = rw.load(path)
    before = again.recommend(3)
    assert again.fit(ratings).recommend(3) == before


def test_ids_that_a_file_cannot_hold_are_refused_by_name(tmp_path: Path) -> None:
    ratings = rw.Ratings.from_arrays([("a", 1), ("b", 2)], ["X", "Y"], [5, 3])
    with pytest.raises(ParameterError, match=r"ratings_\.users is an array of Python objects"):
        rw.save(rw.Recommender(random_state=0).fit(ratings), tmp_path / "model.rw")


def test_a_recommender_is_no_scorer_of_rows(path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"rankwright\.load"):
        rw.load_scorer(path)


def blend(file: Any) -> Any:
    return file.manifest["model"]["learned"]["model_"]["model"]


def models(file: Any) -> Any:
    return [node["model"] for node in blend(file)["learned"]["models_"]]


def implicit(file: Any) -> Any:
    return models(file)[3]["learned"]["implicit_"]["part"]["values"]


def rated(file: Any) -> Any:
    return file.manifest["model"]["learned"]["ratings_"]["part"]["values"]


def array_of(place: int, name: str, number: Any, value: float) -> Callable[[Any], None]:
    def edit(file: Any) -> None:
        file.array(models(file)[place]["learned"][name]["array"]).ravel()[number] = value

    return edit


def of_ratings(name: str, number: int, value: float) -> Callable[[Any], None]:
    return lambda file: file.array(rated(file)[name]["array"]).__setitem__(number, value)


EDITS: dict[str, Callable[[Any], Any]] = {
    "an item that does not exist": of_ratings("item", 0, 10**6),
    "a negative user": of_ratings("user", 0, -1),
    "a rating that is NaN": of_ratings("value", 5, np.nan),
    "two items with one id": of_ratings("items", 1, 0),
    "no ratings": lambda file: file.manifest["model"]["learned"].pop("ratings_"),
    "no model": lambda file: file.manifest["model"]["learned"].pop("model_"),
    "ratings are a number": lambda file: file.manifest["model"]["learned"].update(ratings_=3),
    "users are a number": lambda file: rated(file).update(users=3),
    "the model is another recommender": lambda file: file.manifest["model"]["learned"].update(
        model_={"model": {"kind": "Recommender", "params": {}, "learned": {}}}
    ),
    "the model was never fitted": lambda file: blend(file).update(learned={}),
    "the ranker was never fitted": lambda file: blend(file)["learned"]["ranker_"]["model"].update(
        learned={}
    ),
    "no ranker is named": lambda file: blend(file)["learned"].pop("ranker_"),
    "a model too few": lambda file: blend(file)["learned"]["models_"].pop(),
    "the models in disorder": lambda file: blend(file)["learned"]["models_"].reverse(),
    "a model that is a ranker": lambda file: blend(file)["learned"]["models_"].__setitem__(
        0, blend(file)["learned"]["ranker_"]
    ),
    "a neighbor that does not exist": array_of(1, "neighbor_", 0, 25),
    "a neighbor before the first": array_of(1, "neighbor_", 0, -2),
    "a negative likeness": array_of(1, "similarity_", 0, -1.0),
    "an item bias that is NaN": array_of(0, "item_bias_", 0, np.nan),
    "factors without noise": lambda file: models(file)[3]["learned"].update(noise_=0.0),
    "a precision below zero": array_of(3, "user_precision_", 0, -1.0),
    "moments of nothing": array_of(3, "item_moments_", 0, -1e6),
    "more components than there are": lambda file: models(file)[3]["params"].update(
        n_components=25
    ),
    "moments from another array": lambda file: models(file)[3]["learned"].update(
        item_moments_=models(file)[3]["learned"]["item_factors_"]
    ),
    "implicit features of other items": lambda file: implicit(file).update(
        vector=models(file)[3]["learned"]["user_coef_"]
    ),
    "implicit features are text": lambda file: implicit(file).update(vector="all", average="none"),
    "negative damping": lambda file: models(file)[2]["params"].update(damping=-1.0),
    "an attribute nobody learned": lambda file: blend(file)["learned"].update(_weigh_=1),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_file_made_to_do_harm_is_refused(edit: Any, path: Path, tmp_path: Path) -> None:
    file = Forgery(path)
    edit(file)
    file.write(tmp_path / "evil.rw")
    with pytest.raises(ModelFileError):
        rw.load(tmp_path / "evil.rw")


@pytest.mark.parametrize("piece", PIECES, ids=lambda path: f"{path.parent.parent.name}/{path.stem}")
def test_an_old_recommender_gives_the_scores_it_gave(piece: Path) -> None:
    expected = json.loads(piece.with_suffix(".json").read_text())
    model = rw.load(piece)
    for user, scores in expected.items():
        rtol = 1e-5 if piece.stem == "events" else 1e-9  # its factors and sums are float32
        np.testing.assert_allclose(model.scores(user), scores, rtol=rtol)


def test_every_kind_of_recommender_has_a_piece_of_this_format() -> None:
    folder = MUSEUM / f"format-{FORMAT}" / "recommenders"
    missing = [name for name in recommenders() if not (folder / f"{name}.rw").exists()]
    assert not missing, "run: python tests/persist/make_museum.py"
    assert all(path.stat().st_size < 50_000 for path in PIECES)
