"""``like=`` gives the figures of the tool it names, ties and empty queries included.

The tables were printed by LightGBM 4.7.0, XGBoost 3.2.0 (scores as base margin) and ranx 0.3.21 on
the five lists below, one query at a time; XGBoost's map and pre on grades cut to 0/1. The LETOR 3.0
table was printed by the subroutines of its evaluation script under Perl, on grades cut to 0..2.
"""

from __future__ import annotations

from math import log2

import ir_measures
import numpy as np
import pytest
import pytrec_eval

from rankwright.metrics.evaluation import evaluate

SCORES = [
    [0.5, 0.5, 0.1, 0.9, 0.5, 0.1],
    [2, 2, 2, 1, 3],
    [1, 0, 1, 0.25],
    [0.3, 0.3, 0.7, -1, 0.7, 0.3, 2, 0.7, -1, -1, 0, 0.3],
    [1, 1, 1, 1],
]
GRADES = [
    [0, 2, 1, 0, 3, 0],
    [1, 0, 3, 2, 0],
    [0, 0, 0, 0],
    [0, 1, 0, 3, 2, 0, 0, 1, 0, 1, 0, 2],
    [0, 0, 1, 2],
]
LIGHTGBM = {
    "ndcg@1": [0.0, 0.0, 1.0, 0.0, 0.0],
    "ndcg@3": [0.1596969716199, 0.0671717139668, 1.0, 0.1443308396207, 0.1377057761881],
    "ndcg@5": [0.5218459158079, 0.5116929538589, 1.0, 0.1722231653248, 0.4935456744812],
    "ndcg@20": [0.5218459158079, 0.5116929538589, 1.0, 0.4778418691563, 0.4935456744812],
    "map@1": [0.0, 0.0, 1.0, 0.0, 0.0],
    "map@3": [0.1111111111111, 0.1666666666667, 1.0, 0.1111111111111, 0.1666666666667],
    "map@5": [0.4777777777778, 0.5333333333333, 1.0, 0.1666666666667, 0.4166666666667],
    "map@20": [0.4777777777778, 0.5333333333333, 1.0, 0.4722222222222, 0.4166666666667],
}  # fmt: skip
XGBOOST = {
    "ndcg@1": [0.0, 0.0, 1.0, 0.0, 0.0],
    "ndcg@3": [0.1596969716199, 0.0671717139668, 1.0, 0.1443308396207, 0.1377057761881],
    "ndcg@5": [0.5218459158079, 0.5116929538589, 1.0, 0.1722231653248, 0.4935456744812],
    "ndcg": [0.5218459158079, 0.5116929538589, 1.0, 0.4778418691563, 0.4935456744812],
    "map@2": [0.0, 0.25, 1.0, 0.0, 0.0],
    "map@3": [0.1111111111111, 0.1666666666667, 1.0, 0.1111111111111, 0.1666666666667],
    "map": [0.4777777777778, 0.5333333333333, 1.0, 0.4722222222222, 0.4166666666667],
    "pre@2": [0.0, 0.5, 0.0, 0.0, 0.0],
    "pre@10": [0.5, 0.6, 0.0, 0.5, 0.5],
    "map@3-": [0.1111111111111, 0.1666666666667, 0.0, 0.1111111111111, 0.1666666666667],
}  # fmt: skip
RANX = {
    "ndcg@3": [0.210001995754, 0.1324965074306, 0.0, 0.190046883358, 0.190046883358],
    "ndcg": [0.5625706674958, 0.5663050407547, 0.0, 0.5524346306436, 0.5174418337467],
    "ndcg_burges@5": [0.5218459158079, 0.5116929538589, 0.0, 0.1722231653248, 0.4935456744812],
    "map": [0.4777777777778, 0.5333333333333, 0.0, 0.4722222222222, 0.4166666666667],
    "map@3": [0.1111111111111, 0.1666666666667, 0.0, 0.0555555555556, 0.1666666666667],
    "mrr": [0.3333333333333, 0.5, 0.0, 0.3333333333333, 0.3333333333333],
    "mrr@2": [0.0, 0.5, 0.0, 0.0, 0.0],
    "precision@3": [0.3333333333333, 0.3333333333333, 0.0, 0.3333333333333, 0.3333333333333],
    "precision@20": [0.15, 0.15, 0.0, 0.3, 0.1],
    "recall@3": [0.3333333333333, 0.3333333333333, 0.0, 0.1666666666667, 0.5],
    "hit_rate@2": [0.0, 1.0, 0.0, 0.0, 0.0],
    "map-l2": [0.4166666666667, 0.325, 0.0, 0.2944444444444, 0.25],
}  # fmt: skip
LETOR3 = {
    "MAP": [0.477777777777778, 0.533333333333333, 0.0, 0.472222222222222, 0.416666666666667],
    "P@3": [0.333333333333333, 0.333333333333333, 0.0, 0.333333333333333, 0.333333333333333],
    "NDCG@1": [0.0, 0.0, 0.0, 0.0, 0.0],
    "NDCG@2": [0.0, 0.166666666666667, 0.0, 0.0, 0.0],
    "NDCG@3": [0.285448546592566, 0.150808414078191, 0.0, 0.239812466568131, 0.157732438392864],
    "NDCG@4": [0.511661167709852, 0.377021035195477, 0.0, 0.285100600811548, 0.532732438392864],
}


def _all(lists):
    return np.concatenate([np.asarray(some, float) for some in lists])


QID = np.repeat(np.arange(5), [len(some) for some in SCORES])


