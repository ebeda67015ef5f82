"""Without ties, measures equal those of ir-measures (trec_eval), scikit-learn and SciPy."""

from __future__ import annotations

import sys
import warnings
from shutil import which

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from scipy import stats
from sklearn import metrics as sk

from rankwright.data.runs import align
from rankwright.metrics.evaluation import evaluate

needs_ir_measures = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="ir-measures 0.4.3 reads no measure on Python 3.14"
)

TREC = {
    "NDCG(gain=linear)": "nDCG",
    "NDCG(gain=linear)@1": "nDCG@1",
    "NDCG(gain=linear)@10": "nDCG@10",
    "AP": "AP",
    "AP@10": "AP@10",
    "AP(rel=2)": "AP(rel=2)",
    "P@5": "P@5",
    "P(rel=2)@3": "P(rel=2)@3",
    "P@50": "P@50",
    "R@10": "R@10",
    "RR": "RR",
    "RR@3": "RR@3",
    "Top@3": "Success@3",
    "HitRate@5": "Success@5",
    "Rprec": "Rprec",
    "bpref": "Bpref",
    "Rprec(rel=2)": "Rprec(rel=2)",
}


@pytest.fixture(scope="module")
def ragged() -> dict[str, np.ndarray]:
    """120 queries of 1 to 60 items, distinct scores, shuffled rows."""
    rng = np.random.default_rng(7)
    qid = np.repeat(np.arange(120), rng.integers(1, 61, 120))
    # trec_eval keeps scores in single precision: these stay distinct there
    scores = rng.permutation(len(qid)).astype(np.float64)
    grades = rng.choice(4, len(qid), p=[0.6, 0.2, 0.15, 0.05])
    shuffled = rng.permutation(len(qid))
    return {"scores": scores[shuffled], "y": grades[shuffled], "qid": qid[shuffled]}


@needs_ir_measures
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of ast, from Python 3.12 on
def test_measures_equal_those_of_ir_measures(ragged) -> None:
    _compare(ragged, TREC, 1e-12)


@needs_ir_measures
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of ast, from Python 3.12 on
@pytest.mark.skipif(which("perl") is None, reason="ir-measures computes these with a Perl script")
def test_exponential_gains_equal_those_of_gdeval_to_its_five_digits(ragged) -> None:
    _compare(ragged, {"NDCG@5": "nDCG(dcg='exp-log2')@5", "ERR@10": "ERR@10"}, 5.1e-6)


def _compare(ragged, names: dict[str, str], tolerance: float) -> None:
    ours = evaluate(**ragged, measures=list(names), empty="zero")
    qrels, run = {}, {}
    for i, (q, s, y) in enumerate(zip(*(ragged[k] for k in ("qid", "scores", "y")), strict=True)):
        qrels.setdefault(str(q), {})[f"d{i}"] = int(y)
        run.setdefault(str(q), {})[f"d{i}"] = float(s)
    place = {str(q): i for i, q in enumerate(ours.query_ids)}
    theirs = {ir_measures.parse_measure(text): name for name, text in names.items()}
    n_seen = 0
    for value in ir_measures.iter_calc(list(theirs), qrels, run):
        name = theirs[value.measure]
        found = ours.per_query(name)[place[value.query_id]]
        assert found == pytest.approx(value.value, rel=0, abs=tolerance), (name, value)
        n_seen += 1
    assert n_seen == len(names) * 120


