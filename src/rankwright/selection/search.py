"""A ranker that chooses its own parameters by cross-validation over queries."""

from __future__ import annotations

import itertools
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from rankwright.data.items import Items
from rankwright.data.queries import Queries
from rankwright.data.splits import fold_queries
from rankwright.exceptions import ConvergenceWarning, DataError, ParameterError, RankwrightError
from rankwright.feedback.labels import as_grades
from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.measure import Measure
from rankwright.metrics.tables import Cell, Table
from rankwright.parallel import n_threads

Parameters = dict[str, Any]


@dataclass(frozen=True)
class Range:
    """All numbers from low to high; whole numbers where both are.

    >>> Range(1, 8).at(0.5), round(Range(0.01, 100.0, log=True).at(0.5), 6)
    (5, 1.0)
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            raise ParameterError(f"Range({self.low}, {self.high}): low must be below high.")
        if self.log and self.low <= 0:
            raise ParameterError(f"Range({self.low}, {self.high}, log=True): low must be > 0.")

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def at(self, share: float) -> float | int:
        """The number at this share (0 <= share < 1) of the way, on the log scale if asked."""
        high = self.high + 1 if self.is_whole else self.high
        if self.log:
            value = float(np.exp(np.log(self.low) + share * (np.log(high) - np.log(self.low))))
        else:
            value = float(self.low + share * (high - self.low))
        return min(int(value), int(self.high)) if self.is_whole else value


def grid(space: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> list[Parameters]:
    """Every combination of the values, of one table or of several in turn.

    >>> grid({"C": [1, 10], "loss": ["hinge"]})
    [{'C': 1, 'loss': 'hinge'}, {'C': 10, 'loss': 'hinge'}]
    """
    found: list[Parameters] = []
    for table in _tables(space):
        values = [_choices(name, choice) for name, choice in table.items()]
        found += [dict(zip(table, each, strict=True)) for each in itertools.product(*values)]
    return found


def draw(
    space: Mapping[str, Any] | Iterable[Mapping[str, Any]], n: int, rng: np.random.Generator
) -> list[Parameters]:
    """Random combinations; a choice is a list, a Range, or anything with ``rvs`` (SciPy).

    >>> draw({"C": Range(0.1, 10.0, log=True)}, 1, np.random.default_rng(0))[0]["C"] < 10
    True
    """
    tables = _tables(space)
    picked = [tables[int(rng.integers(len(tables)))] for _ in range(n)]
    return [{name: _one(choice, rng) for name, choice in table.items()} for table in picked]


def _one(choice: Any, rng: np.random.Generator) -> Any:
    if isinstance(choice, Range):
        return choice.at(float(rng.random()))
    if hasattr(choice, "rvs"):
        return choice.rvs(random_state=np.random.RandomState(int(rng.integers(2**31))))
    values = _choices("", choice)
    return values[int(rng.integers(len(values)))]


def _choices(name: str, choice: Any) -> list[Any]:
    if isinstance(choice, Range) or hasattr(choice, "rvs"):
        raise ParameterError(
            f"space[{name!r}] is {choice!r}: a grid needs a list of values. "
            "For ranges and distributions use search='random' or search='optuna'."
        )
    if isinstance(choice, str) or not isinstance(choice, Iterable):
        raise ParameterError(
            f"space[{name!r}] is {choice!r}: give a list of values to try, or a Range."
        )
    values = list(choice)
    if not values:
        raise ParameterError(f"space[{name!r}] is empty: give at least one value.")
    return values


def _tables(space: Any) -> list[Mapping[str, Any]]:
    tables = [space] if isinstance(space, Mapping) else list(space)
    if not tables or not all(isinstance(table, Mapping) for table in tables):
        raise ParameterError("the space must be a table {parameter: values} or a list of these.")
    return tables


Progress = Callable[[int, int, "Trial"], None]


@dataclass(frozen=True)
class Trial:
    """One combination of parameters.

    Attributes
    ----------
    params : dict
    value : float
        The measure, the mean over folds; NaN when training failed.
    values : tuple of float, fold by fold
    seconds : float, training and evaluation
    error : str, why it failed; empty otherwise
    """

    params: dict[str, Any]
    value: float
    values: tuple[float, ...] = ()
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, repr=False)
class Trials:
    """All trials of a search, in the order tried; the measure says whether high or low is good.

    Examples
    --------
    >>> print(Trials("NDCG@10", (Trial({"C": 1}, 0.25, seconds=0.5), Trial({"C": 9}, 0.5))))
    C  NDCG@10  seconds
    9  *0.5000     0.00
    1   0.2500     0.50
    """

    measure: str
    trials: tuple[Trial, ...] = field(default=())

    @property
    def best(self) -> Trial:
        """The best value, the lowest of a loss; of equal ones the first tried."""
        worked = [trial for trial in self.trials if not math.isnan(trial.value)]
        if not worked:
            first = self.trials[0].error if self.trials else "there was none"
            raise RankwrightError(f"none of {len(self.trials)} trials worked: {first}")
        return max(worked, key=self._goodness)

    def _goodness(self, trial: Trial) -> float:
        return Measure.parse(self.measure).sign * trial.value

    def table(self) -> Table:
        """The trials from the best to the worst, with a column for each parameter."""
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.params))
        order = sorted(
            self.trials,
            key=lambda trial: math.inf if math.isnan(trial.value) else -self._goodness(trial),
        )
        rows = []
        for place, trial in enumerate(order):
            cells = [Cell(_text(trial.params.get(name, ""))) for name in names]
            failed = math.isnan(trial.value)
            value = trial.error.split(":")[0] if failed else f"{trial.value:.4f}"
            cells += [Cell(value, best=place == 0 and not failed), Cell(f"{trial.seconds:.2f}")]
            rows.append(tuple(cells))
        return Table((*names, self.measure, "seconds"), tuple(rows))

    def __str__(self) -> str:
        return self.table().to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table().to_html()


def show_progress(progress: bool | Progress, measure: str) -> Progress:
    """A function (done, total, trial) that reports: nothing, a line on stderr, or your own."""
    if callable(progress):
        return progress
    if not progress:
        return lambda done, total, trial: None
    best, sign = math.nan, Measure.parse(measure).sign

    def report(done: int, total: int, trial: Trial) -> None:
        import sys

        nonlocal best
        if math.isnan(best) or sign * trial.value > sign * best:
            best = trial.value
        words = " ".join(f"{name}={_text(value)}" for name, value in trial.params.items())
        found = trial.error or f"{trial.value:.4f}"
        print(f"[{done}/{total}] {words}: {found} (best {best:.4f})", file=sys.stderr, flush=True)

    return report


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


SEARCHES = ("grid", "random", "optuna")


@dataclass
class Runner:
    """Tries parameters of a ranker on (training, validation) folds and keeps the best.

    Threads suffice: training spends its time in compiled loops and matrix products, which let other
    threads run. What a trial finds does not depend on how many run at once.
    """

    ranker: Any
    folds: Sequence[tuple[Items, Items]]
    measure: str
    progress: Progress
    n_jobs: int | None = None
    like: str | None = None
    keep_models: bool = False
    models: dict[int, Any] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)
    _best: float = -np.inf  # times the sign of the measure
    _done: int = 0

    def run(self, space: Any, search: str, n_trials: int, seed: int) -> Trials:
        """All trials of a search."""
        if search not in SEARCHES:
            raise ParameterError(f"search={search!r}: search must be one of {SEARCHES}.")
        self.measure = str(Measure.parse(self.measure))
        if search == "optuna":
            trials = self._ask_optuna(space, n_trials, seed)
        else:
            rng = np.random.default_rng(seed)
            trials = self._try_all(grid(space) if search == "grid" else draw(space, n_trials, rng))
        failed = [trial for trial in trials if trial.error]
        if failed:
            warnings.warn(
                f"{len(failed)} of {len(trials)} trials failed; the first, {failed[0].params}: "
                f"{failed[0].error}",
                ConvergenceWarning,
                stacklevel=3,
            )
        return Trials(self.measure, tuple(trials))

    def _try_all(self, candidates: list[Parameters]) -> list[Trial]:
        with ThreadPoolExecutor(self.n_jobs or n_threads()) as pool:
            jobs = [
                pool.submit(self._try, number, params, len(candidates))
                for number, params in enumerate(candidates)
            ]
            return [job.result() for job in jobs]

    def _try(self, number: int, params: Parameters, total: int) -> Trial:
        """Train and measure one combination on every fold."""
        start = time.perf_counter()
        values: list[float] = []
        model, error = None, ""
        try:
            for train, valid in self.folds:
                model = clone(self.ranker).set_params(**params)
                fit_ranker(model, train.X, train.y, train.qid)
                values.append(self._value(model, valid))
        except Exception as problem:  # a combination that cannot be trained is a result, not an end
            error = f"{type(problem).__name__}: {problem}"
        value = float(np.mean(values)) if not error else float("nan")
        trial = Trial(params, value, tuple(values), time.perf_counter() - start, error)
        self._finish(number, trial, model, total)
        return trial

    def _value(self, model: Any, valid: Items) -> float:
        scores = ask_ranker(model, "decision_function", valid.X, valid.qid)
        predictions = None
        if Measure.parse(self.measure).reads_predictions:
            predictions = ask_ranker(model, "predict", valid.X, valid.qid)
        found = evaluate(
            scores, valid.y, valid.qid, self.measure, like=self.like, predictions=predictions
        )
        return found[self.measure]

    def _finish(self, number: int, trial: Trial, model: Any, total: int) -> None:
        with self._lock:
            self._done += 1
            good = Measure.parse(self.measure).sign * trial.value
            if self.keep_models and good >= self._best:
                # Equal values: the earlier trial wins, whichever thread was faster.
                if good > self._best:
                    self.models.clear()
                self.models[number] = model
                self._best = good
            self.progress(self._done, total, trial)

    def best_model(self) -> Any:
        """The model of the best trial (of equal ones the first), as it was trained."""
        return self.models[min(self.models)]

    def _ask_optuna(self, space: Any, n_trials: int, seed: int) -> list[Trial]:
        """Let optuna propose what to try next, from what was found so far."""
        try:
            import optuna
        except ImportError as error:
            raise ImportError(
                "search='optuna' needs optuna: pip install 'rankwright[tune]'"
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            direction="maximize" if Measure.parse(self.measure).higher_is_better else "minimize",
            sampler=optuna.samplers.TPESampler(seed=seed),
        )
        trials = []
        for number in range(n_trials):  # one at a time: a proposal depends on all before it
            asked = study.ask()
            params = space(asked) if callable(space) else _suggest(asked, space)
            trials.append(self._try(number, params, n_trials))
            failed = bool(trials[-1].error)
            state = optuna.trial.TrialState.FAIL if failed else None
            study.tell(asked, None if failed else trials[-1].value, state=state)
        return trials


def fit_ranker(model: Any, X: Any, y: Any, qid: Any) -> None:
    """Train a ranker, or a pipeline, which passes qid on where it is asked for."""
    with config_context(enable_metadata_routing=True):
        model.fit(X, y, qid=qid)


def ask_ranker(model: Any, method: str, X: Any, qid: Any) -> Any:
    """What a ranker or a pipeline answers; qid goes where it is asked for."""
    with config_context(enable_metadata_routing=True):
        return getattr(model, method)(X, qid=qid)


def _suggest(trial: Any, space: Any) -> Parameters:
    params: Parameters = {}
    for name, choice in dict(space).items():
        if not isinstance(choice, Range):
            params[name] = trial.suggest_categorical(name, list(choice))
        elif choice.is_whole:
            params[name] = trial.suggest_int(name, choice.low, choice.high, log=choice.log)
        else:
            params[name] = trial.suggest_float(name, choice.low, choice.high, log=choice.log)
    return params


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
    >>> from rankwright.testing.problems import make_problem
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


class RankSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Search parameters by cross-validation over folds of whole queries, then train on all.

    A query is never cut: its rows are all in training or all in validation. (Cutting rows at random
    would measure how well a ranker remembers queries, not how well it ranks new ones.)

    Parameters
    ----------
    ranker : a ranker, or a pipeline that ends in one
    space, search, n_trials, n_jobs, random_state, like, progress
        As in :func:`tune`.
    measure : str, default "NDCG@10"; of a loss, such as RankLoss, the lowest is best
    n_folds : int, default 5

    Attributes
    ----------
    best_estimator_ : the ranker with the best parameters, trained on all queries
    best_params_ : dict
    best_score_ : float, mean of the measure over the folds
    trials_ : Trials; printed, they are a table

    Examples
    --------
    >>> from rankwright import RankSVM
    >>> from rankwright.testing.problems import make_problem
    >>> data = make_problem(n_queries=10)
    >>> search = RankSearchCV(RankSVM(), {"C": [0.1, 10.0]}, n_folds=3, measure="AP")
    >>> search = search.fit(data.X, data.y, qid=data.qid)
    >>> search.best_params_ in ({"C": 0.1}, {"C": 10.0})
    True
    >>> bool(search.score(data.X, data.y, qid=data.qid) > 0.8)
    True
    """

    __metadata_request__fit: ClassVar = {"qid": True}
    __metadata_request__score: ClassVar = {"qid": True}
    __metadata_request__predict: ClassVar = {"qid": True}
    __metadata_request__decision_function: ClassVar = {"qid": True}

    def __init__(
        self,
        ranker: Any,
        space: Any,
        *,
        measure: str = "NDCG@10",
        n_folds: int = 5,
        search: str = "grid",
        n_trials: int = 20,
        n_jobs: int | None = None,
        random_state: int = 0,
        like: str | None = None,
        progress: Any = False,
    ) -> None:
        self.ranker = ranker
        self.space = space
        self.measure = measure
        self.n_folds = n_folds
        self.search = search
        self.n_trials = n_trials
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.like = like
        self.progress = progress

    def fit(self, X: Any, y: ArrayLike, *, qid: Any) -> Self:
        """Search, then train the best on all rows.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades
        qid : (n_items,) query ids; there must be as many queries as folds
        """
        if not isinstance(self.n_folds, int) or self.n_folds < 2:
            raise ParameterError(f"RankSearchCV(n_folds={self.n_folds!r}): n_folds must be >= 2.")
        data = Items(X, as_grades(y, "y"), qid=qid)
        n_queries = Queries.from_ids(qid, len(data)).n_queries
        if n_queries < self.n_folds:
            raise DataError(
                f"{n_queries} queries cannot be cut into {self.n_folds} folds. Use fewer folds."
            )
        splits = fold_queries(data.qid, self.n_folds, random_state=self.random_state)
        folds = [(data.take(split.train), data.take(split.test)) for split in splits]
        report = show_progress(self.progress, self.measure)
        runner = Runner(self.ranker, folds, self.measure, report, self.n_jobs, self.like)
        self.trials_: Trials = runner.run(self.space, self.search, self.n_trials, self.random_state)
        best = self.trials_.best
        self.best_params_, self.best_score_ = best.params, best.value
        self.best_estimator_ = clone(self.ranker).set_params(**best.params)
        fit_ranker(self.best_estimator_, X, y, qid)
        return self

    def decision_function(self, X: Any, qid: Any = None) -> Any:
        """The score of each row; higher comes first."""
        check_is_fitted(self)
        return ask_ranker(self.best_estimator_, "decision_function", X, qid)

    def predict(self, X: Any, qid: Any = None) -> Any:
        """In the terms of ``y``: the grade for ordinal rankers, the score for the others."""
        check_is_fitted(self)
        return ask_ranker(self.best_estimator_, "predict", X, qid)

    def rank(self, X: Any, qid: Any = None) -> Any:
        """The place of each row in its query, 1 for the first."""
        scores = self.decision_function(X, qid)
        return Queries.from_ids(qid, len(scores)).places(scores)

    def score(self, X: Any, y: ArrayLike, qid: Any = None) -> float:
        """Pairwise accuracy of the best ranker, as its own ``score`` gives it."""
        check_is_fitted(self)
        with config_context(enable_metadata_routing=True):
            return float(self.best_estimator_.score(X, y, qid=qid))

    @property
    def n_features_in_(self) -> int:
        check_is_fitted(self)
        return int(self.best_estimator_.n_features_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        return tags
