"""The service as an ASGI application: what its handlers share, its routes, its start and end."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from rankwright.exceptions import ParameterError, RankwrightError
from rankwright.service.api.candidates import ItemReader, shape_of
from rankwright.service.api.metrics import Metrics
from rankwright.service.api.operations import OPERATIONS
from rankwright.service.api.problems import HttpProblem
from rankwright.service.api.routing import Api
from rankwright.service.api.security import (
    NOBODY,
    Principal,
    RateLimit,
    Security,
    Sessions,
    Tokens,
    first_token,
    session_cookie,
)
from rankwright.service.api.types import RankRequest
from rankwright.service.corpora import Corpora
from rankwright.service.demo import demo_judgments, demo_queue
from rankwright.service.experiments import Experiments
from rankwright.service.judging.queue import read_queue
from rankwright.service.judging.state import Judging
from rankwright.service.learning.log_learner import LogLearner
from rankwright.service.log.checking import damage
from rankwright.service.log.store import Store, put_state
from rankwright.service.models import DeployedModel, Models, ModelsState, count_models
from rankwright.service.pages.dashboard import Dashboard
from rankwright.service.pages.judge import JudgePages, no_queue
from rankwright.service.pages.rendering import login_page, logout, missing_page, page_list
from rankwright.service.replication.leader import Replication, begin_to_lead
from rankwright.service.replication.leadership import leadership
from rankwright.service.replication.puller import (
    LeaderClient,
    LogPuller,
    fence_later,
    prepare,
)
from rankwright.service.settings import Settings, tracing_of

if TYPE_CHECKING:
    from rankwright.service.workers.pool import WorkerPool

MOST_CHECKED = 2**31  # bytes of a log that is checked before the service is ready, not only then
PAGES = Path(__file__).parent / "pages"
log = logging.getLogger("rankwright.service")


class Service:
    """What the handlers of the API and of the pages share."""

    def __init__(self, settings: Settings, wait: float = 0.0) -> None:
        self.settings = settings
        self._closing = self.stopping = False
        self._listeners: list[Callable[[ModelsState | None], None]] = []
        self.pool: WorkerPool | None = None
        self.tracing = tracing_of(settings)
        leader = _leader_of(settings)
        self.demo = _wants_demo(settings, replica=leader is not None)
        self.store = Store(settings.store, wait=wait)
        try:
            if leader is None:
                begin_to_lead(self.store)
            else:
                self.store.refuse_writes(f"this is a replica: send writes to {leader.url}.")
            puller = None if leader is None else LogPuller(self, leader)
            self._open(settings)
            self.replication = Replication(self.store, settings.ack, puller)
            if puller is not None:
                puller.start()
            elif (own := leadership(self.store)).unfenced is not None:
                token = first_token(settings.token_file)
                fence_later(self.store, LeaderClient(own.unfenced, token))
        except BaseException:
            self.store.close()
            raise

    def _open(self, settings: Settings) -> None:
        self.sessions = Sessions(_secret(self.store), settings.tokens)
        loader = jinja2.FileSystemLoader(PAGES / "templates")
        self.templates = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
        self.metrics = Metrics()
        self.reader = ItemReader()
        self.corpora = Corpora(settings.documents)
        self.training = asyncio.Lock()
        self.judging = _open_judging(settings, self.store, self.demo)
        self.reload()
        self.damage: str | None = None
        self._warming = threading.Thread(target=self._warm_up, name="rankwright-warm", daemon=True)
        self._checking = threading.Thread(target=self._check, name="rankwright-check", daemon=True)
        self._warming.start()
        self._checking.start()

    def reload(self) -> None:
        """Read sessions, experiments and models from the store, and learn its log."""
        settings = self.settings
        self.sessions.ended = self.store.state_as("ended_sessions", dict[str, int]) or {}
        experiments = Experiments(self.store)
        models = Models(self.store, settings.models, demo=self.demo, on_switch=self.changed)
        learner = LogLearner(
            self.store,
            models,
            experiments,
            settings.plan(),
            snapshot_every=settings.snapshot_every,
            retention_days=settings.retention_days,
        )
        prefer_live = settings.learn is not None and not settings.models
        if prefer_live:
            labels = "clicks" if settings.learn_from == "clicks" else "feedback and judgments"
            models.note = f"No model was given: {settings.learn} learns from {labels}."
        models.choose(prefer_live)
        self.experiments, self.models, self.learner = experiments, models, learner
        learner.start()

    def on_change(self, listener: Callable[[ModelsState | None], None]) -> None:
        """Call this with a state of the models before it is used, and when anything else changed
        that scoring depends on."""
        self._listeners.append(listener)
        self.store.on_refusal = self.changed

    def changed(self, models: ModelsState | None = None) -> None:
        for listener in self._listeners:
            listener(models)

    def promoted(self) -> None:
        """What changes when a replica begins to lead."""
        if self.judging is not None:
            self.judging.follow(self.store)

    def _warm_up(self) -> None:
        """Compile what scores the models and learns from judges, or load it."""
        try:
            self.models.warm_up()
            if self.judging is not None:
                self.judging.warm_up()
        except Exception:  # they are compiled when they are needed
            log.exception("compiling failed")

    def _check(self) -> None:
        """Look for damage in the log."""
        try:
            for fault in damage(self.store, lambda: self._closing):
                log.error("the log is damaged: %s; run rankwright check-store", fault)
                self.damage = self.damage or fault
        except RankwrightError as error:
            if not self._closing:
                self.damage = error.message

    def begin_stop(self) -> None:
        """Stop being ready, and let no replica wait for entries; in the event loop."""
        self.stopping = True
        self.replication.end_polls()

    def close(self) -> None:
        """Stop the threads and close the store; everything acknowledged is on the disk."""
        self._closing = True
        if self.replication.puller is not None:
            self.replication.puller.close()
        self.store.flush()
        self._checking.join()
        self.learner.close()
        self.store.close()
        if self.tracing is not None:
            self.tracing.close()

    def reload_tokens(self) -> None:
        """Read the token file again: tokens that are gone end with their sessions."""
        try:
            if self.settings.token_file is not None:
                self.sessions.tokens = Tokens.read(self.settings.token_file)
                self.changed()
                log.warning("read %s again", self.settings.token_file)
        except (OSError, ValueError) as error:
            log.error("the tokens are as before: %s", error)

    def end_session(self, cookie: str) -> None:
        """End a session, also for the next start."""
        self.sessions.end(cookie)
        value = msgspec.msgpack.encode(self.sessions.ended)
        self.store.change(lambda db: put_state(db, "ended_sessions", value)).result()

    def model_for(self, request: RankRequest) -> DeployedModel:
        """The model that ranks a request; the first one tells the live ranker its features."""
        served = self.models.find(request.model, "rank")
        if served.n_features is not None:
            return served
        return self.learner.begin(*shape_of(request))

    def faults(self) -> list[str]:
        """Why the service is not ready."""
        faults = ["the service is stopping"] if self.stopping else []
        replication = self.replication
        if replication.role in ("fenced", "waiting"):
            faults.append(f"it does not lead ({self.store.refusal})")
        if replication.puller is not None and not replication.puller.ready:
            faults.append(f"the leader's log is being copied ({replication.puller.error})")
        if self.store.error is not None:
            faults.append(f"the log cannot be written ({self.store.error})")
        if self.learner.error is not None:
            faults.append(f"the learner failed ({self.learner.error})")
        if not self.learner.ready:
            faults.append("the log is still being learned")
        if self.damage is not None:
            faults.append(f"the log is damaged ({self.damage})")
        if self._checking.is_alive() and os.path.getsize(self.store.path) < MOST_CHECKED:
            faults.append("the log is being checked")
        if self.pool is not None and not self.pool.ready:
            faults.append("a worker is being replaced")
        if self._warming.is_alive():
            faults.append("loops are being compiled")
        return faults

    def problem_page(self, scope: Scope, problem: HttpProblem) -> Response:
        """A problem as a page, for browsers."""
        scope.setdefault("principal", Principal(NOBODY, frozenset()))
        scope.setdefault("session", "")
        title = HTTPStatus(problem.status).phrase
        response = self.render(Request(scope), "problem.html", title=title, detail=problem.detail)
        response.status_code = problem.status
        for name, value in problem.headers.items():
            response.headers[name] = value
        return response

    def render(self, request: Request, template: str, **values: Any) -> Response:
        """A page; the template also has ``csrf_token`` and ``principal``."""
        session, issued = request.scope["session"], ""
        if self.sessions.open(session) is None:
            session = issued = self.sessions.issue(request.scope["principal"])
        values |= {
            "csrf_token": self.sessions.csrf(session),
            "principal": request.scope["principal"],
            "signed_in": bool(self.sessions.tokens.principals),
        }
        response = HTMLResponse(self.templates.get_template(template).render(values))
        if issued:
            secure = request.url.scheme == "https"
            response.headers["set-cookie"] = session_cookie(issued, secure=secure)
        return response


def create_app(settings: Settings | None = None, *, wait: float = 0.0) -> Security[Service]:
    """The ASGI application of a service; its attribute ``service`` is the :class:`Service`.

    ``wait`` is how many seconds to wait for a store that another service uses.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> app = create_app(Settings(store=str(pathlib.Path(tempfile.mkdtemp()) / "feedback.db")))
    >>> app.service.store.select("SELECT count(*) FROM log")
    [(0,)]
    >>> app.service.close()
    """
    settings = settings or Settings()
    service = Service(settings, wait)
    pages = Starlette(
        routes=_routes(service),
        lifespan=_lifespan,
        exception_handlers={404: missing_page, 405: missing_page},
    )
    pages.state.service = service
    confirm = service.replication.confirm if settings.ack == "replica" else None
    return Security(
        Api(service, OPERATIONS, pages, service.metrics.observe, confirm),
        problem_page=service.problem_page,
        sessions=service.sessions,
        hosts=settings.hosts(),
        max_body=settings.max_body,
        rate=_rate_limit(settings),
        images=settings.images,
        proxies=settings.trusted_proxies,
        tracing=service.tracing,
    )


def _rate_limit(settings: Settings) -> RateLimit | None:
    rate = settings.rate()
    if rate is None or settings.workers == 1:
        return None if rate is None else RateLimit(rate)
    from rankwright.service.workers.channel import SharedRateLimit

    return SharedRateLimit(rate)


def _routes(service: Service) -> list[BaseRoute]:
    judging = service.judging
    return [
        Route("/login", login_page, methods=["GET", "POST"]),
        Route("/logout", logout, methods=["POST"]),
        Mount("/static", StaticFiles(directory=PAGES / "static")),
        *Dashboard(service, judging).routes(),
        *(
            JudgePages(service, judging).routes()
            if judging is not None
            else page_list(service, [("GET", "/judge", no_queue)])
        ),
    ]


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    yield
    app.state.service.close()


def _secret(store: Store) -> bytes:
    """The key that signs sessions, made at the first start."""
    secret = store.state("secret")
    if secret is None:
        secret = secrets.token_bytes(32)
        store.write(lambda db: put_state(db, "secret", secret)).result()
    return secret


def _leader_of(settings: Settings) -> LeaderClient | None:
    """The leader of a replica, whose log the store is a beginning of; None for a leader."""
    if settings.replica_of is None:
        return None
    leader = LeaderClient(settings.replica_of, first_token(settings.token_file))
    if prepare(settings.store, leader):
        log.warning("%s was promoted: it leads", settings.store)
        return None
    return leader


def _wants_demo(settings: Settings, replica: bool = False) -> bool:
    """Whether to show generated content; an error if there is nothing to serve at all."""
    if replica and not settings.demo:
        return False
    something = settings.models or settings.queue or count_models(settings.store)
    if settings.demo is not False:
        return settings.demo or not something
    if something or settings.learn:
        return False
    raise ParameterError(
        "there is nothing to serve: no model was given, and the store has none.",
        fix="Give a model file, --learn RANKER to learn from feedback, --queue FILE to judge, or "
        "--demo to look around.",
    )


def _open_judging(settings: Settings, store: Store, demo: bool) -> Judging | None:
    """The queue of the settings, or that of the demo, with the judgments of the log."""
    if settings.queue is not None:
        queue = read_queue(
            settings.queue,
            documents=settings.documents,
            queries=settings.queries,
            guidelines=settings.guidelines,
            n_grades=settings.judging_grades,
        )
        judging = Judging(queue, overlap=settings.overlap)
    elif demo:
        queue = demo_queue()
        judging = Judging(queue, overlap=1.0)
        for key, judge, judgment in demo_judgments(queue):  # constants: they are not in the log
            judging.apply(key, judge, judgment)
    else:
        return None
    judging.follow(store)
    return judging
