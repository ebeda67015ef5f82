"""Requests and answers of the API, as msgspec types; the OpenAPI document is made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

MOST_BATCH = 100

Text = Annotated[str, Meta(min_length=1, max_length=512)]
Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Id = Text | Number
Grade = Annotated[float, Meta(ge=-1e9, le=1e9)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Cell = float | bool | Annotated[str, Meta(max_length=4096)] | None
Features = dict[str, Cell] | list[float | None]
Field = float | bool | str | None | list[float | str | None]
Fields = dict[str, Field]


class Request(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A body that holds nothing but what is declared."""


class Item(Request, gc=False):
    """A candidate: its id, and its features by name, as the training table had them, or as numbers
    in the order of the model. null is missing; text and dates are for models that learned them.
    A model with a feature set takes the fields of the document instead, and computes them."""

    id: Id
    features: Features = []
    fields: Fields | None = None


class RankRequest(Request):
    """A query and its candidates, in one of three forms.

    ``query_fields`` are for models with a feature set: the text of the query is ``text``, by
    default ``query`` itself.

    Rows: ``items``. Columns: ``ids`` and ``columns``, {feature: [value of each item]}. Packed:
    ``ids`` and ``float32`` or ``float64``, the little-endian values row by row (base64 in JSON,
    binary in msgpack).
    """

    query: Id | None = None
    query_fields: Fields | None = None
    items: list[Item] | None = None
    ids: list[Id] | None = None
    columns: dict[str, list[Cell]] | None = None
    float32: bytes | None = None
    float64: bytes | None = None
    user: Id | None = None
    model: Text | None = None
    n: Annotated[int, Meta(ge=1)] | None = None
    explain: bool = False


RankBatch = Annotated[list[RankRequest], Meta(min_length=1, max_length=MOST_BATCH)]


class AnswerItem(msgspec.Struct, omit_defaults=True, gc=False):
    """An item of an answer. ``contributions`` says how far each feature moves its score, compared
    with the mean of the candidates."""

    id: str | int
    score: float
    rank: int
    contributions: dict[str, float] | msgspec.UnsetType = msgspec.UNSET  # {} would make 100 dicts


class RankAnswer(msgspec.Struct, omit_defaults=True):
    """Items best first. ``event`` is the id to send feedback for, empty from a replica, which logs
    nothing; ``missing`` names features that
    no item had and that the model does without; ``unknown`` counts, by column, the texts that
    training did not have, which count as missing."""

    event: str
    model: str
    items: list[AnswerItem]
    missing: list[str] = []
    experiment: str = ""
    unknown: dict[str, int] = {}


class RecommendRequest(Request):
    """A known user, or the ratings of a new one; ``filter`` lists the only items to choose from."""

    user: Id | None = None
    ratings: dict[str, Grade] | None = None
    n: Annotated[int, Meta(ge=1, le=10_000)] = 10
    exclude: list[Id] = []
    filter: list[Id] | None = None
    model: Text | None = None


class FuseRequest(Request):
    """Lists of several engines for one query: documents best first, or with scores."""

    runs: dict[str, list[Id] | dict[str, Grade]]
    query: Id | None = None
    method: str | None = None
    user: Id | None = None
    n: Annotated[int, Meta(ge=1)] | None = None
    model: Text | None = None


class Click(Request):
    """A clicked item, and how many seconds the user stayed on it."""

    item: Id
    dwell: Seconds | None = None


class FeedbackRequest(Request):
    """What a user said about the list of an event: grades, clicks or preferences (better, worse).

    ``id`` is the client's own: sending the same one again changes nothing.
    """

    event: Text
    id: Id
    grades: dict[str, Grade] | None = None
    clicks: list[Id | Click] | None = None
    dwell: dict[str, Seconds] | None = None
    preferences: list[tuple[Id, Id]] | None = None


class FeedbackAnswer(msgspec.Struct):
    """The feedback is on the disk. ``duplicate``: it was there before."""

    event: str
    id: str | int
    seq: int
    duplicate: bool


