"""From raw text to a ranker: learned features against BM25 alone, five folds by query.

Documents, queries and judgments of three collections become rows by a ``FeatureSet``; corpus
statistics come from the documents, without labels. On Cranfield and cystic fibrosis the candidates
of a query are the first 100 documents by BM25 of all fields together (``Corpus.find``), and what
was not judged is not relevant. Home Depot has judged pairs only, and real-valued grades. Both
systems rank the same candidates. The learned ranking is the mean of the scores of two RankSVMs and
two LambdaMARTs, standardized by query, with the same parameters for all collections. Needs
RANKWRIGHT_DATA and the extra ``text``. ``--sets=cranfield,cf,homedepot``: only these.
``--stop-words``: without the most frequent English words, for both systems. ``--quick``: Home Depot
with one query in ten.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

import rankwright as rw
from rankwright._typing import FloatArray, IntArray
from rankwright.features import (
    BM25,
    BM25F,
    Corpus,
    EditSimilarity,
    ExactMatch,
    FeatureSet,
    FieldLength,
    IDFSum,
    NGrams,
    Phrase,
    Prefix,
    Proximity,
    TermCoverage,
    Tokenizer,
    WithinQuery,
)

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.features.collections import Collection, cranfield, cystic_fibrosis, home_depot

RESULTS = Path(__file__).parents[1] / "_results"
SETS = {"cranfield": cranfield, "cf": cystic_fibrosis, "homedepot": home_depot}
STOP_WORDS = (
    "a about all also an and any are as at be been being but by can could did do does for from had "
    "has have how if in into is it its may more must no not of on or other our should some such "
    "than that the their them then there these they this those to under was were what when where "
    "which while who why will with would"
)
N_CANDIDATES, N_FOLDS = 100, 5
KEPT_TERMS = (100, 1_000, 5_000)


def features_of(fields: tuple[str, ...]) -> list[Any]:
    """The same declaration for every collection, over its fields and all of them together."""
    listed: list[Any] = []
    for field in (*fields, "all") if len(fields) > 1 else fields:
        listed += [BM25(field), BM25(field, k1=2.5, name=f"bm25_{field}_k25")]
        listed += [BM25(field, k1=2.0, b=0.3, name=f"bm25_{field}_b3"), FieldLength(field)]
        compared = [BM25(field), IDFSum(field), TermCoverage(field), Phrase(field)]
        compared += [Proximity(field), NGrams(field, 5)]
        listed += [*compared[1:], *(WithinQuery(feature, "z") for feature in compared)]
        listed += [WithinQuery(feature, "share_of_best") for feature in compared[:2]]
    listed += [ExactMatch("title"), Prefix("title"), EditSimilarity("title"), NGrams("title", 3)]
    listed += [WithinQuery(EditSimilarity("title"), "z"), WithinQuery(NGrams("title", 3), "z")]
    if len(fields) > 1:
        whole = BM25F(fields)
        listed += [whole, *(WithinQuery(whole, how) for how in ("rank", "share_of_best", "z"))]
    return listed


class Rows(NamedTuple):
    """Candidates of all queries."""

    table: dict[str, list[Any]]
    y: FloatArray
    qid: IntArray


def candidates(collection: Collection, tokenizer: Tokenizer) -> Rows:
    """The rows to rank: found by BM25, or those that were judged."""
    by_id = {document["id"]: document for document in collection.documents}
    rows: list[dict[str, Any]] = []
    grades, qid = [], []
    corpus = Corpus(collection.documents, fields=["all"], tokenizer=tokenizer)
    judged: dict[str, list[str]] = {}
    for query, document in collection.grades:
        judged.setdefault(query, []).append(document)
    for number, (query, text) in enumerate(collection.queries.items()):
        if collection.name == "Home Depot":
            found = judged[query]
        else:
            found = corpus.find(text, N_CANDIDATES).ids
        for document in found:
            rows.append({"query": text, **by_id[document]})
            grades.append(collection.grades.get((query, document), 0.0))
            qid.append(number)
    table = {name: [row[name] for row in rows] for name in rows[0]}
    return Rows(table, np.array(grades), np.array(qid))


def learned(X: FloatArray, rows: Rows, train: Any, test: Any) -> FloatArray:
    """The mean of the scores of four rankers, standardized by query."""
    models: list[Any] = [
        rw.RankPipeline([("scale", StandardScaler()), ("rank", rw.RankSVM(C=C, weighting="NDCG"))])
        for C in (1.0, 10.0)
    ]
    drawn: dict[str, Any] = {"subsample": 0.5, "colsample_bytree": 0.3, "min_samples_leaf": 100}
    drawn |= {"n_estimators": 300, "learning_rate": 0.05, "max_leaf_nodes": 8}
    weightings = ("NDCG@30", "grade_difference")
    models += [rw.LambdaMART(**drawn, weighting=name, random_state=0) for name in weightings]
    total = np.zeros(int(test.sum()))
    for model in models:
        model.fit(X[train], rows.y[train], qid=rows.qid[train])
        total += by_query(model.decision_function(X[test]), rows.qid[test])
    return total


def by_query(scores: FloatArray, qid: IntArray) -> FloatArray:
    """Scores with mean 0 and deviation 1 in each query."""
    _, code = np.unique(qid, return_inverse=True)
    count = np.bincount(code)
    centered = scores - (np.bincount(code, scores) / count)[code]
    spread = np.sqrt(np.bincount(code, centered**2) / count)
    return np.asarray(centered / np.where(spread > 0, spread, 1.0)[code])


def run(name: str, quick: bool, tokenizer: Tokenizer) -> dict[str, Any]:
    """Print the table of one collection."""
    start = time.perf_counter()
    collection = SETS[name]()
    for document in collection.documents:
        document["all"] = " ".join(str(document[field]) for field in collection.fields)
    if quick and name == "homedepot":
        kept = dict(list(collection.queries.items())[::10])
        pairs = {pair: grade for pair, grade in collection.grades.items() if pair[0] in kept}
        collection = collection._replace(queries=kept, grades=pairs)
    rows = candidates(collection, tokenizer)
    features = FeatureSet(features_of(collection.fields), tokenizer=tokenizer)
    X = features.fit(rows.table, documents=collection.documents).transform(rows.table, qid=rows.qid)
    baseline = FeatureSet([BM25("all")], tokenizer=tokenizer)
    baseline.fit(rows.table, documents=collection.documents)
    scores = {"BM25": baseline.transform(rows.table)[:, 0], "learned": np.zeros(len(rows.y))}
    pruned = {}
    for most in KEPT_TERMS:
        fewer = FeatureSet([BM25("all")], tokenizer=tokenizer, max_terms=most)
        fewer.fit(rows.table, documents=collection.documents)
        pruned[most] = fewer.transform(rows.table)[:, 0]
    n_terms = baseline.encoding_.knowledge.texts["all"].n_terms
    is_real = name == "homedepot"
    if is_real:
        scores["MPRank"] = np.zeros(len(rows.y))
    n_queries = int(rows.qid.max()) + 1
    fold = np.random.default_rng(0).permutation(np.arange(n_queries) % N_FOLDS)[rows.qid]
    for number in range(N_FOLDS):
        train, test = fold != number, fold == number
        scores["learned"][test] = learned(X, rows, train, test)
        if is_real:
            scaler = StandardScaler().fit(X[train])
            model = rw.MPRank().fit(scaler.transform(X[train]), rows.y[train], qid=rows.qid[train])
            scores["MPRank"][test] = model.decision_function(scaler.transform(X[test]))
    found = report(collection, rows, scores, X.shape[1], time.perf_counter() - start)
    return found | print_pruned(pruned, n_terms, collection, rows)


def report(
    collection: Collection,
    rows: Rows,
    scores: dict[str, FloatArray],
    n_features: int,
    seconds: float,
) -> dict[str, Any]:
    """Print measures and paired tests, and return them."""
    binary = (rows.y >= collection.relevant).astype(float)
    graded = rows.y if collection.name != "Home Depot" else np.round(3 * (rows.y - 1))
    found: dict[str, Any] = {}
    print(
        f"{collection.name}: {len(collection.documents):,} documents, "
        f"{len(np.unique(rows.qid)):,} queries, {len(rows.y):,} rows, {n_features} features, "
        f"{seconds:.0f} s"
    )
    judged = {
        "NDCG@10": {n: rw.evaluate(s, graded, rows.qid, ["NDCG@10"]) for n, s in scores.items()},
        "AP": {n: rw.evaluate(s, binary, rows.qid, ["AP"]) for n, s in scores.items()},
    }
    pairwise = {n: rw.evaluate(s, rows.y, rows.qid, ["Disagreement"]) for n, s in scores.items()}
    for name in scores:
        values = {m: float(by_name[name][m]) for m, by_name in judged.items()}
        values["pairwise error"] = float(pairwise[name]["Disagreement"])
        shown = "   ".join(f"{measure} {value:.4f}" for measure, value in values.items())
        print(f"  {name:8} {shown}")
        found[name] = values
    for measure, by_name in judged.items():
        comparison = rw.compare({"BM25": by_name["BM25"], "learned": by_name["learned"]})
        p = float(comparison.p_value("learned", "BM25", measure))
        found[f"p {measure}"] = p
        print(f"  learned minus BM25, {measure}: p = {p:.2g} (paired randomization test)")
    return found


def print_pruned(
    pruned: dict[int, FloatArray], n_terms: int, collection: Collection, rows: Rows
) -> dict[str, float]:
    """Print what BM25 loses if a model file keeps the document frequencies of few terms."""
    binary, found = (rows.y >= collection.relevant).astype(float), {}
    for most, scores in pruned.items():
        value = float(rw.evaluate(scores, binary, rows.qid, ["AP"])["AP"])
        print(f"  BM25 with the {most:,} most frequent of {n_terms:,} terms: AP {value:.4f}")
        found[f"AP {most}"] = value
    print()
    return found


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="features/table_text", allow_abbrev=False)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--stop-words", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(argv or [])
    tokenizer = Tokenizer("english", tuple(STOP_WORDS.split()) if options.stop_words else ())
    sets = options.sets.split(",")
    if unknown := [name for name in sets if name not in SETS]:
        parser.error(f"--sets: no set {', '.join(unknown)}; there are {', '.join(SETS)}.")
    try:
        found = {name: run(name, options.quick, tokenizer) for name in sets}
    except rw.exceptions.DatasetError as error:
        print(f"needs the data sets: {error}")
        return
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "features_text.json").write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
