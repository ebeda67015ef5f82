"""Tables as they come: one set of rules for what a column is, and for how it becomes features."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import items_from_frame, make_shop, read_items, validate
from rankwright.data.columns import Encoding, Rules, fit_encoding, kind_of
from rankwright.exceptions import CellError, DataError, ParameterError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

ROLES = {"y": "grade", "qid": "query", "docid": "product"}


@pytest.fixture(scope="module")
def shop():
    return make_shop(30, random_state=1)


def test_a_shop_is_the_same_table_for_the_same_seed(shop):
    again, other = make_shop(30, random_state=1), make_shop(30, random_state=2)
    assert all((shop[name].astype(str) == again[name].astype(str)).all() for name in shop)
    assert (shop["price"] != other["price"]).any()
    assert 0.9 < (shop["grade"] == shop["orders_after"]).mean() < 0.95
    late = shop.take(slice(4 * 750 // 5, 750))
    assert set(late["brand"]) - set(shop.take(slice(0, 600))["brand"])
    with pytest.raises(ParameterError):
        make_shop(4)


def forms(shop, folder):
    """The same table in every form that is read."""
    frame = pd.DataFrame(shop)
    shop.write(folder / "a.csv")
    (folder / "b.tsv").write_text((folder / "a.csv").read_text().replace(",", "\t"))
    rows = json.loads(frame.to_json(orient="records"))
    (folder / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    frame.to_parquet(folder / "d.parquet")
    for name in ("a.csv", "b.tsv", "c.jsonl", "d.parquet"):
        yield name, rw.read_items(folder / name, verbose=False)
    typed = frame.astype({"category": "category", "cat_match": "boolean"})
    typed["launch_date"] = pd.to_datetime(typed["launch_date"])
    yield "pandas", items_from_frame(frame, **ROLES)
    yield "pandas with types", items_from_frame(typed, **ROLES)
    yield "polars", items_from_frame(pl.from_pandas(frame).cast({"brand": pl.Categorical}), **ROLES)
    yield "pyarrow", items_from_frame(pa.Table.from_pandas(frame), **ROLES)
    duckdb = pytest.importorskip("duckdb")
    source = str(folder / "a.csv")
    yield "duckdb", items_from_frame(duckdb.read_csv(source), **ROLES)


def test_every_form_of_a_table_gives_the_same_items(shop, tmp_path):
    read = dict(forms(shop, tmp_path))
    first = read["a.csv"]
    for name, items in read.items():
        assert items.feature_names == first.feature_names, name
        np.testing.assert_array_equal(items.X, first.X, err_msg=name)
        assert items.encoding == first.encoding, name
        assert [r.kind for r in items.read] == [r.kind for r in first.read], name


def test_columns_of_a_shop_are_read_as_they_are(shop, tmp_path):
    shop.write(tmp_path / "a.csv")
    items = rw.read_items(tmp_path / "a.csv", verbose=False)
    kinds = {r.name: r.kind for r in items.read}
    text = dict.fromkeys(["category", "brand", "color", "device"], "text")
    assert kinds == text | {
        "grade": "grade", "query": "query", "product": "id", "price": "number",
        "stars": "number", "stock": "number", "cat_match": "boolean", "launch_date": "date",
        "row_id": "drop", "orders_after": "number",
    }  # fmt: skip
    column = dict(zip(items.feature_names, items.X.T, strict=True))
    np.testing.assert_array_equal(column["color=red"], shop["color"] == "red")
    gaps = [cell is None for cell in shop["color"]]
    np.testing.assert_array_equal(column["color=(missing)"], gaps)
    np.testing.assert_array_equal(column["cat_match"], shop["cat_match"])
    dates = shop["launch_date"].astype("datetime64[D]")
    np.testing.assert_array_equal(column["launch_date.age"], (dates.max() - dates).astype(int))
    months = [dt.date.fromisoformat(day).month for day in shop["launch_date"]]
    np.testing.assert_array_equal(column["launch_date.month"], months)
    weekdays = [dt.date.fromisoformat(day).weekday() for day in shop["launch_date"]]
    np.testing.assert_array_equal(column["launch_date.weekday"], weekdays)


def test_a_table_of_text_is_printed_with_what_would_change_it(shop, tmp_path, capsys):
    shop.write(tmp_path / "a.csv")
    rw.read_items(tmp_path / "a.csv")
    told = capsys.readouterr().err
    assert "row_id        left out  a different whole number in every row" in told
    assert "grade         grade     its name" in told
    assert "to change it: kinds={'row_id': 'number'}" in told
    given = rw.read_items(tmp_path / "a.csv", kinds={"row_id": "number", "brand": "drop"})
    assert "row_id" in given.feature_names
    assert not any(name.startswith("brand") for name in given.feature_names)
    assert "row_id        number    as given" in capsys.readouterr().err


@pytest.mark.parametrize("graded", [True, False])
def test_a_rating_is_never_taken_as_the_grade(tmp_path, graded):
    path = tmp_path / "a.csv"
    path.write_text("query,doc,score,rating,price\na,x,1,4.5,3\na,y,2,3.5,4\n")
    if graded:
        with pytest.raises(DataError) as refused:
            rw.read_items(path)
        assert refused.value.kind == "no grade"
        assert rw.read_items(path, y="rating").y.tolist() == [4.5, 3.5]
    else:
        items = rw.read_items(path, graded=False)
        assert items.feature_names == ("score", "rating", "price")


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["True", "FALSE", ""], "boolean"),
        ([True, None, False], "boolean"),
        ([np.bool_(True), float("nan")], "boolean"),
        (["2024-05-31", "1912-06-23"], "date"),
        (["2024-05-31T10:00:00+02:00", "2024-05-31 10:00"], "date"),
        ([dt.date(1900, 1, 1), None], "date"),
        ([pd.Timestamp("2024-05-31", tz="Asia/Tokyo")], "date"),
        (["2024-02-30", "x"], "text"),
        (["31.05.2024", "01.06.2024"], "text"),
        (["1", "2.5", "", "NA"], "number"),
        ([1, "2", None], "number"),
        (["red", "Red", "réd"], "text"),
        ([None, None], "number"),
    ],
)
def test_the_kind_of_a_column(cells, kind):
    assert kind_of("c", cells)[0] == kind
    column = np.empty(len(cells), object)
    column[:] = cells
    assert kind_of("c", column)[0] == kind


def test_dates_before_1970_and_in_time_zones():
    moments = ["1969-12-31T12:00:00Z", "1970-01-01T01:00:00+01:00", "1901-01-01", ""]
    encoding, _ = fit_encoding({"d": moments})
    found = encoding.encode({"d": moments})
    ages = found[:, encoding.feature_names.index("d.age")]
    np.testing.assert_allclose(ages, [0.5, 0.0, 25202.0, np.nan])
    months = found[:, encoding.feature_names.index("d.month")]
    np.testing.assert_array_equal(months, [12, 1, 1, np.nan])


def test_ages_are_counted_from_a_reference_column():
    table = {"seen": ["2024-03-01", "2024-03-02"], "launched": ["2024-02-20", "2024-03-02"]}
    encoding, read = fit_encoding(table, Rules(reference="seen"))
    assert encoding.feature_names == ("launched.age",)
    assert encoding.encode(table).tolist() == [[10.0], [0.0]]
    assert [r.kind for r in read] == ["reference", "date"]


def test_levels_beyond_the_limit_count_as_missing():
    cells = [f"level {k % 100_000}" for k in range(150_000)]
    encoding, read = fit_encoding({"c": cells}, Rules(max_levels=50))
    assert encoding.n_features == 51
    assert "99,950 rare levels count as missing" in read[0].why
    assert encoding.encode({"c": ["level 0", "level 99999", "new"]})[:, -1].tolist() == [0, 1, 1]


def test_levels_that_differ_in_case_or_accents_are_different_and_told():
    encoding, read = fit_encoding({"c": ["Café", "cafe", "Cafe", "tea"]})
    assert encoding.n_features == 4
    assert "'Cafe' and 'Café' are different levels" in read[0].why


def test_numbers_as_text_and_as_numbers_are_the_same_cells():
    encoding, _ = fit_encoding(
        {"size": [7, 8, 7], "code": ["7", "x", "y"]}, Rules(kinds={"size": "text"})
    )
    assert encoding.encode({"size": ["7"], "code": [7.0]}).tolist() == [[1, 0, 1, 0, 0]]
    numbers, _ = fit_encoding({"price": [1.5, 2.0]})
    assert numbers.encode({"price": ["1.5"]}).tolist() == [[1.5]]
    with pytest.raises(CellError) as refused:
        numbers.encode({"price": ["cheap"]})
    assert (refused.value.name, refused.value.row, refused.value.value) == ("price", 0, "cheap")
    with pytest.raises(CellError):
        numbers.encode({"price": ["1.5"]}, strict=True)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfquery,grade,color\n1,2,red\n1,0,blue\n")
    items = rw.read_items(tmp_path / "a.csv", verbose=False)
    assert items.read[1].name == "query"


def test_features_of_the_same_name_are_refused():
    table = {"x": ["a=b", "c"], "x=a": ["b", "d"]}
    with pytest.raises(DataError, match="two features are called 'x=a=b'"):
        fit_encoding(table)


def test_an_encoding_survives_json():
    import msgspec

    table = {"d": ["2020-01-01", None], "c": ["a", ""], "b": [True, None], "n": [1.0, 2.0]}
    encoding, _ = fit_encoding(table, Rules(fill=True))
    copy = msgspec.json.decode(msgspec.json.encode(encoding), type=Encoding)
    assert copy == encoding
    copy.check()
    np.testing.assert_array_equal(copy.encode(table), encoding.encode(table))
    assert not np.isnan(encoding.encode(table)).any()


def in_every_frame(column, folder):
    """One column beside grades, in each form that Arrow's types reach."""
    duckdb = pytest.importorskip("duckdb")
    import pyarrow.parquet as pq

    n = len(column)
    table = pa.table({"query": [1] * n, "grade": [k % 2 for k in range(n)], "c": column})
    pq.write_table(table, folder / "a.parquet")
    roles = {"y": "grade", "qid": "query"}
    yield "pyarrow", lambda: items_from_frame(table, **roles)
    yield "parquet", lambda: rw.read_items(folder / "a.parquet", verbose=False)
    yield "polars", lambda: items_from_frame(pl.from_arrow(table), **roles)
    yield "duckdb", lambda: items_from_frame(duckdb.from_arrow(table), **roles)
    nullable = table.to_pandas(types_mapper=pd.ArrowDtype)
    yield "pandas", lambda: items_from_frame(nullable, **roles)


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        (
            pa.array(["a", None, "b"]).dictionary_encode(),
            "text",
            {"c=a": [1, 0, 0], "c=b": [0, 0, 1], "c=(missing)": [0, 1, 0]},
        ),
        (pa.array([True, None, False]), "boolean", {"c": [1, np.nan, 0]}),
        (
            pa.array([0, None, 86_400 * 10**9], pa.timestamp("ns")),
            "date",
            {"c.age": [1, np.nan, 0]},
        ),
        (
            pa.array([0, None, 86_400 * 10**9], pa.timestamp("ns", "Europe/Paris")),
            "date",
            {"c.age": [1, np.nan, 0]},
        ),
        (
            pa.array([b"a", None, "é".encode()]),
            "text",
            {"c=a": [1, 0, 0], "c=é": [0, 0, 1], "c=(missing)": [0, 1, 0]},
        ),
    ],
    ids=["dictionary", "boolean", "nanoseconds", "nanoseconds in a zone", "bytes"],
)
def test_types_with_nulls_are_the_same_in_every_frame(column, kind, expected, tmp_path):
    for name, read in in_every_frame(column, tmp_path):
        items = read()
        assert items.read[-1].kind == kind, name
        found = dict(zip(items.feature_names, items.X.T.tolist(), strict=True))
        assert list(found) == list(expected), name
        for feature, values in expected.items():
            np.testing.assert_array_equal(found[feature], values, err_msg=name)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, 2], [3, 4]]),
        pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([1.0, np.inf]),
        pa.array(["1,234", "2,5"]),
        pa.array([b"\xff", b"\xfe"]),
    ],
    ids=["lists", "arrays", "structs", "infinite", "commas", "not text"],
)
def test_what_is_no_cell_is_refused_in_every_frame(column, tmp_path):
    for name, read in in_every_frame(column, tmp_path):
        with pytest.raises(DataError) as refused:
            read()
        assert refused.value.kind == "wrong cell", name


