"""What holds for all verbs alike: features, outputs, names of columns, advice."""

from __future__ import annotations

import json

import pytest

SHOP = (
    "SearchTerm,SKU,Price (EUR),ctr,Judgment\n"
    "shoes,a,3,0.4,2\nshoes,b,2,0.1,0\nhats,c,1,0.1,0\nhats,d,5,0.2,1\n"
)


@pytest.mark.parametrize("ranker", ["RankSVM", "LargeMarginOrdinal"])
def test_train_and_tune_prepare_features_alike(shell, ranker):
    shell("train", "$F/train.txt", "--ranker", ranker, "--set", "C=0.1", "-o", "a.rw")
    shell("tune", "$F/train.txt", "--ranker", ranker, "--grid", "C=0.1", "--folds", "2", "-o",
           "b.rw")  # fmt: skip
    one = [float(x) for x in shell("predict", "a.rw", "$F/test.txt").stdout.split()]
    two = [float(x) for x in shell("predict", "b.rw", "$F/test.txt").stdout.split()]
    assert one == pytest.approx(two)


def test_tune_calls_parameters_as_the_ranker_does(shell):
    words = ["tune", "$F/train.txt", "--ranker", "RankSVM", "--grid", "C=0.1,1", "--folds", "2"]
    found = json.loads(shell(*words, "-m", "AP", "--json").stdout)
    assert (found["measure"], list(found["best"]["params"])) == ("AP", ["C"])
    assert "one measure" in shell(*words, "-m", "AP,RR", code=2).stderr


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "$F/model.rw", "$F/test.txt"],
        ["rank", "$F/model.rw", "$F/test.txt"],
        ["fuse", "$F/engine-0.run", "$F/engine-1.run"],
        ["compare", "$F/model.rw", "$F/prank.rw", "$F/test.txt"],
    ],
)
def test_json_goes_where_output_says(shell, tmp_path, words):
    done = shell(*words, "--json", "-o", "out.json")
    assert done.stdout == ""
    assert "written: out.json" in done.stderr
    assert json.loads((tmp_path / "out.json").read_text())


def test_columns_that_a_model_learned_are_all_it_asks_for(shell, tmp_path):
    (tmp_path / "shop.csv").write_text(SHOP)
    roles = ["--y", "Judgment", "--qid", "SearchTerm", "--docid", "SKU"]
    done = shell("train", "shop.csv", *roles, "--ranker", "RidgeRanker", "-o", "shop.rw")
    assert "validation on 2 folds of the queries" in done.stdout
    assert len(shell("predict", "shop.rw", "shop.csv").stdout.split()) == 4
    assert "all items are taken as one list" in shell("rank", "shop.rw", "shop.csv").stderr


def test_how_a_column_was_read_is_explained_with_options(shell, tmp_path):
    (tmp_path / "shop.csv").write_text(SHOP)
    done = shell("train", "shop.csv", "--y", "Judgment", "--qid", "SearchTerm")
    assert "SKU          text     words, " in done.stderr
    assert "to change it: --kind SKU=drop" in done.stderr
    assert "kinds=" not in done.stderr


def test_usual_names_are_found_however_they_are_written(shell, tmp_path):
    (tmp_path / "a.csv").write_text("Query ID,Doc-Id,Relevance,a\n1,x,1,0.5\n1,y,0,0.1\n")
    found = json.loads(shell("info", "a.csv", "--json").stdout)
    assert (found["n_queries"], found["features"], found["ids"]) == (1, ["a"], True)


def test_an_empty_table_is_called_empty(shell, tmp_path):
    (tmp_path / "a.csv").write_text("")
    assert "a.csv:1:1: the file is empty" in shell("train", "a.csv", code=3).stderr


def test_a_model_comes_by_a_pipe(shell, files):
    model = (files / "model.rw").read_bytes()
    expected = shell("predict", "$F/model.rw", "$F/test.txt").stdout
    assert shell("predict", "-", "$F/test.txt", stdin=model).stdout == expected


def test_data_in_the_place_of_a_system_are_told(shell):
    done = shell("evaluate", "$F/qrels.txt", "$F/engine-0.run", code=4)
    assert "the data last" in done.stderr


def test_data_with_fewer_features_than_the_model_are_remarked(shell, files, tmp_path):
    lines = (files / "train.txt").read_text().splitlines()
    short = [line.split(" 3:")[0] for line in lines]
    (tmp_path / "short.txt").write_text("\n".join(short) + "\n")
    assert (
        "every feature after number 2 is 0" in shell("predict", "$F/model.rw", "short.txt").stderr
    )
    assert shell("predict", "$F/model.rw", "$F/train.txt").stderr == ""


def test_a_slip_in_a_name_is_answered_with_the_right_one(shell):
    done = shell("train", "$F/train.txt", "--ranker", "RankBost", code=2)
    assert "Did you mean RankBoost?" in done.stderr
    done = shell("recommend", "$F/ratings.csv", "--new", "film 99=5", code=3)
    assert "Did you mean film" in done.stderr
    assert "--ratings-format" in shell("recommend", "$F/train.txt", code=3).stderr


def test_options_of_a_verb_below_a_verb_have_a_table_of_their_own(shell, tmp_path):
    (tmp_path / "c.toml").write_text("[data.list]\njson = true\n")
    assert "movielens-1m" in json.loads(shell("data", "list", "--config", "c.toml").stdout)


@pytest.mark.parametrize("verb", ["train", "predict", "rank", "evaluate", "compare", "tune"])
def test_help_shows_commands_to_copy(shell, verb):
    assert f"\nrankwright {verb} " in shell(verb, "--help").stdout.split("Arguments")[0]
