"""AutoRanker: try several rankers on held-out queries and keep the best."""

from __future__ import annotations

import hashlib
import sys
import time
import warnings
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwright._typing import FloatArray, IntArray
from rankwright.data.inputs import checked_rows
from rankwright.data.queries import Queries, Split, fold_queries, split_queries
from rankwright.data.vocabulary import as_column, as_ids
from rankwright.exceptions import ConvergenceWarning, DataError, ParameterError
from rankwright.feedback.base import as_grades
from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.measure import Measure, parse_measures, predict_with
from rankwright.parallel import active_engine, current_engine, map_blocks, map_jobs, n_threads
from rankwright.rankers import schema
from rankwright.rankers.checks import check_width
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.selection import candidates as default
from rankwright.selection.base import BestRanker, Progress, default_measure, request_weights, scaled
from rankwright.selection.by_name import seeded
from rankwright.selection.candidates import (
    Budget,
    CandidateResult,
    CandidateResults,
    Candidates,
    best_round,
    running_mean,
)

FEW_QUERIES = 500  # below that, one fold says too little about which ranker is best
FEW_ROWS = 20  # of a single list, below that nothing is held out
ROUNDS_PER_STEP = 100  # of boosting, between two saves in a checkpoint
MANY_COLUMNS = 2000  # of sparse rows, above that boosting is not tried


class Rows(NamedTuple):
    """Features, grades, query ids (or None) and weights (or None) of some rows."""

    X: Any
    y: FloatArray
    qid: Any
    weight: Any = None

    def take(self, index: IntArray) -> Rows:
        qid, weight = (None if c is None else c[index] for c in (self.qid, self.weight))
        return Rows(_safe_indexing(self.X, index), self.y[index], qid, weight)


class _Trial(NamedTuple):
    """What all candidates are tried on."""

    rows: Rows
    folds: list[tuple[Rows, Rows]]
    measures: list[Measure]
    budget: Budget
    seed: int | None


