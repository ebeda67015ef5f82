"""Parameter search on held-out queries, by scikit-learn's grid search."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, ParameterGrid

from rankwright._typing import IntArray, Matrix, MatrixLike, RandomState
from rankwright.data.inputs import checked_rows
from rankwright.data.items import Items
from rankwright.data.queries import Queries, fold_queries
from rankwright.data.vocabulary import as_column
from rankwright.exceptions import DataError, Message, ParameterError, Setting
from rankwright.feedback.base import as_grades
from rankwright.metrics.measure import Measure, MeasureScorer
from rankwright.metrics.scores import Cell, Table
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.preprocessing import ranker_of, with_encoding
from rankwright.runtime import active_engine, current_engine, n_threads, progress, read_here
from rankwright.selection.base import (
    BestRanker,
    check_learnable,
    default_measure,
    request_weights,
    scaled,
)
from rankwright.selection.space import Params, Range, Space, chosen_ends, distinct_points, propose


@dataclass(frozen=True)
class Trial:
    """One combination of parameters and its scores.

    Attributes
    ----------
    params : dict
    value : float, the mean of the measure over the folds; NaN if training failed
    values : tuple of float, the measure on each fold
    seconds : float, training and evaluation on all folds
    """

    params: dict[str, Any]
    value: float
    values: tuple[float, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, repr=False)
class Trials:
    """All trials of a search, in the order tried. Prints as a table, the best one first.

    Examples
    --------
    >>> print(Trials("NDCG@10", (Trial({"C": 1}, 0.25, seconds=0.5), Trial({"C": 9}, 0.5))))
    C  NDCG@10  seconds
    9  *0.5000     0.00
    1   0.2500     0.50
    """

    measure: str
    trials: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Trial:
        """The trial with the best value (of a loss the lowest); of equal ones the first."""
        return self._ordered()[0]

    def _ordered(self) -> list[Trial]:
        sign = Measure.parse(self.measure).sign
        values = [math.inf if math.isnan(t.value) else -sign * t.value for t in self.trials]
        return [self.trials[i] for i in np.argsort(values, kind="stable")]

    def table(self) -> Table:
        """The trials from the best to the worst, with a column for each parameter."""
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.params))
        rows = []
        for rank, trial in enumerate(self._ordered()):
            failed = math.isnan(trial.value)
            value = Cell("failed" if failed else f"{trial.value:.4f}", best=rank == 0)
            params = [trial.params.get(name, "") for name in names]
            texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in params]
            rows.append((*map(Cell, texts), value, Cell(f"{trial.seconds:.2f}")))
        return Table((*names, self.measure, "seconds"), tuple(rows), self.notes)

    def to_dict(self) -> dict[str, Any]:
        """The measure, the best trial, all trials and the notes, as plain values."""
        rows = [{"params": trial.params, "value": trial.value} for trial in self.trials]
        best = rows[self.trials.index(self.best)]
        return {"measure": self.measure, "best": best, "trials": rows, "notes": list(self.notes)}

    def __repr__(self) -> str:
        return self.table().to_text()

    def _repr_html_(self) -> str:
        return self.table().to_html()


class RankSearchCV(BestRanker):
    """Grid or random search by cross-validation over folds of whole queries.

    This is scikit-learn's GridSearchCV for ranking: folds never split a query (random rows would
    measure how well a ranker remembers queries, not how well it ranks new ones), ``qid`` is passed
    to every step without ``set_config``, and trials run in threads.

    Parameters
    ----------
    estimator : a ranker, or a pipeline that ends in one
    param_grid : dict of parameter to list of values, or list of such dicts; all are tried
    param_distributions : the same, also with SciPy distributions or a :class:`Range`, or None
        Draws ``n_iter`` distinct combinations; give either this or ``param_grid``.
    n_iter : int, default 20
    sampler : {"random", "optuna"}, default "random"
        How to draw them: at random, or sequentially by Optuna's TPE based on the results so far,
        which needs lists of values or a ``Range``.
    scoring : str, Measure or scorer, default "NDCG@10"
        A scorer is :meth:`Measure.scorer`, or any scikit-learn scorer that requests ``qid``.
    cv : int or iterable of (training rows, validation rows), default 5
        A number of folds of queries, or the folds themselves.
    n_jobs : int or None
        Trials run at the same time, in threads; None uses RANKWRIGHT_THREADS or all cores. Inside
        :func:`rankwright.engine` trials run on its workers.
    random_state : int, RandomState or None
        Seeds the folds and the draws, but not the estimator.
    refit : bool, default True
        Whether to fit the best combination to all rows.
    verbose : int, default 0
        1 prints a line for each fit to standard error.

    Attributes
    ----------
    best_estimator_ : the estimator with the best parameters, fitted to all rows
    best_params_ : dict
    best_score_ : float, mean of the score over the folds; higher is better, so losses are negated
    cv_results_ : dict of arrays, as in scikit-learn
    trials_ : Trials, the same as a table; losses are not negated. A note says when the best value
        of a parameter is the first or last of three or more.

    Examples
    --------
    >>> from rankwright import RankSVM
    >>> from rankwright.testing.inputs import make_problem
    >>> data = make_problem(n_queries=10)
    >>> search = RankSearchCV(RankSVM(), {"C": [0.1, 10.0]}, scoring="AP", cv=3, random_state=0)
    >>> search.fit(data.X, data.y, qid=data.qid).best_params_
    {'C': 10.0}
    >>> bool(search.score(data.X, data.y, qid=data.qid) > 0.8)
    True
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        param_grid: Space | None = None,
        *,
        param_distributions: Any = None,
        n_iter: int = 20,
        sampler: str = "random",
        scoring: Any = "NDCG@10",
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        refit: bool = True,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.sampler = sampler
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.refit = refit
        self.verbose = verbose

    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Search, then fit the best combination to all rows.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame; on an engine also files, whose
            columns ``y``, ``qid`` and ``sample_weight`` name then
        y : (n_items,) grades
        qid : (n_items,) query ids; at least as many queries as folds
        sample_weight : (n_items,) weights of the rows in training; the score has none
        """
        X, y, qid, sample_weight = read_here(X, y, qid, sample_weight)
        X, y = checked_rows(X), as_grades(y, "y")
        by_name = isinstance(self.scoring, str | Measure)
        scorer = Measure.parse(self.scoring).scorer() if by_name else self.scoring
        engine, space = current_engine(), self._space()
        folds = self._folds(qid, len(y)) if isinstance(self.cv, int) else list(self.cv)
        estimator, metadata = self.estimator, {"qid": None if qid is None else np.asarray(qid)}
        if sample_weight is not None:
            metadata["sample_weight"] = as_column(sample_weight, "sample_weight", len(y))
            estimator = clone(estimator)
            request_weights(estimator)
        n_fits, watched = self._n_candidates() * len(folds), scorer

        def evaluate(candidates: list[Params]) -> dict[str, Any]:
            """scikit-learn's ``cv_results_`` of some combinations."""
            grid = [{name: [value] for name, value in one.items()} for one in candidates]
            search = GridSearchCV(estimator, grid, scoring=watched, cv=folds, refit=False)
            threads = parallel_config("threading", n_jobs=self.n_jobs or n_threads())
            with (
                active_engine(None),  # a trial is fitted by one worker, the best one here
                config_context(enable_metadata_routing=True),
                threads if engine is None else engine.joblib(self.n_jobs),
            ):
                search.fit(X, y, **metadata)
            results: dict[str, Any] = search.cv_results_
            return results

        with progress.task("searching", n_fits, unit="fits", active=bool(self.verbose)) as work:
            if self.verbose:
                watched = _Watched(scorer, len(folds), work)
            self.cv_results_ = results = self._results(evaluate)
        best = int(np.argmin(results["rank_test_score"]))
        self.best_params_ = results["params"][best]
        self.best_score_ = float(results["mean_test_score"][best])
        notes = chosen_ends(space, self.best_params_)
        self.trials_ = replace(_trials(results, scorer, len(folds)), notes=notes)
        if self.refit:
            self.best_estimator_ = clone(estimator).set_params(**self.best_params_)
            with active_engine(None), config_context(enable_metadata_routing=True):
                self.best_estimator_.fit(X, y, **metadata)
            self.n_features_in_ = self.best_estimator_.n_features_in_
        return self

    def _space(self) -> Any:
        """The parameters to search; a value that the ranker refuses is refused here."""
        if (self.param_grid is None) == (self.param_distributions is None):
            raise ParameterError("RankSearchCV: give either param_grid or param_distributions.")
        if self.sampler not in ("random", "optuna"):
            raise ParameterError(
                f"RankSearchCV(sampler={self.sampler!r}): it must be 'random' or 'optuna'."
            )
        if self.param_grid is None:
            return self.param_distributions
        grids = [self.param_grid] if isinstance(self.param_grid, Mapping) else self.param_grid
        for name, values in (pair for grid in grids for pair in grid.items()):
            if isinstance(values, Range):
                raise ParameterError(
                    f"{name}={values.low:g}..{values.high:g}: a grid takes a list of values, not a "
                    "range.",
                    fix=Message("Say how many to draw: ", Setting("n_iter", 20), "."),
                )
        return self.param_grid

    def _n_candidates(self) -> int:
        if self.param_grid is not None:
            return len(ParameterGrid(self.param_grid))
        space = self.param_distributions
        if self.sampler == "random" and all(isinstance(v, list | tuple) for v in space.values()):
            return min(self.n_iter, len(ParameterGrid(space)))  # points are distinct
        return self.n_iter

    def _results(self, evaluate: Callable[[list[Params]], dict[str, Any]]) -> dict[str, Any]:
        """The results of all combinations; Optuna evaluates them one by one."""
        if self.param_grid is None and self.sampler == "optuna":
            parts: list[dict[str, Any]] = []

            def evaluate_one(params: Params) -> float:
                parts.append(evaluate(self._checked([params])))
                return float(parts[-1]["mean_test_score"][0])

            propose(self.param_distributions, self.n_iter, self._seed(), evaluate_one)
            return _joined(parts)
        if self.param_grid is not None:
            candidates = list(ParameterGrid(self.param_grid))
        else:
            candidates = distinct_points(self.param_distributions, self.n_iter, self._seed())
        return evaluate(self._checked(candidates))

    def _checked(self, candidates: list[Params]) -> list[Params]:
        for params in candidates:
            model = clone(self.estimator).set_params(**params)
            ranker = ranker_of(model)
            if hasattr(ranker, "_check_parameters"):
                with active_engine(None):
                    ranker._check_parameters()
        return candidates

    def _folds(self, qid: ArrayLike | None, n_items: int) -> list[tuple[IntArray, IntArray]]:
        n_queries = Queries.from_ids(qid, n_items).n_queries
        if n_queries < self.cv:
            raise DataError(
                f"{n_queries} queries cannot be split into {self.cv} folds.",
                fix=Message("Use a smaller ", Setting("cv"), "."),
            )
        return [(f.train, f.test) for f in fold_queries(qid, self.cv, random_state=self._seed())]


