"""A measure as a scikit-learn scorer: ``GridSearchCV(scoring=Measure("NDCG@10").scorer())``.

scikit-learn is imported when the scorer is called, so that the metrics load without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.measure import Measure


def predict_with(model: Any, method: str, X: Any, qid: Any) -> Any:
    """Call a method of a ranker or a pipeline; ``qid`` goes to every step that requests it."""
    from sklearn import config_context

    with config_context(enable_metadata_routing=True):
        return getattr(model, method)(X, qid=qid)


@dataclass(frozen=True)
class MeasureScorer:
    """What :meth:`Measure.scorer` returns: called with a fitted ranker, rows, grades and queries.

    The value of a loss, such as RankLoss, is negated: higher is better for every scorer.
    """

    measure: Measure
    like: str | None = None

    def __call__(self, estimator: Any, X: Any, y: Any, qid: Any = None) -> float:
        scores = predict_with(estimator, "decision_function", X, qid)
        predictions = None
        if self.measure.reads_predictions:
            predictions = predict_with(estimator, "predict", X, qid)
        values = evaluate(scores, y, qid, self.measure, like=self.like, predictions=predictions)
        return self.measure.sign * values[self.measure]

    def get_metadata_routing(self) -> Any:
        """Tell scikit-learn's searches to pass ``qid`` on."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        request.score.add_request(param="qid", alias=True)
        return request
