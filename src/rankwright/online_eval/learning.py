"""Train rankers on logs, and estimate whether they beat the logging ranker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.io.logs.preferences import Preferences
from rankwright.data.items import Items, first_missing
from rankwright.data.runs import Qrels
from rankwright.exceptions import DataError, FeedbackError, Message, ParameterError, Setting
from rankwright.feedback.base import Feedback, Grades, Mixture
from rankwright.feedback.clicks.propensity import find_propensities
from rankwright.feedback.clicks.relevance import ClickRelevance, click_relevance
from rankwright.feedback.pairs import Pairs
from rankwright.online_eval.rankings import LogComparison, compare_on_log
from rankwright.rankers.base import Ranker
from rankwright.rankers.boosting.rankboost import RankBoost
from rankwright.rankers.gradient.ranksvm import RankSVM
from rankwright.rankers.preprocessing import with_encoding

_TOTAL = 100.0  # the weight of all pairs together, so that C means the same for any log
_FEW_QUERIES = 5  # with fewer, none are held out


@dataclass(frozen=True, eq=False)
class LogTrainingResult:
    """A ranker trained on a log, with its estimated clicks.

    Attributes
    ----------
    model : the fitted ranker
    name : str, its name among the candidates
    propensity : (n_positions,) as given or estimated
    method : str, how it was estimated; "given" if it was not
    comparison : LogComparison or None
        The logged lists of held-out queries compared with those of the chosen candidate, trained on
        the other queries; None with too few queries.
    relevance : ClickRelevance, what the model learned from
    """

    model: Any
    name: str
    propensity: FloatArray
    method: str
    comparison: LogComparison | None
    relevance: ClickRelevance

    def __str__(self) -> str:
        shown = ", ".join(f"{p:.2f}" for p in self.propensity[:10])
        lines = [f"propensities ({self.method}): {shown}"]
        if self.comparison is not None:
            held_out = "clicks per session on a fifth of the queries, held out"
            lines.append(f"{held_out}:\n\n{self.comparison}")
            if self.comparison.better() is None:
                lines.append("not surely better than what was shown: collect more sessions")
        else:
            lines.append("too few queries to hold some out: trained on all, and not compared")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Name, propensities and the comparison, as plain values."""
        return {
            "ranker": self.name,
            "propensity": [round(float(p), 4) for p in self.propensity],
            "propensity_method": self.method,
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class PairTrainingResult:
    """A ranker trained on pairs of items.

    Attributes
    ----------
    model : the fitted ranker
    feedback : Pairs, what it learned from
    agreement : float, the weighted share of training pairs that it orders correctly
    """

    model: Any
    feedback: Pairs
    agreement: float

    def __str__(self) -> str:
        n_pairs = f"{self.feedback.n_pairs:,} training pairs"
        return f"the model agrees with {self.agreement:.1%} of the {n_pairs}"

    def to_dict(self) -> dict[str, Any]:
        """The ranker, the number of pairs and the agreement, as plain values."""
        about = {"ranker": type(self.model).__name__, "n_pairs": self.feedback.n_pairs}
        return about | {"training_agreement": round(self.agreement, 4)}


def learn_from_pairs(
    items: Items, pairs: Preferences, ranker: Ranker | None = None
) -> PairTrainingResult:
    """Train a ranker on preferences between items.

    Parameters
    ----------
    items : Items with ids, the features
    pairs : Preferences, as :func:`rankwright.data.read_preferences` reads them
    ranker : a ranker that learns from pairs; None: RankSVM

    Examples
    --------
    >>> items = Items([[1.0], [2.0], [3.0]], [0, 0, 0], docid=["a", "b", "c"])
    >>> learn_from_pairs(items, Preferences(["c", "b"], ["a", "a"])).agreement
    1.0
    """
    feedback = Pairs.from_ids(items, *pairs)
    model = RankSVM() if ranker is None else clone(ranker)
    model.fit_feedback(items.X, feedback, qid=items.qid)
    scores = model.decision_function(items.X, items.qid)
    right = scores[feedback.upper] > scores[feedback.lower]
    agreed = float((right * feedback.weight).sum() / feedback.total_weight)
    model = with_encoding(model, items)
    return PairTrainingResult(model, feedback, agreed)


def learn_from_log(
    log: ImpressionLog,
    items: Items,
    ranker: Ranker | Sequence[Ranker] | None = None,
    *,
    propensity: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    judgments: Qrels | None = None,
    weight: float | None = None,
    unseen: float = 0.0,
    random_state: int = 0,
) -> LogTrainingResult:
    """Train a ranker on clicks, corrected for position bias, and compare it with the logged lists.

    A fifth of the queries is held out. Each candidate is trained on the others, and its clicks per
    session on the held-out queries are estimated (position-based estimator). The best candidate is
    then refitted to all queries. The interval of the comparison is for a single candidate; with
    many candidates, the best one looks better than it is.

    Parameters
    ----------
    log : ImpressionLog
    items : Items with ids, the features; joined with the log by query and item
    ranker : a ranker, a list of rankers to choose from, or None: linear and boosted rankers
    propensity, offset : as in ``click_relevance``. Without them propensities are estimated: from
        items that were shown at several positions, else by regression EM.
    judgments : Qrels of the same queries and items, to train on as well
    weight : the total weight of the clicks, relative to that of the judgments; by default 0.1
    unseen : the weight of items that were never shown, as in ``click_relevance``
    random_state : int, the held-out queries

    Examples
    --------
    >>> from rankwright.data import ClickSimulator, make_queries
    >>> sample = make_queries(60, docs_per_query=8, random_state=0).items
    >>> items = Items(sample.X, sample.y, sample.qid, docid=np.arange(len(sample.y)).astype(str))
    >>> users = ClickSimulator(items)
    >>> log = users.sessions(items.X[:, 0], 20_000, experiment="swap")
    >>> result = learn_from_log(log, items)
    >>> result.method, result.comparison.better() == result.name
    ('harvest', True)
    """
    candidates = _candidates(ranker, items)
    _check_log(log, judgments, weight)
    chance, method = find_propensities(log, items, propensity)
    row = log.rows_in(items)
    if (row < 0).any():  # a list without some of its items is another list
        whole = np.bincount(log.session, row < 0, log.n_sessions) == 0
        log, row = log.take(whole), row[whole[log.session]]
        if not log.n_sessions:
            raise DataError("no session has features for all its items. Compare the item ids.")
    judged = None if judgments is None else _judged(judgments, items)

    def feedback(part: ImpressionLog) -> _LogFeedback:
        relevance = click_relevance(part, items, chance, offset=offset, unseen=unseen)
        return _LogFeedback(relevance, judged, 0.1 if weight is None else weight)

    train, test = _split_sessions(items.queries.codes[row[log.starts[:-1]]], random_state)
    comparison, name = None, next(iter(candidates))
    if len(test):
        held_out = log.take(test)
        rows = held_out.rows_in(items)
        train_feedback = feedback(log.take(train))
        scores = {
            name: _fitted(model, items, train_feedback).decision_function(items.X, items.qid)[rows]
            for name, model in candidates.items()
        }
        shown = {"as shown": -held_out.position.astype(np.float64)}
        full = compare_on_log(held_out, shown | scores, propensity=chance, offset=offset)
        name = max(scores, key=lambda candidate: full.estimates[candidate].value)
        comparison = replace(
            full,
            estimates={k: full.estimates[k] for k in ("as shown", name)},
            differences={name: full.differences[name]},
        )
    all_feedback = feedback(log)
    model = _fitted(candidates[name], items, all_feedback)
    model = with_encoding(model, items)
    return LogTrainingResult(model, name, chance, method, comparison, all_feedback.relevance)


def _check_log(log: ImpressionLog, judgments: Qrels | None, weight: float | None) -> None:
    if weight is not None and judgments is None:
        raise ParameterError(
            f"the weight of clicks ({weight:g}) is relative to that of judgments.",
            parameter="weight",
            fix=Message("Give ", Setting("judgments"), "."),
        )
    if not log.clicked.any() or log.clicked.all():
        raise DataError(
            f"{'every' if log.clicked.any() else 'no'} item of the log was clicked, so there is no "
            "order to learn. Log all shown items, with 0 for those that were not clicked."
        )


@dataclass(frozen=True, eq=False)
class _LogFeedback:
    """What a ranker learns from: clicks, and perhaps judgments."""

    relevance: ClickRelevance
    judged: Grades | None
    weight: float

    def for_ranker(self, kind: type[Ranker]) -> Feedback:
        clicks = _scaled(self.relevance.feedback_for(kind), kind, 1.0)
        if self.judged is None:
            return clicks
        if not kind.takes(Mixture):
            raise FeedbackError(
                f"{kind.__name__} cannot learn from a sum of judgments and clicks. Use RankSVM, "
                "RankBoost, RankNet or another ranker that does."
            )
        return _scaled(self.judged, kind, 1.0) + _scaled(clicks, kind, self.weight)


def _scaled(feedback: Feedback, kind: type[Ranker], share: float) -> Feedback:
    """The feedback with a total weight that does not depend on the size of the log."""
    total = feedback.total_weight
    return feedback * (share * _TOTAL / total) if kind.takes(Mixture) and total > 0 else feedback


def _fitted(model: Ranker, items: Items, feedback: _LogFeedback) -> Any:
    return clone(model).fit_feedback(items.X, feedback.for_ranker(type(model)), qid=items.qid)


def _candidates(ranker: Ranker | Sequence[Ranker] | None, items: Items) -> dict[str, Any]:
    if ranker is None:
        boosted = {"RankBoost": RankBoost(n_estimators=200)}
        if first_missing(items) is not None:
            return boosted
        linear = {f"RankSVM C={C:g}": RankSVM(C=C, normalize="query") for C in (0.1, 1.0, 10.0)}
        return linear | boosted
    rankers = list(ranker) if isinstance(ranker, Sequence) else [ranker]
    if not rankers or not all(hasattr(model, "fit_feedback") for model in rankers):
        raise ParameterError(
            f"ranker is {ranker!r}: give a ranker, or a list of rankers.", parameter="ranker"
        )
    return {str(model): model for model in rankers}


def _split_sessions(query: IntArray, random_state: int) -> tuple[IntArray, IntArray]:
    """Sessions to learn from, and those of a fifth of the queries, to compare on."""
    present = np.unique(query)
    if len(present) < _FEW_QUERIES:
        return np.arange(len(query)), np.arange(0)
    rng = np.random.default_rng(random_state)
    held_out = rng.choice(present, size=max(1, len(present) // 5), replace=False)
    test = np.isin(query, held_out)
    return np.flatnonzero(~test), np.flatnonzero(test)


def _judged(qrels: Qrels, items: Items) -> Grades:
    """The judged rows of the items as grades; other rows have no weight."""
    if items.docid is None or items.qid is None:
        raise DataError("judgments need items with queries and ids.")
    queries, docs = (list(map(str, ids.tolist())) for ids in (qrels.queries, qrels.docs))
    known = {
        (queries[q], docs[d]): grade
        for q, d, grade in zip(qrels.query.tolist(), qrels.doc.tolist(), qrels.grade, strict=True)
    }
    keys = zip(map(str, items.qid.tolist()), items.docid.tolist(), strict=True)
    grades = [known.get(key) for key in keys]
    judged = np.array([grade is not None for grade in grades])
    if not judged.any():
        raise DataError(
            "none of the judged documents is among the items. Compare the ids of queries and "
            "documents."
        )
    y = np.array([0.0 if grade is None else float(grade) for grade in grades])
    return Grades(y, items.qid, sample_weight=judged.astype(np.float64))
