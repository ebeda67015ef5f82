"""Files of ratings are read as their publishers mean them; a bad line is refused by its number."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwright.data import inputs
from rankwright.data.behavior.ratings import Ratings
from rankwright.data.io.ratings import read_ratings
from rankwright.exceptions import DataError, FileFormatError


def as_dict(ratings: Ratings) -> dict:
    users, items = ratings.users[ratings.user].tolist(), ratings.items[ratings.item].tolist()
    return dict(zip(zip(users, items, strict=True), ratings.value.tolist(), strict=True))


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "ratings.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# --- the formats ------------------------------------------------------------------------------

EXPECTED = {(1, 7): 5.0, (2, 7): 3.5, (1, 9): 4.0}
ONE_TABLE = {
    "movielens-1m": "1::7::5::10\n2::7::3.5::20\n1::9::4::30\n",
    "movielens-100k": "1\t7\t5\t10\n2\t7\t3.5\t20\n1\t9\t4\t30\n",
    "netflix": "7,1,5.0\n7,2,3.5\n9,1,4\n",
    "csv": "userId,movieId,rating,timestamp\n1,7,5,10\n2,7,3.5,20\n1,9,4,30\n",
}
OTHER_TABLES = {
    "csv": [
        "1,7,5\n2,7,3.5\n1,9,4",
        "1|7|5\n2|7|3.5\n1|9|4\n",
        "1\t7\t5\n2\t7\t3.5\n1\t9\t4\n",
        '"user";"item";"value"\n"1";"7";"5"\n"2";"7";"3.5"\n"1";"9";"4"\n',
        "rating,item,user\n5,7,1\n3.5,7,2\n4,9,1\n",
        "User-ID;ISBN;Book-Rating\n1;7;5\n\n2;7;3.5\n1;9;4\n\n",
        "\ufeffuser,item,value\r\n1,7,5\r\n2,7,3.5\r\n1,9,4\r\n",
        'note,user,item,value\n"a, b",1,7,5\n"say ""hi""",2,7,3.5\n,1,9,4\n',
    ]
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("format", ONE_TABLE)
def test_each_format_gives_the_same_ratings(tmp_path, format, zipped):
    data = ONE_TABLE[format].encode()
    path = write(tmp_path, gzip.compress(data) if zipped else data)
    ratings = read_ratings(path, format)
    assert as_dict(ratings) == EXPECTED
    assert ratings.users.dtype == ratings.items.dtype == np.int64
    assert format == "netflix" or ratings.time.tolist() == [10, 20, 30]


@pytest.mark.parametrize("text", OTHER_TABLES["csv"])
def test_tables_of_every_dialect_give_the_same_ratings(tmp_path, text):
    assert as_dict(read_ratings(write(tmp_path, text), "csv")) == EXPECTED


@pytest.mark.parametrize("format", ["movielens-1m", "csv"])
def test_the_format_is_detected_from_the_content(tmp_path, format):
    assert as_dict(read_ratings(write(tmp_path, ONE_TABLE[format]))) == EXPECTED


def test_whole_stars_between_tabs_are_movielens_100k(tmp_path):
    path = write(tmp_path, "196\t242\t3\t881250949\n186\t302\t3\t891717742\n")
    assert as_dict(read_ratings(path)) == {(196, 242): 3.0, (186, 302): 3.0}


def test_columns_are_chosen_by_name_or_by_place(tmp_path):
    path = write(tmp_path, "when,who,what,how much\n1,u,a,5\n2,v,b,3\n")
    by_name = read_ratings(path, user="who", item="what", value="how much", time="when")
    by_place = read_ratings(path, user=1, item=2, value=3, time=0)
    assert as_dict(by_name) == as_dict(by_place) == {("u", "a"): 5.0, ("v", "b"): 3.0}
    assert by_name.time.tolist() == by_place.time.tolist() == [1, 2]


def test_ids_with_leading_zeros_stay_text(tmp_path):
    ratings = read_ratings(write(tmp_path, "user,item,value\n007,1,5\n7,2,4\n"))
    assert ratings.users.tolist() == ["007", "7"]


def test_another_encoding_is_read_when_it_is_named(tmp_path):
    path = write(tmp_path, "user,item,value\n1,caf\xe9,5\n".encode("latin-1"))
    assert as_dict(read_ratings(path, "csv", encoding="latin-1")) == {(1, "caf\xe9"): 5.0}
    with pytest.raises(FileFormatError, match="2:6: byte 0xe9 is not utf-8"):
        read_ratings(path, "csv")