@pytest.mark.parametrize("name", LIGHTGBM)
def test_like_lightgbm(name) -> None:
    ours = evaluate(_all(SCORES), _all(GRADES), QID, name, like="lightgbm")
    assert ours.per_query(name) == pytest.approx(LIGHTGBM[name], abs=1e-12)


@pytest.mark.parametrize("name", XGBOOST)
def test_like_xgboost(name) -> None:
    ours = evaluate(_all(SCORES), _all(GRADES), QID, name, like="xgboost")
    assert ours.per_query(name) == pytest.approx(XGBOOST[name], abs=1e-12)


@pytest.mark.parametrize("name", RANX)
def test_like_ranx(name) -> None:
    ours = evaluate(_all(SCORES), _all(GRADES), QID, name, like="ranx")
    assert ours.per_query(name) == pytest.approx(RANX[name], abs=1e-12)


@pytest.mark.parametrize("name", LETOR3)
def test_like_letor3(name) -> None:
    grades = np.minimum(_all(GRADES), 2)
    ours = evaluate(_all(SCORES), grades, QID, name, like="letor3")
    assert ours.per_query(name) == pytest.approx(LETOR3[name], abs=1e-12)


def test_like_trec_eval_with_ties_negative_grades_and_single_precision() -> None:
    rng = np.random.default_rng(3)
    n = 400
    qid, docid = np.repeat(np.arange(20), 20), rng.permutation(n).astype(str)
    grades = rng.choice([-1, 0, 1, 2, 3], n, p=[0.1, 0.5, 0.2, 0.1, 0.1])
    scores = rng.integers(0, 6, n) + rng.choice([0, 1e-12], n)  # 1e-12 is lost in single precision
    grades[:20] = 0
    names = [
        "map",
        "recip_rank",
        "ndcg",
        "ndcg_cut_5",
        "P_5",
        "recall_10",
        "map_cut_10",
        "success_1",
    ]
    ours = evaluate(scores, grades, qid, names, like="trec_eval", docid=docid)
    qrels: dict = {}
    run: dict = {}
    for q, d, s, y in zip(qid, docid, scores, grades, strict=True):
        qrels.setdefault(str(q), {})[str(d)] = int(y)
        run.setdefault(str(q), {})[str(d)] = float(s)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, pytrec_eval.supported_measures).evaluate(run)
    for name in names:
        expected = [theirs[str(q)][name] for q in range(20)]
        assert ours.per_query(name) == pytest.approx(expected, abs=1e-12), name


def test_like_letor3_follows_its_written_rules() -> None:
    # file order breaks the tie: grades 1, 0, 2; discount 1, 1, 1/log2(3); an empty query counts 0
    ours = evaluate(
        [5, 5, 1, 9], [1, 0, 2, 0], [1, 1, 1, 2], ["NDCG@3", "AP", "P@5"], like="letor3"
    )
    ndcg = (1 + 0 + 3 / log2(3)) / (3 + 1 + 0)
    assert ours.per_query("NDCG@3") == pytest.approx([ndcg, 0.0], abs=1e-15)
    assert ours.per_query("AP") == pytest.approx([(1 + 2 / 3) / 2, 0.0], abs=1e-15)
    assert ours.per_query("P@5") == pytest.approx([2 / 5, 0.0], abs=1e-15)


def test_what_a_measure_says_itself_wins_over_the_tool() -> None:
    data = (_all(SCORES), _all(GRADES), QID)
    ours = evaluate(*data, ["NDCG(gain=exp)@3", "NDCG@3"], like="sklearn")
    plain = evaluate(*data, ["NDCG@3"], empty="zero")
    assert ours["NDCG(gain=exp)@3"] == plain["NDCG@3"]
    assert ours["NDCG@3"] != plain["NDCG@3"]


def test_ties_and_empty_win_over_the_tool() -> None:
    data = (_all(SCORES), _all(GRADES), QID, ["AP", "P@2"])
    ours = evaluate(*data, like="xgboost", ties="expected", empty="skip")
    assert ours.n_skipped("AP") == ours.n_skipped("P@2") == 1
    assert ours["P@2"] == evaluate(*data)["P@2"]


def test_items_never_retrieved_count_as_relevant_but_stand_in_no_list() -> None:
    """Judged but unretrieved documents (score -inf) against trec_eval, which sees them only in
    the judgments."""
    rng = np.random.default_rng(3)
    qrels, run, rows = [], [], []
    for query in range(30):
        for document in range(20):
            grade, listed = int(rng.integers(0, 3)), bool(rng.random() < 0.6)
            qrels.append(ir_measures.Qrel(f"q{query}", f"d{document}", grade))
            score = float(rng.normal()) if listed else -np.inf
            if listed:
                run.append(ir_measures.ScoredDoc(f"q{query}", f"d{document}", score))
            rows.append((f"q{query}", f"d{document}", score, grade))
    qid, docid, scores, grades = zip(*rows, strict=True)
    pairs = {
        "NDCG@10": ir_measures.nDCG @ 10, "AP": ir_measures.AP, "P@10": ir_measures.P @ 10,
        "R@10": ir_measures.R @ 10, "RR": ir_measures.RR,
    }  # fmt: skip
    theirs = ir_measures.calc_aggregate(list(pairs.values()), qrels, run)
    ours = evaluate(scores, grades, qid, measures=list(pairs), docid=docid, like="trec_eval")
    for name, peer in pairs.items():
        assert ours[name] == pytest.approx(theirs[peer], abs=1e-9)
