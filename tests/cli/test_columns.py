"""Tables at a shell: columns left out, columns of words, and validation data with other words."""

from __future__ import annotations

import gzip
import json

import pytest

HEAD = "search,sku,title,color,price,grade\n"
ROLES = ["--qid", "search", "--docid", "sku"]
CHOICE = ["--drop", "title", "--one-hot", "color"]


def table(colors: str, price: str = "9") -> str:
    rows = [
        f"q{q},s{q}-{k},Shoe {k},{color},{price if k == 2 else q},{(2, 0, 1)[k]}\n"
        for q in range(6)
        for k, color in enumerate(colors.split())
    ]
    return HEAD + "".join(rows)


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "shop.csv").write_text(table("red blue green"))
    return tmp_path


def test_a_dropped_column_is_no_feature_and_need_not_be_dropped_again(shell, shop):
    shell("train", "shop.csv", *ROLES, *CHOICE, "--ranker", "RidgeRanker")
    features = json.loads(shell("info", "model.rw", "--json").stdout)["features"]
    assert features == ["color=blue", "color=green", "color=red", "price"]
    assert len(shell("predict", "model.rw", "shop.csv").stdout.split()) == 18
    assert shell("rank", "model.rw", "shop.csv", *ROLES).stdout.startswith("q0\t1\t")
    assert "NDCG@10" in shell("evaluate", "model.rw", "shop.csv", *ROLES).stdout


def test_dropping_all_but_one_is_choosing_one(shell, shop):
    shell("convert", "shop.csv", "a.svm", *ROLES, "--drop", "title", "--drop", "color")
    shell("convert", "shop.csv", "b.svm", *ROLES, "--feature", "price")
    assert (shop / "a.svm").read_text() == (shop / "b.svm").read_text()


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["--drop", "size"], 3, "no column 'size' among search, sku, title"),
        (["--drop", "price", "--feature", "price"], 2, "--drop price and --feature price"),
        (["--drop", "color", "--one-hot", "color"], 2, "--drop color and --one-hot color"),
    ],
)
def test_a_column_that_cannot_be_dropped_is_named(shell, shop, words, code, said):
    assert said in shell("train", "shop.csv", *ROLES, *words, code=code).stderr


@pytest.mark.parametrize("verb", ["train", "tune"])
@pytest.mark.parametrize("colors", ["red red green", "red purple green"])
def test_validation_data_are_read_with_the_columns_of_the_training_data(shell, shop, verb, colors):
    (shop / "valid.csv").write_text(table(colors).replace("title,", "name,"))
    words = [verb, "shop.csv", *ROLES, *CHOICE, "--ranker", "RidgeRanker", "--valid", "valid.csv"]
    shell(*words, *(["--grid", "alpha=1"] if verb == "tune" else []))
    assert json.loads(shell("info", "model.rw", "--json").stdout)["n_features"] == 4


def test_validation_data_measure_as_they_do_afterwards(shell, shop):
    (shop / "valid.csv").write_text(table("green purple red"))
    words = ["train", "shop.csv", *ROLES, *CHOICE, "--ranker", "RidgeRanker"]
    found = json.loads(shell(*words, "--valid", "valid.csv", "-m", "AP", "--json").stdout)
    [mean] = found["validation"]["measures"]["AP"]["mean"].values()
    after = shell("evaluate", "model.rw", "valid.csv", *ROLES, "-m", "AP", "--json").stdout
    assert mean == pytest.approx(json.loads(after)["measures"]["AP"])


@pytest.mark.parametrize("verb", ["train", "tune"])
def test_validation_data_without_a_feature_are_refused_by_its_name(shell, shop, verb):
    (shop / "valid.csv").write_text(table("red blue green").replace("price", "cost"))
    done = shell(verb, "shop.csv", *ROLES, *CHOICE, "--valid", "valid.csv", code=3)
    assert "valid.csv: X lacks the column 'price'" in done.stderr


def test_an_unknown_value_may_be_written_as_spreadsheets_do(shell, shop):
    (shop / "gaps.csv").write_text(table("red blue green", "#N/A"))
    assert json.loads(shell("info", "gaps.csv", *ROLES, *CHOICE, "--json").stdout)["missing"] == 6


def check(shell, *words: str, code: int) -> list[dict[str, object]]:
    found = json.loads(shell("check", *words, "--json", code=code).stdout)["findings"]
    return [each for each in found if each["status"] != "PASS"]


