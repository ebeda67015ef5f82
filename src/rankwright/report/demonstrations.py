"""What ``rankwright demo`` shows: generated data of four kinds, and the rankers made for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import rankwright as rw
from rankwright._typing import FilePath
from rankwright.data.datasets.synthetic import (
    make_engines,
    make_ordinal,
    make_queries,
    make_ratings,
)
from rankwright.data.queries import split_queries, split_within_users
from rankwright.data.runs import align
from rankwright.metrics.comparison import Comparison
from rankwright.report import sections
from rankwright.report.page import Page, Section, environment, write_page
from rankwright.selection.progressive_validation import progressive


@dataclass(frozen=True)
class Demonstration:
    """One kind of data: its title, the table of the rankers, sections of the page, a remark."""

    title: str
    short: str
    comparison: Comparison
    sections: list[Section]
    remark: str = ""

    @property
    def text(self) -> str:
        return f"{self.comparison}\n{self.remark}".rstrip()

    def named_sections(self) -> list[Section]:
        first, *rest = self.sections
        return [replace(first, title=self.short), *(replace(section, level=3) for section in rest)]


def ordinal_stream(seed: int) -> Demonstration:
    """A stream of items with grades 1 to 5, seen once (PRank, OAP-BPM)."""
    rankers: dict[str, Any] = {
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
    train, test = make_ordinal(5000, random_state=seed), make_ordinal(1000, random_state=seed + 1)
    features = rw.rankers.PolynomialMap(degree=2).fit(train.X)
    X, X_test = features.transform(train.X), features.transform(test.X)
    curves = {}
    for name in ("PRank", "OAP-BPM", "BayesianPRank"):
        steps = progressive(rankers[name], X, train.y, classes=range(1, 6))
        curves[name] = np.array([step["RankLoss"] for step in steps])[9::10]
    # Each item is a query of its own, so that the tests compare the systems item by item.
    qid = np.arange(len(test.y))
    scores = {
        name: rw.evaluate(ranker.fit(X, train.y).predict(X_test), test.y, qid, ["RankLoss"])
        for name, ranker in rankers.items()
    }
    comparison = rw.compare(scores)
    averaged = rankers["PRank, averaged"]
    shown = [
        sections.comparison_section(comparison),
        sections.learning_section(curves, "mean rank loss so far", "items seen", step=10),
        sections.thresholds_section(
            averaged.decision_function(X_test), test.y, averaged.thresholds_
        ),
    ]
    title = (
        "Grades 1 to 5 of 1,000 new items after one pass over 5,000 (rank loss: lower is better)"
    )
    best = f"no rule can expect less than {train.bayes_rank_loss:.4f} on such data"
    return Demonstration(title, "Ordinal stream", comparison, shown, best)


def search(seed: int) -> Demonstration:
    """Graded documents of queries (RankBoost, RankSVM, RankNet, MPRank and others)."""
    rankers: dict[str, Any] = {
        "RankBoost": rw.RankBoost(n_estimators=100),
        "RankBoost, trees": rw.RankBoost(n_estimators=100, estimator=rw.TreeRanking()),
        "RankSVM": rw.RankSVM(C=0.1),
        "RankNet": rw.RankNet(random_state=seed),
        "MPRank": rw.MPRank(),
        "KeepRank": rw.KeepRank(kernel="linear", levels="ordinal", max_iter=2),
        "regression": rw.RidgeRanker(),
        "PRank": rw.PRank(average=True),
    }
    sample = make_queries(100, random_state=seed)
    rows = split_queries(sample.qid, random_state=seed)
    train, test = sample.items.take(rows.train), sample.items.take(rows.test)
    scores = {
        name: ranker.fit(train.X, train.y, qid=train.qid).decision_function(test.X)
        for name, ranker in rankers.items()
    }
    scores["the true order"] = sample.bayes_score[rows.test]
    measures = ["NDCG@10", "AP", "Disagreement"]
    judged = {name: rw.evaluate(s, test.y, test.qid, measures) for name, s in scores.items()}
    comparison = rw.compare(judged)
    lists = {name: scores[name] for name in ("PRank", "RankBoost")}
    shown = [
        sections.comparison_section(comparison),
        sections.queries_section(judged, comparison),
        sections.win_loss_section(judged, comparison),
        sections.contributions_section(rankers["RankBoost"], test.X),
        sections.rankings_section(lists, test.y, test.qid),
    ]
    title = f"Graded documents of {test.n_queries} new queries (disagreement: lower is better)"
    return Demonstration(title, "Search", comparison, [s for s in shown if s is not None])


def metasearch(seed: int) -> Demonstration:
    """The lists of five search engines made into one (RankBoost's metasearch)."""
    old, new = make_engines(60, random_state=seed), make_engines(60, random_state=seed + 1)
    runs = {
        "best engine": new.runs[0],
        "reciprocal rank fusion": rw.fuse(new.runs),
        "CombMNZ": rw.fuse(new.runs, "mnz"),
        "learned by RankBoost": rw.LearnedFusion().fit(old.runs, old.qrels).fuse(new.runs),
    }
    judged = {
        name: rw.evaluate(**align(run, new.qrels)._asdict(), like="trec_eval")
        for name, run in runs.items()
    }
    comparison = rw.compare(judged)
    shown = [sections.comparison_section(comparison), sections.win_loss_section(judged, comparison)]
    title = "Five engines fused, 60 new queries (trec_eval's conventions)"
    return Demonstration(title, "Metasearch", comparison, shown)


def ratings(seed: int) -> Demonstration:
    """Ratings of films by users, and recommendations for a new user."""
    data = make_ratings(150, 80, random_state=seed).ratings
    split = split_within_users(data.user, random_state=seed)
    train, test = data.take(split.train), data.take(split.test)
    reference: dict[str, Any] = {"n_reference": 50, "random_state": seed}
    models = {
        "blend of all methods": rw.Recommender(random_state=seed),
        "RankBoost for each user": rw.Recommender(
            ranker=rw.RankBoost(n_estimators=20), **reference
        ),
        "VSIM for each user": rw.Recommender(ranker=rw.VSIM(), **reference),
    }
    predicted = {name: model.fit(train).predict_ratings(test) for name, model in models.items()}
    means = np.bincount(train.item, train.value, train.n_items) / np.maximum(train.item_counts, 1)
    predicted["mean rating of each item"] = means[test.item]
    judged = {
        name: rw.evaluate(values, test.value, test.user, ["NDCG@10", "Disagreement"])
        for name, values in predicted.items()
    }
    comparison = rw.compare(judged)
    popular = train.items[np.argsort(-train.item_counts, kind="stable")]
    given = {popular[0]: 5.0, popular[1]: 1.0, popular[2]: 4.0}
    likes = models["blend of all methods"].recommend_new(given, n=5)
    remark = (
        f"\na new user rated {', '.join(f'item {item}: {v:g}' for item, v in given.items())}\n"
        f"and should like {', '.join(f'item {entry.item} ({entry.score:.2f})' for entry in likes)}"
    )
    shown = [sections.comparison_section(comparison), sections.win_loss_section(judged, comparison)]
    title = f"Ratings of {test.n_users} users predicted from the other half of their ratings"
    return Demonstration(title, "Recommendation", comparison, shown, remark)


PARTS: tuple[Callable[[int], Demonstration], ...] = (ordinal_stream, search, metasearch, ratings)


def run_demo(
    random_state: int = 0, *, note: Callable[[str], None] | None = None
) -> Iterator[Demonstration]:
    """The parts of the demo, one after the other; ``note`` is called with what comes next."""
    for number, make in enumerate(PARTS, 1):
        if note is not None:
            note(f"[{number} of {len(PARTS)}] {make.__doc__}")
        yield make(random_state)


def write_demo(
    path: FilePath, random_state: int = 0, *, note: Callable[[str], None] | None = None
) -> Iterator[Demonstration]:
    """Run the demo part by part; after the last one write the report page to ``path``."""
    parts = []
    for part in run_demo(random_state, note=note):
        parts.append(part)
        yield part
    write_page(demo_page(parts, f"rankwright demo --random-state {random_state}"), path)


def demo_page(parts: Sequence[Demonstration], command: str) -> Page:
    shown = [section for part in parts for section in part.named_sections()]
    shown.append(sections.settings_section({"command": command, **environment()}))
    lead = "Every family of rankers on data that were generated for this page."
    facts = {part.short: f"best: {sections.by_mean(part.comparison)[0]}" for part in parts}
    return Page("rankwright demo", lead, tuple(shown), facts)
