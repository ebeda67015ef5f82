"""Events without ratings: containers, common names of columns, files."""

from __future__ import annotations

import gzip
import json
from datetime import date, datetime, timezone

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from rankwright.exceptions import DataError, ParameterError

DAY = 1714521600.0  # 2024-05-01


def test_ids_are_distinct_and_in_order_of_appearance() -> None:
    events = rw.Interactions(["b", "a", "b"], [7, 7, 8], weight=[1, 2, 3])
    assert events.users.tolist() == ["b", "a"]
    assert events.user.tolist() == [0, 1, 0]
    assert events.to_csr().toarray().tolist() == [[1, 3], [2, 0]]
    assert (events.n_events, events.n_users, events.n_items) == (3, 2, 2)


def test_repeated_events_add_up() -> None:
    assert rw.Interactions([1, 1], [7, 7], weight=[1, 2]).to_csr().toarray().tolist() == [[3]]


@pytest.mark.parametrize(
    "time",
    [
        ["2024-05-01T00:00:00Z", "2024-05-01T02:00:00+02:00"],
        ["2024-05-01", "2024-05-01T00:00:00.000"],
        [date(2024, 5, 1), datetime(2024, 5, 1, tzinfo=timezone.utc)],  # noqa: UP017
        np.array(["2024-05-01", "2024-05-01"], dtype="datetime64[ns]"),
        pd.Series(pd.to_datetime(["2024-05-01", "2024-05-01"])),
        ["20240501", "2024-05-01 00:00:00"],
        [DAY, str(DAY)],
    ],
    ids=str,
)
def test_times_may_be_dates_and_iso_texts(time) -> None:
    assert rw.Interactions([1, 2], [7, 7], time=time).time.tolist() == [DAY, DAY]


def test_a_matrix_becomes_events() -> None:
    from scipy.sparse import csr_array

    table = csr_array(np.array([[0.0, 2.0], [1.0, 0.0]]))
    events = rw.Interactions.from_csr(table, users=["a", "b"])
    assert events.users[events.user].tolist() == ["a", "b"]
    assert events.to_csr().toarray().tolist() == table.toarray().tolist()
    with pytest.raises(DataError, match="sparse"):
        rw.Interactions.from_csr(np.ones((2, 2)))
    with pytest.raises(DataError, match="3 users for 2"):
        rw.Interactions.from_csr(table, users=["a", "b", "c"])


def test_ratings_and_events_can_be_joined() -> None:
    ratings = rw.Ratings.from_arrays([1, 2], [7, 8], [5, 2])
    both = rw.Interactions.concat([rw.Interactions([2], [9]), ratings])
    assert both.users[both.user].tolist() == [2, 1, 2]
    mixed = rw.Interactions.concat([rw.Interactions([2], [9]), rw.Interactions(["2"], [9])])
    assert mixed.n_users == 2
    assert len(rw.Interactions.from_ratings(ratings, at_least=3)) == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("user,item,timestamp\nann,7,2024-05-01\nbob,8,2024-05-02\n", "log.csv"),
        ("Visitor-ID;Product;date\nann;7;2024-05-01\nbob;8;2024-05-02\n", "log.csv"),
        ('{"user_id": "ann", "item": 7, "time": "2024-05-01"}\n'
         '{"user_id": "bob", "item": 8, "time": "2024-05-02"}\n', "log.jsonl"),
    ],
)  # fmt: skip
def test_files_with_the_usual_names_are_read(tmp_path, text, name) -> None:
    (tmp_path / name).write_text(text)
    with gzip.open(tmp_path / f"{name}.gz", "wt") as file:
        file.write(text)
    for path in (tmp_path / name, tmp_path / f"{name}.gz"):
        for events in (rw.read_interactions(path), rw.read_feedback(path)):
            assert events.users.tolist() == ["ann", "bob"]
            assert events.items.tolist() == [7, 8]
            assert events.time.tolist() == [DAY, DAY + 86400]


def test_parquet_and_frames_are_read(tmp_path) -> None:
    frame = pd.DataFrame({"user": [1, 2], "product_id": ["x", "y"], "quantity": [3, 1]})
    frame.to_parquet(tmp_path / "log.parquet")
    for events in (
        rw.read_interactions(tmp_path / "log.parquet"),
        rw.read_feedback(tmp_path / "log.parquet"),
        rw.Interactions.from_frame(frame),
    ):
        assert events.items.tolist() == ["x", "y"]
        assert events.weight.tolist() == [3.0, 1.0]


