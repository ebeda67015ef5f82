"""Mistakes that people make at a shell: told before the work, in words of the shell."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SHOP = "search,sku,title,price,grade\n" + "".join(
    f'"red shoes {q}",s{q}-{k},{word},{price},{grade}\n'
    for q in range(6)
    for k, (word, price, grade) in enumerate([("red", q + 1, 2), ("blue", 2, 0), ("green", 9, 1)])
)
NAMED = ["--qid", "search", "--docid", "sku"]


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "shop.csv").write_text(SHOP)
    return tmp_path


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["train", "$F/train.txt", "--random-state", "-1"], 2, "--random-state"),
        (["recommend", "$F/ratings.csv", "--random-state", "4294967296"], 2, "--random-state"),
        (["demo", "--random-state", "-1"], 2, "--random-state"),
        (["tune", "$F/train.txt", "--trials", "0"], 2, "--trials"),
        (["tune", "$F/train.txt", "--folds", "1"], 2, "--folds"),
        (["fuse", "$F/engine-0.run", "$F/engine-1.run", "--cutoff", "0"], 2, "--cutoff"),
        (["fuse", "$F/engine-0.run", "$F/engine-1.run", "--name", "a b"], 2, "has no blanks"),
        (["fuse", "$F/engine-0.run", "$F/engine-1.run", "--method", "x"], 2, "learned"),
        (["rank", "$F/model.rw", "$F/test.txt", "--trec", "--name", "a b"], 2, "has no blanks"),
    ],
)
def test_options_without_sense_are_refused_by_name(shell, words, code, said):
    assert said in shell(*words, code=code).stderr


@pytest.mark.parametrize("option", ["-o", "--report"])
def test_a_model_or_page_is_not_written_to_a_file_called_stdin(shell, tmp_path, option):
    assert "file only" in shell("train", "$F/train.txt", option, "-", code=2).stderr
    assert os.listdir(tmp_path) == []


def test_a_run_goes_through_a_pipe_unchanged(shell, files, tmp_path):
    done = shell("convert", "$F/engine-0.run", "-", "--write-as", "run")
    assert done.stdout == (files / "engine-0.run").read_text()
    assert done.stderr == ""
    assert os.listdir(tmp_path) == []


def test_txt_is_the_plain_form_of_what_is_converted(shell, files, tmp_path):
    shell("convert", "$F/test.txt", "items.txt")
    shell("convert", "$F/engine-0.run", "run.txt")
    assert (tmp_path / "items.txt").read_text() == (files / "test.txt").read_text()
    assert (tmp_path / "run.txt").read_text() == (files / "engine-0.run").read_text()


@pytest.mark.parametrize("verb", ["predict", "rank", "evaluate", "compare"])
def test_data_in_the_place_of_a_model_are_recognized(shell, verb):
    done = shell(verb, "$F/test.txt", "$F/model.rw", code=4)
    assert "it is a text file" in done.stderr
    assert "the data last" in done.stderr


@pytest.mark.parametrize("words", [["evaluate", "-", "-"], ["compare", "-", "-", "$F/test.txt"]])
def test_standard_input_is_not_read_twice(shell, words):
    assert "only one of the files" in shell(*words, code=2).stderr


def test_a_damaged_model_from_a_pipe_is_called_stdin(shell, files):
    half = (files / "model.rw").read_bytes()[:300]
    assert (
        "rankwright: <stdin>: " in shell("predict", "-", "$F/test.txt", stdin=half, code=4).stderr
    )


def test_a_run_about_other_queries_is_refused(shell):
    done = shell("compare", "$F/engine-0.run", "$F/test.txt", code=3)
    assert "no query in common" in done.stderr


def test_judged_queries_that_a_run_does_not_answer_are_counted_aloud(shell, files, tmp_path):
    lines = (files / "engine-0.run").read_text().splitlines(keepends=True)
    first = lines[0].split()[0]
    (tmp_path / "part.run").write_text("".join(x for x in lines if x.split()[0] != first))
    done = shell("evaluate", "part.run", "$F/qrels.txt", "--json")
    assert f"part.run does not answer 1 of the 12 judged queries ({first})" in done.stderr
    assert done.stdout.startswith("{")


def test_the_limit_is_understood_in_any_spelling_of_the_measure(shell):
    words = ["evaluate", "$F/model.rw", "$F/test.txt", "-m", "MAP", "--fail-under"]
    assert "below" not in shell(*words, "map=0.1").stderr
    assert "below the limit of 1.1" in shell(*words, "map=1.1", code=1).stderr


def test_a_query_without_anything_to_measure_has_a_dash(shell, tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1 4:1\n0 qid:1 1:2\n0 qid:2 1:1\n0 qid:2 1:3\n")
    done = shell("evaluate", "$F/model.rw", "a.txt", "-m", "AP", "--per-query")
    assert done.stdout.endswith("2\t-\n")


def test_the_next_command_names_the_columns_too(shell, shop):
    words = ["train", "shop.csv", *NAMED, "--feature", "price", "--ranker", "RidgeRanker"]
    done = shell(*words)
    assert "evaluate model.rw TEST-DATA --qid search --docid sku\n" in done.stdout


def test_a_trec_run_with_blanks_in_its_ids_is_not_written(shell, shop):
    shell("train", "shop.csv", *NAMED, "--feature", "price", "--ranker", "RidgeRanker")
    done = shell("rank", "model.rw", "shop.csv", *NAMED, "--trec", "-o", "shop.run", code=3)
    assert "'red shoes 0 Q0" in done.stderr
    assert not (shop / "shop.run").exists()


def test_words_become_features_beside_the_chosen_columns(shell, shop):
    choice = ["--feature", "price", "--one-hot", "title"]
    shell("train", "shop.csv", *NAMED, *choice, "--ranker", "RidgeRanker")
    assert "price, title=blue, title=green, title=red" in shell("info", "model.rw").stdout


def test_a_model_of_words_takes_items_with_fewer_and_with_new_words(shell, shop):
    choice = ["--feature", "price", "--one-hot", "title"]
    shell("train", "shop.csv", *NAMED, *choice, "--ranker", "RidgeRanker")
    one_by_one = []
    for row in SHOP.splitlines(keepends=True)[1:4]:
        (shop / "one.csv").write_text(SHOP.partition("\n")[0] + "\n" + row)
        one_by_one.append(shell("predict", "model.rw", "one.csv", *NAMED).stdout)
    together = shell("predict", "model.rw", "shop.csv", *NAMED).stdout.splitlines(keepends=True)
    assert one_by_one == together[:3]
    (shop / "new.csv").write_text("search,sku,title,price\nq,1,purple,3\n")
    assert shell("predict", "model.rw", "new.csv", *NAMED).stdout


@pytest.mark.parametrize("words", [["train"], ["tune", "--grid", "alpha=1,2"]])
def test_a_ranker_that_needs_every_value_names_the_missing_one(shell, shop, words):
    (shop / "gaps.csv").write_text(SHOP.replace(",9,", ",,"))
    choice = ["--feature", "price", "--ranker", "RidgeRanker"]
    done = shell(words[0], "gaps.csv", *NAMED, *choice, *words[1:], code=3)
    assert "gaps.csv: RidgeRanker needs every value, and item 3 has no value for price (6 " in (
        done.stderr
    )


def test_gaps_in_the_validation_data_keep_auto_from_what_cannot_take_them(shell, shop):
    (shop / "gaps.csv").write_text(SHOP.replace(",9,", ",,"))
    done = shell("train", "shop.csv", *NAMED, "--feature", "price", "--valid", "gaps.csv")
    assert "RankBoost" in done.stdout
    assert "RankSVM" not in done.stdout


def test_a_model_that_needs_every_value_names_the_missing_one(shell, shop):
    (shop / "gaps.csv").write_text(SHOP.replace(",9,", ",,"))
    shell("train", "shop.csv", *NAMED, "--feature", "price", "--ranker", "RidgeRanker")
    done = shell("predict", "model.rw", "gaps.csv", *NAMED, code=3)
    assert "item 3 has no value for price" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_results_leave_in_utf_8_whatever_the_locale(files, tmp_path, encoding):
    (tmp_path / "a.txt").write_text("1 qid:日本 1:1 4:1 #docid = größe\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "rankwright", "rank", str(files / "model.rw"), "a.txt"],
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        check=True,
    )
    assert done.stdout.decode("utf-8").startswith("日本\t1\tgröße\t")


@pytest.mark.parametrize(
    "name, text, line, first",
    [
        ("a.txt", "1 qid:1 1:1\nbad\n0 qid:1 1:2\n0 qid:1 1:1\n", 4, 1),
        ("a.csv", 'qid,docid,grade,a\n1,"x\ny",1,1\n1,z,0,1\n', 4, 2),
        ("b.csv", "qid,docid,grade,a\n#1,x,1,1\n#1,z,0,1\n", 3, 2),
    ],
)
def test_check_counts_lines_as_an_editor_does(shell, tmp_path, name, text, line, first):
    (tmp_path / name).write_text(text)
    done = shell("check", name, code=3 if name == "a.txt" else 1)
    assert f"{name}:{line}: the same features as line {first} " in done.stdout


@pytest.mark.parametrize("verb, shape", [("compare", "SYSTEM... DATA"), ("fuse", "RUN RUN...")])
def test_help_shows_the_order_of_the_files(shell, verb, shape):
    assert shell(verb, "--help").stdout.startswith(f"Usage: rankwright {verb} [OPTIONS] {shape}\n")
