"""Files of ratings at a shell: their columns, what is in them, what is wrong with them."""

from __future__ import annotations

import json

import pandas as pd
import pytest

NAMES = ["--user-column", "shopper", "--item-column", "sku", "--rating-column", "points given"]
ROWS = ["ann,a,5", "ann,b,3", "bob,a,4", "bob,b,2", "cid,b,1", "cid,c,5"]
LOG = "shopper,sku,points given\n" + "\n".join(ROWS) + "\n"


@pytest.fixture
def log(tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "usual.csv").write_text(LOG.replace(LOG.splitlines()[0], "user,item,rating"))
    pd.read_csv(tmp_path / "log.csv").to_parquet(tmp_path / "log.parquet")
    return tmp_path


@pytest.mark.parametrize("file", ["log.csv", "log.parquet"])
def test_recommend_takes_columns_of_any_name(shell, log, file):
    expected = shell("recommend", "usual.csv", "--user", "ann").stdout
    assert shell("recommend", file, *NAMES, "--user", "ann").stdout == expected


def test_columns_are_named_by_place_too(shell, log):
    by_name = shell("info", "log.csv", *NAMES).stdout
    places = ["--user-column", "0", "--item-column", "1", "--rating-column", "2"]
    assert shell("info", "log.csv", *places).stdout == by_name


@pytest.mark.parametrize("file", ["log.csv", "log.parquet"])
@pytest.mark.parametrize("words", [[], NAMES[:2], [*NAMES[:4], "--rating-column", "stars"]])
def test_a_column_that_is_not_found_is_answered_with_the_options(shell, log, file, words):
    done = shell("recommend", file, *words, code=3)
    assert "among shopper, sku, points given" in done.stderr
    options = ["--user-column", "--item-column", "--rating-column"]
    assert f"Give {options[len(words) // 2 - (len(words) == 6)]}" in done.stderr


def test_a_named_format_has_columns_of_its_own(shell, log):
    done = shell("recommend", "log.csv", *NAMES, "--ratings-format", "netflix", code=2)
    assert "netflix" in done.stderr


def test_three_numbers_without_a_header_are_asked_about_with_options(shell, tmp_path):
    (tmp_path / "a.csv").write_text("1,2,3\n")
    assert (
        "--ratings-format csv or --ratings-format netflix"
        in shell("recommend", "a.csv", code=3).stderr
    )


@pytest.mark.parametrize(
    "words",
    [
        ["usual.csv"],
        ["usual.csv", "--read-as", "ratings"],
        ["log.csv", *NAMES],
        ["log.csv", *NAMES, "--read-as", "ratings"],
        ["log.parquet", *NAMES],
        ["log.dat"],
    ],
)
def test_info_describes_ratings(shell, log, words):
    ids = {"ann": 1, "bob": 2, "cid": 3, "a": 1, "b": 2, "c": 3}
    rows = [row.split(",") for row in ROWS]
    lines = [f"{ids[user]}::{ids[item]}::{value}::0\n" for user, item, value in rows]
    (log / "log.dat").write_text("".join(lines))
    found = json.loads(shell("info", *words, "--json").stdout)
    assert (found["format"], found["n_ratings"], found["n_users"], found["n_items"]) == (
        *("ratings", 6, 3, 3),
    )
    assert found["density"] == 0.6667
    assert found["values"] == {"1": 1, "2": 1, "3": 1, "4": 1, "5": 2}


@pytest.mark.parametrize(
    "head, words",
    [
        ("user,item,rating,bm25", []),  # a column more: features
        ("qid,docid,rating", []),
        ("user,item,rating", ["--qid", "user"]),
        ("user,item,rating", ["--read-as", "csv"]),
    ],
)
def test_items_are_not_taken_for_ratings(shell, tmp_path, head, words):
    width = head.count(",") + 1
    rows = [",".join(str(k + j) for j in range(width)) for k in range(3)]
    (tmp_path / "a.csv").write_text("\n".join([head, *rows]) + "\n")
    assert json.loads(shell("info", "a.csv", *words, "--json").stdout)["format"] == "csv"


def test_check_passes_good_ratings(shell, log):
    done = shell("check", "usual.csv", "--strict")
    assert done.stdout.count("PASS") == 5
    assert "usual.csv: passed" in done.stdout


def findings(shell, *words: str, code: int) -> dict[str, tuple[str, int | None, str]]:
    found = json.loads(shell("check", *words, "--json", code=code).stdout)["findings"]
    assert all(each["fix"] for each in found if each["status"] != "PASS")
    return {each["rule"]: (each["status"], each["line"], each["reason"]) for each in found}


def test_check_names_line_and_reason_of_each_mistake_in_ratings(shell, log):
    more = "\nann,a,4\ndan,a,3\neve,a,2\neve,b,2\n"
    (log / "bad.csv").write_text(LOG + more)
    found = findings(shell, "bad.csv", *NAMES, code=1)
    assert found["pairs"] == ("FAIL", 9, "user ann rated item a on line 2 already")
    assert found["ratings per user"] == (
        "WARN",
        10,
        "user dan gave a single rating (1 of 5 users)",
    )
    assert found["values differ per user"][:2] == ("WARN", 11)
    assert found["values"][0] == "PASS"


def test_check_lists_every_bad_line_of_ratings_and_judges_the_rest(shell, log):
    (log / "bad.csv").write_text(LOG + "dan,a,x\ndan,a\ndan,b,2\n")
    found = json.loads(shell("check", "bad.csv", *NAMES, "--json", code=3).stdout)["findings"]
    assert [each["line"] for each in found if each["rule"] == "readable"] == [8, 9]
    assert [each["line"] for each in found if each["rule"] == "ratings per user"] == [10]


def test_check_of_equal_ratings_fails(shell, tmp_path):
    (tmp_path / "a.csv").write_text("user,item,rating\n1,1,1\n1,2,1\n")
    assert findings(shell, "a.csv", code=1)["values"][0] == "FAIL"


def test_check_of_a_user_in_every_line_names_no_line_where_none_is_certain(shell, tmp_path):
    rows = ["2," + "5,3" + ",99" * 98, "1," + "4" + ",99" * 99]
    (tmp_path / "jester.csv").write_text("\n".join(rows) + "\n")
    found = findings(shell, "jester.csv", "--read-as", "ratings", code=0)
    assert found["ratings per user"] == (
        "WARN",
        None,
        "user 2 gave a single rating (1 of 2 users)",
    )


def test_ratings_are_not_compared_with_items(shell, log):
    done = shell("check", "usual.csv", "--against", "log.csv", code=2)
    assert "compares items" in done.stderr


def test_ratings_in_the_place_of_items_are_told(shell, tmp_path):
    (tmp_path / "ratings.dat").write_text("1::1193::5::978300760\n1::661::3::978302109\n")
    assert "ratings.dat: this is a ratings file" in shell("train", "ratings.dat", code=3).stderr
