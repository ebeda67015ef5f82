"""The models of a service: loaded, listed, active, in the shadow, and switched atomically."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from apsw import Connection

import rankwright
from rankwright.data.columns import Encoding
from rankwright.data.datasets.synthetic import make_queries
from rankwright.exceptions import ModelFileError, ParameterError
from rankwright.features.fitted import FittedFeatures
from rankwright.persist.foreign import foreign_kind
from rankwright.persist.format import read_file, refusing
from rankwright.persist.provenance import Provenance
from rankwright.persist.scorer import SavedScorer, load_scorer, scorer_of
from rankwright.scoring.base import can_compile, warming_up
from rankwright.scoring.linear import Linear
from rankwright.scoring.trees import ROWS_FOR_MASKS
from rankwright.service.api.problems import HttpProblem
from rankwright.service.api.types import ModelInfo
from rankwright.service.log.entries import DamagedStore
from rankwright.service.log.reader import LogReader
from rankwright.service.log.store import Store, put_state

Task = Literal["rank", "recommend", "fuse"]
Source = Literal["demo", "file", "upload", "live", "trained"]
LIVE, DEMO = "live", "demo"
MOST_HISTORY = 20
MAX_UPLOAD = 64 * 2**20


@dataclass(frozen=True, eq=False)
class DeployedModel:
    """A model that answers requests; it never changes, a new version replaces it."""

    version: str
    name: str
    kind: str
    task: Task
    source: Source
    model: Any  # a SavedScorer, a Recommender or a LearnedFusion
    time: float = field(default_factory=time.time)
    measures: Mapping[str, float] = field(default_factory=dict)
    features: tuple[str, ...] | None = None
    n_features: int | None = None
    takes_missing: bool = False
    provenance: Provenance | None = None

    @cached_property
    def made(self) -> dict[str, Any] | None:
        """How the model was made, without the statistics of its columns."""
        if self.provenance is None:
            return None
        about = self.provenance.to_dict()
        return {key: value for key, value in about.items() if key not in ("statistics", "levels")}

    @cached_property
    def row_of(self) -> Callable[[Mapping[str, Any]], Any]:
        """The values of {name: value}, in the order of the model."""
        names = self.names
        if len(names) == 1:
            return lambda features: (features[names[0]],)
        return itemgetter(*names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features; unnamed ones are numbered from 1, as in LETOR files."""
        if self.features is not None:
            return self.features
        return tuple(str(number) for number in range(1, (self.n_features or 0) + 1))

    @property
    def encoding(self) -> Encoding | None:
        """How tables become features, if they hold more than numbers."""
        encoding = getattr(self.model, "encoding", None)
        return encoding if isinstance(encoding, Encoding) else None

    @property
    def feature_set(self) -> FittedFeatures | None:
        """How the fields of queries and documents become features, if the model does that."""
        encoding = getattr(self.model, "encoding", None)
        return encoding if isinstance(encoding, FittedFeatures) else None

    @cached_property
    def accepted(self) -> tuple[str, ...]:
        """The names that requests may use: columns of the table, or features."""
        return self.names if self.encoding is None else self.encoding.sources

    @cached_property
    def logged_names(self) -> list[str] | None:
        """The names as the log keeps them."""
        return None if self.features is None else list(self.features)


@dataclass(frozen=True)
class ModelsState:
    """What is active and in the shadow: one object, so that a switch is one assignment."""

    models: Mapping[str, DeployedModel] = field(default_factory=dict)
    active: Mapping[str, str] = field(default_factory=dict)  # task -> key
    history: tuple[tuple[str, str], ...] = ()  # (task, key) that were active before
    shadow: tuple[str, ...] = ()

    @cached_property
    def waits_for_features(self) -> bool:
        """Whether a ranker learns from its first request what its features are."""
        models = self.models.values()
        return any(served.task == "rank" and served.n_features is None for served in models)

    @cached_property
    def features(self) -> frozenset[str]:
        named = [served.accepted for served in self.models.values() if served.features]
        return frozenset(name for names in named for name in names)


