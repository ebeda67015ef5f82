"""Whether an export target can rank with a model, fitted or not, by what its classes declare."""

from __future__ import annotations

import inspect

from sklearn.base import BaseEstimator

from rankwright.exceptions import ParameterError
from rankwright.rankers.preprocessing import (
    IDLE,
    QueryNormalizer,
    flat_steps,
    is_known,
    is_scaler,
)
from rankwright.scoring.kinds import HOLDS


def holds(target: str, model: BaseEstimator) -> bool:
    """Return whether a target can rank with a model, judged by what its classes declare.

    The model may be fitted or not, a ranker, its class, an ensemble, or a pipeline. Missing values
    are left aside: some targets need ``export(missing="never")``. Solr keeps only the order of a
    linear model with an intercept (``allow_order_only=True``). An expression may still be too long,
    and the features of a target may have limits of their own; ``export`` tells.

    Parameters
    ----------
    target : str
        A target of :func:`rankwright.export`.
    model : a ranker, the class of one, an ensemble, or a pipeline that ends in one

    Examples
    --------
    >>> from rankwright import LambdaMART, RankEnsemble, RankSVM
    >>> holds("lightgbm", LambdaMART()), holds("lightgbm", RankSVM())
    (True, False)
    >>> both = RankEnsemble([LambdaMART(), RankSVM()])
    >>> holds("elasticsearch", both), holds("onnx", both)
    (False, True)
    """
    if target not in HOLDS:
        raise ParameterError(f"target {target!r} is unknown: use one of {', '.join(HOLDS)}.")
    return kinds_of(model) <= HOLDS[target]


def kinds_of(model: BaseEstimator) -> frozenset[str]:
    """The kinds that a model is made of, by what its classes declare."""
    if inspect.isclass(model):
        model = model()
    *steps, ranker = [step for step in flat_steps(model) if step not in IDLE]
    kinds = frozenset(ranker._score_kinds())
    if any(isinstance(step, QueryNormalizer) for step in steps):
        kinds |= {"query"}
    if any(not is_known(step) for step in steps):
        kinds |= {"unknown"}
    if not all(_is_folded(step, kinds) for step in steps):
        kinds |= {"mapped"}
    return kinds


def _is_folded(step: BaseEstimator, kinds: frozenset[str]) -> bool:
    """Whether thresholds or weights take a step in, so that a target need not hold it."""
    if isinstance(step, QueryNormalizer):
        return True  # it is a kind of its own
    clips = bool(getattr(step, "clip", False))
    weights = not clips and kinds <= {"trees", "linear", "network", "sum", "query"}
    return is_scaler(step) and (weights or kinds <= {"trees", "query"})
