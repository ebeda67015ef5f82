"""Provenance: a model file says how the model was made, and no more than that."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_shop
from rankwright.exceptions import ModelFileError
from rankwright.persist import format as fmt
from rankwright.persist import provenance_of
from rankwright.persist.provenance import Provenance

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


@pytest.fixture
def items(tmp_path):
    make_shop(40, random_state=0).write(tmp_path / "shop.csv")
    return rw.read_items(tmp_path / "shop.csv", drop=["orders_after"], verbose=False)


@pytest.fixture
def model(items):
    auto = rw.AutoRanker([("trees", rw.LambdaMART(n_estimators=5))], combine=False, quality=2)
    return auto.fit_items(items)


def test_what_is_known_of_a_training_is_recorded(model, items, tmp_path):
    made = provenance_of(
        model, items, measures=model.held_out_measures(), name="shop.csv", command="train shop.csv"
    )
    rw.save(model, tmp_path / "m.rw", provenance=made)
    found = fmt.read_file(tmp_path / "m.rw")[0].provenance
    assert found == made
    assert found.model["kind"] == "LambdaMART"
    assert found.model["parameters"]["n_estimators"] == 5
    assert (found.data.n_items, found.data.n_queries) == (1000, 40)
    low, mean, high = (getattr(found.measures["NDCG@10"], k) for k in ("low", "mean", "high"))
    assert 0 < low <= mean <= high < 1
    column = items.X[:, items.feature_names.index("stars")]
    statistics = found.statistics["stars"]
    assert statistics["mean"] == pytest.approx(np.nanmean(column))
    assert statistics["missing"] == pytest.approx(np.isnan(column).mean(), abs=1e-6)
    assert sum(found.levels["color"].values()) == pytest.approx(1.0, abs=1e-4)
    assert {c.name: c.read_as for c in found.columns}["row_id"] == "left out"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found.date)


def test_provenance_is_no_part_of_the_model(model, items, tmp_path):
    rw.save(model, tmp_path / "a.rw")
    rw.save(model, tmp_path / "b.rw", provenance=provenance_of(model, items, command="again"))
    rw.save(model, tmp_path / "c.rw")
    digests = {rw.model_digest(tmp_path / f"{name}.rw") for name in "abc"}
    assert digests == {rw.model_digest(model)}
    assert (tmp_path / "a.rw").read_bytes() == (tmp_path / "c.rw").read_bytes()


def test_no_row_id_or_query_is_in_a_file(model, items, tmp_path):
    rw.save(model, tmp_path / "m.rw", provenance=provenance_of(model, items))
    content = (tmp_path / "m.rw").read_bytes()
    for text in ("search 00007", *items.docid[:20].tolist()):
        assert text.encode() not in content


def test_other_data_have_another_hash(items):
    model = rw.RidgeRanker().fit(np.nan_to_num(items.X), items.y)
    hashes = {
        provenance_of(model, some).data.sha256
        for some in (items, items.take(slice(0, 999)), items.take(np.arange(1000)[::-1]), items)
    }
    assert len(hashes) == 3


def test_every_kind_of_model_has_provenance(tmp_path):
    ratings = rw.Ratings.from_arrays([1, 1, 2, 2], [1, 2, 1, 2], [5.0, 1.0, 4.0, 2.0])
    rw.save(rw.Recommender().fit(ratings), tmp_path / "r.rw")
    found = fmt.read_file(tmp_path / "r.rw")[0].provenance
    assert found.model["kind"] == "Recommender"
    assert found.versions["rankwright"] == rw.__version__


def test_a_damaged_block_is_refused(model, tmp_path):
    rw.save(model, tmp_path / "m.rw")
    manifest, _ = fmt.read_file(tmp_path / "m.rw")
    content = msgspec.to_builtins(manifest)
    content["provenance"]["owner"] = "somebody"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(content, fmt.Manifest)
    content["provenance"] = {"model": {"kind": "x"}, "versions": {"a": 1}}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(content, fmt.Manifest)
    (tmp_path / "m.rw").write_bytes((tmp_path / "m.rw").read_bytes()[:-9])
    with pytest.raises(ModelFileError):
        rw.load(tmp_path / "m.rw")


def test_the_shell_shows_it_and_writes_a_card(tmp_path, monkeypatch, capsys):
    from rankwright.cli.systems import card, describe_file

    shop = make_shop(20, random_state=0)
    shop["brand"][0] = "a | b <script>\nc"
    shop.write(tmp_path / "shop.csv")
    items = rw.read_items(tmp_path / "shop.csv", drop=["orders_after"], verbose=False)
    ranker = rw.AutoRanker([("trees", rw.LambdaMART(n_estimators=2))], combine=False, quality=2)
    model = ranker.fit_items(items)
    made = provenance_of(model, items, measures={"NDCG@10": (0.7, 0.6, 0.8)}, command="the | way")
    rw.save(model, tmp_path / "m.rw", provenance=made)
    about = describe_file(tmp_path / "m.rw")
    assert json.loads(json.dumps(about))["provenance"]["data"]["n_items"] == 500
    text = str(about)
    assert "NDCG@10: 0.7000 [0.6000, 0.8000]" in text
    assert "row_id" in text
    page = card(tmp_path / "m.rw")
    assert "| NDCG@10 | 0.7000 [0.6000, 0.8000] |" in page
    assert "the \\| way" in page
    assert "<script>" not in page
    columns = {line.count("|") - line.count("\\|") for line in page.splitlines() if line[:1] == "|"}
    assert columns == {3, 4}


def test_provenance_round_trips_as_json(model, items):
    made = provenance_of(model, items)
    assert msgspec.json.decode(msgspec.json.encode(made), type=Provenance) == made


@pytest.mark.filterwarnings("ignore")
def test_the_recipe_for_mlflow_runs(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    pd = pytest.importorskip("pandas")
    assert mlflow.__version__
    monkeypatch.chdir(tmp_path)
    page = (GUIDE / "model_files.md").read_text()
    [code] = re.findall(r"```python mlflow\n(.*?)```", page, re.S)
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    frame = pd.DataFrame({"price": [1.0, 2.0, 3.0], "color": ["red", "blue", None]})
    ranker = rw.LambdaMART(n_estimators=2, min_samples_leaf=1)
    encoder = rw.features.TableEncoder()
    model = rw.RankPipeline([("encode", encoder), ("rank", ranker)]).fit(frame, [0, 1, 2])
    rw.save(model, "model.rw")
    names = {"rw": rw, "frame": frame}
    exec(code, names)
    np.testing.assert_array_equal(names["scores"], model.decision_function(frame))
