"""Items from a file of any format, and back."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.io.items import detect_format
from rankwright.exceptions import DegenerateDataWarning, UnknownLevelWarning

SHOP = "search term,sku,color,price,judgment\nshoe,a,red,9,2\nshoe,b,blue,,0\nhat,c,red,3,1\n"
COLUMNS = {"qid": "search term", "docid": "sku", "one_hot": ["color"]}


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "shop.csv").write_text(SHOP)
    return tmp_path / "shop.csv"


@pytest.mark.parametrize(
    "text, format",
    [
        ("2 qid:1 1:0.5\n", "letor"),
        ("# a comment\n2 qid:1 1:0.5\n", "letor"),
        ("qid,grade,a\n1,2,3\n", "csv"),
        ("qid\tgrade\ta\n1\t2\t3\n", "tsv"),
        ('{"qid": 1}\n', "jsonl"),
        ("q1 Q0 d1 1 0.5 x\n", "run"),
        ("q1 0 d1 1\n", "qrels"),
        ("1::2::5::978300760\n", "ratings"),
        ("0.25\n", "scores"),
        ("something else\n", None),
    ],
)
def test_the_first_line_gives_the_format(tmp_path, text, format):
    (tmp_path / "file").write_text(text)
    assert detect_format(tmp_path / "file") == format


@pytest.mark.parametrize("ending", ["letor", "csv", "tsv", "jsonl", "parquet", "csv.gz"])
def test_items_come_back_as_they_were_written(tmp_path, ending):
    X = np.array([[0.1, 1 / 3], [2.0, -1e-300], [0.0, 5.0]])
    items = rw.Items(X, [2, 0, 1], qid=["a", "a", "b"], docid=["x", "y", "z"])
    path = tmp_path / f"items.{ending}"
    rw.data.write_items(items, path)
    back = rw.read_items(path)
    assert back.X.tolist() == X.tolist()
    assert back.y.tolist() == [2, 0, 1]
    assert back.qid.tolist() == ["a", "a", "b"]
    assert back.docid.tolist() == ["x", "y", "z"]


def test_columns_are_found_by_name_or_position(shop):
    by_name = rw.read_items(shop, **COLUMNS)
    by_position = rw.read_items(shop, y=4, qid=0, docid="1", one_hot=[2])
    assert by_name.feature_names == by_position.feature_names
    assert by_name.feature_names == ("color=blue", "color=red", "price")
    assert np.isnan(by_name.X[1, 2])


def test_new_data_get_the_features_of_the_old(shop, tmp_path):
    items = rw.read_items(shop, **COLUMNS)
    new = tmp_path / "new.csv"
    new.write_text("price,stock,color,sku,search term,grade\n4,7,green,d,cap,1\n5,8,red,e,cap,0\n")
    with pytest.warns(UnknownLevelWarning, match=r"1 cells of color .*\(green\)"):
        other = rw.read_items(new, qid="search term", docid="sku", like=items)
    assert other.feature_names == items.feature_names
    assert other.X.tolist() == [[0, 0, 4], [0, 1, 5]]
    new.write_text("color,grade\nred,1\n")
    with pytest.raises(rw.DataError, match="lacks the column 'price'"):
        rw.read_items(new, like=items)


def test_text_where_a_model_has_numbers_is_refused(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("query,grade,price,code\na,1,2,x1\na,0,3,x2\n")
    rows = np.array([[2.0, 1.0], [3.0, 2.0]])
    model = rw.LambdaMART(n_estimators=1, min_samples_leaf=1).fit(rows, [1, 0])
    model.feature_names_in_ = np.array(["price", "code"], dtype=object)
    rw.save(model, tmp_path / "model.rw")
    with pytest.raises(rw.DataError) as refused:
        rw.read_items(path, like=rw.load_scorer(tmp_path / "model.rw"))
    assert refused.value.kind == "text for numbers"
    assert refused.value.file == str(path)


def test_a_model_that_needs_every_value_refuses_missing_ones(shop, tmp_path):
    items = rw.read_items(shop, **COLUMNS)
    X = np.nan_to_num(items.X)
    model = rw.RidgeRanker().fit(X, items.y)
    model.feature_names_in_ = np.array(items.feature_names, dtype=object)
    rw.save(model, tmp_path / "model.rw")
    scorer = rw.load_scorer(tmp_path / "model.rw")
    with pytest.raises(rw.DataError, match="item 2 has no value for price"):
        rw.read_items(shop, like=scorer, qid="search term")


def test_letor_data_with_fewer_features_are_warned_of(tmp_path):
    path = tmp_path / "narrow.txt"
    path.write_text("".join(f"{k % 2} qid:1 1:{k}\n" for k in range(60)))
    wide = rw.Items(np.ones((2, 3)), [0, 1])
    with pytest.warns(DegenerateDataWarning, match="every feature after number 1 is 0"):
        assert rw.read_items(path, like=wide).n_features == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rw.read_items(path)