def test_numbers_are_read_fast_and_ids_with_zeros_stay_text(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,ts\n1,10,5\n2,11,6\n")
    assert rw.read_interactions(path).users.dtype == np.int64
    path.write_text("user,item,ts\n01,10,5\n1,11,6\n")
    assert rw.read_interactions(path).users.tolist() == ["01", "1"]


def test_a_rating_is_a_rating_unless_events_are_asked_for(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating,note\n1,10,5,\n2,11,2,x\n")
    assert isinstance(rw.read_feedback(path), rw.Ratings)
    assert rw.read_interactions(path).weight.tolist() == [1.0, 1.0]
    assert rw.read_interactions(path, at_least=4).items.tolist() == [10]
    assert rw.read_interactions(path, weight="rating").weight.tolist() == [5.0, 2.0]


def test_a_file_without_a_header_has_user_item_and_time(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("1,10,2024-05-01\n2,11,2024-05-02\n")
    assert rw.read_interactions(path).time.tolist() == [DAY, DAY + 86400]
    assert rw.read_interactions(path, user=1, item=0).users.tolist() == [10, 11]


def test_what_cannot_be_read_is_refused_by_name(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("who,item\n1,10\n")
    with pytest.raises(DataError, match="for the user"):
        rw.read_interactions(path)
    assert rw.read_interactions(path, user="who").n_users == 1
    with pytest.raises(ParameterError, match="rating"):
        rw.read_interactions(path, rating="item")
    with pytest.raises(DataError, match="needs a column of ratings"):
        rw.read_interactions(path, user="who", at_least=3)


def test_features_are_numbers_categories_and_counts() -> None:
    features = rw.Attributes.from_frame(
        {"item": ["a", "b"], "year": [1990, 2010], "genres": ["Crime|Drama", None], "title": "XY"}
        | {"title": ["X", "Y"]}
    )
    assert features.names == ("year", "genres=Crime", "genres=Drama")
    rows = features.rows_of(np.array(["b", "unknown", "a"], object)).toarray()
    assert rows.tolist() == [[1, 0, 0], [0, 0, 0], [-1, 1, 1]]
    assert features.titles_of(np.array(["b", "c"])).tolist() == ["Y", "c"]


@pytest.mark.parametrize("write", ["to_csv", "to_parquet"])
def test_the_index_that_pandas_writes_is_no_feature(tmp_path, write) -> None:
    frame = pd.DataFrame({"item": [7, 8], "year": [1995.0, 1979.0]}, index=[5, 3])
    getattr(frame, write)(tmp_path / "films")
    assert rw.read_attributes(tmp_path / "films").names == ("year",)


def test_features_come_from_a_file(tmp_path) -> None:
    path = tmp_path / "films.csv"
    path.write_text("item,title,genre,year\n7,Heat,Crime|Drama,1995\n8,Alien,Horror,\n")
    features = rw.read_attributes(path)
    assert features.ids.tolist() == [7, 8]
    assert features.names == ("genre=Crime", "genre=Drama", "genre=Horror", "year")
    assert features.matrix.toarray().tolist() == [[1, 1, 0, 0], [0, 0, 1, 0]]
    lines = tmp_path / "films.jsonl"
    lines.write_text('{"item": 7, "title": "Heat"}\n{"item": 8, "title": "Alien"}\n')
    assert rw.read_attributes(lines).titles.tolist() == ["Heat", "Alien"]
    path.write_text("7,Heat\n8,Alien\n")
    with pytest.raises(rw.exceptions.DataError, match="header"):
        rw.read_attributes(path)


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e308])
def test_any_scale_of_a_numeric_feature_is_standardized(scale: float) -> None:
    features = rw.Attributes.from_frame({"item": [1, 2], "price": [-scale, scale]})
    assert features.matrix.toarray().ravel().tolist() == [-1.0, 1.0]


def test_columns_go_back_into_a_frame() -> None:
    events = rw.Interactions(["a"], [7], time=[3])
    frame = pd.DataFrame(events.to_columns())
    assert json.loads(frame.to_json(orient="records")) == [
        {"user": "a", "item": 7, "weight": 1.0, "time": 3.0}
    ]


def test_ratings_may_have_dates_too(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating,date\n1,10,5,2024-05-01\n2,11,2,2024-05-02\n")
    assert rw.read_ratings(path).time.tolist() == [DAY, DAY + 86400]
    path.write_text("user,item,rating,date\n1,10,5,2024-05-01\n2,11,2,soon\n")
    with pytest.raises(rw.exceptions.FileFormatError, match=r"3.*not a time"):
        rw.read_ratings(path)
    frame = pd.DataFrame({"user": [1], "item": [2], "rating": [3.0], "date": ["2024-05-01"]})
    assert rw.Ratings.from_frame(frame, time="date").time.tolist() == [DAY]
