"""What evaluate returns: a mapping of means, values for each query, frames, text and HTML."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rankwright.exceptions import MeasureError
from rankwright.metrics import NDCG
from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.scores import Scores


@pytest.fixture
def scores() -> Scores:
    return evaluate(
        [3, 2, 1, 9, 1, 1], [1, 0, 1, 0, 0, 1], ["a", "a", "a", "b", "c", "c"], ["AP", NDCG @ 2]
    )


def test_scores_are_a_mapping_of_means(scores) -> None:
    assert list(scores) == ["AP", "NDCG@2"]
    assert dict(scores) == scores.to_dict()
    assert scores["AP"] == pytest.approx((5 / 6 + 3 / 4) / 2)
    assert "ndcg@2" in scores
    assert "RR" not in scores
    assert "nonsense" not in scores
    assert 3 not in scores


def test_a_measure_may_be_asked_for_in_any_spelling(scores) -> None:
    assert scores["map"] == scores["AP"] == scores[NDCG.parse("MAP")]


def test_what_was_not_evaluated_is_named(scores) -> None:
    with pytest.raises(KeyError, match="RR was not evaluated; there are AP, NDCG@2"):
        scores["RR"]
    with pytest.raises(MeasureError, match="unknown measure"):
        scores.per_query("quality")
    assert scores.get("RR") is None


def test_values_stand_in_the_order_of_the_query_ids(scores) -> None:
    assert scores.query_ids.tolist() == ["a", "b", "c"]
    assert scores.per_query("AP") == pytest.approx([5 / 6, np.nan, 3 / 4], nan_ok=True)
    assert scores.per_query("AP", skipped=-1.0)[1] == -1.0


def test_scores_cannot_be_changed(scores) -> None:
    with pytest.raises(ValueError, match="read-only"):
        scores.per_query("AP")[0] = 1.0
    with pytest.raises(AttributeError):
        scores.measures = ()


@pytest.mark.parametrize(("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_frames_have_a_row_for_each_query(scores, backend, kind) -> None:
    frame = scores.to_frame(backend)
    assert isinstance(frame, kind)
    assert list(frame.columns) == ["query_id", "AP", "NDCG@2"]
    assert frame.shape == (3, 3)
    assert list(frame["query_id"]) == ["a", "b", "c"]


def test_arrow_tables_too(scores) -> None:
    assert scores.to_frame("pyarrow").num_rows == 3


def test_text_says_which_conventions_were_used(scores) -> None:
    text = " ".join(repr(scores).split())
    assert "AP 0.7917 3 1" in text
    assert "ties: expectation over random order" in text
    assert "empty queries: left out and counted" in text
    assert "gain: 2^grade - 1" in text


def test_conventions_follow_the_tool() -> None:
    result = evaluate([1, 2], [0, 1], measures=["NDCG", "P@2"], like="xgboost")
    assert result.conventions["ties"] == "order given"
    assert result.conventions["empty queries"] == "count 1"
    assert result.conventions["empty queries in P@2"] == "count 0"
    both = evaluate([1, 2], [0, 1], measures=["NDCG", "NDCG(gain=linear)"])
    assert both.conventions["gain"] == "exp in NDCG, linear in NDCG(gain=linear)"


def test_html_is_escaped(scores) -> None:
    assert "<table>" in scores._repr_html_()
