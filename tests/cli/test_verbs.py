"""Every verb from a shell."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import rankwright as rw


def test_train_without_options_gives_a_model_and_the_next_command(shell, tmp_path):
    done = shell("train", "$F/train.txt")
    assert "validation on 5 folds of the queries" in done.stdout
    assert "weights: " in done.stdout
    assert "model: model.rw (ensemble)" in done.stdout
    assert "next: rankwright evaluate model.rw" in done.stdout
    assert "28 queries" in done.stderr
    score = shell("evaluate", "model.rw", "$F/test.txt", "--json")
    assert json.loads(score.stdout)["measures"]["NDCG@10"] > 0.8
    assert [path.name for path in tmp_path.iterdir()] == ["model.rw"]


def test_train_takes_a_ranker_with_settings_and_a_validation_file(shell, tmp_path):
    done = shell(
        "train", "$F/train.txt", "--valid", "$F/test.txt", "--ranker", "rankboost",
        "--set", "n_estimators=40", "-o", "boost.rw", "--report", "page.html", "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["ranker"] == "RankBoost"
    assert found["parameters"]["n_estimators"] == 40
    assert len(rw.load(tmp_path / "boost.rw").alpha_) == 40
    assert "NDCG@10" in found["validation"]["measures"]
    page = (tmp_path / "page.html").read_text()
    assert "Learning curves" not in page
    assert "SHA-256" in page


@pytest.mark.parametrize("words", [[], ["--valid", "$F/test.txt"]])
def test_train_stops_early_when_asked_to_and_says_so(shell, tmp_path, words):
    done = shell(
        "train", "$F/train.txt", *words, "--ranker", "rankboost", "--set", "n_estimators=90",
        "--set", "early_stopping=3", "-o", "boost.rw", "--report", "page.html",
    )  # fmt: skip
    kept = len(rw.load(tmp_path / "boost.rw").alpha_)
    assert kept < 90
    assert f"early stopping keeps {kept} rounds" in done.stderr
    assert "Learning curves" in (tmp_path / "page.html").read_text()


def test_train_from_a_table_finds_its_columns_by_name(shell, tmp_path):
    shell("convert", "$F/train.txt", "train.csv")
    shell("train", "train.csv", "--ranker", "RidgeRanker", "-o", "m.rw")
    lines = (tmp_path / "train.csv").read_text().splitlines()
    swapped = [",".join(reversed(line.split(","))) for line in lines]
    (tmp_path / "swapped.csv").write_text("\n".join(swapped) + "\n")
    one, two = shell("predict", "m.rw", "train.csv"), shell("predict", "m.rw", "swapped.csv")
    assert one.stdout == two.stdout
    dropped = [line.rsplit(",", 1)[0] for line in lines]
    (tmp_path / "dropped.csv").write_text("\n".join(dropped) + "\n")
    assert "'f4'" in shell("predict", "m.rw", "dropped.csv", code=3).stderr


def test_predict_prints_the_scores_of_the_model(shell, files):
    done = shell("predict", "$F/model.rw", "$F/test.txt")
    items = rw.read_letor(files / "test.txt")
    expected = rw.load(files / "model.rw").decision_function(items.X)
    assert [float(line) for line in done.stdout.split()] == expected.tolist()


def test_predict_speaks_in_grades_when_asked(shell):
    done = shell("predict", "$F/prank.rw", "$F/test.txt", "--grades", "--json")
    assert set(json.loads(done.stdout)["grades"]) <= {0.0, 1.0, 2.0, 3.0, 4.0}


def test_rank_prints_each_query_best_first(shell):
    done = shell("rank", "$F/model.rw", "$F/test.txt", "--cutoff", "3")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [int(row[1]) for row in rows[:3]] == [1, 2, 3]
    assert float(rows[0][3]) >= float(rows[1][3]) >= float(rows[2][3])
    assert rows[0][2].startswith("d")


def test_a_run_written_by_rank_measures_as_the_model_does(shell):
    shell("rank", "$F/model.rw", "$F/test.txt", "--trec", "-o", "m.run")
    of_run = json.loads(shell("evaluate", "m.run", "$F/test.txt", "--json").stdout)
    of_model = json.loads(shell("evaluate", "$F/model.rw", "$F/test.txt", "--json").stdout)
    assert of_run["measures"] == pytest.approx(of_model["measures"])


def test_rank_as_json_holds_every_item_once(shell, files):
    found = json.loads(shell("rank", "$F/model.rw", "$F/test.txt", "--json").stdout)
    items = [entry["item"] for entries in found["queries"].values() for entry in entries]
    assert sorted(items) == sorted(rw.read_letor(files / "test.txt").docid.tolist())


def test_evaluate_a_run_follows_trec_eval(shell, files):
    words = ["evaluate", "$F/engine-0.run", "$F/qrels.txt", "-m", "AP,NDCG@5", "--json"]
    found = json.loads(shell(*words).stdout)["measures"]
    beside = rw.data.align(rw.read_run(files / "engine-0.run"), rw.read_qrels(files / "qrels.txt"))
    expected = rw.evaluate(
        beside.scores, beside.y, beside.qid, ["AP", "NDCG@5"], like="trec_eval", docid=beside.docid
    )
    assert found == pytest.approx(expected.to_dict())


def test_evaluate_ends_with_1_below_the_limit(shell):
    words = ("evaluate", "$F/model.rw", "$F/test.txt", "-m", "NDCG@10")
    shell(*words, "--fail-under", "0.1")
    assert "below the limit" in shell(*words, "--fail-under", "NDCG@10=0.999", code=1).stderr
    assert "write a number" in shell(*words, "--fail-under", "much", code=2).stderr


def test_evaluate_can_print_every_query(shell):
    done = shell("evaluate", "$F/model.rw", "$F/test.txt", "--per-query")
    assert len(done.stdout.split("query\t")[1].splitlines()) == 1 + 12


@pytest.mark.parametrize(
    "words, sign",
    [
        ([], "* best; letters"),
        (["--table", "markdown"], "| system | NDCG@10 | AP |"),
        (["--table", "latex"], r"\begin{tabular}"),
        (["--table", "html"], "<table>"),
        (["--json"], '"p_value"'),
        (["--intervals"], "95% bootstrap interval"),
    ],
)
def test_compare_prints_the_table_in_every_form(shell, words, sign):
    done = shell("compare", "$F/model.rw", "$F/prank.rw", "$F/test.txt", *words)
    assert sign in done.stdout


def test_compare_runs_and_writes_a_page(shell, tmp_path):
    words = ["$F/engine-0.run", "$F/engine-2.run", "$F/qrels.txt", "--names", "first,last"]
    done = shell("compare", *words, "--report", "page.html")
    assert "a  first" in done.stdout
    assert "Wins and losses" in (tmp_path / "page.html").read_text()


def test_tune_searches_a_grid_on_folds_of_queries(shell):
    done = shell(
        "tune", "$F/train.txt", "--ranker", "RidgeRanker", "--grid", "alpha=0.1,1000",
        "--folds", "3", "-o", "t.rw", "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["best"]["params"]["alpha"] in (0.1, 1000)
    assert len(found["trials"]) == 2
    assert "6 of 6" in done.stderr
    assert "ridge" in shell("info", "t.rw").stdout.lower()


def test_tune_draws_at_random_or_asks_optuna(shell):
    words = ["tune", "$F/train.txt", "--ranker", "RidgeRanker", "--folds", "2", "--json"]
    for search, trials in (("random", 4), ("optuna", 3)):
        given = ["--search", search, "--trials", str(trials), "--grid", "alpha=0.01..100"]
        tried = json.loads(shell(*words, *given).stdout)["trials"]
        values = {trial["params"]["alpha"] for trial in tried}
        assert len(values) == trials
        assert all(0.01 <= value <= 100 for value in values)
    assert "--trials 20" in shell(*words, "--grid", "alpha=1..9", code=2).stderr
    assert "LOW..HIGH" in shell(*words, "--grid", "alpha=9..1", code=2).stderr
    assert "does not learn in rounds" in shell(*words, "--early-stopping", "5", code=2).stderr


def test_tune_stops_early_and_notes_the_end_of_a_grid(shell):
    words = ["tune", "$F/train.txt", "--ranker", "RankBoost", "--early-stopping", "2"]
    done = shell(*words, "--grid", "n_estimators=2,4,30", "--folds", "2", "-o", "t.rw")
    model = rw.load("t.rw")
    assert model.early_stopping.n_iter_no_change == 2
    assert len(model.validation_) < 30 or model.n_estimators < 30
    best = model.n_estimators
    assert ("value tried" in done.stdout) == (best in (2, 30))


def test_fuse_makes_one_run_of_several(shell):
    shell("fuse", "$F/engine-0.run", "$F/engine-1.run", "$F/engine-2.run", "-o", "f.run")
    found = json.loads(shell("info", "f.run", "--json").stdout)
    assert found["format"] == "run"
    assert found["n_queries"] == 12


def test_fuse_can_learn_from_judged_queries(shell):
    words = ["fuse", "$F/engine-0.run", "$F/engine-2.run", "--method", "learned", "--cutoff", "2"]
    found = json.loads(shell(*words, "--qrels", "$F/qrels.txt", "--json").stdout)
    assert {len(entries) for entries in found["queries"].values()} == {2}
    assert "--qrels" in shell(*words, code=2).stderr
    seeded = [*words, "--qrels", "$F/qrels.txt", "--ranker", "RankNet"]  # draws random numbers
    assert shell(*seeded).stdout == shell(*seeded).stdout


def test_fuse_goes_on_with_what_it_learned(shell, files, tmp_path):
    words = ["fuse", "$F/engine-0.run", "$F/engine-2.run"]
    saved = str(tmp_path / "fusion.rw")
    first = shell(*words, "--qrels", "$F/qrels.txt", "--save", saved).stdout
    assert shell(*words, "--model", saved).stdout == first
    assert first != shell(*words).stdout
    runs = [rw.read_run(files / f"engine-{k}.run") for k in (0, 2)]
    learned = rw.LearnedFusion().fit(runs, rw.read_qrels(files / "qrels.txt")).fuse(runs)
    assert [line.split()[2] for line in first.splitlines()] == learned.docs[
        learned.doc[learned.order]
    ].tolist()
    assert json.loads(shell("info", saved, "--json").stdout)["kind"] == "LearnedFusion"
    assert "not a learned fusion" in shell(*words, "--model", "$F/model.rw", code=3).stderr
    for more in (["--method", "rrf"], ["--qrels", "$F/qrels.txt"], ["--save", "again.rw"]):
        shell(*words, "--model", saved, *more, code=2)


def test_recommend_serves_known_users_and_somebody_new(shell):
    words = ["recommend", "$F/ratings.csv", "--user", "u3", "--new", "film 2=5"]
    done = shell(*words, "--new", "film 4=1", "-n", "2")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["new user", "new user", "u3", "u3"]
    assert not {row[2] for row in rows[:2]} & {"film 2", "film 4"}
    assert "'u99'" in shell("recommend", "$F/ratings.csv", "--user", "u99", code=3).stderr


def test_recommend_serves_a_saved_recommender(shell, tmp_path):
    words = ["--user", "u3", "-n", "2"]
    saved = str(tmp_path / "films.rw")
    first = shell("recommend", "$F/ratings.csv", *words, "--save", saved).stdout
    assert shell("recommend", saved, *words).stdout == first
    refused = shell("recommend", saved, *words, "--ranker", "VSIM", code=2)
    assert "is trained already" in refused.stderr


def test_recommend_explains_in_json_too(shell):
    words = ["recommend", "$F/ratings.csv", "--user", "u3", "-n", "1", "--explain", "--json"]
    assert "rated" in json.loads(shell(*words).stdout)["users"]["u3"][0]["why"]


def test_check_passes_good_data(shell):
    done = shell("check", "$F/train.txt", "--against", "$F/test.txt")
    assert "FAIL" not in done.stdout
    assert "train.txt: passed" in done.stdout


def test_check_names_line_reason_and_fix_of_each_mistake(shell, tmp_path):
    text = (
        "2 qid:1 1:0.5 2:1 3:2 #docid = a\n"
        "\n"
        "0 qid:1 1:0.1 2:1 3:0 #docid = a\n"
        "1 qid:2 1:0.3 2:1 3:1 #docid = b\n"
        "1 qid:2 1:0.4 2:1 3:1 #docid = c\n"
        "1 qid:3 1:0.4 2:1 3:1 #docid = c\n"
    )
    (tmp_path / "bad.txt").write_text(text)
    (tmp_path / "other.txt").write_text("1 qid:3 1:0.4 2:1 3:1\n0 qid:3 1:0.5 2:1 3:0\n")
    found = json.loads(
        shell("check", "bad.txt", "--against", "other.txt", "--json", code=1).stdout
    )["findings"]
    by_rule = {finding["rule"]: finding for finding in found}
    assert by_rule["ids"]["status"] == "FAIL"
    assert by_rule["ids"]["line"] == 3
    assert "line 1" in by_rule["ids"]["reason"]
    assert by_rule["grades differ within queries"]["line"] == 4
    assert by_rule["queries"]["line"] == 6
    assert "feature 2" in by_rule["constant features"]["reason"]
    assert "feature 3" in by_rule["grade among the features"]["reason"]
    assert "query 3" in by_rule["nothing shared with other.txt"]["reason"]
    assert all(f["fix"] for f in found if f["status"] != "PASS")


def test_check_lists_every_bad_line(shell, tmp_path):
    (tmp_path / "bad.txt").write_text("1 qid:1 1:x\n0 qid:1 1:2\n2 qid:1 0:3\n1 qid:1 1:4\n")
    done = shell("check", "bad.txt", code=3)
    assert "bad.txt:1:" in done.stdout
    assert "bad.txt:3:" in done.stdout


TABLE = "qid,grade,a,b\n1,0,1,2\n1,x,2,3\n1,1,3\n2,0,4,red\n2,1,5,6\n2,,7,8\n1,1,9,2\n"


@pytest.mark.parametrize("name", ["bad.csv", "bad.csv.gz"])
def test_check_lists_every_bad_line_of_a_table_and_judges_the_rest(name, shell, tmp_path):
    text = TABLE.encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    found = json.loads(shell("check", name, "--json", code=3).stdout)["findings"]
    assert [each["line"] for each in found if each["rule"] == "readable"] == [3, 4, 5, 7]
    lonely = next(each for each in found if each["rule"] == "queries")
    assert (lonely["status"], lonely["line"]) == ("WARN", 6)  # lines keep their numbers


def test_check_lists_every_bad_line_of_a_run(shell, tmp_path):
    (tmp_path / "bad.run").write_text("1 Q0 d1 1 3 a\n1 Q0 d2 x 2 a\n1 Q0 d3 3 z a\n")
    done = shell("check", "bad.run", code=3)
    assert "bad.run:2: rank" in done.stdout
    assert "bad.run:3: score" in done.stdout


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "csv.gz", "svm.gz"])
def test_convert_keeps_every_bit_there_and_back(shell, files, tmp_path, ending):
    shell("convert", "$F/test.txt", f"a.{ending}")
    shell("convert", f"a.{ending}", "back.letor")
    assert (tmp_path / "back.letor").read_bytes() == (files / "test.txt").read_bytes()


def test_convert_knows_runs(shell, tmp_path):
    shell("convert", "$F/engine-0.run", "a.jsonl")
    row = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert set(row) == {"qid", "docid", "score"}
    assert "--write-as" in shell("convert", "$F/test.txt", "a.xyz", code=2).stderr


def test_info_describes_models_and_data(shell):
    model = json.loads(shell("info", "$F/model.rw", "--json").stdout)
    assert (model["kind"], model["n_features"]) == ("RidgeRanker", 4)
    items = json.loads(shell("info", "$F/test.txt", "--json").stdout)
    assert items["n_queries"] == 12
    assert sum(items["grades"].values()) == items["n_items"]


def test_data_lists_the_known_sets(shell):
    assert "movielens-1m" in json.loads(shell("data", "list", "--json").stdout)
    assert "Use one of movielens-1m" in shell("data", "show", "nothing", code=2).stderr


def test_demo_trains_every_family_and_writes_a_page(shell, tmp_path):
    found = json.loads(shell("demo", "--json").stdout)
    assert len(found["tables"]) == 4
    systems = {name for table in found["tables"].values() for name in table["systems"]}
    assert {"RankBoost", "RankSVM", "MPRank", "KeepRank", "OAP-BPM"} <= systems
    means = [
        table["measures"][measure]["mean"].values()
        for table in found["tables"].values()
        for measure in table["measures"]
    ]
    assert np.isfinite([value for row in means for value in row]).all()
    assert "Thresholds" in (tmp_path / "report.html").read_text()
