"""What a service runs with; a worker, which only scores, needs no more of a service than this."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rankwright.exceptions import Message, ParameterError, Setting
from rankwright.service.api.security import NO_TOKENS, Tokens, is_loopback

if TYPE_CHECKING:
    from rankwright.service.learning.live import LearningPlan
    from rankwright.service.tracing import Tracing

REMOTE_RATE = 200.0  # requests a second, of a client on another machine


@dataclass(frozen=True)
class Settings:
    """What a service runs with.

    Parameters
    ----------
    models : paths of model files; the first one that ranks is active
    demo : serve a demo model if there is no other, and generated texts to judge if there is no
        queue. None: if there is neither a model file nor a queue
    store : path of the SQLite file that keeps the log
    learn : name of an online ranker that learns from the log, such as "BayesianPRank"
    learn_settings : its parameters, as texts or values
    learn_from : what it learns; a click is grade 1, an item that was passed over is grade 0
    grades : the grades that feedback may give to a ranker that learns
    snapshot_every : feedback entries between two snapshots of the ranker that learns
    tokens : who may do what; none lets everybody on this machine do everything
    token_file : a file to read them from, also when the process gets SIGHUP
    host : the address that is served; one that other machines reach needs a token
    allow_hosts : other names of this service, such as that of a proxy; "*" for any. Without
        them, a service with tokens takes any name
    trusted_proxies : addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto
        are believed
    header_timeout, idle_timeout : seconds for the header of a request, and between two requests
    max_connections_per_address : connections of one address at once; proxies have no such limit
    workers : processes that score requests; with more than one, another one writes
    replica_of : the address of the leader that this service is a replica of
    ack : when a write is acknowledged: when it is on the leader's disk, or on a replica's, too
    otlp_endpoint : where to send a span of each request, by OTLP over HTTP
    retention_days : how long the log keeps entries; None forever
    max_body, max_items : limits of a request
    rate_limit : requests a second of one token or address; None: 200, and no limit on a host
        that only this machine reaches
    images : let pages show pictures of other sites
    queue : what to judge at /judge, a CSV, TSV or JSONL file or a TREC run
    documents, queries, guidelines : files for the queue, see
        :func:`rankwright.service.judging.queue.read_queue`; models with a feature set also find
        and rank the documents by the text of a query
    judging_grades : number of grades that judges give, 2 to 5
    overlap : share of the queue that every judge gets; the rest goes to one judge each
    """

    models: tuple[str, ...] = ()
    demo: bool | None = None
    store: str = "feedback.db"
    learn: str | None = None
    learn_settings: tuple[tuple[str, Any], ...] = ()
    learn_from: Literal["grades", "clicks"] = "grades"
    grades: tuple[float, ...] = (0, 1, 2, 3, 4, 5)
    snapshot_every: int = 1000
    tokens: Tokens = NO_TOKENS
    token_file: str | None = None
    host: str = "127.0.0.1"
    allow_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    header_timeout: float = 10.0
    idle_timeout: float = 5.0
    max_connections_per_address: int = 256
    workers: int = 1
    replica_of: str | None = None
    ack: Literal["leader", "replica"] = "leader"
    otlp_endpoint: str | None = None
    retention_days: float | None = None
    max_body: int = 4 * 2**20
    max_items: int = 10_000
    rate_limit: float | None = None
    images: bool = False
    queue: str | None = None
    documents: str | None = None
    queries: str | None = None
    guidelines: str | None = None
    judging_grades: int = 5
    overlap: float = 0.3

    def __post_init__(self) -> None:
        if self.token_file is not None:
            object.__setattr__(self, "tokens", Tokens.read(self.token_file))
        for name in ("retention_days", "rate_limit", "header_timeout", "idle_timeout"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ParameterError(
                    Setting(name, value), ": give a number above 0, or leave it out."
                )
        if self.workers < 1 or (self.workers > 1 and not hasattr(socket, "send_fds")):
            need = "give 1 or more" if self.workers < 1 else "this system can run 1 only"
            raise ParameterError(Setting("workers", self.workers), f": {need}.")
        if not is_loopback(self.host) and not self.tokens.principals:
            raise ParameterError(
                Setting("host", self.host),
                ": other machines can reach it, so it needs a token.",
                fix=Message("Write one to a file and give ", Setting("tokens"), "."),
            )

    def hosts(self) -> tuple[str, ...]:
        """Host names that requests may use; a token is proof enough where there is one."""
        if self.tokens.principals and not self.allow_hosts:
            return ("*",)
        return (self.host, *self.allow_hosts)

    def rate(self) -> float | None:
        """Requests a second of one token or address."""
        local = is_loopback(self.host)
        return REMOTE_RATE if self.rate_limit is None and not local else self.rate_limit

    def plan(self) -> LearningPlan | None:
        """What learns, if something does."""
        if self.learn is None:
            return None
        from rankwright.service.learning.live import LearningPlan  # the online rankers

        clicks = self.learn_from == "clicks"
        grades = (0.0, 1.0) if clicks else tuple(sorted(float(grade) for grade in self.grades))
        return LearningPlan(self.learn, dict(self.learn_settings), grades, self.learn_from)


def tracing_of(settings: Settings) -> Tracing | None:
    """What exports spans, if the settings name a collector."""
    if settings.otlp_endpoint is None:
        return None
    from rankwright.service.tracing import Tracing

    return Tracing(settings.otlp_endpoint)
