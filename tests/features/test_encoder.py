"""TableEncoder: the encoding belongs to the model, in Python, at a shell and in its file."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_shop
from rankwright.exceptions import (
    DataError,
    ModelFileError,
    UnknownLevelWarning,
)
from rankwright.features import TableEncoder
from rankwright.persist import format as fmt

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.UnknownLevelWarning")


@pytest.fixture(scope="module")
def shop():
    table = make_shop(40, random_state=3)
    n = table.n_rows
    return table.take(slice(0, 4 * n // 5)), table.take(slice(4 * n // 5, n))


def features(table):
    return {name: column for name, column in table.items() if name not in ("query", "grade")}


@pytest.fixture(scope="module")
def model(shop):
    train, _ = shop
    ranker = rw.LambdaMART(n_estimators=10, min_samples_leaf=5, random_state=0)
    kinds = {"product": "drop", "orders_after": "drop"}
    pipeline = rw.RankPipeline([("encode", TableEncoder(kinds=kinds)), ("rank", ranker)])
    return pipeline.fit(pd.DataFrame(features(train)), train["grade"], qid=train["query"])


def test_a_pipeline_scores_tables_of_any_library_alike(model, shop):
    test = features(shop[1])
    frame = pd.DataFrame(test)
    expected = model.decision_function(frame)
    assert len(np.unique(expected)) > 50
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    encoded = model[0].transform(test)
    for X in (test, rows, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), encoded):
        np.testing.assert_array_equal(model.decision_function(X), expected)


def test_a_file_holds_the_encoding(model, shop, tmp_path):
    test = features(shop[1])
    expected = model.decision_function(test)
    rw.save(model, tmp_path / "m.rw")
    loaded, scorer = rw.load(tmp_path / "m.rw"), rw.load_scorer(tmp_path / "m.rw")
    assert loaded[0].encoding_ == model[0].encoding_ == scorer.encoding
    assert scorer.feature_names == tuple(model[0].get_feature_names_out())
    for one in (loaded, scorer):
        np.testing.assert_array_equal(one.decision_function(pd.DataFrame(test)), expected)
        places = one.rank(test, qid=shop[1]["query"])
        np.testing.assert_array_equal(places, model.rank(test, qid=shop[1]["query"]))
    assert rw.model_digest(loaded) == rw.model_digest(model) == rw.model_digest(tmp_path / "m.rw")


def test_another_encoding_is_another_model(model, shop):
    other = rw.RankPipeline(list(model.steps))
    encoding = model[0].encoding_
    columns = [*encoding.columns[:-1], encoding.columns[-1]]
    position = next(k for k, c in enumerate(columns) if c.kind == "date")
    import msgspec

    columns[position] = msgspec.structs.replace(columns[position], newest=0.0)
    encoder = TableEncoder.of(type(encoding)(tuple(columns)))
    other.steps = [("encode", encoder), *model.steps[1:]]
    assert rw.model_digest(other) != rw.model_digest(model)


def test_a_model_scores_without_the_training_libraries(model, shop, tmp_path):
    rw.save(model, tmp_path / "m.rw")
    row = {name: column[0] for name, column in shop[1].items()}
    row = {name: getattr(cell, "item", lambda cell=cell: cell)() for name, cell in row.items()}
    row = {name: None if cell != cell else cell for name, cell in row.items()}
    code = (
        "import json, sys\n"
        "for name in ('sklearn', 'scipy', 'numba', 'pandas'): sys.modules[name] = None\n"
        "from rankwright.persist.scorer import load_scorer\n"
        "row = json.loads(sys.argv[2])\n"
        "print(load_scorer(sys.argv[1]).decision_function([row])[0].hex())\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "m.rw"), json.dumps(row)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert float.fromhex(done.stdout.strip()) == model.decision_function([row])[0]


def test_unknown_levels_count_as_missing_and_are_counted(model, shop):
    row = {name: column[:1] for name, column in features(shop[1]).items()}
    new, gap = {**row, "color": ["mauve"]}, {**row, "color": [None]}
    with pytest.warns(UnknownLevelWarning, match="1 cells of color .*mauve"):
        found = model.decision_function(new)
    assert found == model.decision_function(gap)
    assert model[0].unknown_levels(new)["color"] == {"mauve": 1}


def test_a_damaged_encoding_is_refused(model, tmp_path):
    rw.save(model, tmp_path / "m.rw")
    manifest, arrays = fmt.read_file(tmp_path / "m.rw")
    import msgspec

    columns = manifest.encoding.columns
    broken = {
        "other features": columns[1:],
        "a date without a reference": [
            msgspec.structs.replace(c, newest=None) if c.kind == "date" else c for c in columns
        ],
    }
    for chosen in broken.values():
        encoding = type(manifest.encoding)(tuple(chosen))
        fmt.write_file(
            tmp_path / "bad.rw", msgspec.structs.replace(manifest, encoding=encoding), arrays
        )
        for read in (rw.load, rw.load_scorer):
            with pytest.raises(ModelFileError):
                read(tmp_path / "bad.rw")


def test_a_ranker_that_needs_every_value_gets_them_filled(shop, tmp_path):
    train, test = shop
    kinds = {"product": "drop", "orders_after": "drop"}
    encoder = TableEncoder(kinds=kinds, fill=True)
    model = rw.RankPipeline([("encode", encoder), ("rank", rw.RidgeRanker())])
    model.fit(features(train), train["grade"], qid=train["query"])
    assert "stars=(missing)" in model[0].get_feature_names_out()
    rw.save(model, tmp_path / "m.rw")
    expected = model.decision_function(features(test))
    found = rw.load_scorer(tmp_path / "m.rw").decision_function(features(test))
    np.testing.assert_array_equal(found, expected)


def test_codes_are_categories_of_trees(shop, tmp_path):
    train, test = shop
    names = ["category", "brand", "color", "device"]
    kinds = {"product": "drop", "orders_after": "drop", **dict.fromkeys(names, "codes")}
    encoder = TableEncoder(kinds=kinds)
    found = TableEncoder(kinds=kinds).fit(features(train)).get_feature_names_out().tolist()
    ranker = rw.LambdaMART(n_estimators=5, categorical_features=[found.index(n) for n in names])
    model = rw.RankPipeline([("encode", encoder), ("rank", ranker)])
    model.fit(features(train), train["grade"], qid=train["query"])
    assert set(names) < set(model[0].get_feature_names_out())
    rw.save(model, tmp_path / "m.rw")
    expected = model.decision_function(features(test))
    found = rw.load_scorer(tmp_path / "m.rw").decision_function(features(test))
    np.testing.assert_array_equal(found, expected)


def test_auto_ranker_behind_an_encoder_is_saved(shop, tmp_path):
    train, test = shop
    auto = rw.AutoRanker([("trees", rw.LambdaMART(n_estimators=5))], combine=False)
    kinds = {"product": "drop", "orders_after": "drop"}
    model = rw.RankPipeline([("encode", TableEncoder(kinds=kinds)), ("rank", auto)])
    model.fit(features(train), train["grade"], qid=train["query"])
    rw.save(model, tmp_path / "m.rw")
    found = rw.load(tmp_path / "m.rw").decision_function(features(test))
    np.testing.assert_array_equal(found, model.decision_function(features(test)))


def test_a_table_without_a_column_is_refused(model):
    with pytest.raises(DataError, match="lacks the column 'price'"):
        model.decision_function({"stars": [1.0]})
    with pytest.raises(DataError, match="without the names"):
        model.decision_function(np.ones((2, 3)))


def test_text_in_front_of_a_bare_ranker_names_the_encoder():
    with pytest.raises(DataError, match="TableEncoder"):
        rw.RidgeRanker().fit(pd.DataFrame({"color": ["red", "blue"]}), [0, 1])