class AutoRanker(BestRanker):
    """Try several rankers on held-out queries and fit the best one to all queries.

    With fewer than 500 queries, candidates are cross-validated over folds of whole queries; with
    more, one fold is held out. A single list without ``qid`` is split by rows. With an ``eval_set``
    candidates are fitted to all training rows and evaluated there. With too few queries to hold
    some out, the first candidate is fitted without evaluation.

    If there are missing values (NaN), candidates that do not support them are skipped; see
    ``dropped_``. Rankers that need scaled features (:class:`RankSVM`, :class:`LargeMarginOrdinal`)
    are put behind a scaler. A candidate with ``early_stopping`` uses the held-out queries to stop
    (if True or a number, by the first measure). Its number of rounds comes from the mean validation
    curve over the folds: the median of the rounds within one standard error of the best. Boosted
    rankers are evaluated after that many rounds on every fold, and refitted with as many.

    The default candidates are tried in two steps, with a budget that depends on the size of the
    data: RankSVM with
    several C, RankBoost with thresholds and trees, and LambdaMART with and without the pair weights
    of the measure; then the best LambdaMART with fewer and more leaves and a smaller learning rate.
    Among those within one standard error of the best mean, the simplest is chosen.

    Parameters
    ----------
    estimators : "default" or list of (name, estimator) pairs
        The candidates, rankers or pipelines that end in one.
    measure : str, Measure or list of them, default "auto"
        The first one selects the best candidate; all are reported. "auto" is NDCG@10 and AP, or
        Disagreement and AP
        for grades that cannot be gains (below 0 or above 30).
    validation_fraction : float from 0.05 to 0.5, default 0.2
        The fraction of the queries in a fold: 0.2 gives five folds.
    random_state : int, RandomState or None
        Seeds the folds, and the candidates whose ``random_state`` is None.
    n_jobs : int or None
        Candidates trained at the same time, in threads; None is 1 (most candidates use several
        threads themselves), -1 is all cores.
    verbose : int, default 0
        1 prints a line for each candidate to standard error, and one every ten seconds.
    checkpoint : :class:`rankwright.persist.Checkpoint`, optional
        Where to keep fitted models, so that an interrupted ``fit`` can be resumed with the same
        result.

    Attributes
    ----------
    best_estimator_ : the best candidate, fitted to all training rows
    best_name_ : str
    results_ : tuple of CandidateResult
        The candidates that were tried; prints as a table with significance tests.
    dropped_ : dict of str
        The candidates that were not tried, and why.
    held_out_rows_ : (n_held_out,) the rows of X that the candidates were evaluated on, in the order
        of ``results_[0].held_out``; None with an ``eval_set`` or if nothing was held out
    n_features_in_ : int
    feature_names_in_ : (n_features,) array of str, if X has column names

    Examples
    --------
    >>> from rankwright import PRank, Regression
    >>> from rankwright.testing.inputs import make_problem
    >>> data = make_problem(n_queries=12)
    >>> model = AutoRanker([("PRank", PRank()), ("Regression", Regression())], random_state=0)
    >>> model = model.fit(data.X, data.y, qid=data.qid)
    >>> model.best_name_, model.best_estimator_
    ('Regression', Regression())
    >>> model.results_
    system         NDCG@10       AP
    a  PRank        0.9808  *0.9791
    b  Regression  *0.9952   0.9769
    * best; letters: significantly better than these (randomization test, Holm, p <= 0.05)
    12 queries
    """

    _constraints: ClassVar = {
        "estimators": schema.Constraint(
            "'default' or a list of (name, estimator) pairs with different names",
            lambda value: value == "default" if isinstance(value, str) else _are_pairs(value),
        ),
        "validation_fraction": schema.between(0.05, 0.5),
        "random_state": schema.random_state(),
        "n_jobs": schema.optional(schema.Constraint("-1", lambda n: n == -1), schema.at_least(1)),
    }

    def __init__(
        self,
        estimators: Any = "default",
        *,
        measure: Any = "auto",
        validation_fraction: float = 0.2,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        checkpoint: Any = None,
    ) -> None:
        self.estimators = estimators
        self.measure = measure
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.checkpoint = checkpoint

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        eval_qid: Any = None,
    ) -> Self:
        """Evaluate the candidates on held-out queries, then fit the best one to all rows.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades; higher is better
        qid : (n_items,) query ids of any hashable type, in any order; None treats all rows as one
            query
        sample_weight : (n_items,) weights of the rows in training; measures have none
        eval_set, eval_qid : (X, y) to evaluate on instead of folds, and its query ids
        """
        schema.check_parameters(self)
        # The candidates get the rows as they were given.
        X = checked_rows(X)
        validate_data(self, X, y, accept_sparse="csr", dtype=None, ensure_all_finite="allow-nan")
        check_width(self, self.n_features_in_)
        rows, seed = _rows(X, y, qid, "y", sample_weight), self._seed()
        auto = str(self.measure) == "auto"
        measures = parse_measures([default_measure(rows.y), "AP"] if auto else self.measure)
        splits = [] if eval_set is not None else self._splits(rows, seed)
        folds = [(rows.take(split.train), rows.take(split.test)) for split in splits]
        if eval_set is not None:
            if not isinstance(eval_set, tuple) or len(eval_set) != 2:
                raise ParameterError("AutoRanker.fit: eval_set must be one tuple (X, y).")
            folds = [(rows, _rows(*eval_set, eval_qid, "y of eval_set"))]
        self.held_out_rows_ = np.concatenate([s.test for s in splits]) if splits else None
        if self.checkpoint is not None:
            self.checkpoint.open(self._fingerprint(rows, folds, measures))
        trial = _Trial(rows, folds, measures, default.budget_for(*np.shape(rows.X)), seed)
        self.results_ = CandidateResults(self._results(trial))
        best = self.results_.best
        self.best_name_ = best.name
        refit = bool(splits) or best.n_iterations is not None
        with active_engine(None):  # candidates are fitted by one worker each, the best one here
            self.best_estimator_ = self._refit(best, rows) if refit else best.model
        self._warn_if_improving(best)
        return self

    def _results(self, trial: _Trial) -> list[CandidateResult]:
        """Try the candidates; of the default ones also variants of the best trees."""
        with active_engine(None):
            first = self._candidates(trial)
        results = self._try(first, trial)
        if isinstance(self.estimators, str) and trial.folds:
            results += self._try(default.refinements(results, trial.budget), trial)
        return results

    def _try(self, candidates: Candidates, trial: _Trial) -> list[CandidateResult]:
        jobs = n_threads() if self.n_jobs == -1 else self.n_jobs or 1
        if current_engine() is not None:
            if self.checkpoint is not None:
                raise ParameterError(
                    "AutoRanker(checkpoint=...) on an engine: workers have no shared files to "
                    "resume from. Omit checkpoint; if a worker is lost, only its candidate is "
                    "repeated."
                )
            return map_jobs(_try_on_worker, candidates, self, trial)
        with Progress(bool(self.verbose)) as progress:
            return map_blocks(lambda one: self._evaluate(*one, trial, progress), candidates, jobs)

    def _splits(self, rows: Rows, seed: int | None) -> list[Split]:
        n_queries = Queries.from_ids(rows.qid, len(rows.y)).n_queries
        n_folds = round(1 / self.validation_fraction)
        if rows.qid is not None and n_queries >= n_folds:
            splits = fold_queries(rows.qid, n_folds, random_state=seed)
            return splits if n_queries < FEW_QUERIES else splits[:1]
        if n_queries == 1 and len(rows.y) >= FEW_ROWS:
            size = float(self.validation_fraction)
            return [split_queries(np.arange(len(rows.y)), test_size=size, random_state=seed)]
        return []

    def _candidates(self, trial: _Trial) -> Candidates:
        """The candidates that can learn from these rows, as they will be trained."""
        rows, folds, measure = trial.rows, trial.folds, trial.measures[0]
        has_nan = any(_has_nan(some.X) for some in (rows, *(valid for _, valid in folds)))
        given = self.estimators
        self.dropped_: dict[str, str] = {}
        if isinstance(given, str):
            wide = hasattr(rows.X, "tocsr") and rows.X.shape[1] > MANY_COLUMNS and not has_nan
            given = default.first_candidates(measure, trial.budget, boosting=not wide)
            if wide:
                fault = f"X is sparse and has {rows.X.shape[1]:,} columns"
                self._drop(["boosted rankers"], f"{fault}, more than {MANY_COLUMNS:,}")
            if not folds:
                given = default.unjudged_candidates()
        lacking = [name for name, one in given if has_nan and not _allows_nan(one)]
        usable = [(name, one) for name, one in given if name not in lacking]
        if not usable:
            names = ", ".join(lacking)
            raise DataError(
                f"AutoRanker: X has missing values (NaN), which {names} cannot handle. Fill "
                "them, or use a ranker that supports missing values, such as RankBoost."
            )
        self._drop(lacking, "X has missing values (NaN); fill them to have it tried")
        if not folds:
            self._drop([name for name, _ in usable[1:]], "too few queries to hold some out")
            usable = usable[:1]
        return [
            (name, scaled(_prepared(clone(one), measure, trial.seed, bool(folds)), rows.X))
            for name, one in usable
        ]

    def _drop(self, names: list[str], why: str) -> None:
        self.dropped_ |= dict.fromkeys(names, why)
        if names:
            self._report(f"not tried: {', '.join(names)}: {why}")

    def _evaluate(
        self, name: str, candidate: Any, trial: _Trial, progress: Progress
    ) -> CandidateResult:
        start, folds = time.perf_counter(), trial.folds
        if not folds:
            progress.text = f"training {name}"
            result = CandidateResult(name, self._fitted(candidate, name, progress, trial.rows))
        else:
            models = []
            for number, (train, valid) in enumerate(folds, start=1):
                progress.text = f"training {name}: fold {number} of {len(folds)}"
                key = f"{name}, fold {number}"
                models.append(self._fitted(clone(candidate), key, progress, train, valid))
            result = self._evaluated(CandidateResult(name, models[0]), models, trial)
        if isinstance(self.estimators, str):
            result = replace(result, simplicity=default.simplicity(candidate))
        result = replace(result, seconds=time.perf_counter() - start)
        self._report(f"training {name}: {result}")
        return result

    def _evaluated(
        self, result: CandidateResult, models: list[Any], trial: _Trial
    ) -> CandidateResult:
        valid, measures = [valid for _, valid in trial.folds], trial.measures
        rounds = None
        if stops_early(models[0]):
            sign = measures[0].sign
            rounds, curve = best_round([model.validation_ for model in models], sign)
            result = replace(result, n_iterations=rounds, curve=curve)
        held_out = _predictions(models, valid, "decision_function", rounds)
        reads = any(measure.reads_predictions for measure in measures)
        predictions = _predictions(models, valid, "predict", rounds) if reads else None
        y = np.concatenate([some.y for some in valid])
        qid = None if valid[0].qid is None else np.concatenate([some.qid for some in valid])
        scores = evaluate(held_out, y, qid, measures, predictions=predictions)
        return replace(result, scores=scores, held_out=held_out, n_folds=len(valid))

    def _fitted(
        self, model: Any, key: str, progress: Progress, rows: Rows, valid: Rows | None = None
    ) -> Any:
        """The fitted model, from the checkpoint if it is there."""
        if self.checkpoint is None:
            with progress.watching(model):
                return fit_ranker(model, rows, valid)
        saved = self.checkpoint.load(key)
        if saved is not None:
            return saved
        if hasattr(model, "warm_start") and not model.warm_start:
            model = self._fit_in_steps(model, f"{key}, first rounds", progress, rows, valid)
        else:
            fit_ranker(model, rows, valid)
        self.checkpoint.save(key, model)
        return model

    def _fit_in_steps(
        self, model: Any, key: str, progress: Progress, rows: Rows, valid: Rows | None
    ) -> Any:
        """Fit some rounds at a time and keep them; ``warm_start`` goes on with the same bits."""
        n_rounds, saved = model.n_estimators, self.checkpoint.load(key)
        model = model if saved is None else saved
        done = 0 if saved is None else len(saved.alpha_)
        while done < n_rounds and not _has_stopped(model):
            tried = min(done + ROUNDS_PER_STEP, n_rounds)
            model.set_params(n_estimators=tried, warm_start=True)
            with progress.watching(model):
                fit_ranker(model, rows, valid)
            done = len(model.alpha_)
            model.set_params(n_estimators=n_rounds, warm_start=False)
            if done < tried or done == n_rounds:
                break
            self.checkpoint.save(key, model)
        return model

    def _refit(self, best: CandidateResult, rows: Rows) -> Any:
        start = time.perf_counter()
        model, how = clone(best.model), ""
        if best.n_iterations is not None:
            rounds = "n_estimators" if "n_estimators" in model.get_params() else "max_iter"
            model.set_params(early_stopping=None, **{rounds: max(best.n_iterations, 1)})
            how = f" with {rounds}={getattr(model, rounds)}"
        n_queries = Queries.from_ids(rows.qid, len(rows.y)).n_queries
        amount = f"{n_queries} queries" if n_queries > 1 else f"{len(rows.y)} rows"
        text = f"training {best.name} on all {amount}{how}"
        with Progress(bool(self.verbose)) as progress:
            progress.text = text
            model = self._fitted(model, f"{best.name}, all queries", progress, rows)
        self._report(f"{text}: {time.perf_counter() - start:.1f} s")
        return model

    def _warn_if_improving(self, best: CandidateResult) -> None:
        limit = best.model.get_params().get("n_estimators")
        if best.curve is None or best.scores is None or limit is None or len(best.curve) < limit:
            return
        smooth = running_mean(best.scores.measures[0].sign * best.curve, limit // 20)
        if np.argmax(smooth) + 1 >= 0.95 * limit:
            warnings.warn(
                f"AutoRanker: {best.name} was still improving in the last of its {limit} rounds. "
                "Train it separately with a larger n_estimators or learning_rate.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _fingerprint(self, rows: Rows, folds: list[Any], measures: list[Measure]) -> str:
        """What a checkpoint must agree on: data, folds, candidates, measures and seed."""
        digest = hashlib.sha256()
        parts = [rows, *(part for fold in folds for part in fold)]
        for some in parts:
            X = some.X.to_numpy() if hasattr(some.X, "to_numpy") else some.X
            arrays = (X.data, X.indices, X.indptr) if hasattr(X, "tocsr") else (np.asarray(X),)
            weight = [] if some.weight is None else [some.weight]
            for array in (*arrays, some.y, np.asarray(some.qid, dtype=str), *weight):
                digest.update(f"{array.dtype} {array.shape}".encode())
                digest.update(np.ascontiguousarray(array).tobytes())
        given = self.estimators
        shown = {} if isinstance(given, str) else {name: one.get_params() for name, one in given}
        settings = (shown, [*map(str, measures)], self.validation_fraction, self.random_state)
        digest.update(repr(settings).encode())
        return digest.hexdigest()

    def summary(self, eval_set: str = "the eval_set") -> str:
        """How the candidates did on held-out queries, and why the best one is kept, as text.

        ``eval_set`` is what to call the rows that were given to evaluate on.
        """
        comparison, scores = self.results_.comparison, self.results_[0].scores
        if comparison is None or scores is None:
            return "too few queries to hold some out: trained on all, and not evaluated"
        n_folds = self.results_[0].n_folds
        held_out = f"{n_folds} folds of the queries" if n_folds > 1 else "held-out queries"
        if scores.n_queries == 1:
            held_out = "held-out rows of a single list"
        if self.held_out_rows_ is None:
            held_out = eval_set
        table = comparison if len(self.results_) > 1 else scores
        reason = f"\n{self.results_.reason}" if self.results_.reason else ""
        return f"validation on {held_out}:\n\n{table}{reason}"

    def to_dict(self) -> dict[str, Any]:
        """The best candidate, its parameters and how all did on held-out queries."""
        comparison, model = self.results_.comparison, self.best_estimator_
        last = model[-1] if hasattr(model, "steps") else model
        return {
            "ranker": self.best_name_,
            "parameters": last.get_params(deep=False),
            "not_tried": self.dropped_,
            "validation": None if comparison is None else comparison.to_dict(),
        }

    def _report(self, line: str) -> None:
        if self.verbose:
            print(line, file=sys.stderr, flush=True)

    def _saved_as(self) -> Any:  # what rankwright.save writes
        check_is_fitted(self)
        return self.best_estimator_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = self.estimators
        default = isinstance(given, str)
        tags.input_tags.allow_nan = default or any(_allows_nan(one) for _, one in given)
        return tags


def _try_on_worker(candidate: Any, auto: AutoRanker, trial: _Trial) -> CandidateResult:
    """One candidate, tried by a worker."""
    name, model = candidate
    return auto._evaluate(name, model, trial, Progress(active=False))


def fit_ranker(model: Any, rows: Rows, valid: Rows | None = None) -> Any:
    """Fit a ranker or a pipeline; a ranker with early stopping stops by the validation rows."""
    metadata = {"qid": rows.qid}
    if rows.weight is not None:
        metadata |= {"sample_weight": rows.weight}
        request_weights(model)
    if valid is not None and stops_early(model):
        metadata |= {"eval_set": (valid.X, valid.y), "eval_qid": valid.qid}
    with config_context(enable_metadata_routing=True):
        return model.fit(rows.X, rows.y, **metadata)


def stops_early(model: Any) -> bool:
    """Whether ``early_stopping`` was requested: True, a number or an EarlyStopping."""
    value = model.get_params(deep=False).get("early_stopping")
    return isinstance(value, EarlyStopping) or (isinstance(value, int) and value > 0)


def _has_stopped(model: Any) -> bool:
    """Whether early stopping ends the training after the rounds that a model has."""
    stopping, curve = model.early_stopping, getattr(model, "validation_", None)
    if not isinstance(stopping, EarlyStopping) or curve is None or not len(curve):
        return False
    best = int(np.argmax(Measure.parse(stopping.measure).sign * curve))
    return len(curve) - (best + 1) >= stopping.n_iter_no_change


def _prepared(estimator: Any, measure: Measure, seed: int | None, folds: bool) -> Any:
    """The estimator with the seed and the measure of early stopping where it leaves them open.

    Boosted rankers keep all rounds: their number is chosen when all folds are trained.
    """
    stopping = seeded(estimator, seed).get_params().get("early_stopping")
    if stops_early(estimator):
        if not isinstance(stopping, EarlyStopping):
            patience = {} if stopping is True else {"n_iter_no_change": stopping}
            stopping = EarlyStopping(measure=str(measure), **patience)
        keeps_all = folds and hasattr(estimator, "decision_function_at")
        estimator.set_params(early_stopping=clone(stopping).set_params(restore_best=not keeps_all))
    return estimator


def _predictions(
    models: list[Any], valid: list[Rows], method: str, rounds: int | None = None
) -> FloatArray:
    parts = []
    for model, some in zip(models, valid, strict=True):
        if rounds is not None and hasattr(model, "decision_function_at"):
            parts.append(model.decision_function_at(some.X, rounds))
        else:
            parts.append(predict_with(model, method, some.X, some.qid))
    return np.concatenate(parts)


def _rows(X: Any, y: Any, qid: Any, name: str, weight: Any = None) -> Rows:
    """Rows that can be indexed, with one grade, one query id and one weight per row."""
    X, y = indexable(X, as_grades(y, name))
    if qid is not None:
        qid = as_ids(qid)
        indexable(X, qid)
    if weight is not None:
        weight = as_column(weight, "sample_weight", len(y))
    return Rows(X, y, qid, weight)


def _has_nan(X: Any) -> bool:
    values = X.data if hasattr(X, "tocsr") else np.asarray(X)
    return values.dtype.kind == "f" and bool(np.isnan(values).any())


def _allows_nan(estimator: Any) -> bool:
    """Whether it handles NaN; a pipeline may fill them, which its tags do not tell."""
    return hasattr(estimator, "steps") or bool(get_tags(estimator).input_tags.allow_nan)


def _are_pairs(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
        and len({str(name) for name, _ in value}) == len(value) > 0
    )
