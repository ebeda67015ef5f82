"""What the handlers that score need of a service: that of a whole one, or of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rankwright.service.api.candidates import ItemReader
    from rankwright.service.api.types import RankRequest
    from rankwright.service.corpora import Corpora
    from rankwright.service.experiments import Experiment
    from rankwright.service.models import DeployedModel, ModelView
    from rankwright.service.settings import Settings


class EventLog(Protocol):
    """Where what is shown is logged; ``refusal`` says why nothing may be, or is None."""

    @property
    def refusal(self) -> str | None: ...

    def append_event(self, event: str, body: bytes, user: str | None = None) -> None: ...


class ExperimentChoice(Protocol):
    def choose(self, request: RankRequest) -> Experiment | None:
        """The experiment that a request takes part in."""


class Counter(Protocol):
    def inc(self, amount: float = 1.0) -> Any: ...


class ScoringCounts(Protocol):
    @property
    def shadow_failures(self) -> Counter: ...

    @property
    def unknown_levels(self) -> Counter: ...


class ScoringService(Protocol):
    """:class:`rankwright.service.app.Service`, or the part of it that a worker has."""

    @property
    def settings(self) -> Settings: ...

    @property
    def models(self) -> ModelView: ...

    @property
    def reader(self) -> ItemReader: ...

    @property
    def corpora(self) -> Corpora: ...

    @property
    def store(self) -> EventLog: ...

    @property
    def experiments(self) -> ExperimentChoice: ...

    @property
    def metrics(self) -> ScoringCounts: ...

    def model_for(self, request: RankRequest) -> DeployedModel:
        """The model that ranks a request."""