@needs_ir_measures
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of ast, from Python 3.12 on
def test_measures_of_unjudged_items_equal_those_of_trec_eval() -> None:
    rng = np.random.default_rng(3)
    documents = [f"d{i}" for i in range(30)]
    run = {q: {d: float(s) for s, d in enumerate(rng.permutation(documents)[:20].tolist())}
           for q in "abcdef"}  # fmt: skip
    qrels = {q: {d: int(rng.integers(-1, 3)) for d in rng.permutation(documents)[:12].tolist()}
             for q in "abcdef"}  # fmt: skip
    names = {"bpref": "bpref", "Rprec": "Rprec", "GMAP": "gm_map", "AP": "map"}
    ours = evaluate(**align(run, qrels)._asdict(), measures=[*names, "Judged@10"], like="trec_eval")
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {*names.values()}).evaluate(run)
    for name, trec in names.items():
        each = [theirs[q][trec] for q in ours.query_ids]
        if name == "GMAP":  # pytrec_eval gives the logarithms, which trec_eval averages
            assert ours[name] == pytest.approx(np.exp(np.mean(each)))
        else:
            assert ours.per_query(name) == pytest.approx(each)
    # trec_eval takes a grade below 0 as "not judged"; ir-measures has no such rule.
    graded = {q: {d: g for d, g in rows.items() if g >= 0} for q, rows in qrels.items()}
    peer = ir_measures.iter_calc([ir_measures.parse_measure("Judged@10")], graded, run)
    judged = {metric.query_id: metric.value for metric in peer}
    assert ours.per_query("Judged@10") == pytest.approx([judged[q] for q in ours.query_ids])


def test_without_marks_every_item_is_judged(ragged) -> None:
    assert evaluate(**ragged, measures="Judged@5")["Judged@5"] == 1.0


def _by_query(data):
    for query in dict.fromkeys(data["qid"].tolist()):
        rows = data["qid"] == query
        yield data["scores"][rows], data["y"][rows]


@pytest.mark.parametrize("k", [1, 5, None])
def test_ndcg_equals_scikit_learn_with_and_without_ties(ragged, k) -> None:
    for scores in (ragged["scores"], np.floor(ragged["scores"] / 300)):
        data = ragged | {"scores": scores}
        name = "NDCG(gain=linear)" + (f"@{k}" if k else "")
        ours = evaluate(**data, measures=name, like="sklearn").per_query(name)
        for value, (s, y) in zip(ours, _by_query(data), strict=True):
            if len(s) > 1:
                assert value == pytest.approx(sk.ndcg_score([y], [s], k=k), abs=1e-12)


def test_auc_and_average_precision_equal_scikit_learn_with_ties(ragged) -> None:
    data = ragged | {"scores": np.floor(ragged["scores"] / 300)}
    ours = evaluate(**data, measures=["AP", "AUC"], like="sklearn")
    values = zip(ours.per_query("AP"), ours.per_query("AUC"), _by_query(data), strict=True)
    for average_precision, auc, (s, y) in values:
        if 0 < (y >= 1).sum() < len(y):
            expected = sk.average_precision_score(y >= 1, s)
            assert average_precision == pytest.approx(expected, abs=1e-12)
            assert auc == pytest.approx(sk.roc_auc_score(y >= 1, s), abs=1e-12)


@pytest.mark.parametrize("n_levels", [5, 100000])
def test_correlations_equal_scipy(ragged, n_levels) -> None:
    data = ragged | {"scores": ragged["scores"] % n_levels}
    ours = evaluate(**data, measures=["KendallTau", "Spearman"], empty="zero")
    for number, (s, y) in enumerate(_by_query(data)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tau, rho = stats.kendalltau(s, y)[0], stats.spearmanr(s, y)[0]
        if np.isnan(tau):
            tau = rho = 0.0
        assert ours.per_query("KendallTau")[number] == pytest.approx(tau, abs=1e-12)
        assert ours.per_query("Spearman")[number] == pytest.approx(rho, abs=1e-12)


def test_rank_loss_equals_scikit_learns_absolute_error(ragged) -> None:
    predicted = np.roll(ragged["y"], 1)
    data = ragged | {"predictions": predicted}
    ours = evaluate(**data, measures="RankLoss").per_query("RankLoss")
    by_query = _by_query(ragged | {"scores": predicted})
    for value, (guess, y) in zip(ours, by_query, strict=True):
        assert value == pytest.approx(sk.mean_absolute_error(y, guess), abs=1e-12)
