"""Choose parameters on held-out queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rankwright.data.items import Items
from rankwright.selection.runner import Runner
from rankwright.selection.trials import Trial, Trials, show_progress

__all__ = ["Tuned", "tune"]


@dataclass(frozen=True, repr=False)
class Tuned:
    """What :func:`tune` found.

    Attributes
    ----------
    model : the ranker with the best parameters, trained on the training queries
    params : dict, the best parameters
    value : float, the measure on the validation queries
    trials : Trials; printed, they are a table from the best to the worst
    """

    model: Any
    params: dict[str, Any]
    value: float
    trials: Trials

    def __repr__(self) -> str:
        return f"Tuned({self.model!r}, {self.trials.measure}={self.value:.4f})\n{self.trials}"


def tune(
    ranker: Any,
    space: Any,
    train: Items,
    valid: Items,
    measure: str = "NDCG@10",
    *,
    search: str = "grid",
    n_trials: int = 20,
    n_jobs: int | None = None,
    random_state: int = 0,
    like: str | None = None,
    progress: bool | Callable[[int, int, Trial], None] = False,
) -> Tuned:
    """Train on some queries, measure on others, and keep the best parameters.

    This is the protocol of the LETOR folds: the test queries are seen by neither.

    Parameters
    ----------
    ranker : a ranker, or a pipeline that ends in one
    space : {parameter: list of values} or a list of such tables; with ``search="random"`` a value
        may also be a :class:`Range` or a SciPy distribution; with ``"optuna"`` a Range, or in place
        of the table a function of optuna's trial
    train, valid : Items
    measure : str, as in :func:`evaluate`; of a loss, such as RankLoss, the lowest is best
    search : "grid", "random" or "optuna"
    n_trials : int, for "random" and "optuna"
    n_jobs : int or None
        Trials trained at the same time (threads); None takes RANKWRIGHT_THREADS or all cores.
    random_state : int, seeds the search; the ranker has its own
    like : conventions of the measure, as in :func:`evaluate`
    progress : True writes a line for each trial; or a function (done, total, trial)

    Examples
    --------
    >>> from rankwright import RankSVM
    >>> from rankwright.data.items import Items
    >>> from rankwright.testing.problem import make_problem
    >>> train, valid = (Items(p.X, p.y, p.qid) for p in (make_problem(), make_problem(seed=1)))
    >>> found = tune(RankSVM(), {"C": [0.01, 1.0]}, train, valid, "NDCG@5")
    >>> sorted(found.params), len(found.trials.trials)
    (['C'], 2)
    >>> found.model.decision_function(valid.X).shape
    (54,)
    """
    report = show_progress(progress, measure)
    runner = Runner(ranker, [(train, valid)], measure, report, n_jobs, like, keep_models=True)
    trials = runner.run(space, search, n_trials, random_state)
    best = trials.best
    return Tuned(runner.best_model(), best.params, best.value, trials)
