"""Every operation of the API: one table, from which requests are routed and documented."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request

from rankwright import __version__
from rankwright.service.api import feedback, ranking, types
from rankwright.service.api.metrics import metrics
from rankwright.service.api.problems import HttpProblem
from rankwright.service.api.reference import reference
from rankwright.service.api.routing import (
    BINARY,
    ApiParameter,
    Call,
    Operation,
    Reply,
    describe,
)
from rankwright.service.learning.labels import items_from_log
from rankwright.service.replication import leader as replication

if TYPE_CHECKING:
    from rankwright.service.app import Service

User = Annotated[str, Meta(min_length=1, max_length=512)]
VERSION = ApiParameter("version", str, "A version or a name, as /v1/models lists them.", "path")
EXPERIMENT = ApiParameter("name", str, "The name of an experiment.", "path")
LOG = (
    ApiParameter("format", Literal["jsonl", "qrels", "letor"], "What to write.", default="jsonl"),
    ApiParameter("after", Annotated[int, Meta(ge=0, lt=2**62)], "Only later entries.", default=0),
    ApiParameter("limit", Annotated[int, Meta(ge=0, lt=2**62)] | None, "At most so many lines."),
    ApiParameter("user", User | None, "Only entries of this user."),
    ApiParameter(
        "labels",
        Literal["auto", "grades", "clicks"],
        "What qrels and LETOR lines are made from; auto takes grades, of feedback and judges, "
        "and clicks where there are none.",
        default="auto",
    ),
)


def list_models(service: Service, call: Call) -> types.ModelList:
    models = service.models
    return types.ModelList(models.infos(), models.active_versions(), models.note)


def show_model(service: Service, call: Call) -> types.ModelInfo:
    return service.models.info(call.path["version"])


async def show_drift(service: Service, call: Call) -> types.Drift:
    from rankwright.service.drift import drift_of

    models = service.models
    model, n_lists = models.find(call.path["version"], "rank"), call.query()["lists"]
    return await asyncio.to_thread(drift_of, model, service.store, n_lists)


async def upload_model(service: Service, call: Call) -> types.ModelInfo:
    options = call.query()
    info = await asyncio.to_thread(service.models.upload, call.body, options["name"], "upload")
    if options["activate"]:
        info = await asyncio.to_thread(service.models.activate, info.version)
    return info


async def activate_model(service: Service, call: Call) -> types.ModelInfo:
    return await asyncio.to_thread(service.models.activate, call.path["version"])


async def roll_back(service: Service, call: Call) -> types.ModelInfo:
    return await asyncio.to_thread(service.models.roll_back)


async def shadow_model(service: Service, call: Call) -> types.ModelInfo:
    on = call.operation.method == "POST"
    return await asyncio.to_thread(service.models.set_shadow, call.path["version"], on)


async def delete_model(service: Service, call: Call) -> types.ModelInfo:
    name = call.path["version"]
    if service.experiments.uses(service.models.info(name).version):
        raise HttpProblem(409, f"An experiment uses model {name[:80]!r}. Stop it first.")
    return await asyncio.to_thread(service.models.delete, name)


async def train(service: Service, call: Call) -> types.TrainAnswer:
    """Train on the log in another thread; one at a time."""
    request: types.TrainRequest = call.decode()
    if service.training.locked():
        raise HttpProblem(409, "Another ranker is being trained. Wait for it.")
    async with service.training:
        return await asyncio.to_thread(_train, service, request)


def _train(service: Service, request: types.TrainRequest) -> types.TrainAnswer:
    from rankwright.selection import make_ranker
    from rankwright.service.learning.retraining import file_of, retrain  # scikit-learn

    ranker = make_ranker(request.ranker, request.parameters, random_state=request.random_state)
    items = items_from_log(service.store, request.labels)
    served = service.models.active("rank")
    settings = {name: getattr(request, name) for name in ("measure", "test_size", "random_state")}
    try:
        result = retrain(items, ranker, served, **settings)
    except (ValueError, TypeError, ArithmeticError, MemoryError) as error:  # of its parameters
        raise HttpProblem(422, f"{request.ranker} cannot be trained like this: {error}") from error
    measures = {} if result.new is None else {request.measure: result.new}
    name = request.name or request.ranker
    info = service.models.upload(file_of(result.model), name, "trained", **measures)
    better = result.new is not None and (result.active is None or result.new > result.active)
    activated = request.activate in (True, "always") or (request.activate == "better" and better)
    if activated:
        info = service.models.activate(info.version)
    return types.TrainAnswer(
        info, request.measure, result.new, result.active, served.version,
        result.p_value, result.n_train, result.n_test, activated,
    )  # fmt: skip


def list_experiments(service: Service, call: Call) -> types.ExperimentList:
    return types.ExperimentList(service.experiments.infos())


async def create_experiment(service: Service, call: Call) -> types.ExperimentInfo:
    request: types.ExperimentRequest = call.decode()
    models = service.models
    keys = [models.key(name) for name in request.models]
    for name in request.models:
        models.find(name, "rank")
    info = await asyncio.to_thread(service.experiments.create, request, keys)
    await asyncio.to_thread(service.changed)
    return info


def show_experiment(service: Service, call: Call) -> types.ExperimentInfo:
    return service.experiments.find(call.path["name"]).info()


async def stop_experiment(service: Service, call: Call) -> types.ExperimentInfo:
    info = await asyncio.to_thread(service.experiments.stop, call.path["name"])
    await asyncio.to_thread(service.changed)
    return info


def healthy(service: Service, call: Call) -> types.Health:
    return types.Health("ok")


def ready(service: Service, call: Call) -> Any:
    """Whether the log can be written, a model is there, and the log has been learned."""
    faults = service.faults()
    if faults:
        raise HttpProblem(503, "Not ready: " + "; ".join(faults) + ".", retry_after="1")
    return types.Health("ok", {"models": service.models.active_versions()})


def describe_api(service: Service, call: Call) -> Reply:
    return Reply(msgspec.json.encode(describe(OPERATIONS)), "application/json")


def show_api(service: Service, call: Call) -> Reply:
    request = Request(call.scope)
    url, has_tokens = str(request.base_url).rstrip("/"), bool(service.sessions.tokens.principals)
    values = {**reference(OPERATIONS, url, has_tokens), "url": url, "version": __version__}
    page = service.render(request, "api.html", **values)
    cookie = page.headers.get("set-cookie")
    return Reply(bytes(page.body), "text/html; charset=utf-8", cookie=cookie)


RANK = types.RankRequest | types.RankBatch
RANKED = types.RankAnswer | list[types.RankAnswer]
NAME = ApiParameter("name", types.Name, "A name for the model.", default="model")
ACTIVATE = ApiParameter("activate", bool, "Let it answer at once.", default=False)
WHOSE = ApiParameter("user", User, "Whose entries to delete.")
LISTS = ApiParameter(
    "lists", Annotated[int, Meta(ge=1, le=10_000)], "The most lists to look at.", default=1000
)
MODELS, TRIALS, REPLICA = "/v1/models", "/v1/experiments", "/v1/replica"
Count = Annotated[int, Meta(ge=0, lt=2**62)]
STORE = ApiParameter("store", Annotated[str, Meta(max_length=64)], "The identity of the store.")
TERM = ApiParameter("term", Count, "A term; each promotion begins one.")
SINCE = (
    STORE,
    TERM,
    ApiParameter("run", Count, "The start of the leader within the term."),
    ApiParameter("last", Count, "The last entry that the replica has."),
    ApiParameter("revision", Count, "The number of other changes that it has."),
    ApiParameter("replica", Annotated[str, Meta(max_length=512)], "Its name.", default="replica"),
    ApiParameter("wait", Annotated[float, Meta(ge=0, le=10)], "Seconds to wait.", default=0.0),
)

# One line a method and path: handler, what it does, the scope that a token needs, types.
# fmt: off
OPERATIONS = (
    Operation("POST", "/v1/rank", ranking.rank,
              "Rank the candidates of a query; an array of requests gives an array of answers.",
              "rank", RANK, RANKED, problems=(404, 413)),
    Operation("POST", "/v1/recommend", ranking.recommend,
              "Recommend items to a known user, or to a new one with some ratings.",
              "rank", types.RecommendRequest, types.RankAnswer, problems=(404,)),
    Operation("POST", "/v1/fuse", ranking.fuse,
              "Fuse the lists of several engines, by a learned fusion or a fixed method.",
              "rank", types.FuseRequest, types.RankAnswer, problems=(404, 413)),
    Operation("POST", "/v1/feedback", feedback.feedback,
              "Send grades, clicks or preferences; answered when they are on the disk.",
              "feedback", types.FeedbackRequest, types.FeedbackAnswer, problems=(404, 409)),
    Operation("GET", MODELS, list_models, "List the models.", "rank", answer=types.ModelList),
    Operation("POST", MODELS, upload_model, "Upload a model file.", "admin", bytes,
              types.ModelInfo, (NAME, ACTIVATE), 201),
    Operation("GET", f"{MODELS}/{{version}}", show_model, "What one model is.", "rank",
              answer=types.ModelInfo, parameters=(VERSION,), problems=(404,)),
    Operation("GET", f"{MODELS}/{{version}}/drift", show_drift,
              "The columns of the latest lists of a model, compared with training.", "admin",
              answer=types.Drift, parameters=(VERSION, LISTS), problems=(404,)),
    Operation("POST", f"{MODELS}/rollback", roll_back, "Undo the last activation.", "admin",
              answer=types.ModelInfo, problems=(409,)),
    Operation("POST", f"{MODELS}/{{version}}/activate", activate_model,
              "Activate a model.", "admin",
              answer=types.ModelInfo, parameters=(VERSION,), problems=(404,)),
    Operation("POST", f"{MODELS}/{{version}}/shadow", shadow_model,
              "Log the scores of a model without showing them.", "admin",
              answer=types.ModelInfo, parameters=(VERSION,), problems=(404,)),
    Operation("DELETE", f"{MODELS}/{{version}}/shadow", shadow_model,
              "Stop logging the scores of a model.", "admin",
              answer=types.ModelInfo, parameters=(VERSION,), problems=(404,)),
    Operation("DELETE", f"{MODELS}/{{version}}", delete_model,
              "Delete a model that is not in use.", "admin",
              answer=types.ModelInfo, parameters=(VERSION,), problems=(404, 409)),
    Operation("GET", "/v1/log", feedback.read,
              "The log as JSON lines, TREC qrels or LETOR lines.", "admin",
              parameters=LOG, media=("application/x-ndjson", "text/plain")),
    Operation("DELETE", "/v1/log", feedback.delete, "Delete all entries of a user.", "admin",
              answer=types.Deleted, parameters=(WHOSE,)),
    Operation("POST", "/v1/train", train,
              "Train a ranker on the log and compare it with the active one.", "admin",
              types.TrainRequest, types.TrainAnswer, problems=(404, 409)),
    Operation("GET", TRIALS, list_experiments,
              "List the experiments with their results so far.", "rank",
              answer=types.ExperimentList),
    Operation("POST", TRIALS, create_experiment, "Interleave two models on live traffic.",
              "admin", types.ExperimentRequest, types.ExperimentInfo, status=201,
              problems=(404, 409)),
    Operation("GET", f"{TRIALS}/{{name}}", show_experiment,
              "The result of an experiment so far.", "rank",
              answer=types.ExperimentInfo, parameters=(EXPERIMENT,), problems=(404,)),
    Operation("DELETE", f"{TRIALS}/{{name}}", stop_experiment,
              "Stop an experiment; its result stays.", "admin",
              answer=types.ExperimentInfo, parameters=(EXPERIMENT,), problems=(404,)),
    Operation("POST", "/v1/promote", replication.promote,
              "Let this replica lead; the earlier leader is fenced.", "admin",
              answer=types.PromoteAnswer, problems=(409,)),
    Operation("GET", REPLICA, replication.replication_info,
              "Whether this service leads, and how far its replicas are.", "admin",
              answer=types.ReplicationInfo),
    Operation("GET", f"{REPLICA}/log", replication.replica_log,
              "What a replica lacks, in msgpack.", "admin", parameters=SINCE,
              media=(BINARY,), problems=(409,)),
    Operation("GET", f"{REPLICA}/models/{{version}}", replication.replica_model,
              "A model of the store, in msgpack.", "admin", parameters=(VERSION,),
              media=(BINARY,), problems=(404,)),
    Operation("GET", f"{REPLICA}/store", replication.replica_store,
              "A copy of the store.", "admin", media=(BINARY,)),
    Operation("POST", f"{REPLICA}/fence", replication.fence,
              "Accept no more writes: another service leads a later term.", "admin",
              answer=types.FenceAnswer, parameters=(STORE, TERM), problems=(409,)),
    Operation("GET", "/healthz", healthy, "The process is alive.", None, answer=types.Health),
    Operation("GET", "/readyz", ready,
              "The log can be written and has been learned, and models are compiled.", None,
              answer=types.Health, problems=(503,)),
    Operation("GET", "/metrics", metrics, "Measures of the service for Prometheus.", "rank",
              media=("text/plain",)),
    Operation("GET", "/openapi.json", describe_api, "This document.", "rank",
              answer=dict[str, Any]),
    Operation("GET", "/api", show_api, "A page of this document.", "rank", media=("text/html",)),
)
# fmt: on