class ModelView:
    """The models of a service by key: their version, or "live" for the one that learns.

    A method looks at the state once, so no lock is needed.
    """

    def __init__(self) -> None:
        self._state = ModelsState()

    @property
    def state(self) -> ModelsState:
        return self._state

    def switch(self, state: ModelsState) -> None:
        """Use another state from now on."""
        self._state = state

    def active(self, task: Task) -> DeployedModel:
        """The model that answers a task."""
        state = self._state
        key = state.active.get(task)
        if key is None:
            kind = {"rank": "ranker", "recommend": "Recommender", "fuse": "LearnedFusion"}[task]
            raise HttpProblem(
                404,
                f"No model can {task}. Upload a model file of a {kind} with POST /v1/models.",
            )
        return state.models[key]

    def find(self, name: str | None, task: Task) -> DeployedModel:
        """A model by its version or name; the active one if there is no name."""
        if name is None:
            return self.active(task)
        served = self._state.models[self.key(name)]
        if served.task != task:
            raise HttpProblem(422, f"Model {name!r} is a {served.kind}: it can {served.task} only.")
        return served

    def peek(self, key: str) -> DeployedModel | None:
        """The model with this key, if there is one."""
        return self._state.models.get(key)

    def can_rank(self, keys: list[str]) -> bool:
        """Whether these models are there and know their features."""
        models = [self._state.models.get(key) for key in keys]
        return all(served is not None and served.n_features is not None for served in models)

    def warm_up(self) -> None:
        """Compile the loops that score the models."""
        for served in self._state.models.values():
            warm_up(served)

    def shadows(self) -> list[DeployedModel]:
        state = self._state
        return [state.models[key] for key in state.shadow] if state.shadow else []

    def features(self) -> frozenset[str]:
        """Names of features that some model uses."""
        return self._state.features

    def key(self, name: str) -> str:
        """The key of a model by its version or its name (the newest of that name)."""
        models = self._state.models
        if name in models:
            return name
        keys = [key for key, served in models.items() if name in (served.name, served.version)]
        if not keys:
            known = ", ".join(list(models)[:10])
            raise HttpProblem(404, f"There is no model {name[:80]!r}. Known are {known}.")
        return keys[-1]

    def infos(self) -> list[ModelInfo]:
        """All models, as the API shows them."""
        state = self._state
        return [self._info(state, key) for key in state.models]

    def info(self, name: str) -> ModelInfo:
        return self._info(self._state, self.key(name))

    def active_versions(self) -> dict[str, str]:
        state = self._state
        return {task: state.models[key].version for task, key in state.active.items()}

    def _info(self, state: ModelsState, key: str) -> ModelInfo:
        served = state.models[key]
        encoding = served.encoding or served.feature_set
        return ModelInfo(
            served.version,
            served.name,
            served.kind,
            served.task,
            served.source,
            served.time,
            served.n_features,
            None if served.features is None else list(served.features),
            served.takes_missing,
            dict(served.measures),
            key in state.active.values(),
            key in state.shadow,
            None if encoding is None else encoding.kinds,
            served.made,
        )