JOKES = "2,99,-9.5,0\n3,1,2,10\n0,99,99,99\n"


def test_jester_is_dense_and_99_is_not_a_rating(tmp_path):
    ratings = read_ratings(write(tmp_path, JOKES), "jester")
    assert as_dict(ratings) == {(1, 2): -9.5, (1, 3): 0, (2, 1): 1, (2, 2): 2, (2, 3): 10}
    assert (ratings.n_users, ratings.n_items) == (3, 3)


BOOKS = '"User-ID";"ISBN";"Book-Rating"\r\n"276725";"034545104X";"0"\r\n"7";"\\"0210000010";"8"\r\n'


def test_book_crossing_leaves_out_implicit_ratings_unless_asked(tmp_path):
    path = write(tmp_path, BOOKS + '"7";" caf\xe9";"10"\r\n'.encode("latin-1").decode("latin-1"))
    path.write_bytes(path.read_text().encode("latin-1"))
    explicit = {(7, '"0210000010'): 8.0, (7, " caf\xe9"): 10.0}
    assert as_dict(read_ratings(path)) == explicit
    assert as_dict(read_ratings(path, implicit=True)) == {(276725, "034545104X"): 0.0, **explicit}


# --- Parquet ----------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["duckdb", "polars", "pyarrow", "pandas"])
def test_parquet_is_read_by_any_library_that_is_installed(tmp_path, monkeypatch, library):
    frame = pd.DataFrame({"rating": [5, 3], "user_id": ["u", "v"], "movie_id": [7, 8]})
    frame.to_parquet(tmp_path / "ratings")
    monkeypatch.setattr(inputs, "find_spec", lambda name: name == library)
    assert as_dict(read_ratings(tmp_path / "ratings")) == {("u", 7): 5.0, ("v", 8): 3.0}