@pytest.mark.parametrize(
    "cells",
    [[[1, 2], [3]], [[1, 2], [3, 4]], [dt.timedelta(1), None], [1j, 2.0], [np.inf, 1.0]],
    ids=["ragged lists", "lists", "durations", "complex", "infinite"],
)
def test_what_is_no_cell_is_refused_in_a_dict(cells):
    with pytest.raises(CellError) as refused:
        items_from_frame({"grade": [1, 0], "c": cells}, y="grade")
    assert (refused.value.name, refused.value.row) == ("c", 0)


def test_durations_of_a_frame_are_refused():
    frame = pd.DataFrame({"grade": [1, 0], "c": pd.to_timedelta([1, 2], unit="D")})
    with pytest.raises(CellError):
        items_from_frame(frame, y="grade")


def test_columns_of_the_same_name_are_refused_in_every_frame(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    import pyarrow.parquet as pq

    arrays = [pa.array([0, 1]), pa.array([1, 2]), pa.array([3, 4])]
    table = pa.Table.from_arrays(arrays, names=["grade", "x", "x"])
    pq.write_table(table, tmp_path / "a.parquet")
    pandas = pd.DataFrame([[0, 1, 2], [1, 3, 4]], columns=["grade", "x", "x"])
    relation = duckdb.sql("SELECT 0 grade, 1 x, 2 x")
    for frame in (table, pandas, relation):
        with pytest.raises(DataError, match="two columns are called 'x'"):
            items_from_frame(frame, y="grade")
    with pytest.raises(DataError, match="two columns are called 'x'"):
        rw.read_items(tmp_path / "a.parquet", verbose=False)


def test_names_that_differ_in_case_are_kept_in_a_parquet_file(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"grade": [0, 1], "x": [1, 2], "X": [3, 4]}), tmp_path / "a.parquet")
    items = rw.read_items(tmp_path / "a.parquet", verbose=False)
    assert items.feature_names == ("x", "X")


