"""A sound model without being asked for details: a few rankers, judged on held-out queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.cli.preparing import fit
from rankwright.cli.settings import make_ranker
from rankwright.data.items import Items
from rankwright.data.splits import split_queries
from rankwright.metrics.evaluate import evaluate
from rankwright.metrics.measure import Measure
from rankwright.metrics.scores import Scores

__all__ = ["Attempt", "attempt", "candidates", "default_measure", "hold_out"]

MOST_ROUNDS = 500
PATIENCE = 30


@dataclass(frozen=True, eq=False)
class Attempt:
    """A ranker fitted to the training part and judged on the held-out part."""

    name: str
    model: Any
    scores: Scores | None
    held_out: NDArray[np.float64] | None  # its scores of the held-out items
    curve: NDArray[np.float64] | None  # the measure after each round
    again: Callable[[Items], Any]  # fits the same to other items


def hold_out(items: Items, seed: int) -> tuple[Items, Items | None]:
    """A fifth of the queries for validation; of the rows where there is one single list."""
    if items.qid is not None and items.n_queries >= 5:
        split = split_queries(items.qid, test_size=0.2, random_state=seed)
    elif items.n_queries == 1 and items.n_items >= 20:
        split = split_queries(np.arange(items.n_items), test_size=0.2, random_state=seed)
    else:
        return items, None
    return items.take(split.train), items.take(split.test)


def default_measure(y: NDArray[np.float64]) -> str:
    """NDCG@10 where the grades can be gains, else the share of pairs in wrong order."""
    return "NDCG@10" if y.min() >= 0 and y.max() <= 30 else "Disagreement"


def candidates(items: Items, *, judged: bool) -> dict[str, dict[str, Any]]:
    """What to try: linear and boosted rankers, of these what can learn from such data.

    Where there is nothing to judge them by, the first that is safe.
    """
    has_gaps = bool(np.isnan(items.X.data if items.is_sparse else items.X).any())
    wide = items.is_sparse and items.n_features > 2000
    tried: dict[str, dict[str, Any]] = {}
    if not has_gaps:
        tried |= {f"RankSVM C={c:g}": {"ranker": "RankSVM", "C": c} for c in (0.01, 1.0, 100.0)}
    if has_gaps or not wide:
        tried["RankBoost thresholds"] = {"ranker": "RankBoost"}
        tried["RankBoost trees"] = {"ranker": "RankBoost", "weak": "tree"}
    if judged:
        return tried
    safe = "RankSVM C=1" if "RankSVM C=1" in tried else "RankBoost thresholds"
    return {safe: tried[safe]}


def attempt(
    name: str, settings: dict[str, Any], train: Items, valid: Items | None, measures: list[str]
) -> Attempt:
    """Fit one ranker; RankBoost stops by itself where there is something to stop by."""
    settings = dict(settings)
    kind = settings.pop("ranker")
    stops = kind.lower() == "rankboost" and "early_stopping" not in settings
    if stops and valid is not None and train.qid is not None:
        model = _boost(settings, train, valid, measures[0])
    else:
        model = fit(make_ranker(kind, settings), train)
    scores = held_out = None
    if valid is not None:
        held_out = model.decision_function(valid.X, **_queries(model, valid))
        predictions = None
        if any(Measure.parse(m).definition.reads == "predictions" for m in measures):
            predictions = model.predict(valid.X, **_queries(model, valid))
        scores = evaluate(held_out, valid.y, valid.qid, measures, predictions=predictions)
    rounds = {"n_rounds": model.n_rounds} if stops and valid is not None else {}

    def again(items: Items) -> Any:
        return fit(make_ranker(kind, settings | rounds), items)

    return Attempt(name, model, scores, held_out, getattr(model, "validation_", None), again)


def _boost(settings: dict[str, Any], train: Items, valid: Items, measure: str) -> Any:
    """RankBoost up to its best round on the validation queries."""
    from rankwright.rankers.boosting.stopping import EarlyStopping

    both = Items.concat([train.take(slice(None)), valid.take(slice(None))])
    # Queries of the two parts may bear the same names: number them apart.
    qid = np.concatenate([train.queries.codes, -1 - valid.queries.codes])
    stopping = EarlyStopping(
        patience=PATIENCE, measure=measure, queries=np.unique(qid[qid < 0]).tolist()
    )
    model = make_ranker(
        "RankBoost", {"n_rounds": MOST_ROUNDS, **settings, "early_stopping": stopping}
    )
    model.fit(both.X, both.y, qid=qid)
    # The model is what so many rounds without a look at these queries would have been.
    return model.set_params(early_stopping=None, n_rounds=max(len(model.alpha_), 1))


def _queries(model: Any, items: Items) -> dict[str, Any]:
    by_query = getattr(model, "normalize", None) == "query"
    return {"qid": items.qid} if by_query and items.qid is not None else {}