class Models(ModelView):
    """The models of a service, loaded and changed.

    ``on_switch`` is called with a new state before it is used.
    """

    def __init__(
        self,
        store: Store,
        paths: tuple[str, ...],
        *,
        demo: bool = True,
        on_switch: Callable[[ModelsState], None] = lambda state: None,
    ) -> None:
        super().__init__()
        self._store, self._lock, self.note = store, threading.Lock(), ""
        self._on_switch = on_switch
        given = [served_from_file(path) for path in paths]
        for served in (*self._uploaded(), *given):
            self._state = _with(self._state, served.version, served)
        if demo and not paths:
            self.note = "This is the demo model, trained on generated data."
            self._state = _with(self._state, DEMO, demo_model())
        self._given = [served.version for served in given]

    def switch(self, state: ModelsState) -> None:
        self._on_switch(state)
        self._state = state

    # Changes: under the lock, and kept in the store.

    def publish(self, served: DeployedModel) -> None:
        """Replace the live model; it becomes active if nothing else ranks."""
        with self._lock:
            self.switch(_with(self._state, LIVE, served))

    def upload(self, content: bytes, name: str, source: Source, **measures: float) -> ModelInfo:
        """Keep a model file in the store and serve it, once it is checked."""
        served = served_from_bytes(content, name, source)
        measures = {**served.measures, **measures}
        served = replace(served, measures=measures)
        about = {"name": name, "source": source, "measures": measures}
        row = (served.version, served.time, msgspec.msgpack.encode(about), content)
        insert = "INSERT OR REPLACE INTO models VALUES(?, ?, ?, ?)"
        warm_up(served)
        with self._lock:
            state = _with(self._state, served.version, served)
            if served.task not in state.active:
                state = replace(state, active={**state.active, served.task: served.version})
            self._save(state, lambda db: db.execute(insert, row))
            return self._info(state, served.version)

    def activate(self, name: str) -> ModelInfo:
        """Activate a model: it answers from the next request on."""
        with self._lock:
            key = self.key(name)
            self._activate(key)
        return self.info(key)

    def has_previous(self) -> bool:
        """Whether there is an activation to undo."""
        state = self._state
        return any(key in state.models for _, key in state.history)

    def roll_back(self) -> ModelInfo:
        """Undo the last activation."""
        with self._lock:
            state = self._state
            previous = [(task, key) for task, key in state.history if key in state.models]
            if not previous:
                raise HttpProblem(
                    409, "No other model was active before. Activate one by its version."
                )
            task, key = previous[-1]
            active = {**state.active, task: key}
            self._save(replace(state, active=active, history=tuple(previous[:-1])))
        return self.info(key)

    def set_shadow(self, name: str, on: bool) -> ModelInfo:
        """Score every list with this model too, for the log only; or stop that."""
        with self._lock:
            key, state = self.key(name), self._state
            if state.models[key].task != "rank":
                raise HttpProblem(422, f"Model {name!r} does not rank: it cannot be a shadow.")
            others = tuple(other for other in state.shadow if other != key)
            self._save(replace(state, shadow=(*others, key) if on else others))
        return self.info(key)

    def delete(self, name: str) -> ModelInfo:
        """Forget a model that is not active."""
        with self._lock:
            key, state = self.key(name), self._state
            info = self._info(state, key)
            if info.active or key == LIVE:
                raise HttpProblem(409, f"Model {name!r} is in use. Activate another one first.")
            models = {k: served for k, served in state.models.items() if k != key}
            shadow = tuple(other for other in state.shadow if other != key)
            sql = "DELETE FROM models WHERE version = ?"
            state = replace(state, models=models, shadow=shadow)
            self._save(state, lambda db: db.execute(sql, (key,)))
        return info

    def _activate(self, key: str) -> None:
        state = self._state
        task = state.models[key].task
        history, before = state.history, state.active.get(task)
        if before not in (None, key):
            history = (*history, (task, str(before)))[-MOST_HISTORY:]
        self._save(replace(state, active={**state.active, task: key}, history=history))

    def _save(
        self, state: ModelsState, change: Callable[[Connection], object] | None = None
    ) -> None:
        """Switch, and remember the choice for the next start, in one transaction with a change."""
        kept = _Kept(dict(state.active), list(state.history), list(state.shadow), self._given)
        value = msgspec.msgpack.encode(kept)

        def write(db: Connection) -> None:
            if change is not None:
                change(db)
            put_state(db, "models", value)

        self._store.change(write).result()
        self.switch(state)

    def _uploaded(self) -> Iterator[DeployedModel]:
        columns = "version, time, about, file"
        for row in self._store.select(f"SELECT {columns} FROM models ORDER BY time"):
            try:
                yield restored(*row)
            except (HttpProblem, ValueError) as error:
                raise DamagedStore(
                    f"the model {row[0]!r} cannot be read ({error}).", file=self._store.path
                ) from error

    def choose(self, prefer_live: bool = False) -> None:
        """At the start: the given models, else what was active, which must be there."""
        state = self._state
        default: dict[str, str] = {}
        for key in (*([LIVE] if prefer_live else []), *self._given, *state.models):
            default.setdefault(state.models[key].task, key)
        kept = self._store.state_as("models", _Kept) or _Kept()
        replaced = {state.models[key].task for key in self._given if self._given != kept.given}
        active = {task: key for task, key in kept.active.items() if task not in replaced}
        gone = [key for key in active.values() if key not in state.models and key != DEMO]
        if prefer_live:  # the ranker that learns takes the place of a file that is not given
            gone = [key for key in gone if key != active.get("rank")]
        if gone:
            where = (
                "the ranker that learned: give --learn" if gone == [LIVE] else
                "neither in the store nor among the files that were given: give its file"
            )  # fmt: skip
            raise ModelFileError(
                f"the model {gone[0]!r} was active, and it is {where}, or another model.",
                kind="missing",
                file=self._store.path,
            )
        active = {task: key for task, key in active.items() if key in state.models}
        shadow = tuple(key for key in kept.shadow if key in state.models)
        history = tuple((task, key) for task, key in kept.history if task not in replaced)
        state = replace(state, active=default | active, history=history, shadow=shadow)
        if self._store.refusal is None:
            self._save(state)
        else:  # what a replica chooses is written by its leader
            self.switch(state)