def test_names_of_columns_that_are_numbers_become_text_and_several_are_refused():
    frame = pd.DataFrame([[0, 1.5], [1, 2.5]], columns=["grade", 7])
    assert items_from_frame(frame, y="grade").feature_names == ("7",)
    frame.columns = pd.MultiIndex.from_tuples([("a", "grade"), ("a", "x")])
    with pytest.raises(DataError, match="several names"):
        items_from_frame(frame, y=0)


def test_tables_without_rows_are_refused(tmp_path):
    empty = pd.DataFrame({"grade": [], "x": []})
    empty.to_parquet(tmp_path / "a.parquet")
    for read in (
        lambda: items_from_frame(empty, y="grade"),
        lambda: items_from_frame(pl.from_pandas(empty), y="grade"),
        lambda: rw.read_items(tmp_path / "a.parquet", verbose=False),
    ):
        with pytest.raises(DataError) as refused:
            read()
        assert refused.value.kind == "no rows"


def test_a_shop_is_written_in_the_format_of_the_extension(shop, tmp_path):
    table = shop.take(slice(0, 100))
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.parquet"):
        table.write(tmp_path / name)
    names = (tmp_path / "a.tsv").read_text().partition("\n")[0].split("\t")
    assert names == list(pd.read_parquet(tmp_path / "a.parquet")) == list(table)
    items = [rw.read_items(path, verbose=False) for path in sorted(tmp_path.iterdir())]
    for other in items[1:]:
        assert other.feature_names == items[0].feature_names
        np.testing.assert_array_equal(other.X, items[0].X)
    with pytest.raises(DataError, match=r"Use \.csv, \.tsv, \.jsonl, \.parquet"):
        table.write(tmp_path / "a.txt")


