"""A sound model without being asked for details: a few rankers, judged on held-out queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.cli.files.items import first_gap
from rankwright.cli.preparing import fit
from rankwright.cli.settings import make_ranker
from rankwright.data.items import Items
from rankwright.data.splits import fold_queries, split_queries
from rankwright.metrics.evaluation import Scores, evaluate
from rankwright.metrics.measure import Measure

Folds = list[tuple[Items, Items]]  # to train on, to judge by

FEW = 500  # queries; a fifth of fewer says too little about which ranker is best
MOST_ROUNDS = 500
PATIENCE = 30


@dataclass(frozen=True, eq=False)
class Attempt:
    """A ranker, judged on what was held out from it; model and curve are of the first fold."""

    name: str
    model: Any
    scores: Scores | None
    held_out: NDArray[np.float64] | None  # its scores of the held-out items
    curve: NDArray[np.float64] | None  # the measure after each round
    again: Callable[[Items], Any]  # fits the same to other items


def hold_out(items: Items, seed: int) -> Folds:
    """What to train on and what to judge by: a fifth of the queries is held out.

    Of few queries each fifth in its turn, of one single list a fifth of the rows; of less, nothing.
    """
    if items.qid is not None and items.n_queries >= 5:
        splits = fold_queries(items.qid, 5, random_state=seed)
        splits = splits if items.n_queries < FEW else splits[:1]
    elif items.n_queries == 1 and items.n_items >= 20:
        splits = [split_queries(np.arange(items.n_items), test_size=0.2, random_state=seed)]
    else:
        splits = []
    return [(items.take(split.train), items.take(split.test)) for split in splits]


def default_measure(y: NDArray[np.float64]) -> str:
    """NDCG@10 where the grades can be gains, else the share of pairs in wrong order."""
    return "NDCG@10" if y.min() >= 0 and y.max() <= 30 else "Disagreement"


def wanted(
    ranker: str, settings: dict[str, Any], items: Items, folds: Folds
) -> dict[str, dict[str, Any]]:
    """What to try, by name: the ranker that was asked for, or several for ``auto``."""
    if ranker == "auto":
        return _candidates(items, folds)
    return {type(make_ranker(ranker, settings)).__name__: {"ranker": ranker, **settings}}


def _candidates(items: Items, folds: Folds) -> dict[str, dict[str, Any]]:
    """What to try: linear and boosted rankers, of these what can learn from such data.

    Where there is nothing to judge them by, the first that is safe.
    """
    asked = [items, *(valid for _, valid in folds)]
    has_gaps = any(first_gap(each.X, None) is not None for each in asked)
    wide = items.is_sparse and items.n_features > 2000
    tried: dict[str, dict[str, Any]] = {}
    if not has_gaps:
        tried |= {f"RankSVM C={c:g}": {"ranker": "RankSVM", "C": c} for c in (0.01, 1.0, 100.0)}
    if has_gaps or not wide:
        tried["RankBoost thresholds"] = {"ranker": "RankBoost"}
        tried["RankBoost trees"] = {"ranker": "RankBoost", "estimator": "tree"}
    if folds:
        return tried
    safe = "RankSVM C=1" if "RankSVM C=1" in tried else "RankBoost thresholds"
    return {safe: tried[safe]}


def attempt(
    name: str, settings: dict[str, Any], items: Items, folds: Folds, measures: list[str]
) -> Attempt:
    """Fit one ranker on each fold; RankBoost stops by itself where there is something to stop by.

    Without folds it is fitted to all items, and not judged.
    """
    settings = dict(settings)
    kind = settings.pop("ranker")
    if not folds:
        model = fit(make_ranker(kind, settings), items)
        return Attempt(name, model, None, None, None, lambda _: model)
    stops = kind.lower() == "rankboost" and "early_stopping" not in settings
    models = [
        _boost(settings, train, valid, measures[0])
        if stops and train.qid is not None
        else fit(make_ranker(kind, settings), train)
        for train, valid in folds
    ]
    asked = Items.concat([valid for _, valid in folds])
    held_out, predictions = _asked(models, folds, "decision_function"), None
    if any(Measure.parse(measure).reads_predictions for measure in measures):
        predictions = _asked(models, folds, "predict")
    scores = evaluate(held_out, asked.y, asked.qid, measures, predictions=predictions)
    rounds = (
        {"n_estimators": round(np.median([each.n_estimators for each in models]))} if stops else {}
    )

    def again(items: Items) -> Any:
        return fit(make_ranker(kind, settings | rounds), items)

    curve = getattr(models[0], "validation_", None)
    return Attempt(name, models[0], scores, held_out, curve, again)


def best_of(tried: list[Attempt]) -> Attempt:
    """The attempt with the best mean of the first measure; the first where none was judged."""
    judged = [each for each in tried if each.scores is not None]
    if not judged:
        return tried[0]
    measure = judged[0].scores.measures[0]  # type: ignore[union-attr]
    means = [each.scores.to_dict()[str(measure)] for each in judged]  # type: ignore[union-attr]
    known = [-float("inf") if mean is None else measure.sign * mean for mean in means]
    return judged[known.index(max(known))]


def _asked(models: list[Any], folds: Folds, method: str) -> NDArray[np.float64]:
    """What each model says of the items that were held out from it."""
    return np.concatenate(
        [
            getattr(model, method)(valid.X, **_queries(model, valid))
            for model, (_, valid) in zip(models, folds, strict=True)
        ]
    )


def _boost(settings: dict[str, Any], train: Items, valid: Items, measure: str) -> Any:
    """RankBoost up to its best round on the validation queries."""
    from rankwright.rankers.early_stopping import EarlyStopping

    stopping = EarlyStopping(n_iter_no_change=PATIENCE, measure=measure)
    model = make_ranker(
        "RankBoost", {"n_estimators": MOST_ROUNDS, **settings, "early_stopping": stopping}
    )
    model.fit(train.X, train.y, qid=train.qid, eval_set=(valid.X, valid.y), eval_qid=valid.qid)
    # The model is what so many rounds without a look at these queries would have been.
    return model.set_params(early_stopping=None, n_estimators=max(len(model.alpha_), 1))


def _queries(model: Any, items: Items) -> dict[str, Any]:
    by_query = getattr(model, "normalize", None) == "query"
    return {"qid": items.qid} if by_query and items.qid is not None else {}
