"""``rankwright recommend`` with events: a log of users, items and times is enough."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def log(tmp_path):
    rows = [
        f"u{k % 12},i{(7 * (k % 12) + 3 * (k // 12)) % 25},2024-05-{1 + k // 12:02d}"
        for k in range(240)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["user,item,timestamp", *rows]) + "\n")
    return tmp_path


def test_a_log_of_users_items_and_times_gives_lists(shell, log):
    rows = [f"i{k},Title {k},{'film' if k % 2 else 'book'},{k}.5" for k in range(25)]
    (log / "catalog.csv").write_text("\n".join(["item,title,kind,price", *rows]) + "\n")
    given = ("--item-features", "catalog.csv")
    done = shell("recommend", "log.csv", *given, "--user", "u1", "-n", "2", "--save", "shop.rw")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines] == [["u1", "1"], ["u1", "2"]]
    assert [line[4] for line in lines] == ["Title " + line[2][1:] for line in lines]
    assert "240 events, 12 users, 25 items" in done.stderr
    again = shell("recommend", "shop.rw", "--user", "u1", "-n", "2")
    assert again.stdout == done.stdout
    new = shell("recommend", "shop.rw", "--new", "i3", "-n", "1", "--explain")
    assert "Title 3 (adds" in new.stdout or "many users" in new.stdout
    refused = shell("recommend", "shop.rw", *given, code=2)
    assert "trained already" in refused.stderr


def test_lists_go_to_a_file_of_lines(shell, log):
    shell("recommend", "log.csv", "-n", "3", "--output", "lists.jsonl")
    rows = [json.loads(line) for line in (log / "lists.jsonl").read_text().splitlines()]
    assert [row["user"] for row in rows] == [f"u{k}" for k in range(12)]
    assert {len(row["items"]) for row in rows} == {3}


def test_evaluation_prints_measures_over_the_whole_catalog(shell, log):
    done = shell("recommend", "log.csv", "--evaluate", "last", "-n", "2", "--json")
    measures = json.loads(done.stdout)["measures"]
    assert {"HitRate@2", "Recall@2", "NDCG@2", "MRR@2", "ItemCoverage@2"} <= set(measures)
    assert 0 < measures["NDCG@2"]["random"] < 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--evaluate", "last", "--user", "u1"), "--user with --evaluate, which prints"),
        (
            ("--evaluate", "last", "--output", "lists.jsonl"),
            "--output with --evaluate, which",
        ),
        (("--explain", "--output", "lists.parquet"), "--explain with lists.parquet, which"),
    ],
)
def test_options_that_would_be_ignored_are_refused(shell, log, words, reason):
    assert reason in shell("recommend", "log.csv", *words, code=2).stderr


def test_a_saved_recommender_is_not_evaluated_on_pairs_without_their_repeats(shell, log):
    shell("recommend", "log.csv", "--user", "u1", "--save", "shop.rw")
    refused = shell("recommend", "shop.rw", "--evaluate", "time", code=2)
    assert "holds each pair of user and item once" in refused.stderr
    assert "Give the file of events" in refused.stderr


def items_of(done) -> list[str]:
    return [line.split("\t")[2] for line in done.stdout.splitlines()]


def test_lists_hold_what_the_options_allow(shell, log):
    shell("recommend", "log.csv", "--user", "u1", "--save", "shop.rw")
    (log / "stock.txt").write_text("i1\ni2\ni3\n\n")
    rows = [f"i{k},{'film' if k % 2 else 'book'}" for k in range(25)]
    (log / "catalog.csv").write_text("\n".join(["item,category", *rows]) + "\n")
    given = ("recommend", "shop.rw", "--new", "i0")
    assert sorted(items_of(shell(*given, "--filter", "stock.txt"))) == ["i1", "i2", "i3"]
    assert sorted(items_of(shell(*given, "--filter", "i5,i6", "--exclude", "i6"))) == ["i5"]
    films = items_of(shell(*given, "--categories", "catalog.csv", "--only", "film"))
    assert len(films) == 10
    assert all(int(item[1:]) % 2 for item in films)
    capped = items_of(shell(*given, "--categories", "catalog.csv", "--cap", "2"))
    assert sorted(int(item[1:]) % 2 for item in capped) == [0, 0, 1, 1]
    refused = shell(*given, "--cap", "2", code=2)
    assert "--categories" in refused.stderr
    refused = shell(*given, "--categories", "catalog.csv", "--only", "shoes", code=3)
    assert "book, film" in refused.stderr


def test_similar_lists_items_and_users(shell, log):
    done = shell("similar", "log.csv", "--item", "i3", "--user", "u1", "-n", "2")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines] == [["i3", "1"], ["i3", "2"], ["u1", "1"], ["u1", "2"]]
    assert lines[0][2].startswith("i")
    assert lines[2][2].startswith("u")
    assert "give --item or --user" in shell("similar", "log.csv", code=2).stderr


def test_types_of_events_get_weights(shell, log):
    text = (log / "log.csv").read_text().splitlines()
    rows = [f"{row},{'buy' if k % 5 == 0 else 'view'}" for k, row in enumerate(text[1:])]
    (log / "typed.csv").write_text("\n".join([text[0] + ",action", *rows]) + "\n")
    weights = ("--event-weight", "view=1", "--event-weight", "buy=4")
    assert items_of(shell("recommend", "typed.csv", "--user", "u1", *weights))
    missing = shell("recommend", "typed.csv", "--event-weight", "view=1", code=2)
    assert "no weight for 'buy'" in missing.stderr
    wrong = shell("recommend", "typed.csv", "--event-weight", "view", code=2)
    assert "TYPE=WEIGHT" in wrong.stderr