def test_a_warning_of_new_levels_names_the_file(shop, tmp_path):
    shop.take(slice(0, 600)).write(tmp_path / "a.csv")
    model = rw.read_items(tmp_path / "a.csv", verbose=False)
    late = pd.DataFrame(shop.take(slice(600, 750)))
    late.to_parquet(tmp_path / "b.parquet")
    late.to_json(tmp_path / "b.jsonl", orient="records", lines=True)
    for name in ("b.parquet", "b.jsonl"):
        with pytest.warns(rw.exceptions.UnknownLevelWarning, match=name):
            rw.read_items(tmp_path / name, like=model)


def test_a_field_that_a_json_line_leaves_out_is_missing(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"query": 1, "grade": 1, "price": 3, "color": "red"}\n'
        '{"query": 1, "grade": 0, "stock": 2, "color": "blue"}\n'
        '{"query": 1, "grade": 0, "price": 4}\n'
    )
    items = read_items(path, verbose=False)
    assert items.feature_names == ("price", "color=blue", "color=red", "color=(missing)", "stock")
    expected = [[3, 0, 1, 0, np.nan], [np.nan, 1, 0, 0, 2], [4, 0, 0, 1, np.nan]]
    np.testing.assert_array_equal(items.X, expected)
    path.write_text('{"grade": 1, "features": [1, 2]}\n{"grade": 0, "features": [1]}\n')
    with pytest.raises(DataError, match="1 numbers here and 2 before"):
        read_items(path)


@pytest.mark.parametrize("role", ["query", "grade"])
def test_a_json_line_without_its_query_or_grade_is_refused(tmp_path, role):
    rows = [{"query": 1, "grade": k, "price": k} for k in range(3)]
    del rows[1][role]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match="row 1"):
        read_items(path)


def test_a_second_column_named_like_a_grade_is_pointed_out(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("query,grade,label,price\nq,1,5,3\nq,0,6,2\n")
    items = read_items(path)
    assert items.feature_names == ("label", "price")
    printed = capsys.readouterr().err
    assert "the grade is grade" in printed
    assert "kinds={'label': 'drop'}" in printed


def test_check_names_the_columns_that_reading_leaves_out(tmp_path):
    path = tmp_path / "shop.csv"
    make_shop(30, random_state=0).write(path)
    findings = validate(path)
    left_out = next(finding for finding in findings if finding.rule == "columns left out")
    assert "row_id" in str(left_out.reason)
