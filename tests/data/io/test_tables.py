"""Tables become items: every column in its part, every bad cell by its line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwright.data.io.tables import items_from_frame, read_jsonl, read_table
from rankwright.exceptions import FileFormatError

ROWS = {"q": ["a", "b"], "d": ["x", "y"], "f": [0.5, 1.5], "g": [1, 0], "grade": [2, 0]}
CSV = "q,d,f,g,grade\na,x,0.5,1,2\nb,y,1.5,0,0\n"


def check(items):
    assert items.X.tolist() == [[0.5, 1.0], [1.5, 0.0]]
    assert items.y.tolist() == [2.0, 0.0]
    assert items.qid.tolist() == ["a", "b"]
    assert items.docid.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    "frame",
    [pd.DataFrame(ROWS), pl.DataFrame(ROWS), pl.DataFrame(ROWS).lazy(), pa.table(ROWS), ROWS],
    ids=["pandas", "polars", "polars-lazy", "pyarrow", "dict"],
)
def test_every_kind_of_frame_gives_the_same_items(frame):
    items = items_from_frame(frame, y="grade", qid="q", docid="d")
    check(items)
    assert items.feature_names == ("f", "g")


@pytest.mark.parametrize(
    "text",
    [CSV, CSV.replace(",", ";"), CSV.replace(",", "\t"), CSV.replace(",", "  "), "\ufeff" + CSV],
)
def test_every_separator_gives_the_same_items(tmp_path, text):
    (tmp_path / "items").write_text(text, encoding="utf-8")
    items = read_table(tmp_path / "items", y="grade", qid="q", docid="d")
    check(items)
    assert items.feature_names == ("f", "g")


def test_columns_are_chosen_by_place_where_there_is_no_header(tmp_path):
    (tmp_path / "items").write_text(CSV.split("\n", 1)[1])
    items = read_table(tmp_path / "items", y=-1, qid=0, docid=1, features=[2, 3])
    check(items)
    assert items.feature_names is None


@pytest.mark.parametrize("write", ["to_csv", "to_parquet"])
def test_the_index_that_pandas_writes_is_no_feature(tmp_path, write):
    getattr(pd.DataFrame(ROWS, index=[5, 3]), write)(tmp_path / "items")
    items = read_table(tmp_path / "items", y="grade", qid="q", docid="d")
    check(items)
    assert items.feature_names == ("f", "g")


def test_a_parquet_file_gives_the_same_items(tmp_path):
    pd.DataFrame(ROWS).to_parquet(tmp_path / "items")
    check(read_table(tmp_path / "items", y="grade", qid="q", docid="d"))


def test_words_become_columns_of_zero_and_one(tmp_path):
    (tmp_path / "items").write_text("M,1,3\nF,2,4\nI,3,5\nM,4,6\n")
    items = read_table(tmp_path / "items", y=-1, one_hot=[0])
    assert items.X.tolist() == [[0, 0, 1, 1], [1, 0, 0, 2], [0, 1, 0, 3], [0, 0, 1, 4]]


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=True, allow_infinity=False), st.integers(0, 9), st.integers(0, 4)
        ),
        min_size=1,
    )
)
def test_any_table_of_numbers_survives_a_csv_file(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "items.csv"
    pd.DataFrame(rows, columns=["f", "g", "grade"]).to_csv(path, index=False)
    items = read_table(path, y="grade")
    np.testing.assert_array_equal(items.X, np.array([row[:2] for row in rows], dtype=float))
    np.testing.assert_array_equal(items.y, [row[2] for row in rows])


@pytest.mark.parametrize(
    "line, place, reason",
    [
        ("c,z,abc,1,2", (4, 5), 'f "abc" is not a finite number'),
        ("c,z,inf,1,2", (4, 5), 'f "inf" is not a finite number'),
        ("c,z,1,1,", (4, 9), "grade is empty"),
        ("c,z,1,1,NA", (4, 9), 'grade "NA" is not a finite number'),
        (",z,1,1,2", (4, 1), "q is empty"),
        ("c,z,1,1", (4, 8), "4 fields, not 5"),
        ("c,z,1,1,2,3", (4, 11), "6 fields, not 5"),
    ],
)
def test_a_bad_cell_is_refused_by_line_and_column(tmp_path, line, place, reason):
    (tmp_path / "items").write_text(CSV + line)
    with pytest.raises(FileFormatError) as caught:
        read_table(tmp_path / "items", y="grade", qid="q", docid="d")
    assert (caught.value.line, caught.value.column) == place
    assert reason in caught.value.message


GAPS = ["", "?", "NA", "na", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None"]


@pytest.mark.parametrize("gap", GAPS)
def test_usual_signs_of_an_unknown_value_are_gaps(tmp_path, gap):
    (tmp_path / "items").write_text(f"f,g,grade\n{gap},1,2\n3,{gap},0\n")
    expected = [[np.nan, 1], [3, np.nan]]
    np.testing.assert_array_equal(read_table(tmp_path / "items", y="grade").X, expected)
    columns = {"f": [gap, 3], "g": [1, gap], "grade": [2, 0]}
    frame = {name: np.array(cells, dtype=object) for name, cells in columns.items()}
    np.testing.assert_array_equal(items_from_frame(frame, y="grade").X, expected)


def test_null_in_json_is_a_gap(tmp_path):
    rows = '{"grade": 1, "f": null, "g": null}\n{"grade": 0, "f": 2, "g": null}\n'
    (tmp_path / "a.jsonl").write_text(rows)
    items = items_from_frame(read_jsonl(tmp_path / "a.jsonl"), y="grade")
    np.testing.assert_array_equal(items.X, [[np.nan, np.nan], [2, np.nan]])


def test_a_column_may_be_called_like_a_gap(tmp_path):
    (tmp_path / "items").write_text("na,mg,grade\n13.2,4.4,1\n")
    assert read_table(tmp_path / "items", y="grade").feature_names == ("na", "mg")


@pytest.mark.parametrize("columns", [{"drop": ["g"]}, {"drop": [-2]}, {"features": [2]}])
def test_a_column_can_be_left_out(tmp_path, columns):
    (tmp_path / "items").write_text(CSV)
    items = read_table(tmp_path / "items", y="grade", qid="q", docid="d", **columns)
    assert (items.feature_names, items.X.tolist()) == (("f",), [[0.5], [1.5]])


def test_most_cells_make_a_column_one_of_words(tmp_path):
    rows = ["grade,title,g", "1,Heat,1", "0,,NA", "1,Up,3", "1,2,3"]
    (tmp_path / "items").write_text("\n".join(rows))
    items = read_table(tmp_path / "items", y="grade")
    levels = ("title=2", "title=Heat", "title=Up", "title=(missing)")
    assert items.feature_names == (*levels, "g")


def test_few_words_among_numbers_are_mistakes(tmp_path):
    (tmp_path / "items").write_text("grade,f\n1,3\n0,oh\n1,2\n")
    with pytest.raises(FileFormatError, match='f "oh" is not a finite number') as error:
        read_table(tmp_path / "items", y="grade")
    assert (error.value.line, error.value.column, error.value.kind) == (3, 3, "wrong cell")
    assert read_table(tmp_path / "items", y="grade", kinds={"f": "text"}).n_features == 3