class _Watched:
    """A scorer that prints a line for each fit and shows the best combination so far."""

    def __init__(self, scorer: Any, n_folds: int, work: progress.Work) -> None:
        self.scorer, self.n_folds, self.work = scorer, n_folds, work
        self.scores: dict[str, list[float]] = defaultdict(list)  # of the folds, by combination
        self.lock = threading.Lock()

    def __call__(self, estimator: BaseEstimator, X: Matrix, y: ArrayLike, **metadata: Any) -> float:
        score = float(self.scorer(estimator, X, y, **metadata))
        with self.lock:
            done, shown = self.work.done + 1, " ".join(repr(estimator).split())  # on one line
            self.scores[shown].append(score)
            whole = [values for values in self.scores.values() if len(values) == self.n_folds]
            best = max((math.fsum(values) / len(values) for values in whole), default=None)
            self.work.update(done, None if best is None else f"best {best:.4f}")
            progress.say(f"{done} of {self.work.total}: {score:.4f}  {shown}")
        return score

    def __reduce__(self) -> tuple[Any, ...]:
        return copy, (self.scorer,)  # another process has no display

    def get_metadata_routing(self) -> Any:
        return self.scorer.get_metadata_routing()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Watched:
        return self  # copies count together; scikit-learn 1.8 makes one


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """``cv_results_`` of one combination each, as one; ranks are counted again."""
    joined: dict[str, Any] = {"params": [params for part in parts for params in part["params"]]}
    for name in parts[0]:
        if name.startswith(("mean_", "std_", "split")):
            joined[name] = np.concatenate([part[name] for part in parts])
    scores = np.nan_to_num(joined["mean_test_score"], nan=-np.inf)
    joined["rank_test_score"] = 1 + (scores[None, :] > scores[:, None]).sum(axis=1)
    return joined


