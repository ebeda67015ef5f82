"""What the demo shows: four kinds of data, the rankers made for each, one table each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import rankwright as rw
from rankwright.data.splits import halve_users, split_queries
from rankwright.data.synthetic import make_engines, make_ordinal, make_queries, make_ratings
from rankwright.metrics.comparison import Comparison
from rankwright.report.page import Section
from rankwright.report.sections import (
    comparison_section,
    contributions_section,
    learning_section,
    queries_section,
    rankings_section,
    thresholds_section,
    win_loss_section,
)


@dataclass(frozen=True)
class Part:
    """One kind of data: a title, what to print, the table and the sections of the page."""

    title: str
    short: str
    text: str
    comparison: Comparison
    sections: tuple[Section, ...]


def ordinal_stream(seed: int) -> Part:
    """A stream of items with grades 1 to 5, seen once (PRank, OAP-BPM)."""
    train, test = make_ordinal(5000, random_state=seed), make_ordinal(1000, random_state=seed + 1)
    features = rw.PolynomialMap(degree=2).fit(train.X)
    X, X_test = features.transform(train.X), features.transform(test.X)
    rankers = _online(seed)
    fitted = {name: ranker.fit(X, train.y) for name, ranker in rankers.items()}
    # Each item is a query of its own, so that the tests compare the systems item by item.
    qid = np.arange(len(test.y))
    comparison = rw.compare(
        {
            name: rw.evaluate(ranker.predict(X_test), test.y, qid=qid, measures=["RankLoss"])
            for name, ranker in fitted.items()
        }
    )
    best = f"no rule can expect less than {train.bayes_rank_loss:.4f} on such data"
    shown = fitted["PRank, averaged"]
    curves = {name: _progress(_online(seed)[name], X, train.y) for name in ("PRank", "OAP-BPM")}
    curves["BayesianPRank"] = _progress(rw.BayesianPRank(), X, train.y)
    thresholds = thresholds_section(shown.decision_function(X_test), test.y, shown.thresholds_)
    return Part(
        "Grades 1 to 5 of 1,000 new items after one pass over 5,000 (rank loss: lower is better)",
        "Ordinal stream",
        f"{comparison}\n{best}",
        comparison,
        (
            comparison_section(comparison),
            learning_section(curves, "mean rank loss so far", "items seen", step=10),
            thresholds,
        ),
    )


def _progress(ranker: Any, X: Any, y: Any) -> Any:
    from rankwright.selection.progressive_validation import progressive

    steps = progressive(ranker, X, y, classes=range(1, 6))
    return np.array([step["RankLoss"] for step in steps])[9::10]


def _online(seed: int) -> dict[str, Any]:
    return {
        "PRank": rw.PRank(),
        "PRank, voted": rw.VotedPRank(),
        "PRank, averaged": rw.PRank(average=True),
        "BayesianPRank": rw.BayesianPRank(),
        "OAP-BPM": rw.OAPBPM(random_state=seed),
        "OAP-Bagg": rw.OAPBagging(random_state=seed),
        "OAP-VP": rw.OAPVoting(random_state=seed),
        "Widrow-Hoff": rw.WidrowHoff(learning_rate=0.1),
        "multiclass perceptron": rw.MulticlassPerceptron(),
    }


def search(seed: int) -> Part:
    """Graded documents of queries (RankBoost, RankSVM, RankNet, MPRank and others)."""
    sample = make_queries(100, random_state=seed)
    rows = split_queries(sample.qid, random_state=seed)
    train, test = sample.items.take(rows.train), sample.items.take(rows.test)
    fitted = {
        name: ranker.fit(train.X, train.y, qid=train.qid) for name, ranker in _batch(seed).items()
    }
    scores = {name: ranker.decision_function(test.X) for name, ranker in fitted.items()}
    scores["the true order"] = sample.bayes_score[rows.test]
    measures = ["NDCG@10", "AP", "Disagreement"]
    judged = {name: rw.evaluate(each, test.y, test.qid, measures) for name, each in scores.items()}
    comparison = rw.compare(judged)
    boosted = fitted["RankBoost"]
    pair = {name: scores[name] for name in ("PRank", "RankBoost")}
    sections = [
        comparison_section(comparison),
        queries_section(judged, comparison),
        win_loss_section(judged, comparison),
        contributions_section(boosted, test.X),
        rankings_section(pair, test.y, test.qid),
    ]
    return Part(
        f"Graded documents of {test.n_queries} new queries (disagreement: lower is better)",
        "Search",
        str(comparison),
        comparison,
        tuple(section for section in sections if section is not None),
    )


def _batch(seed: int) -> dict[str, Any]:
    return {
        "RankBoost": rw.RankBoost(n_estimators=100),
        "RankBoost, trees": rw.RankBoost(n_estimators=100, estimator=rw.TreeRanking()),
        "RankSVM": rw.RankSVM(C=0.1),
        "RankNet": rw.RankNet(random_state=seed),
        "MPRank": rw.MPRank(),
        "KeepRank": rw.KeepRank(kernel="linear", levels="ordinal", max_iter=2),
        "regression": rw.Regression(),
        "PRank": rw.PRank(average=True),
    }


def metasearch(seed: int) -> Part:
    """The lists of five search engines made into one (RankBoost's metasearch)."""
    old, new = make_engines(60, random_state=seed), make_engines(60, random_state=seed + 1)
    learned = rw.LearnedFusion().fit(old.runs, old.qrels)
    runs = {
        "best engine": new.runs[0],
        "reciprocal rank fusion": rw.fuse(new.runs),
        "CombMNZ": rw.fuse(new.runs, "mnz"),
        "learned by RankBoost": learned.fuse(new.runs),
    }
    judged = {name: _judge(run, new.qrels) for name, run in runs.items()}
    comparison = rw.compare(judged)
    return Part(
        "Five engines fused, 60 new queries (trec_eval's conventions)",
        "Metasearch",
        str(comparison),
        comparison,
        (comparison_section(comparison), win_loss_section(judged, comparison)),
    )


def _judge(run: Any, qrels: Any) -> Any:
    beside = rw.align(run, qrels)
    return rw.evaluate(
        beside.scores,
        beside.y,
        beside.qid,
        ["NDCG@10", "AP"],
        like="trec_eval",
        docid=beside.docid,
    )


def ratings(seed: int) -> Part:
    """Ratings of films by users, and recommendations for somebody new."""
    data = make_ratings(150, 80, random_state=seed).ratings
    split = halve_users(data.user, random_state=seed)
    train, test = data.take(split.train), data.take(split.test)
    models: Mapping[str, Any] = {
        "blend of all methods": rw.Recommender(random_state=seed),
        "RankBoost for each user": rw.Recommender(
            ranker=rw.RankBoost(n_estimators=20), n_reference=50, random_state=seed
        ),
        "VSIM for each user": rw.Recommender(ranker=rw.VSIM(), n_reference=50, random_state=seed),
    }
    judged = {}
    for name, model in models.items():
        predicted = model.fit(train).predict_ratings(test)
        judged[name] = rw.evaluate(predicted, test.value, test.user, ["NDCG@10", "Disagreement"])
    means = np.bincount(train.item, train.value, train.n_items) / np.maximum(train.item_counts, 1)
    everybody = means[test.item]
    judged["what everybody likes"] = rw.evaluate(
        everybody, test.value, test.user, ["NDCG@10", "Disagreement"]
    )
    comparison = rw.compare(judged)
    text = [str(comparison), "", *_for_somebody_new(models["blend of all methods"], train)]
    return Part(
        f"Ratings of {test.n_users} users predicted from the other half of their ratings",
        "Recommendation",
        "\n".join(text),
        comparison,
        (comparison_section(comparison), win_loss_section(judged, comparison)),
    )


def _for_somebody_new(model: Any, data: Any) -> list[str]:
    popular = data.items[np.argsort(-data.item_counts, kind="stable")]
    likes = {popular[0]: 5.0, popular[1]: 1.0, popular[2]: 4.0}
    given = ", ".join(f"item {item}: {value:g}" for item, value in likes.items())
    found = model.recommend_new(likes, n=5)
    listed = ", ".join(f"item {each.item} ({each.score:.2f})" for each in found)
    return [f"somebody new rated {given}", f"and should like: {listed}"]


PARTS = (ordinal_stream, search, metasearch, ratings)