class _Kept(msgspec.Struct):
    """What the store remembers of the state."""

    active: dict[str, str] = {}
    history: list[tuple[str, str]] = []
    shadow: list[str] = []
    given: list[str] = []


def count_models(path: str) -> int:
    """How many models a store has; none if there is no such file."""
    if not os.path.exists(path):
        return 0
    log = LogReader(path)
    try:
        return int(log.select("SELECT count(*) FROM models")[0][0])
    finally:
        log.close()


def _with(state: ModelsState, key: str, served: DeployedModel) -> ModelsState:
    return replace(state, models={**state.models, key: served})


def warm_up(served: DeployedModel) -> None:
    """Compile the loops that score a model, or load them; other threads use NumPy meanwhile.

    A sum also merges its terms here, not in its first request. Models without loops load nothing.
    """
    model = served.model
    if not isinstance(model, SavedScorer) or not can_compile():
        return
    values = (0.0, np.nan) if model.allow_nan else (0.0,)
    with warming_up():
        for n_rows, value in (*((1, value) for value in values), (ROWS_FOR_MASKS, 0.0)):
            model.scorer.decision_function(np.full((n_rows, model.scorer.n_features), value))


def served_from_file(path: str) -> DeployedModel:
    """A model of the command line."""
    content = Path(path).read_bytes()
    return replace(_served(path, _name_of(path), "file", content), source="file")


def served_from_bytes(content: bytes, name: str, source: Source) -> DeployedModel:
    """A model that was sent; refused like any damaged file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.rw"
        path.write_bytes(content)
        try:
            return _served(str(path), name, source, content)
        except ModelFileError as error:
            raise HttpProblem(422, str(error.replaced(file="the uploaded file"))) from None


def served_scorer(
    scorer: SavedScorer, version: str, name: str, source: Source, **more: Any
) -> DeployedModel:
    """A model that ranks rows."""
    return DeployedModel(
        version,
        name,
        scorer.kind,
        "rank",
        source,
        scorer,
        features=scorer.feature_names,
        n_features=scorer.n_features,
        takes_missing=scorer.allow_nan,
        **more,
    )


@cache
def demo_model() -> DeployedModel:
    """Least squares on generated queries, so that the service can be tried."""
    sample = make_queries(200, n_features=10, random_state=0)
    rows = np.column_stack([sample.X, np.ones(len(sample.X))])
    *coef, intercept = np.linalg.lstsq(rows, sample.y.astype(np.float64))[0]
    names = tuple(f"f{number}" for number in range(1, 11))
    scorer = SavedScorer("RidgeRanker", Linear(np.array(coef), float(intercept)), (), names)
    return served_scorer(scorer, "demo", "demo", "demo")


def _served(path: str, name: str, source: Source, content: bytes) -> DeployedModel:
    version = f"{name}-{hashlib.sha256(content).hexdigest()[:8]}"
    if source == "file" and foreign_kind(path) is not None:  # uploads are files of rankwright
        return served_scorer(load_scorer(path), version, name, source)
    with refusing(path):
        manifest, arrays = read_file(path, MAX_UPLOAD if source == "upload" else 2**31)
        if manifest.served is not None:
            made = manifest.provenance
            measured = {} if made is None else {k: m.mean for k, m in made.measures.items()}
            about: dict[str, Any] = {"provenance": made, "measures": measured}
            return served_scorer(scorer_of(manifest, arrays), version, name, source, **about)
    model = rankwright.load(path)
    for task in ("recommend", "fuse"):
        if hasattr(model, task):
            return DeployedModel(version, name, type(model).__name__, task, source, model)
    raise ParameterError(
        f"{path}: a {type(model).__name__} cannot be served. Serve a ranker, a Recommender or a "
        "LearnedFusion."
    )


def restored(version: str, moment: float, about: bytes, content: bytes) -> DeployedModel:
    """A model from its row in the store."""
    kept = msgspec.msgpack.decode(about)
    served = served_from_bytes(content, kept["name"], kept["source"])
    return replace(served, version=version, time=moment, measures=kept["measures"])


def _name_of(path: str) -> str:
    """The name of a file as a name of a model.

    >>> _name_of("models/shop 2.rw")
    'shop-2'
    """
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(path).stem).strip("-.")[:64] or "model"