def _trials(results: Mapping[str, Any], scorer: Any, n_folds: int) -> Trials:
    """scikit-learn's ``cv_results_`` as a table, in the terms of the measure."""
    known = isinstance(scorer, MeasureScorer)
    sign = scorer.measure.sign if known else 1
    values = sign * np.array([results[f"split{fold}_test_score"] for fold in range(n_folds)])
    means = sign * results["mean_test_score"]
    seconds = n_folds * (results["mean_fit_time"] + results["mean_score_time"])
    trials = zip(results["params"], means.tolist(), values.T.tolist(), seconds, strict=True)
    return Trials(
        str(scorer.measure) if known else "score",
        tuple(Trial(params, mean, tuple(row), float(s)) for params, mean, row, s in trials),
    )


def tune(
    estimator: BaseEstimator,
    params: Space,
    train: Items,
    valid: Items | None = None,
    measure: str | Measure | None = None,
    *,
    cv: int = 5,
    n_iter: int | None = None,
    sampler: str = "random",
    early_stopping: int | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    like: str | None = None,
    scale: bool = False,
    verbose: int = 0,
) -> RankSearchCV:
    """Search parameters on validation queries, or by cross-validation.

    This is the protocol of the LETOR folds: the test queries are not used.

    Parameters
    ----------
    estimator : a ranker, or a pipeline that ends in one
    params : dict of parameter to list of values, or list of such dicts
        With ``n_iter``, values may also be SciPy distributions or a :class:`Range`.
    train : Items
    valid : Items or None
        None evaluates on ``cv`` folds of the training queries instead.
    measure, like : as in :func:`evaluate`; of a loss, such as RankLoss, the lowest is best. None
        is NDCG@10, or Disagreement for grades that cannot be gains (below 0 or above 30).
    cv : int, default 5
    n_iter : int or None
        Draw this many combinations at random; None tries all.
    early_stopping : int or None
        Stop a ranker that learns in rounds when so many were no better on a fifth of the queries.
    scale : bool, default False
        Put a scaler in front of a ranker that needs features on one scale, as ``AutoRanker`` does.
    random_state : int or None
        Seeds the search, and an estimator whose ``random_state`` is None.
    sampler, n_jobs, verbose : as in :class:`RankSearchCV`

    Returns
    -------
    RankSearchCV, its ``best_estimator_`` fitted to the training queries

    Examples
    --------
    >>> from rankwright import RankSVM
    >>> from rankwright.testing.inputs import make_problem
    >>> train, valid = (Items(p.X, p.y, p.qid) for p in (make_problem(), make_problem(seed=1)))
    >>> search = tune(RankSVM(), {"C": [0.01, 1.0]}, train, valid, "NDCG@5")
    >>> search.best_params_, len(search.trials_.trials)
    ({'C': 1.0}, 2)
    >>> search.best_estimator_.decision_function(valid.X).shape
    (54,)
    """
    check_learnable(train, None if hasattr(estimator, "steps") else estimator, "train")
    measure = default_measure(train.y) if measure is None else measure
    estimator = _prepared(estimator, early_stopping, measure, random_state, params)
    model = scaled(estimator, train.X) if scale else estimator
    step = "" if model is estimator else "rank__"
    space = _with_step(params, step)
    options = {"sampler": sampler, "n_jobs": n_jobs, "random_state": random_state}
    search = RankSearchCV(
        model,
        **{"param_grid" if n_iter is None else "param_distributions": space},
        n_iter=n_iter or 1,
        scoring=Measure.parse(measure).scorer(like=like),
        cv=cv,
        verbose=verbose,
        **options,
    )
    if valid is None:
        search.fit_items(train)
    else:
        _fit_parts(search, train, valid)
    result = search.trials_
    trials = tuple(replace(one, params=_without_step(one.params, step)) for one in result.trials)
    search.trials_ = replace(result, trials=trials)
    return search