def test_columns_of_words_are_read(shell, shop):
    done = shell("check", "shop.csv", "--qid", "search")
    assert "18 items, 25 features" in done.stdout  # 18 SKUs, 3 titles, 3 colors, the price
    assert "constant features" in done.stdout


def test_a_table_of_ids_alone_has_nothing_to_learn_from(shell, tmp_path):
    rows = "".join(f"{k // 5},{k % 3},word {k}\n" for k in range(100))
    (tmp_path / "words.csv").write_text("qid,grade,title\n" + rows)
    done = shell("check", "words.csv")
    assert "PASS  queries" in done.stdout
    assert "duplicates" not in done.stdout
    done = shell("train", "words.csv", code=3)
    assert "no column is left to learn from" in done.stderr
    assert "title   left out  100 different values in 100 rows, like an id" in done.stderr
    assert "--kind title=number" in done.stderr


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_check_of_grades_in_words_is_one_finding(shell, tmp_path, name):
    if name == "a.csv":
        text = "qid,grade,a\n" + "1,good,1\n1,bad,2\n" * 9
    else:
        text = '{"qid": 1, "grade": "good", "a": 1}\n' * 9
    (tmp_path / name).write_text(text)
    [finding] = check(shell, name, code=3)
    assert "good" in str(finding["reason"])
    assert "--grades good=..." in str(finding["fix"]).replace("'", "")


def test_a_cell_here_and_there_is_a_finding_for_its_line(shell, tmp_path):
    rows = [f"{k // 5},{k % 3},{k},{k * k}" for k in range(20)]
    rows[3], rows[7] = "0,0,x,9", "1,1,7,y"
    (tmp_path / "a.csv").write_text("qid,grade,a,b\n" + "\n".join(rows))
    found = check(shell, "a.csv", code=3)
    assert [(each["rule"], each["line"]) for each in found] == [("readable", 5), ("readable", 9)]


def test_a_word_among_numbers_in_json_is_found_by_line(shell, tmp_path):
    rows = [{"qid": 1, "grade": k, "title": "t" if k == 1 else k, "a": k * k} for k in range(3)]
    (tmp_path / "a.jsonl").write_text("\n" + "\n".join(map(json.dumps, rows)))
    finding = check(shell, "a.jsonl", code=3)[0]
    assert (finding["line"], "title is 't'" in str(finding["reason"])) == (3, True)


def test_a_record_of_several_lines_is_left_out_whole(shell, tmp_path):
    text = 'qid,docid,grade,a\n1,"x\ny",1,oh\n1,b,0,2\n1,"c\nd",2,3\n1,e,1,4\n1,f,1,5\n'
    (tmp_path / "a.csv").write_text(text)
    [finding] = check(shell, "a.csv", code=3)
    assert finding["line"] == 2


def test_an_open_quote_costs_one_line(shell, tmp_path):
    text = 'qid,docid,grade,a\n1,b,0,2\n1,"c,2,3\n1,d,1,4\n1,d,1,5\n'
    (tmp_path / "a.csv").write_text(text)
    found = check(shell, "a.csv", code=3)
    assert [(each["rule"], each["line"]) for each in found] == [("readable", 3), ("ids", 5)]


def test_check_against_compares_columns_by_name(shell, shop):
    rows = table("red blue green").replace("q", "r", 1).splitlines(keepends=True)
    (shop / "test.csv").write_text(HEAD + "".join(f"x{row}" for row in rows[1:4]))
    words = ["shop.csv", *ROLES, *CHOICE, "--against", "test.csv"]
    shared = [each for each in check(shell, *words, code=0) if "shared" in str(each["rule"])]
    assert [each["status"] for each in shared] == ["WARN"]


@pytest.mark.parametrize("name", ["a.txt.gz", "a.csv.gz"])
def test_check_of_a_file_that_was_cut_off_is_a_finding(shell, tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(table("red blue green").encode() * 99)[:-20])
    [finding] = check(shell, name, code=3)
    assert "damaged or cut off" in str(finding["reason"])


def test_the_header_is_cut_as_the_lines_are(shell, tmp_path):
    """A comma shell a name does not make a comma the separator."""
    (tmp_path / "a.csv").write_text("query;grade;price, net;stock\n1;0;1;2\n1;1;2;3\n2;0;3;1\n")
    found = json.loads(shell("info", "a.csv", "--json").stdout)
    assert found["features"] == ["price, net", "stock"]
    assert found["n_queries"] == 2
