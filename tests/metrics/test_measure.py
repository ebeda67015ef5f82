"""A measure prints as it is written, and reads what other tools write."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwright.metrics as metrics
from rankwright.exceptions import MeasureError
from rankwright.metrics import AP, NDCG, SVR, P, RankLoss
from rankwright.metrics.measure import CATALOG, Measure


@pytest.mark.parametrize(
    "text",
    [
        "NDCG@10", "NDCG(gain=linear)@5", "NDCG(gain=exp,discount=letor3)@3", "ERR(max=2)@20", "AP",
        "AP(rel=max)", "P@3", "P(rel=2)@5", "R@100", "RR", "RBP(p=0.95)", "AUC", "PROT", "Coverage",
        "Top@1", "HitRate@5", "Rprec", "bpref(rel=2)", "GMAP", "Judged@10",
        "AverageRank(cap=31)", "Disagreement", "Misranked", "KendallTau", "Spearman",
        "HR(n=2)", "MP", "HMP", "SVR(n=1,eps=0.1)", "MSD", "M1D", "RankLoss", "AP(rel=1.5)",
        "NDCG(empty=zero)@10",
    ],
)  # fmt: skip
def test_a_measure_reads_back_as_it_prints(text) -> None:
    assert str(Measure.parse(text)) == text


@pytest.mark.parametrize(
    ("spelling", "ours"),
    [
        ("ndcg@10", "NDCG@10"), ("nDCG@10", "NDCG@10"), ("NDCG", "NDCG"), ("ndcg", "NDCG"),
        ("ndcg_cut_10", "NDCG(gain=linear)@10"), ("ndcg_cut.10", "NDCG(gain=linear)@10"),
        ("ndcg_burges@10", "NDCG(gain=exp)@10"), ("nDCG(dcg='exp-log2')@5", "NDCG(gain=exp)@5"),
        ("nDCG(dcg='log2')@5", "NDCG(gain=linear)@5"), ("map", "AP"), ("MAP", "AP"),
        ("map@10", "AP@10"),
        ("MAP@10", "AP@10"), ("map_cut_10", "AP@10"), ("P_10", "P@10"), ("P.10", "P@10"),
        ("precision@5", "P@5"), ("pre@10", "P@10"), ("P(rel=2)@5", "P(rel=2)@5"),
        ("recall_100", "R@100"), ("recall@100", "R@100"), ("recip_rank", "RR"), ("mrr", "RR"),
        ("MRR@10", "RR@10"), ("RR@10", "RR@10"), ("success_5", "Top@5"), ("Success@5", "Top@5"),
        ("hit_rate@5", "HitRate@5"), ("r-precision", "Rprec"), ("gm_map", "GMAP"),
        ("rbp.95", "RBP(p=0.95)"), ("rbp.80", "RBP(p=0.8)"),
        ("RBP(p=0.8)", "RBP(p=0.8)"), ("RBP(rel=1,p=0.8)", "RBP(rel=1,p=0.8)"),
        ("RBP(p=0.8, rel=1)", "RBP(rel=1,p=0.8)"), ("ndcg@10-", "NDCG(empty=zero)@10"),
        ("map-", "AP(empty=zero)"), ("map@100-l2", "AP(rel=2)@100"), ("auc", "AUC"),
        ("kendalltau", "KendallTau"), ("  NDCG ( gain = linear ) @ 5 ", "NDCG(gain=linear)@5"),
        ("AP(rel=MAX)", "AP(rel=max)"), ("nDCG(cutoff=10)", "NDCG@10"), ("rank_loss", "RankLoss"),
        ("average-precision", "AP"), ("top@2", "Top@2"),
    ],
)  # fmt: skip
def test_spellings_of_other_tools_are_read(spelling, ours) -> None:
    assert str(Measure.parse(spelling)) == ours


def test_measures_are_built_in_python() -> None:
    assert Measure.parse("NDCG@10") == NDCG @ 10
    assert NDCG(gain="linear") @ 5 == Measure.parse("NDCG(gain=linear)@5")
    assert (NDCG @ 5)(gain="linear") == NDCG(gain="linear") @ 5
    assert SVR(n=1, eps=0.1) == Measure("SVR", {"eps": 0.1, "n": 1})
    assert P(rel=2.0) @ np.int64(3) == P(rel=2) @ 3
    assert repr([AP, P @ 3]) == "[AP, P@3]"


def test_equal_measures_hash_alike_and_survive_pickling() -> None:
    assert len({NDCG @ 10, Measure.parse("ndcg@10"), NDCG @ 5}) == 2
    assert pickle.loads(pickle.dumps(NDCG(gain="linear") @ 5)) == NDCG(gain="linear") @ 5


def test_a_measure_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        NDCG.cutoff = 3  # type: ignore[misc]


def test_every_measure_has_a_name_in_the_package() -> None:
    for name in CATALOG:
        assert getattr(metrics, name) == Measure(name)


def test_lower_is_better_for_losses() -> None:
    assert (NDCG @ 3).higher_is_better
    assert not RankLoss.higher_is_better


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text) -> None:
    try:
        measure = Measure.parse(text)
    except MeasureError:
        return
    assert Measure.parse(str(measure)) == measure
