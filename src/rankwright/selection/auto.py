"""AutoRanker: cross-fit several rankers and combine them into one."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwright._typing import FloatArray, Matrix, MatrixLike, RandomState
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.inputs import checked_rows
from rankwright.data.queries import Queries
from rankwright.exceptions import (
    ConvergenceWarning,
    DataError,
    DegenerateDataWarning,
    MissingQueryWarning,
    ParameterError,
    RankwrightError,
)
from rankwright.feedback.base import Feedback
from rankwright.metrics.measure import Measure, parse_measures, predict_with
from rankwright.rankers import schema
from rankwright.rankers.checks import check_width
from rankwright.rankers.deployment import holds, kinds_of
from rankwright.rankers.early_stopping import EarlyStopping, rows_and_grades
from rankwright.rankers.ensemble import RankEnsemble, allows_nan, needs_queries
from rankwright.rankers.foreign_names import explains_names
from rankwright.rankers.one_hot import FEWEST_LEVELS, one_hot_columns
from rankwright.rankers.preprocessing import ranker_of, without_encoder
from rankwright.runtime import (
    active_engine,
    current_engine,
    is_path,
    map_blocks,
    map_jobs,
    n_threads,
    progress,
    read_here,
)
from rankwright.selection.base import BestRanker, default_measure, scaled, watching
from rankwright.selection.by_name import seeded
from rankwright.selection.candidates import (
    ENOUGH_QUERIES,
    FIRST_IN_TIME,
    MANY_COLUMNS,
    CandidateResult,
    CandidateResults,
    Candidates,
    best_round,
    default_candidates,
    folds_for,
    running_mean,
    unjudged_candidates,
)
from rankwright.selection.crossfit import CrossFitting, TrainingRows, fit_ranker, stops_early
from rankwright.selection.weights import learn_weights

ENSEMBLE = "ensemble"
FOR_CANDIDATES = 0.9  # of the time limit; the rest is for weights and the ensemble
REQUEST_ROWS = 100  # of a request, whose time max_score_ms bounds


class _OutOfTime(Exception):
    """The time limit is reached before a candidate is trained."""


class AutoRanker(BestRanker):
    """Cross-fit several rankers and combine them, weighted by how well they rank unseen queries.

    Every candidate is fitted on folds of whole queries and scores the queries that it has not
    seen. The mean of its fold models is a bag. The result is a :class:`RankEnsemble` of these bags;
    their weights are learned on the scores of unseen queries and drawn toward equal ones where
    there are few queries. Averaging is better than choosing: candidates are often as good as each
    other as far as the queries can tell.

    Folds are drawn from the content of the queries, and rows are sorted by content before training:
    the order in which rows are given, and the names of queries, change nothing. (Your own
    candidates with ``combine=False`` are fitted to the rows as given, as by their own ``fit``.)

    If there are missing values (NaN), candidates that do not support them are skipped; see
    ``dropped_``. Rankers that need scaled features are put behind a scaler. A candidate with
    ``early_stopping`` stops by the held-out queries (if True or a number, by the first measure);
    all its fold models keep the same number of rounds, the middle of the best part of the mean
    validation curve. With too few queries to hold some out, the first candidate is fitted to all
    rows without evaluation.

    Parameters
    ----------
    estimators : "default" or list of (name, estimator) pairs
        The candidates, rankers or pipelines that end in one. The default ones depend on
        ``quality``, the measure and the size of the data.
    measure : str, Measure or list of them, default "auto"
        The first one decides; all are reported. "auto" is NDCG@10 and AP, or Disagreement and AP
        for grades that cannot be gains (below 0 or above 30); without AP if no grade is above 0.
    quality : int from 1 to 5, default 3
        The effort. 1 fits one good default without evaluation: LambdaMART, which holds out some
        queries to stop by, or RankSVM on few rows. 2 tries four candidates on three
        folds. 3 tries ten on five folds (fewer on large data). 4 tries more trees, 5 all
        families on five folds drawn twice.
    time_limit : float or None, default None
        Seconds after which no candidate is started, and those in training are given up. The
        candidates that finished are in ``estimators_``; ``AutoRanker(estimators=...)`` with them
        repeats the result bit for bit.
    combine : bool, default True
        Whether to combine the candidates. False keeps one, fitted to all rows.
    prefer : "best" or "simple", default "best"
        Which one ``combine=False`` keeps: the best mean, or the first candidate within one standard
        error of it (default candidates are listed from simple to complex).
    deploy_to : str or None, default None
        A target of :func:`rankwright.export`, such as "elasticsearch": only candidates that it can
        hold are tried.
    max_score_ms : float or None, default None
        The most milliseconds that scoring 100 rows may take, as measured here. Candidates of small
        weight are left out of the ensemble until it is met.
    random_state : int, RandomState or None, default 0
        Seeds the folds, and the candidates whose ``random_state`` is None.
    n_jobs : int or None
        Candidates trained at the same time, in threads; None is 1 (most candidates use several
        threads themselves), -1 is all cores.
    verbose : int, default 0
        1 prints a line for each candidate to standard error, with the time left, and one every ten
        seconds.
    checkpoint : :class:`rankwright.persist.Checkpoint`, optional
        Where to keep fitted models, so that an interrupted ``fit`` can be resumed with the same
        result.

    Attributes
    ----------
    best_estimator_ : the RankEnsemble; with ``combine=False`` the candidate that was kept
    best_name_ : str, the best single candidate, or the one that was kept
    weights_ : dict of float, the weight of each candidate in the ensemble
    results_ : tuple of CandidateResult
        The candidates that were tried, and the ensemble; prints as a table with significance tests.
        The ensemble is evaluated on each query with weights that were learned without it.
    estimators_ : list of (name, estimator), the candidates that finished, as they were tried
    dropped_ : dict of str
        The candidates that were not tried or did not finish, and why.
    held_out_rows_ : (n_held_out,) the rows of X that the candidates were evaluated on, in the order
        of ``results_[0].held_out``; None with an ``eval_set`` or if nothing was held out
    score_ms_ : float, milliseconds to score 100 rows, as measured after training
    n_queries_in_, n_features_in_ : int
    feature_names_in_ : (n_features,) array of str, if X has column names

    Examples
    --------
    >>> from rankwright import PRank, RidgeRanker
    >>> from rankwright.testing.inputs import make_problem
    >>> data = make_problem(n_queries=12)
    >>> model = AutoRanker([("PRank", PRank()), ("RidgeRanker", RidgeRanker())])
    >>> model = model.fit(data.X, data.y, qid=data.qid)
    >>> sorted(model.weights_)
    ['PRank', 'RidgeRanker']
    >>> one = AutoRanker(model.estimators, combine=False).fit(data.X, data.y, qid=data.qid)
    >>> one.best_estimator_
    RidgeRanker()
    """

    _constraints: ClassVar = {
        "estimators": schema.Constraint(
            "'default' or a list of (name, estimator) pairs with different names",
            lambda value: value == "default" if isinstance(value, str) else _are_pairs(value),
        ),
        "quality": schema.Constraint(
            "an integer from 1 to 5", lambda v: schema.at_least(1).test(v) and v <= 5
        ),
        "time_limit": schema.optional(schema.positive()),
        "combine": schema.boolean(),
        "prefer": schema.one_of("best", "simple"),
        "max_score_ms": schema.optional(schema.positive()),
        "random_state": schema.random_state(),
        "n_jobs": schema.optional(schema.Constraint("-1", lambda n: n == -1), schema.at_least(1)),
    }

    def __init__(
        self,
        estimators: Any = "default",
        *,
        measure: str | Measure = "auto",
        quality: int = 3,
        time_limit: float | None = None,
        combine: bool = True,
        prefer: str = "best",
        deploy_to: str | None = None,
        max_score_ms: float | None = None,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
        checkpoint: Any = None,
    ) -> None:
        self.estimators = estimators
        self.measure = measure
        self.quality = quality
        self.time_limit = time_limit
        self.combine = combine
        self.prefer = prefer
        self.deploy_to = deploy_to
        self.max_score_ms = max_score_ms
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.checkpoint = checkpoint

    @explains_names
    def fit(
        self,
        X: Matrix,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        eval_set: tuple[MatrixLike, ArrayLike] | None = None,
        eval_qid: ArrayLike | None = None,
    ) -> Self:
        """Cross-fit the candidates, learn their weights, and combine them.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame; on an engine also files, whose
            columns ``y``, ``qid`` and ``sample_weight`` name then
        y : (n_items,) grades; higher is better
        qid : (n_items,) query ids of any hashable type, in any order; None treats all rows as one
            query
        sample_weight : (n_items,) weights of the rows in training; measures have none
        eval_set, eval_qid : (X, y) to stop and to learn weights by, instead of the queries that are
            held out of each fold, and its query ids; no model is fitted to it
        """
        started = time.perf_counter()
        schema.check_parameters(self)
        query = qid
        X, y, qid, sample_weight = read_here(X, y, qid, sample_weight)
        if isinstance(eval_set, tuple) and len(eval_set) == 2 and is_path(eval_set[0]):
            eval_set, eval_qid = _read_eval_set(
                eval_set, query if eval_qid is None else eval_qid, X
            )
        X = checked_rows(X)  # the candidates get the rows as they were given
        _refuse_other_feedback(y)
        validate_data(self, X, y, accept_sparse="csr", dtype=None, **_ALLOW_NAN)
        check_width(self, self.n_features_in_)
        given = TrainingRows.check(X, y, qid, "y", sample_weight)
        _check_order(given)
        seed = self._seed()
        seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        auto = str(self.measure) == "auto"
        measures = parse_measures(_default_measures(given.y) if auto else self.measure)
        rows, order = given, np.arange(len(given.y))
        if self.combine or isinstance(self.estimators, str):
            rows, order = given.content_order()
        if given.weight is not None and not given.weight.any():
            raise DataError("AutoRanker.fit: every sample_weight is zero. Give some rows a weight.")
        self.n_queries_in_ = Queries.from_ids(rows.qid, len(rows.y)).n_queries
        valid = self._checked_eval_set(eval_set, eval_qid)
        folds = folds_for(self.quality, len(given.y), self.n_features_in_)
        if valid is not None and not self.combine:
            folds = (1, 1)  # the eval_set evaluates the model itself
        plan = CrossFitting.plan(rows, valid, measures, *folds, seed)
        self.held_out_rows_ = order if plan.folds and valid is None else None
        if self.checkpoint is not None:
            self.checkpoint.open(self._fingerprint(rows, valid, measures, seed))
        self.dropped_: dict[str, str] = {}
        with active_engine(None):
            candidates = self._candidates(plan, seed)
        limit = None if self.time_limit is None else FOR_CANDIDATES * self.time_limit
        clock = _Clock(started, limit, len(candidates))
        results = self._try(candidates, plan, clock) if plan.n_models else []
        if not results:
            with active_engine(None):
                return self._fit_first(candidates, plan)
        self.estimators_ = [(result.name, result.estimator) for result in results]
        summable = [result for result in results if not needs_queries(result.estimator)]
        with active_engine(None):  # candidates were fitted by workers, the rest is done here
            if self.combine and summable and plan.folds:
                alone = [result.name for result in results if result not in summable]
                self._drop(alone, "it scales features within a query, so it cannot be summed")
                self._combine(summable, plan, seed)
            else:
                self._keep_one(CandidateResults(results), plan)
        self._warn_if_improving()
        return self

    def _checked_eval_set(
        self, eval_set: tuple[MatrixLike, ArrayLike] | None, eval_qid: Any
    ) -> TrainingRows | None:
        """The rows to stop and to evaluate by, sorted by content."""
        if eval_set is None:
            if eval_qid is not None:
                raise ParameterError("AutoRanker.fit: eval_qid was given without eval_set.")
            return None
        X, y = rows_and_grades(eval_set, "AutoRanker")
        X = checked_rows(X)
        try:
            checks: dict[str, Any] = {"accept_sparse": "csr", "dtype": None, **_ALLOW_NAN}
            validate_data(self, X, y, reset=False, **checks)
        except ValueError as error:
            raise DataError(f"AutoRanker.fit: eval_set: {error}") from None
        if eval_qid is None and self.n_queries_in_ > 1:
            warnings.warn(
                f"AutoRanker trains on {self.n_queries_in_} queries, but eval_set has no query ids "
                "and counts as one query: pass eval_qid.",
                MissingQueryWarning,
                stacklevel=4,
            )
            eval_qid = np.zeros(len(y), np.int64)  # so that no candidate warns again
        rows = TrainingRows.check(X, y, eval_qid, "y of eval_set")
        _check_order(rows, "eval_set", "evaluate by")
        return rows.content_order()[0]

    def _candidates(self, plan: CrossFitting, seed: int) -> Candidates:
        """The candidates that can learn from these rows, as they will be trained."""
        rows, judged = plan.rows, plan.n_models > 0
        sparse, given = hasattr(rows.X, "tocsr"), self.estimators
        has_nan = any(_has_nan(some.X) for some in (rows, plan.valid) if some is not None)
        if isinstance(given, str):
            shape = (len(rows.y), self.n_features_in_)
            first = plan.measures[0]
            found: dict[str, Any] = {"sparse": sparse, "categories": self._categories(rows.X)}
            given = default_candidates(first, self.quality, shape, **found)
            if sparse and shape[1] > MANY_COLUMNS:
                fault = f"X is sparse and has {shape[1]:,} columns, more than {MANY_COLUMNS:,}"
                self._drop(["boosted rankers", "networks", "kernels"], fault)
            if not judged or self.quality == 1:
                given = unjudged_candidates(shape, self.n_queries_in_, **found)
        if self.deploy_to is not None:
            given = self._deployable(given)
        unable = {
            "X has missing values (NaN)": [
                n for n, one in given if has_nan and not allows_nan(one)
            ],
            "it takes no sample_weight": [
                n for n, one in given if rows.weight is not None and not _takes_weights(one)
            ],
        }
        for why, names in unable.items():
            self._drop(names, why)
            given = [(name, one) for name, one in given if name not in names]
        if not given:
            reasons = [f"{', '.join(names)}: {why}" for why, names in unable.items() if names]
            raise DataError(
                f"AutoRanker: no candidate can be trained on these rows ({'; '.join(reasons)}). "
                "Use one that can, such as RankBoost, or prepare the rows."
            )
        stop = plan.measures[0] if judged else None
        return [(name, scaled(_prepared(clone(one), stop, seed), rows.X)) for name, one in given]

    def _categories(self, X: Any) -> list[tuple[int, int]]:
        """The columns of each category, unless a target would repeat them at each split."""
        if hasattr(X, "tocsr") or self.deploy_to not in (None, "onnx"):
            return []
        values = np.asarray(X)
        found = [] if values.dtype.kind not in "fiub" else one_hot_columns(values, FEWEST_LEVELS)
        if found:
            sizes = ", ".join(str(stop - first) for first, stop in found)
            self._report(f"trees take columns of 0 and 1 as categories, of {sizes} levels")
        return found

    def _deployable(self, given: Candidates) -> Candidates:
        """The candidates that the target can hold; if they are combined, all in one model.

        Where a target holds linear models and trees but not their sum, the trees are kept.
        """
        target, names = str(self.deploy_to), dict(given)
        kept: dict[str, Any] = {}
        for name in sorted(names, key=lambda name: "trees" not in kinds_of(names[name])):
            others = kept.values() if self.combine else ()
            if holds(target, RankEnsemble([*others, names[name]])):
                kept[name] = names[name]
        self._drop([name for name in names if name not in kept], f"{target} cannot hold it")
        if not kept:
            raise ParameterError(
                f"AutoRanker(deploy_to={target!r}): the target holds none of the candidates "
                f"{', '.join(names)}. Give others with estimators=."
            )
        return [(name, one) for name, one in given if name in kept]

    def _drop(self, names: list[str], why: str) -> None:
        self.dropped_ |= dict.fromkeys(names, why)
        if names:
            self._report(f"not tried: {', '.join(names)}: {why}")

    def _try(
        self, candidates: Candidates, plan: CrossFitting, clock: _Clock
    ) -> list[CandidateResult]:
        """Cross-fit the candidates; those that fail or take too long are dropped."""
        jobs = n_threads() if self.n_jobs == -1 else self.n_jobs or 1
        if current_engine() is not None:
            if self.checkpoint is not None:
                raise ParameterError(
                    "AutoRanker(checkpoint=...) on an engine: workers have no shared files to "
                    "resume from. Omit checkpoint; if a worker is lost, only its candidate is "
                    "repeated."
                )
            if self.time_limit is not None:
                raise ParameterError(
                    "AutoRanker(time_limit=...) on an engine: workers do not know when it is over. "
                    "Omit time_limit, or lower quality."
                )
            outcomes = map_jobs(_try_on_worker, candidates, self, plan, clock)
        else:
            total, active = len(candidates), bool(self.verbose) and len(candidates) > 1
            with (
                progress.task("comparing", total, unit="candidates", active=active) as whole,
                warnings.catch_warnings(),
            ):
                # A fold of little data may leave a candidate nothing to learn; its scores tell.
                warnings.simplefilter("ignore", DegenerateDataWarning)
                found: list[CandidateResult] = []

                def attempt(one: tuple[str, Any]) -> CandidateResult | str:
                    outcome = self._cross_fit(*one, plan, clock)
                    if isinstance(outcome, CandidateResult):
                        found.append(outcome)
                    whole.update(whole.done + 1, _best_so_far(found))
                    return outcome

                ordered = self._by_value(candidates)
                done = map_blocks(attempt, ordered, jobs)
                named = {name: one for (name, _), one in zip(ordered, done, strict=True)}
                outcomes = [named[name] for name, _ in candidates]
        results: list[CandidateResult] = []
        for (name, _), outcome in zip(candidates, outcomes, strict=True):
            if isinstance(outcome, CandidateResult):
                results.append(outcome)
            else:
                self.dropped_[name] = outcome
        if not results and self.time_limit is None:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.dropped_.items())
            raise DataError(f"AutoRanker: no candidate could be trained on these rows. {reasons}")
        return results

    def _by_value(self, candidates: Candidates) -> Candidates:
        """The order to try them in: with a time limit, one of each family of the defaults first."""
        if self.time_limit is None or not isinstance(self.estimators, str):
            return candidates
        place = {name: number for number, name in enumerate(FIRST_IN_TIME)}
        return sorted(candidates, key=lambda one: place.get(one[0], len(place)))

    def _cross_fit(
        self,
        name: str,
        candidate: BaseEstimator,
        plan: CrossFitting,
        clock: _Clock,
    ) -> CandidateResult | str:
        """The models of all folds and their scores of unseen rows; why not, if that failed."""
        title, active = f"training {name}", bool(self.verbose)
        with progress.task(title, plan.n_models, unit="folds", active=active) as work:
            return self._cross_fit_shown(name, candidate, plan, clock, work)

    def _cross_fit_shown(
        self,
        name: str,
        candidate: BaseEstimator,
        plan: CrossFitting,
        clock: _Clock,
        work: progress.Work,
    ) -> CandidateResult | str:
        start, n_models = time.perf_counter(), plan.n_models
        stop = None if self.time_limit is None else clock.is_over
        try:
            models: list[Any] = []
            for number in range(n_models):
                clock.check(start, number, n_models)
                key = f"{name}, fold {number + 1}"
                work.update(number)
                train, valid = plan.part(number)
                models.append(self._fitted(clone(candidate), key, train, valid, work, stop))
            rounds, curve = None, None
            curves: list[Any] = [getattr(ranker_of(m), "validation_", None) for m in models]
            if stops_early(models[0]) and curves[0] is not None:
                rounds, curve = best_round(curves, plan.measures[0].sign)
                for number, model in enumerate(models):
                    key = f"{name}, fold {number + 1}"
                    models[number] = self._shortened(model, rounds, key, plan, number, work)
            held_out, scales, predictions = plan.held_out_scores(models)
        except _OutOfTime:
            why = f"the time limit of {self.time_limit:g} s was reached"
            self._report(f"not tried: {name}: {why}")
            return why
        except (RankwrightError, ArithmeticError, np.linalg.LinAlgError) as error:
            if not isinstance(self.estimators, str):
                raise
            self._report(f"not tried: {name}: {error}")
            return str(error)
        result = CandidateResult(name, candidate, tuple(models), tuple(scales))
        result = replace(
            result,
            scores=plan.evaluate(held_out, predictions),
            held_out=held_out,
            n_iterations=rounds,
            curve=curve,
            seconds=time.perf_counter() - start,
        )
        clock.finish()
        self._report(f"{name}: {result}{clock.left()}")
        return result

    def _fitted(
        self,
        model: BaseEstimator,
        key: str,
        rows: TrainingRows,
        valid: TrainingRows | None,
        work: progress.Work,
        stop: Callable[[], bool] | None = None,
    ) -> Any:
        """The fitted model, from the checkpoint if it is there."""
        saved = None if self.checkpoint is None else self.checkpoint.load(key)
        if saved is not None:
            return saved
        with watching(ranker_of(model), work, stop):
            fit_ranker(model, rows, valid)
        if stop is not None and stop():
            raise _OutOfTime
        if self.checkpoint is not None:
            self.checkpoint.save(key, model)
        return model

    def _shortened(
        self,
        model: BaseEstimator,
        rounds: int,
        key: str,
        plan: CrossFitting,
        number: int,
        work: progress.Work,
    ) -> Any:
        """The model with this many rounds: the first ones of it, or trained again."""
        ranker = ranker_of(model)
        if hasattr(ranker, "truncate"):  # a fold that stopped early has fewer trees
            rounds = min(max(rounds, 1), max(len(ranker.alpha_), 1))
            _set_rounds(model, rounds)
            ranker.truncate(rounds)
            return model
        again, rows = _set_rounds(clone(model), rounds), plan.part(number)[0]
        return self._fitted(again, f"{key}, {max(rounds, 1)} rounds", rows, None, work)

    def _combine(self, results: list[CandidateResult], plan: CrossFitting, seed: int) -> None:
        """Learn the weights of the candidates and set the ensemble."""
        assert plan.judged is not None
        scores = np.array([result.held_out for result in results])
        queries = Queries.from_ids(plan.judged.qid, len(plan.judged.y)).codes
        learned = learn_weights(scores, plan.judged.y, queries, plan.measures[0], seed)
        weights = dict(zip([result.name for result in results], learned.weights, strict=True))
        while True:
            self.weights_ = {name: float(weight) for name, weight in weights.items() if weight > 0}
            kept = [result for result in results if result.name in self.weights_]
            self.best_estimator_ = _ensemble(kept, self.weights_, self.estimators_)
            self.score_ms_ = _milliseconds(self.best_estimator_, plan.rows)
            if self.max_score_ms is None or self.score_ms_ <= self.max_score_ms or len(kept) == 1:
                break
            least = min(self.weights_, key=lambda name: self.weights_[name])
            self._drop([least], f"scoring took {self.score_ms_:.2f} ms with it")
            rest = sum(weight for name, weight in self.weights_.items() if name != least)
            weights = {k: w / rest for k, w in self.weights_.items() if k != least}
        self._time_scoring(plan.rows)
        tried = CandidateResults(results)
        self.best_name_ = tried.best.name
        whole = CandidateResult(ENSEMBLE, self.best_estimator_, held_out=learned.scores)
        whole = replace(whole, scores=plan.evaluate(learned.scores))
        self.results_ = CandidateResults([*results, whole] if len(results) > 1 else results)

    def _keep_one(self, results: CandidateResults, plan: CrossFitting) -> None:
        """Fit the candidate that is kept to all rows; with an ``eval_set`` it is fitted already."""
        kept = results.best if self.prefer == "best" else results.simplest
        self.results_, self.best_name_, self.weights_ = results, kept.name, {kept.name: 1.0}
        model = clone(kept.estimator)
        if kept.n_iterations is not None:
            _set_rounds(model, kept.n_iterations)
        if plan.folds:
            self._fit_to_all(kept.name, model, plan)
        else:
            self.best_estimator_ = kept.models[0]
            self._time_scoring(plan.rows)

    def _fit_first(self, candidates: Candidates, plan: CrossFitting) -> Self:
        """Fit the first candidate to all rows: there is nothing, or no time, to evaluate by."""
        (name, model), *rest = candidates
        why = "too few queries to hold some out"
        if self.time_limit is not None and plan.n_models:
            why = f"the time limit of {self.time_limit:g} s was reached"
            warnings.warn(
                f"AutoRanker(time_limit={self.time_limit:g}): too short to evaluate a single "
                f"candidate. {name} is fitted to all rows without evaluation. Give more time.",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif self.quality == 1:
            why = "quality=1 fits one default"
        model = clone(model)
        if stops_early(model) and plan.valid is None and self.n_queries_in_ < ENOUGH_QUERIES:
            ranker_of(model).set_params(early_stopping=None)
        self.dropped_ |= {other: self.dropped_.get(other, why) for other, _ in rest}
        self.results_ = CandidateResults([CandidateResult(name, clone(model))])
        self.best_name_, self.weights_ = name, {name: 1.0}
        self.estimators_ = [(name, clone(model))]
        self._fit_to_all(name, model, plan)
        return self

    def _fit_to_all(self, name: str, model: BaseEstimator, plan: CrossFitting) -> None:
        rows, n_queries, start = plan.rows, self.n_queries_in_, time.perf_counter()
        amount = f"{n_queries} queries" if n_queries > 1 else f"{len(rows.y)} rows"
        title, active = f"training {name} on all {amount}", bool(self.verbose)
        with progress.task(title, active=active) as work:
            key = f"{name}, all queries"
            self.best_estimator_ = self._fitted(model, key, rows, plan.valid, work)
        self._time_scoring(rows)
        self._report(f"training {name} on all {amount}: {time.perf_counter() - start:.1f} s")

    def _time_scoring(self, rows: TrainingRows) -> None:
        """Measure the time of a request, and warn if it is above ``max_score_ms``."""
        self.score_ms_ = _milliseconds(self.best_estimator_, rows)
        if self.max_score_ms is not None and self.score_ms_ > self.max_score_ms:
            warnings.warn(
                f"AutoRanker(max_score_ms={self.max_score_ms:g}): {', '.join(self.weights_)} takes "
                f"{self.score_ms_:.2f} ms for {REQUEST_ROWS} rows. Give simpler candidates with "
                "estimators=.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _warn_if_improving(self) -> None:
        for result in self.results_:
            limit = ranker_of(result.estimator).get_params().get("n_estimators")
            if result.curve is None or limit is None or len(result.curve) < limit:
                continue
            assert result.scores is not None
            smooth = running_mean(result.scores.measures[0].sign * result.curve, limit // 20)
            if np.argmax(smooth) + 1 >= 0.95 * limit and self.weights_.get(result.name):
                warnings.warn(
                    f"AutoRanker: {result.name} was still improving in the last of its {limit} "
                    "rounds. Give it a larger n_estimators or learning_rate, in estimators=.",
                    ConvergenceWarning,
                    stacklevel=3,
                )

    def _fingerprint(
        self, rows: TrainingRows, valid: TrainingRows | None, measures: list[Measure], seed: int
    ) -> str:
        """What a checkpoint must agree on: data, candidates, measures and seed."""
        digest = hashlib.sha256()
        for some in (rows, *([] if valid is None else [valid])):
            X = some.X.to_numpy() if hasattr(some.X, "to_numpy") else some.X
            arrays = (X.data, X.indices, X.indptr) if hasattr(X, "tocsr") else (np.asarray(X),)
            weight = [] if some.weight is None else [some.weight]
            for array in (*arrays, some.y, np.asarray(some.qid, dtype=str), *weight):
                digest.update(f"{array.dtype} {array.shape}".encode())
                digest.update(np.ascontiguousarray(array).tobytes())
        given = self.estimators
        shown = {} if isinstance(given, str) else {name: one.get_params() for name, one in given}
        settings = (shown, [*map(str, measures)], self.quality, self.deploy_to, seed)
        digest.update(repr(settings).encode())
        return digest.hexdigest()

    def summary(self, eval_set: str = "the eval_set") -> str:
        """How the candidates did on held-out queries, their weights, and the size of the model.

        ``eval_set`` is what to call the rows that were given to evaluate on.
        """
        check_is_fitted(self)
        comparison, scores = self.results_.comparison, self.results_[0].scores
        text = "trained on all rows, and not evaluated"
        if comparison is None and stops_early(self.results_[0].estimator):
            text = "trained without evaluation; some queries were held out to stop by"
        if comparison is not None and scores is not None:
            n_folds = len(self.results_[0].models)
            what = "the queries" if self.n_queries_in_ > 1 else "the rows of a single list"
            held_out = f"{n_folds} folds of {what}"
            if self.held_out_rows_ is None:
                held_out = eval_set
            table = comparison if len(self.results_) > 1 else scores
            text = f"validation on {held_out}:\n\n{table}"
        elif self.dropped_:
            text = f"{next(reversed(self.dropped_.values()))}: {text}"
        if len(self.weights_) > 1:
            ordered = sorted(self.weights_.items(), key=lambda pair: -pair[1])
            listed = ", ".join(f"{name} {weight:.2f}" for name, weight in ordered)
            text += f"\n\nweights: {listed}"
        elif not self.combine and len(self.results_) > 1:
            why = "the best mean"
            if self.results_.best.name != self.best_name_:
                why = "the simplest candidate within one standard error of the best"
            text += f"\n\n{self.best_name_}: {why}"
        parts = _size(without_encoder(self.best_estimator_))
        return f"{text}\n{parts}{self.score_ms_:.2f} ms to score {REQUEST_ROWS} rows"

    def to_dict(self) -> dict[str, Any]:
        """What was trained, the weights, and how the candidates did on held-out queries."""
        comparison, model = self.results_.comparison, without_encoder(self.best_estimator_)
        shown = {} if isinstance(model, RankEnsemble) else ranker_of(model).get_params(deep=False)
        return {
            "ranker": ENSEMBLE if isinstance(model, RankEnsemble) else self.best_name_,
            "best": self.best_name_,
            "weights": self.weights_,
            "parameters": shown,
            "not_tried": self.dropped_,
            "validation": None if comparison is None else comparison.to_dict(),
            "score_ms": self.score_ms_,
        }

    def held_out_measures(self) -> dict[str, tuple[float, float, float]]:
        """The mean of each measure on held-out queries, with its 95 % bootstrap interval.

        Empty if nothing was held out (``quality=1``).
        """
        comparison = self.results_.comparison
        if comparison is None:
            return {}
        systems = list(comparison.systems)
        name = ENSEMBLE if ENSEMBLE in systems else self.best_name_
        means = comparison.means[systems.index(name)].tolist()
        return {
            str(measure): (mean, *comparison.interval(name, measure))
            for measure, mean in zip(comparison.measures, means, strict=True)
        }

    def _report(self, line: str) -> None:
        if self.verbose:
            progress.say(line)

    def _saved_as(self) -> Any:  # what rankwright.save writes
        check_is_fitted(self)
        return self.best_estimator_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = self.estimators
        default = isinstance(given, str)
        tags.input_tags.allow_nan = default or any(allows_nan(one) for _, one in given)
        return tags


_ALLOW_NAN: dict[str, Any] = {"ensure_all_finite": "allow-nan"}


class _Clock:
    """The time that is left, for a limit and for display."""

    def __init__(self, start: float, limit: float | None, n_candidates: int) -> None:
        self._start, self._limit = start, limit
        self._n_left, self._n_done = n_candidates, 0

    def is_over(self) -> bool:
        return self._limit is not None and time.perf_counter() - self._start > self._limit

    def check(self, start: float, n_done: int, n_folds: int) -> None:
        """Give up a candidate, begun at ``start``, that cannot finish its folds in time."""
        if self._limit is None:
            return
        now = time.perf_counter()
        needed = (now - start) / n_done * (n_folds - n_done) if n_done else 0.0
        if now + needed > self._start + self._limit:
            raise _OutOfTime

    def finish(self) -> None:
        self._n_done, self._n_left = self._n_done + 1, self._n_left - 1

    def left(self) -> str:
        if not self._n_done or not self._n_left:
            return ""
        spent = time.perf_counter() - self._start
        seconds = spent / self._n_done * self._n_left
        if self._limit is not None:
            seconds = min(seconds, max(self._limit - spent, 0.0))
        return f" (about {seconds:.0f} s left)"


def _try_on_worker(
    candidate: BaseEstimator, auto: AutoRanker, plan: CrossFitting, clock: _Clock
) -> CandidateResult | str:
    """One candidate, cross-fitted by a worker."""
    name, model = candidate
    return auto._cross_fit(name, model, plan, clock)


def _best_so_far(results: list[CandidateResult]) -> str:
    """The candidate in the lead, for display."""
    best = CandidateResults(results).best if results else None
    if best is None or best.scores is None:
        return ""
    measure, mean = next(iter(best.scores.to_dict().items()))
    return "" if mean is None else f"best {measure} {mean:.4f}, {best.name}"


def _default_measures(y: FloatArray) -> list[str]:
    """What to evaluate by; AP only if some item is relevant."""
    return [default_measure(y), *(["AP"] if (y > 0).any() else [])]


def _refuse_other_feedback(y: ArrayLike) -> None:
    if isinstance(y, Feedback | ImpressionLog):
        raise DataError(
            f"AutoRanker.fit: y is {type(y).__name__}, and AutoRanker learns from a grade per row. "
            "For pairs use a ranker that takes them, such as RankBoost or RankSVM; for clicks "
            "rankwright.online_eval.learn_from_log."
        )


def _check_order(rows: TrainingRows, name: str = "", use: str = "learn") -> None:
    """Refuse grades without an order: no ensemble could be learned, or evaluated."""
    queries = Queries.from_ids(rows.qid, len(rows.y))
    where = f"AutoRanker.fit: {name}: " if name else "AutoRanker.fit: "
    if rows.y.min() == rows.y.max():
        found = f"every row has the grade {rows.y[0]:g}" if len(rows.y) > 1 else "there is 1 sample"
        raise DataError(
            f"{where}{found}, so there is no order to {use}. Check that y holds the grades of "
            "several rows."
        )
    order = queries.order
    same = np.diff(queries.codes[order]) == 0
    if not (np.diff(rows.y[order])[same] != 0).any():
        raise DataError(
            f"{where}no query has rows of different grades ({queries.n_queries} queries, "
            f"{len(rows.y)} rows), so there is no order to {use}. Check that qid holds the queries."
        )


def _read_eval_set(
    eval_set: tuple[Any, Any], eval_qid: ArrayLike | None, X: MatrixLike
) -> tuple[Any, Any]:
    """Validation rows that are in files, with the columns of X in their order."""
    rows, y, qid, _ = read_here(eval_set[0], eval_set[1], eval_qid)
    names = [*getattr(X, "columns", ())]
    if names and {*names} == {*getattr(rows, "columns", ())}:
        rows = rows[names]
    return (rows, y), qid


def _prepared(estimator: BaseEstimator, measure: Measure | None, seed: int) -> Any:
    """The estimator with the seed and the measure of early stopping where it leaves them open.

    Rankers keep all rounds: their number is chosen when all folds are trained.
    """
    ranker = ranker_of(seeded(estimator, seed))
    stopping = ranker.get_params().get("early_stopping")
    if measure is not None and stops_early(estimator):
        if not isinstance(stopping, EarlyStopping):
            patience = {} if stopping is True else {"n_iter_no_change": stopping}
            stopping = EarlyStopping(measure=str(measure), **patience)
        ranker.set_params(early_stopping=clone(stopping).set_params(restore_best=False))
    return estimator


def _set_rounds(model: BaseEstimator, rounds: int) -> Any:
    """The model with a fixed number of rounds, at least one, instead of early stopping."""
    ranker = ranker_of(model)
    name = "n_estimators" if "n_estimators" in ranker.get_params() else "max_iter"
    ranker.set_params(early_stopping=None, **{name: max(rounds, 1)})
    return model


def _ensemble(
    results: list[CandidateResult], weights: dict[str, float], tried: Candidates
) -> RankEnsemble:
    """The bags of the candidates, weighted; each fold model on its own scale."""
    members, factors, scale = [], [], []
    for result in results:
        for number, (model, one) in enumerate(zip(result.models, result.scales, strict=True), 1):
            members.append((f"{result.name}, fold {number}", model))
            factors.append(weights[result.name] / len(result.models))
            scale.append(one)
    ensemble = RankEnsemble.from_fitted(members, weights=factors, scale=scale)
    ensemble.tried_ = RankEnsemble([(name, clone(one)) for name, one in tried])
    return ensemble


def _milliseconds(model: BaseEstimator, rows: TrainingRows) -> float:
    """The time to score 100 rows: the least of ten, so that other work on the machine counts less.

    The first calls load kernels.
    """
    some = rows.take(np.resize(np.arange(len(rows.y)), REQUEST_ROWS)).X
    query, times = np.zeros(REQUEST_ROWS), []
    for _ in range(10):
        start = time.perf_counter()
        predict_with(model, "decision_function", some, query)
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def _size(model: BaseEstimator) -> str:
    """The number of models and trees of an ensemble, in words."""
    if not isinstance(model, RankEnsemble):
        return ""
    roots = [getattr(ranker_of(one), "root_", None) for one in model.members_]
    n_trees = sum(len(root) for root in roots if root is not None)
    return f"size: {len(model.members_)} models{f', {n_trees} trees' if n_trees else ''}; "


def _takes_weights(estimator: BaseEstimator) -> bool:
    return "sample_weight" in signature(ranker_of(estimator).fit).parameters


def _has_nan(X: Any) -> bool:
    values = X.data if hasattr(X, "tocsr") else np.asarray(X)
    return values.dtype.kind == "f" and bool(np.isnan(values).any())


def _are_pairs(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
        and len({str(name) for name, _ in value}) == len(value) > 0
    )