def test_without_a_library_for_parquet_the_extra_is_named(tmp_path, monkeypatch):
    pd.DataFrame(ONE_TABLE, index=[0]).to_parquet(tmp_path / "ratings")
    monkeypatch.setattr(inputs, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install 'rankwright\[data\]'"):
        read_ratings(tmp_path / "ratings")


@pytest.mark.parametrize("library", ["duckdb", "polars", "pyarrow", "pandas"])
@pytest.mark.parametrize("column", ["user", "item", "value"])
def test_a_null_in_parquet_is_refused_by_its_row(tmp_path, monkeypatch, library, column):
    table = {"user": [1, 2], "item": [3, 4], "value": [5, 1]}
    table[column] = [table[column][0], None]
    pd.DataFrame(table).to_parquet(tmp_path / "ratings")
    monkeypatch.setattr(inputs, "find_spec", lambda name: name == library)
    with pytest.raises(DataError, match=rf"{column} is (nan|None) in row 1"):
        read_ratings(tmp_path / "ratings")


@pytest.mark.parametrize("library", ["duckdb", "polars", "pyarrow"])
def test_a_damaged_parquet_file_is_refused(tmp_path, monkeypatch, library):
    (tmp_path / "ratings").write_bytes(b"PAR1 and then something else")
    monkeypatch.setattr(inputs, "find_spec", lambda name: name == library)
    with pytest.raises(DataError, match="cannot read this Parquet"):
        read_ratings(tmp_path / "ratings")


# --- bad lines --------------------------------------------------------------------------------

GOOD_CSV = "user,item,value,time\nu,a,5,1\nv,b,4,2\n"

BAD_NUMBERS = [
    "nan", "NaN", "inf", "-inf", "Infinity", "1e999", "abc", "1_000", "0x10", "--1", "1e", "e5",
    "1.2.3", "\uff11", "1-2", "+", ".", "None", "5*", "\u00bd", "1 2", "NULL", "five", "1e5.5",
]  # fmt: skip
BAD_CSV_LINES = [
    *[(f"w,c,{number},3", 5, "value") for number in BAD_NUMBERS],
    *[(f"w,c,3,{number}", 7, "time") for number in BAD_NUMBERS],
    *[(line, len(line) + 1, "fields, not 4") for line in ["w,c,3", "w,c", "w,,3"]],
    *[(line, len(line) + 1, "1 field, not 4") for line in ["w", "w;c;3;1", "w\tc\t3\t1", "# why"]],
    ("w,c,3,1,9", 9, "5 fields, not 4"),
    ("w,c,3,1,", 9, "5 fields, not 4"),
    ("w,c,3,5,1,1", 9, "6 fields, not 4"),
    (",c,3,1", 1, "user is empty"),
    ("w,,3,1", 3, "item is empty"),
    ("w,c,,1", 5, "value is empty"),
    ("w,c, ,1", 5, "value is empty"),
    ("w,c,3,", 7, "time is empty"),
    ("u,a,3,1", 3, "user u rated item a in line 2 already"),
    ("v,b,4,2", 3, "user v rated item b in line 3 already"),
    ('"w,c",3,1', 10, "3 fields, not 4"),
    ('w,"c,3,1', 9, "broken quoting"),
    ('w,"c"d,3,1', 11, "broken quoting"),
]


@pytest.mark.parametrize("ending", ["\n", "\n\n", ""])
@pytest.mark.parametrize("line, column, reason", BAD_CSV_LINES)
def test_a_bad_line_of_csv_is_refused_by_line_and_column(tmp_path, line, column, reason, ending):
    with pytest.raises(FileFormatError) as caught:
        read_ratings(write(tmp_path, GOOD_CSV + line + ending), "csv")
    assert (caught.value.line, caught.value.column) == (4, column)
    assert reason in caught.value.message
    assert caught.value.fix


def test_there_are_sixty_bad_lines():
    assert len(BAD_CSV_LINES) >= 60


BAD_MOVIELENS = [
    ("3::7::5", 8, "3 fields, not 4"),
    ("3::7::5\r::1", 7, "rating"),
    ("3::7::5\x1f::1", 7, "rating"),
    ("3::7::5::1\r\r", 10, "time"),
    ("3::7::5::1::1", 13, "5 fields, not 4"),
    ("3,7,5,1", 8, "1 field, not 4"),
    ("3:7:5:1", 8, "1 field, not 4"),
    ("3\x1f7\x1f5\x1f1", 8, "1 field, not 4"),
    ("3::7::\u01fe::1", 7, "rating"),  # NumPy alone takes this letter for a digit
    ("\u01fe::7::5::1", 1, "user"),
    ("3::7::\xa05::1", 7, "rating"),
    ("x::7::5::1", 1, "user"),
    ("1.0::7::5::1", 1, "user"),
    ("::7::5::1", 1, "user is empty"),
    ("3::x::5::1", 4, "item"),
    ("3::::5::1", 4, "item is empty"),
    ("3::7::five::1", 7, "rating"),
    ("3::7::nan::1", 7, "rating"),
    ("3::7::6::1", 7, "rating 6 is outside 0.5 .. 5"),
    ("3::7::0::1", 7, "rating 0 is outside"),
    ("3::7::-1::1", 7, "rating -1 is outside"),
    ("3::7::5::", 10, "time is empty"),
    ("3::7::5::x", 10, "time"),
    ("3::7::5::1.5", 10, "time"),
    ("1::7::5::1", 4, "user 1 rated item 7 in line 1 already"),
    ("99999999999999999999::7::5::1", 1, "user"),
]


@pytest.mark.parametrize("ending", ["\n", ""])
@pytest.mark.parametrize("separator, format", [("::", "movielens-1m"), ("\t", "movielens-100k")])
@pytest.mark.parametrize("line, column, reason", BAD_MOVIELENS)
def test_a_bad_line_of_movielens_is_refused_by_line(
    tmp_path, line, column, reason, separator, format, ending
):
    text = ("1::7::5::10\n2::7::3.5::20\n" + line + ending).replace("::", separator)
    with pytest.raises(FileFormatError) as caught:
        read_ratings(write(tmp_path, text), format)
    assert caught.value.line == 3
    assert separator != "::" or caught.value.column == column
    assert reason in caught.value.message


@pytest.mark.parametrize(
    "line, column, reason",
    [
        ("3,1,2", 6, "3 fields, not 4"),
        ("3,1,2,3,4", 9, "5 fields, not 4"),
        ("2,1,2,3", 1, "the line starts with 2 ratings, but has 3"),
        ("3,1,2,11", 7, "rating 11 is outside -10 .. 10"),
        ("3,1,-10.5,1", 5, "rating -10.5 is outside"),
        ("3,1,98,1", 5, "rating 98 is outside"),
        ("x,1,2,3", 1, "number of ratings"),
        ("3,1,,3", 5, "rating of joke 2 is empty"),
        ("3,1,nan,3", 5, "rating of joke 2"),
    ],
)
def test_a_bad_line_of_jester_is_refused_by_line(tmp_path, line, column, reason):
    with pytest.raises(FileFormatError) as caught:
        read_ratings(write(tmp_path, JOKES + line), "jester")
    assert (caught.value.line, caught.value.column) == (4, column)
    assert reason in caught.value.message


@pytest.mark.parametrize(
    "line, reason",
    [
        ('"7";"123"', "2 fields, not 3"),
        ('"7";"123";"4";"5"', "4 fields, not 3"),
        ("7;123;4", "not in quotes"),
        ('"7";"123";"4', "not in quotes"),
        ('"', "not in quotes"),
        ('"7";"123";"11"', "rating 11 is outside 0 .. 10"),
        ('"7";"123";"x"', "rating"),
        ('"7";"123";""', "rating is empty"),
        ('"7";"";"4"', "ISBN is empty"),
        ('"";"123";"4"', "user is empty"),
        ('"276725";"034545104X";"5"', "user 276725 rated item 034545104X in line 2 already"),
    ],
)
def test_a_bad_line_of_book_crossing_is_refused_by_line(tmp_path, line, reason):
    with pytest.raises(FileFormatError) as caught:
        read_ratings(write(tmp_path, BOOKS + line))
    assert caught.value.line == 4
    assert reason in caught.value.message


@pytest.mark.parametrize("format", ["movielens-1m", "movielens-100k", "jester", "netflix", "csv"])
@pytest.mark.parametrize("text", [b"", b"\n\n", "1,2,3".encode("utf-16"), b"1\x00"])
def test_a_file_that_is_no_text_is_refused(tmp_path, format, text):
    with pytest.raises(FileFormatError):
        read_ratings(write(tmp_path, text), format)


@pytest.mark.parametrize("rule, expected", [("first", 1.0), ("last", 5.0), ("mean", 3.0)])
def test_a_pair_rated_twice_is_resolved_by_the_chosen_rule(tmp_path, rule, expected):
    path = write(tmp_path, "1::7::1::10\n1::7::5::20\n")
    assert as_dict(read_ratings(path, duplicates=rule)) == {(1, 7): expected}


# --- properties -------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r"), min_size=1)
TABLE = st.dictionaries(
    st.tuples(TEXT, TEXT), st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8
)


@given(TABLE)
def test_any_ids_survive_a_csv_file(tmp_path_factory, table):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    rows = [{"user": f"u{u}", "item": f"i{i}", "value": v} for (u, i), v in table.items()]
    pd.DataFrame(rows).to_csv(path, index=False, lineterminator="\n")
    expected = {(row["user"], row["item"]): row["value"] for row in rows}
    assert as_dict(read_ratings(path, "csv")) == expected


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 2**62), st.integers(0, 50)), st.integers(1, 5), min_size=1
    )
)
def test_any_whole_numbers_survive_a_movielens_file(tmp_path_factory, table):
    path = tmp_path_factory.getbasetemp() / "any.dat"
    path.write_text("".join(f"{u}::{i}::{v}::0\n" for (u, i), v in table.items()))
    assert as_dict(read_ratings(path, "movielens-1m")) == table


