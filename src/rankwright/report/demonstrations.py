"""What ``rankwright demo`` shows: generated data of four kinds, and the rankers made for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

import rankwright as rw
from rankwright._typing import FilePath
from rankwright.data.datasets.synthetic import (
    make_engines,
    make_ordinal,
    make_ratings,
)
from rankwright.data.queries import split_within_users
from rankwright.data.runs import align
from rankwright.metrics.comparison import Comparison
from rankwright.metrics.scores import Scores
from rankwright.rankers.preprocessing import RankPipeline
from rankwright.report import sections
from rankwright.report.page import Page, Section, environment, write_page
from rankwright.selection.progressive_validation import progressive

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


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


def _compare(judged: dict[str, Scores], unit: str = "queries") -> Comparison:
    """The systems in the order of the first measure, best first."""
    measure = next(iter(judged.values())).measures[0]
    ranked = sorted(judged, key=lambda name: -measure.sign * judged[name][str(measure)])
    return rw.compare({name: judged[name] for name in ranked}, unit=unit)


def _product_search(n_queries: int, seed: int) -> rw.Items:
    """Graded products of queries, with what real data have: interactions and missing values.

    A better text match counts more for products in stock, a price far from that of the query's
    other products counts against one, and ratings count if there are reviews.
    """
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(n_queries), rng.integers(8, 40, n_queries))
    n = len(query)
    match, title, popularity, price, age = rng.normal(size=(5, n))
    stock = (rng.random(n) < 0.8).astype(np.float64)
    reviews = rng.poisson(3.0, n).astype(np.float64)
    stars = np.where(reviews > 0, np.clip(rng.normal(3.6, 1.0, n), 1, 5), np.nan)
    utility = (0.4 + 0.8 * stock) * (match + 0.4 * title) + 0.5 * popularity - 0.5 * price**2
    utility += np.nan_to_num(0.4 * (stars - 3.6) * np.log1p(reviews)) - 0.2 * np.maximum(age, 0)
    utility += rng.normal(scale=0.8, size=n)
    y = np.searchsorted([0.3, 1.4, 2.6], utility).astype(np.float64)
    columns = (match, title, popularity, price, age, stock, reviews, stars)
    names = "text match,title match,popularity,relative price,age,in stock,reviews,stars"
    return rw.Items(np.column_stack(columns), y, query, feature_names=tuple(names.split(",")))


def search(seed: int) -> Demonstration:
    """Product search: which order of the products is best for 100 queries not seen in training?"""
    train, test = _product_search(200, seed), _product_search(100, seed + 1)

    def filled(ranker: BaseEstimator) -> RankPipeline:
        steps = [("fill", SimpleImputer()), ("scale", StandardScaler()), ("rank", ranker)]
        return RankPipeline(steps)

    rankers: dict[str, Any] = {
        "AutoRanker(quality=1)": rw.AutoRanker(quality=1),
        "LambdaMART": rw.LambdaMART(n_estimators=100),
        "RankBoost": rw.RankBoost(n_estimators=100),
        "RankNet": filled(rw.RankNet(random_state=seed)),
        "RankSVM": filled(rw.RankSVM()),
        "MPRank": filled(rw.MPRank()),
        "KeepRank": filled(rw.KeepRank(kernel="linear", levels="ordinal", max_iter=2)),
    }
    scores = {
        name: ranker.fit(train.X, train.y, qid=train.qid).decision_function(test.X)
        for name, ranker in rankers.items()
    }
    scores["text match only"] = test.X[:, 0]
    scores["weights set by hand"] = test.X[:, 0] + 0.5 * test.X[:, 1] + 0.5 * test.X[:, 2]
    measures = ["NDCG@10", "AP"]
    judged = {name: rw.evaluate(s, test.y, test.qid, measures) for name, s in scores.items()}
    comparison = _compare(judged)
    lists = {name: scores[name] for name in ("weights set by hand", "LambdaMART")}
    shown = [
        sections.comparison_section(comparison),
        sections.win_loss_section(judged, comparison),
        sections.contributions_section(rankers["LambdaMART"], test.X, test.feature_names),
        sections.rankings_section(lists, test.y, test.qid),
    ]
    title = f"Product search, {test.n_queries} new queries (higher is better)"
    remark = (
        "Rankers that model interactions, such as LambdaMART and RankNet, lead the linear ones:\n"
        "stock, price and reviews do not add up. Learning from grades beats weights set by hand."
    )
    found = [section for section in shown if section is not None]
    return Demonstration(title, "Search", comparison, found, remark)


def ordinal_stream(seed: int) -> Demonstration:
    """A stream of items with grades 1 to 5, each seen once: online rankers learn as it comes."""
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
    comparison = _compare(scores, "items")
    averaged = rankers["PRank, averaged"]
    shown = [
        sections.comparison_section(comparison),
        sections.learning_section(curves, "mean rank loss so far", "items seen", step=10),
        sections.thresholds_section(
            averaged.decision_function(X_test), test.y, averaged.thresholds_
        ),
    ]
    title = "Grades 1 to 5 of 1,000 new items after one pass over 5,000 (lower is better)"
    best = float(np.abs(test.y - test.bayes_prediction).mean())
    remark = (
        f"The rule that made the grades, without its noise, has {best:.4f} on these items."
        "\nRankLoss is the mean distance between predicted and true grade."
    )
    return Demonstration(title, "Ordinal stream", comparison, shown, remark)


def metasearch(seed: int) -> Demonstration:
    """Metasearch: the lists of five search engines merged into one."""
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
    comparison = _compare(judged)
    shown = [sections.comparison_section(comparison), sections.win_loss_section(judged, comparison)]
    title = "Five engines fused, 60 new queries (trec_eval's conventions)"
    return Demonstration(title, "Metasearch", comparison, shown)


def _film(number: int) -> str:
    """A made-up title for an item.

    >>> _film(0), _film(13)
    ('The Quiet Harbor', 'The Crimson Station')
    """
    adjectives = ("Quiet", "Golden", "Last", "Hidden", "Broken", "Distant", "Crimson", "Silent",
                  "Empty", "Northern")  # fmt: skip
    nouns = ["Harbor", "Letter", "Orchard", "Winter", "Mirror", "Station", "Garden", "River"]
    row, column = divmod(int(number), len(nouns))
    return f"The {adjectives[(row + column) % len(adjectives)]} {nouns[column]}"


def ratings(seed: int) -> Demonstration:
    """Recommendation: films that users rate, predicted from half of their ratings."""
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
    comparison = _compare(judged, "users")
    popular = train.items[np.argsort(-train.item_counts, kind="stable")]
    given = {popular[0]: 5.0, popular[1]: 1.0, popular[2]: 4.0}
    likes = models["blend of all methods"].recommend_new(given, n=3)
    rated = ", ".join(f"{_film(item)} {stars:g}" for item, stars in given.items())
    liked = ", ".join(f"{_film(one.item)} {np.clip(one.score, 1, 5):.1f}" for one in likes)
    remark = f"\nA new user rates {rated}.\nRecommended, with expected stars: {liked}."
    shown = [sections.comparison_section(comparison), sections.win_loss_section(judged, comparison)]
    title = f"Ratings of {test.n_users} users predicted from the other half of their ratings"
    return Demonstration(title, "Recommendation", comparison, shown, remark)


PARTS: tuple[Callable[[int], Demonstration], ...] = (search, ratings, metasearch, ordinal_stream)


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
    lead = "All ranker families, compared on generated data."
    facts = {part.short: f"best: {sections.by_mean(part.comparison)[0]}" for part in parts}
    return Page("rankwright demo", lead, tuple(shown), facts)
