"""Trains and measures combinations of parameters, several at a time."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone

from rankwright.data.items import Items
from rankwright.exceptions import ConvergenceWarning, ParameterError
from rankwright.metrics.evaluate import evaluate
from rankwright.metrics.measure import Measure
from rankwright.parallel import n_threads
from rankwright.selection.space import Parameters, Range, draw, grid
from rankwright.selection.trials import Progress, Trial, Trials

__all__ = ["SEARCHES", "Runner", "ask_ranker", "fit_ranker"]

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