class ModelInfo(msgspec.Struct):
    """A model of the service. ``task`` is what it can do: rank, recommend or fuse."""

    version: str
    name: str
    kind: str
    task: Literal["rank", "recommend", "fuse"]
    source: Literal["demo", "file", "upload", "live", "trained"]
    time: float
    n_features: int | None
    features: list[str] | None
    takes_missing: bool
    measures: dict[str, float]
    active: bool
    shadow: bool
    columns: dict[str, str] | None = None  # of tables with more than numbers: name -> kind
    provenance: dict[str, Any] | None = None


class ModelList(msgspec.Struct):
    """Every model, and the version that is active for each task."""

    models: list[ModelInfo]
    active: dict[str, str]
    note: str = ""


class ColumnDrift(msgspec.Struct):
    """A column now and in training: statistics of a number, shares of the levels of a text."""

    name: str
    moved: bool
    why: str
    trained: dict[str, float]
    served: dict[str, float]


class Drift(msgspec.Struct):
    """The columns of the latest lists of a model compared with training, moved ones first."""

    version: str
    lists: int
    rows: int
    columns: list[ColumnDrift]
    note: str


class ExperimentRequest(Request):
    """Two models to interleave; ``share`` of the traffic takes part."""

    name: Name
    models: Annotated[list[Text], Meta(min_length=2, max_length=2)]
    method: Literal["team_draft", "balanced", "probabilistic", "optimized"] = "team_draft"
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0
    seed: Number = 0
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05


class ExperimentInfo(msgspec.Struct):
    """An experiment and its result so far. ``interval`` and ``p_value`` are valid at any time;
    ``sign_test`` is for one look at a number of sessions that was chosen beforehand."""

    name: str
    models: list[str]
    method: str
    share: float
    seed: int
    alpha: float
    running: bool
    time: float
    sessions: int
    wins: int
    losses: int
    ties: int
    win_rate: float
    interval: tuple[float, float]
    p_value: float
    sign_test: float
    better: str | None


class ExperimentList(msgspec.Struct):
    """All experiments, the newest last."""

    experiments: list[ExperimentInfo]


class TrainRequest(Request):
    """Train a ranker on the log, and compare it with the active model on held-out events."""

    ranker: Name = "RankBoost"
    parameters: dict[str, bool | int | float | str | None] = {}
    labels: Literal["auto", "grades", "clicks"] = "auto"
    test_size: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    measure: Text = "NDCG@10"
    activate: Literal["never", "better", "always"] | bool = "never"
    name: Name | None = None
    random_state: Annotated[int, Meta(ge=0, lt=2**32)] = 0


class TrainAnswer(msgspec.Struct):
    """The new model, and the mean measure of both on the held-out events (null: cannot rank)."""

    model: ModelInfo
    measure: str
    new: float | None
    active: float | None
    active_version: str
    p_value: float | None
    n_train: int
    n_test: int
    activated: bool


class ReplicationInfo(msgspec.Struct):
    """Whether this service leads. ``role`` is leader, replica, waiting (for word of its replica) or
    fenced (another one leads); ``behind`` and ``seconds`` tell how far a replica is behind its
    leader and when it last heard of it; ``replicas`` how far those of a leader are behind."""

    role: Literal["leader", "replica", "waiting", "fenced"]
    term: int
    last: int
    revision: int
    leader: str | None = None
    behind: int = 0
    seconds: float = 0.0
    replicas: dict[str, int] = {}


class PromoteAnswer(msgspec.Struct):
    """This service leads since a term, after an entry of the log. ``fenced``: the earlier leader
    has been told, and accepts no more writes."""

    term: int
    last: int
    fenced: bool


class FenceAnswer(msgspec.Struct):
    """The last entry of a leader that accepts no more, and the number of its other changes."""

    last: int
    revision: int


class Deleted(msgspec.Struct):
    """How many entries were deleted."""

    deleted: int


class Health(msgspec.Struct):
    """``status`` is "ok", or what is wrong."""

    status: str
    detail: dict[str, Any] = {}