IDS = st.one_of(st.integers(-3, 30).map(str), st.text("0179-+ ", min_size=1, max_size=3))
NUMBERS = st.one_of(st.integers(-3, 9).map(str), st.text("05.e-+ naif", max_size=4))


@given(st.lists(st.tuples(IDS, IDS, NUMBERS), min_size=1, max_size=4), st.booleans())
def test_the_fast_way_and_the_exact_way_agree(tmp_path_factory, rows, header):
    path = tmp_path_factory.getbasetemp() / "both.csv"
    lines = [",".join(row) for row in rows]
    plain, quoted = lines, [f'"{lines[0].replace(",", chr(34) + "," + chr(34))}"', *lines[1:]]
    answers = []
    for body in (plain, quoted):  # one quote anywhere turns the fast way off
        path.write_text("\n".join(["user,item,value", *body] if header else body))
        try:
            answers.append(as_dict(read_ratings(path, "csv")))
        except DataError as error:
            answers.append((type(error), getattr(error, "line", None)))
    assert answers[0] == answers[1]


def test_reading_imports_nothing_heavy(tmp_path):
    path = write(tmp_path, ONE_TABLE["movielens-1m"])
    code = (
        "import sys; from rankwright.data.io.ratings import read_ratings; "
        f"read_ratings({str(path)!r}); "
        "print([m for m in ('numba', 'sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
