"""Experiments: two models share every list, and clicks decide which one is better."""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec

from rankwright.online_eval.interleaving import Interleaved, credit, interleave, stable_seed
from rankwright.online_eval.sequential import PairResult
from rankwright.service.api.problems import HttpProblem
from rankwright.service.api.types import ExperimentInfo, ExperimentRequest, RankRequest
from rankwright.service.log.entries import Event, LoggedFeedback
from rankwright.service.log.store import Store, put_state

MOST_OPEN = 1000  # sessions whose later clicks still count
MOST_SHOWN = 100  # items of a shared list, unless the request says n


class Experiment(msgspec.Struct):
    """An experiment: what is compared, and who won how many sessions.

    A session is a list with at least one feedback that names its clicks (none is a tie). Clicks may
    come one by one: the session is counted again with all of them.
    """

    name: str
    models: list[str]
    method: str
    share: float
    seed: int
    alpha: float
    time: float
    running: bool = True
    wins: int = 0
    losses: int = 0
    ties: int = 0
    open: dict[str, list[str]] = {}  # event -> items clicked so far

    def takes_part(self, request: RankRequest) -> bool:
        """Whether a request is in the experiment: the same for the same query and user."""
        if self.share >= 1:
            return True
        return stable_seed("share", self.name, *self._who(request)) / 2**64 < self.share

    def interleave(self, lists: list[list[str]], request: RankRequest) -> Interleaved:
        """The list to show: the same for the same query, user, seed and lists."""
        n = MOST_SHOWN if request.n is None else request.n
        seed = stable_seed(*self._who(request))
        if not lists[0]:
            return Interleaved(self.method, (), 2)
        return interleave(lists, min(n, len(lists[0])), method=self.method, seed=seed)

    def _who(self, request: RankRequest) -> tuple[Any, ...]:
        query = None if request.query is None else str(request.query)
        return query, None if request.user is None else str(request.user), self.seed

    def count(self, event_id: str, clicks: list[str], event: Event) -> None:
        """Count a session, or count it again with more clicks."""
        before = self.open.pop(event_id, None)
        if before is not None:
            self._add(event, before, -1)
        clicked = list(dict.fromkeys([*(before or []), *clicks]))
        self._add(event, clicked, 1)
        self.open[event_id] = clicked
        if len(self.open) > MOST_OPEN:
            del self.open[next(iter(self.open))]

    def _add(self, event: Event, clicks: list[str], times: int) -> None:
        shown = Interleaved.from_dict({**event.interleaved, "items": event.ids})
        first, second = credit(shown, clicks)
        if abs(first - second) <= 1e-12:
            self.ties += times
        elif first > second:
            self.wins += times
        else:
            self.losses += times

    def info(self) -> ExperimentInfo:
        """The experiment and its result so far."""
        result = PairResult.from_counts(
            self.wins, self.losses, self.ties, alpha=self.alpha, names=self.models
        )
        about = {name: getattr(self, name) for name in ("name", "models", "method", "share")}
        return ExperimentInfo(
            **about,
            seed=self.seed,
            alpha=self.alpha,
            running=self.running,
            time=self.time,
            sessions=self.wins + self.losses + self.ties,
            wins=self.wins,
            losses=self.losses,
            ties=self.ties,
            win_rate=result.win_rate,
            interval=result.interval,
            p_value=result.p_value,
            sign_test=result.sign_test,
            better=result.better,
        )


class Counts(msgspec.Struct):
    """All experiments, and the last entry of the log that they have counted."""

    last_seq: int = 0
    experiments: dict[str, Experiment] = {}

    def reset(self) -> None:
        """Before the log is counted again from its beginning."""
        self.last_seq = 0
        for experiment in self.experiments.values():
            experiment.wins = experiment.losses = experiment.ties = 0
            experiment.open = {}


class Experiments:
    """The experiments of a service. At most one runs: a list cannot serve two comparisons."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, threading.RLock()
        self._counts = store.state_as("experiments", Counts) or Counts()

    @property
    def last_seq(self) -> int:
        return self._counts.last_seq

    def running(self) -> Experiment | None:
        """The experiment that runs, if one does."""
        return next((trial for trial in self._all() if trial.running), None)

    def choose(self, request: RankRequest) -> Experiment | None:
        """The experiment that a request takes part in; none if it names its model."""
        if not self._counts.experiments or request.model is not None:
            return None
        experiment = self.running()
        return experiment if experiment is not None and experiment.takes_part(request) else None

    def create(self, request: ExperimentRequest, models: list[str]) -> ExperimentInfo:
        """Start an experiment with models that are there."""
        with self._lock:
            if request.name in self._counts.experiments:
                raise HttpProblem(
                    409, f"There is an experiment {request.name!r}. Use another name."
                )
            running = self.running()
            if running is not None:
                raise HttpProblem(409, f"Experiment {running.name!r} runs. Stop it first.")
            if models[0] == models[1]:
                raise HttpProblem(422, f"Both models are {models[0]!r}. Give two different ones.")
            experiment = Experiment(
                request.name,
                models,
                request.method,
                request.share,
                request.seed,
                request.alpha,
                time.time(),
            )
            self._counts.experiments = {**self._counts.experiments, request.name: experiment}
            self._save()
        return experiment.info()

    def find(self, name: str) -> Experiment:
        experiment = self._counts.experiments.get(name)
        if experiment is None:
            raise HttpProblem(404, f"There is no experiment {name[:80]!r}.")
        return experiment

    def stop(self, name: str) -> ExperimentInfo:
        """Show no more shared lists; late clicks still count."""
        with self._lock:
            experiment = self.find(name)
            experiment.running = False
            self._save()
        return experiment.info()

    def infos(self) -> list[ExperimentInfo]:
        return [experiment.info() for experiment in self._all()]

    def uses(self, key: str) -> bool:
        """Whether the running experiment needs a model."""
        running = self.running()
        return running is not None and key in running.models

    # For the learner of the log.

    def apply(self, seq: int, event_id: str, feedback: LoggedFeedback, event: Event | None) -> None:
        """Count the clicks of one entry of the log."""
        if seq <= self._counts.last_seq:
            return
        with self._lock:
            self._counts.last_seq = seq
            if event is not None and event.experiment and feedback.clicks is not None:
                experiment = self._counts.experiments.get(event.experiment)
                if experiment is not None:
                    experiment.count(event_id, feedback.clicks, event)

    def snapshot(self) -> bytes:
        with self._lock:
            return msgspec.msgpack.encode(self._counts)

    def reset_counts(self) -> None:
        """Before the log is counted again from its beginning."""
        with self._lock:
            self._counts.reset()

    def _all(self) -> list[Experiment]:
        return list(self._counts.experiments.values())

    def _save(self) -> None:
        content = self.snapshot()
        self._store.change(lambda db: put_state(db, "experiments", content)).result()