def _prepared(
    estimator: BaseEstimator,
    rounds: int | None,
    measure: str | Measure,
    random_state: Any,
    params: Any,
) -> Any:
    """The estimator with a seed, where it has none, and with early stopping, where requested."""
    known, changes = estimator.get_params(deep=False), {}
    if random_state is not None and known.get("random_state", 0) is None:
        changes["random_state"] = random_state
    if rounds is not None:
        if "early_stopping" not in known:
            name = type(estimator).__name__
            raise ParameterError(
                Setting("early_stopping", rounds), f": {name} does not learn in rounds."
            )
        spaces = [params] if isinstance(params, Mapping) else params
        if known["early_stopping"] or any("early_stopping" in space for space in spaces):
            raise ParameterError(
                Setting("early_stopping", rounds), ": the estimator sets it as well."
            )
        options = {"n_iter_no_change": rounds, "random_state": random_state}
        changes["early_stopping"] = EarlyStopping(measure=str(measure), **options)
    return clone(estimator).set_params(**changes) if changes else estimator


def _fit_parts(search: RankSearchCV, train: Items, valid: Items) -> None:
    """Search on one split, and fit the best combination to its training part."""
    both = Items.concat([train, valid])
    rows = np.arange(len(both))
    search.set_params(cv=[(rows[: len(train)], rows[len(train) :])], refit=False)
    search.fit(both.X, both.y, qid=both.qid, sample_weight=both.weight)
    search.best_estimator_ = clone(search.estimator).set_params(**search.best_params_)
    weights = {} if train.weight is None else {"sample_weight": train.weight}
    if weights:
        request_weights(search.best_estimator_)
    with active_engine(None), config_context(enable_metadata_routing=True):
        search.best_estimator_.fit(train.X, train.y, qid=train.qid, **weights)
    search.best_estimator_ = with_encoding(search.best_estimator_, train)


def _with_step(params: Space, step: str) -> Any:
    """Parameters of a ranker as a pipeline calls them."""
    if not isinstance(params, Mapping):
        return [_with_step(one, step) for one in params]
    return {step + name: values for name, values in params.items()}


def _without_step(params: Params, step: str) -> Params:
    return {name.removeprefix(step): value for name, value in params.items()}
