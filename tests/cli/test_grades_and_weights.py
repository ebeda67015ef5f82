"""Tables as they come: words as grades, weights, decimal commas, several columns of words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rankwright as rw
from rankwright.data import items_from_frame
from rankwright.exceptions import DataError

WORDS = {"Irrelevant": 0, "Complement": 1, "Substitute": 2, "Exact": 3}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Ten queries with words as grades, decimal commas and a column of weights."""
    rng = np.random.default_rng(0)
    lines = ["query;id;price;title;brand;importance;label"]
    for row in range(60):
        price = rng.random()
        word = list(WORDS)[min(int(4 * price), 3)]
        decimal = f"{price:.3f}".replace(".", ",")
        lines.append(f"{row // 6};d{row};{decimal};thing {row};b{row % 3};{1 + row % 2};{word}")
    path = tmp_path / "shop.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def _read(path: Path, **options) -> rw.Items:
    given = {"decimal": ",", "drop": ["title", "brand"], "grades": WORDS, "weight": "importance"}
    return rw.read_items(path, **given | options)


def test_words_are_grades_and_commas_are_decimal_points(shop) -> None:
    items = _read(shop)
    assert set(items.y.tolist()) == {0.0, 1.0, 2.0, 3.0}
    assert 0 < items.X[:, 0].min() < items.X[:, 0].max() < 1
    assert items.weight.tolist() == [1.0, 2.0] * 30
    assert items.take([3, 2]).weight.tolist() == [2.0, 1.0]
    assert items.feature_names == ("price",)


def test_ordered_categories_of_a_frame_are_grades() -> None:
    words, order = ["good", "bad", "fair"], ["bad", "fair", "good"]
    frame = pd.DataFrame(
        {"x": [1.0, 2.0, 3.0], "grade": pd.Categorical(words, order, ordered=True)}
    )
    enum = pl.DataFrame({"x": [1.0, 2.0, 3.0], "grade": pl.Series(words, dtype=pl.Enum(order))})
    for some in (frame, enum, enum.lazy()):
        assert items_from_frame(some, y="grade").y.tolist() == [2.0, 0.0, 1.0]
    mapped = items_from_frame(frame, y="grade", grades={"good": 9, "fair": 5, "bad": -1})
    assert mapped.y.tolist() == [9.0, -1.0, 5.0]
    with pytest.raises(DataError) as refused:
        items_from_frame(frame.astype({"grade": str}), y="grade")
    assert refused.value.kind == "text grades"


def test_words_of_a_jsonl_file_are_levels(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    row = {"qid": 1, "grade": 1, "title": "Heat", "year": 1995, "kind": "film"}
    path.write_text(json.dumps(row) + "\n")
    assert rw.read_items(path).feature_names == ("title=Heat", "year", "kind=film")


def test_weights_and_words_reach_the_training_of_a_shell(shell, shop) -> None:
    words = ["--decimal", ",", "--drop", "title", "--drop", "brand"]
    grades = ["--grades", ",".join(f"{word}={grade}" for word, grade in WORDS.items())]
    train = ["train", str(shop), "--ranker", "RidgeRanker", *words, *grades]
    done = shell(*train, "-o", "plain.rw", "--drop", "importance")
    assert "--decimal ," in done.stderr + done.stdout  # the next command reads the same columns
    shell(*train, "-o", "weighted.rw", "--weight-column", "importance")
    items = _read(shop)
    for name, weight in (("plain.rw", None), ("weighted.rw", items.weight)):
        twin = rw.RidgeRanker().fit(items.X, items.y, qid=items.qid, sample_weight=weight)
        found = rw.load_scorer(name).decision_function(items.X)
        assert found == pytest.approx(twin.decision_function(items.X))
    told = shell("evaluate", "plain.rw", str(shop), *words, *grades, "--json").stdout
    assert json.loads(told)["measures"]["NDCG@10"] > 0.9
    shell("rank", "plain.rw", str(shop), *words)  # needs no grades
    assert (
        "--grades Substitute=...,"
        in shell("evaluate", "plain.rw", str(shop), *words, code=3).stderr
    )
    bad = shell(*train[:-1], "Exact", code=2).stderr
    assert "write word=number" in bad
