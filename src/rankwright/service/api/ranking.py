"""Answers: items ranked by a model, items recommended to a user, lists fused into one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import DataError
from rankwright.service.api.candidates import LARGE, CandidateTable, candidates, score
from rankwright.service.api.problems import HttpProblem
from rankwright.service.api.routing import Call
from rankwright.service.api.types import (
    AnswerItem,
    FuseRequest,
    RankAnswer,
    RankBatch,
    RankRequest,
    RecommendRequest,
)
from rankwright.service.experiments import Experiment
from rankwright.service.log.entries import Event, encode, pack_rows
from rankwright.service.models import DeployedModel

if TYPE_CHECKING:
    from rankwright.service.api.scoring import ScoringService

MOST_EXPLAINED = 200  # items of one list
_ARRAYS = frozenset(bytes([code]) for code in (0x5B, *range(0x90, 0xA0), 0xDC, 0xDD))


def rank(service: ScoringService, call: Call) -> Any:
    """``POST /v1/rank``: one list, or an array of lists."""
    if len(call.body) > LARGE:
        return asyncio.to_thread(_rank, service, call)
    return _rank(service, call)


def _rank(service: ScoringService, call: Call) -> RankAnswer | list[RankAnswer]:
    request = service.reader.read(call.body) if call.is_json else None
    if request is not None:
        try:
            return rank_list(service, request)
        except (HttpProblem, DataError):  # decoded again below, for an error that names the item
            pass
    if call.body[:64].lstrip()[:1] in _ARRAYS:  # of JSON or msgpack
        return [rank_list(service, request) for request in call.decode(RankBatch)]
    return rank_list(service, call.decode(RankRequest))


def rank_list(service: ScoringService, request: RankRequest) -> RankAnswer:
    """Rank the candidates of a query, and log what is shown."""
    experiment = service.experiments.choose(request)
    if experiment is not None and service.models.can_rank(experiment.models):
        return _rank_interleaved(service, request, experiment)
    served = service.model_for(request)
    known, limit = service.models.features(), service.settings.max_items
    table = candidates(request, served, known, limit, service.corpora.of(served))
    scores = score(table, served)
    order = (-scores).argsort(kind="stable")
    if request.n is not None:
        order = order[: request.n]
    shown, values = order.tolist(), scores[order]
    ids = list(map(table.ids.__getitem__, shown))
    keys = ids if table.keys is table.ids else list(map(table.keys.__getitem__, shown))
    event = log_event(
        service,
        query=request.query,
        user=request.user,
        model=served.version,
        ids=keys,
        scores=values,
        rows=table.rows[order],
        names=served.logged_names,
        shadow=_shadow(service, request, served, order),
    )
    items = list(map(AnswerItem, ids, values.tolist(), range(1, len(ids) + 1)))
    if request.explain:
        _explain(items, served, table, order)
    if table.unknown:
        service.metrics.unknown_levels.inc(sum(table.unknown.values()))
    return RankAnswer(event, served.version, items, table.missing, unknown=dict(table.unknown))


def _rank_interleaved(
    service: ScoringService, request: RankRequest, experiment: Experiment
) -> RankAnswer:
    """Mix the lists of the experiment's two models; the score of an item is 1 / rank."""
    if request.explain:
        raise HttpProblem(
            422, "A list that two models share has no explanation. Name one with model."
        )
    pair = [service.models.find(version, "rank") for version in experiment.models]
    known, limit = service.models.features(), service.settings.max_items
    corpora = service.corpora
    tables = [candidates(request, one, known, limit, corpora.of(one)) for one in pair]
    lists = []
    for served, table in zip(pair, tables, strict=True):
        order = np.argsort(-score(table, served), kind="stable")
        lists.append([table.keys[i] for i in order.tolist()])
    shown = experiment.interleave(lists, request)
    row = {key: i for i, key in enumerate(tables[0].keys)}
    order = np.array([row[key] for key in shown.items], dtype=np.intp)
    scores = 1.0 / np.arange(1, len(order) + 1)
    model = "+".join(served.version for served in pair)
    event = log_event(
        service,
        query=request.query,
        user=request.user,
        model=model,
        ids=list(shown.items),
        scores=scores,
        rows=tables[0].rows[order],
        names=pair[0].logged_names,
        experiment=experiment.name,
        interleaved={k: v for k, v in shown.to_dict().items() if k != "items"},
    )
    ids = tables[0].ids
    items = [
        AnswerItem(ids[i], value, rank)
        for rank, (i, value) in enumerate(zip(order.tolist(), scores.tolist(), strict=True), 1)
    ]
    return RankAnswer(event, model, items, tables[0].missing, experiment.name)


def log_event(
    service: ScoringService,
    *,
    query: str | int | None,
    user: str | int | None,
    model: str,
    ids: list[str],
    scores: FloatArray,
    rows: FloatArray | None = None,
    **more: Any,
) -> str:
    """Append what is shown to the log; its id.

    Ids begin with the time, so that the index of a large log grows at its end and not everywhere.
    """
    if service.store.refusal is not None:  # a replica: its leader writes the log
        return ""
    event = f"{time.time_ns() // 1_000_000:012x}{os.urandom(6).hex()}"  # in the order of time
    rows = np.empty((0, 0)) if rows is None else rows
    features, form = pack_rows(rows)
    query = None if query is None else str(query)
    body = encode(Event(query, model, ids, scores.tobytes(), features, form=form, **more))
    service.store.append_event(event, body, None if user is None else str(user))
    return event


def _shadow(
    service: ScoringService, request: RankRequest, served: DeployedModel, order: IntArray
) -> dict[str, bytes]:
    """Scores of the same items by the shadow models; one that cannot score them is left out."""
    scores = {}
    for other in service.models.shadows():
        if other.version != served.version and other.n_features is not None:
            try:
                known = service.models.features()
                corpus = service.corpora.of(other)
                table = candidates(request, other, known, service.settings.max_items, corpus)
                scores[other.version] = score(table, other)[order].tobytes()
            except Exception:  # what is not shown must not fail what is
                service.metrics.shadow_failures.inc()
    return scores


def _explain(
    items: list[AnswerItem], served: DeployedModel, table: CandidateTable, order: IntArray
) -> None:
    """How the score changes when a feature is as in the mean candidate, for each item shown."""
    if len(items) > MOST_EXPLAINED:
        raise HttpProblem(
            422, f"At most {MOST_EXPLAINED} items are explained. Set n, or drop explain."
        )
    if not items:
        return
    changes = served.model.contributions(table.rows)
    columns = {name: change[order].tolist() for name, change in changes.items()}
    for item, values in zip(items, zip(*columns.values(), strict=True), strict=True):
        item.contributions = dict(zip(columns, values, strict=True))


async def recommend(service: ScoringService, call: Call) -> RankAnswer:
    """``POST /v1/recommend``: the best items for a user that the user has not rated."""
    request = call.decode()
    served = service.models.find(request.model, "recommend")
    return await asyncio.to_thread(_recommend, service, request, served)


def _recommend(
    service: ScoringService, request: RecommendRequest, served: DeployedModel
) -> RankAnswer:
    model = served.model
    users, known = model._data.user_vocabulary, model._data.item_vocabulary
    if (request.user is None) == (request.ratings is None):
        raise HttpProblem(422, "Send either user, the id of a known user, or ratings of a new one.")
    limits: dict[str, Any] = {
        "exclude": [_known(known, item, "exclude") for item in request.exclude] or "taken",
        "filter": None,
    }
    if request.filter is not None:
        limits["filter"] = [_known(known, item, "filter") for item in request.filter]
    if request.ratings is None:
        best = model.recommend(_known(users, request.user, "user"), request.n, **limits)
    else:
        ratings = {_known(known, item, "ratings"): v for item, v in request.ratings.items()}
        best = model.recommend_new(ratings, request.n, **limits)
    return _listed(service, request, served.version, [tuple(pair) for pair in best])


def _known(vocabulary: Any, sent: Any, where: str) -> Any:
    """An id of the data, which JSON may have turned into text."""
    text = str(sent)
    number = int(text) if text.removeprefix("-").isdecimal() and len(text) < 20 else text
    for form in (sent, text, number):
        if form in vocabulary:
            return form
    raise HttpProblem(422, f"{where}: {text[:80]!r} is not among the ids of the model.")


async def fuse(service: ScoringService, call: Call) -> RankAnswer:
    """``POST /v1/fuse``: lists of several engines made into one, by a model or a fixed rule."""
    return await asyncio.to_thread(_fuse, service, call.decode())


def _fuse(service: ScoringService, request: FuseRequest) -> RankAnswer:
    from rankwright.fusion.methods import fuse as fuse_lists

    if request.method is not None and request.model is not None:
        raise HttpProblem(422, "Send either method, a fixed rule, or model, a learned fusion.")
    size = max(map(len, request.runs.values()), default=0)
    if size > service.settings.max_items:
        raise HttpProblem(
            413, f"A list has {size} items; the limit is {service.settings.max_items}."
        )
    runs = {
        name: {"q": listed if isinstance(listed, dict) else list(map(str, listed))}
        for name, listed in request.runs.items()
    }
    learned = request.model is not None or "fuse" in service.models.active_versions()
    if request.method is None and learned:
        served = service.models.find(request.model, "fuse")
        run, version = served.model.fuse(runs), served.version
    else:
        version = request.method or "rrf"
        run = fuse_lists(runs, version)
    order = run.order[: request.n]
    pairs = zip(run.docs[run.doc[order]].tolist(), run.score[order].tolist(), strict=True)
    return _listed(service, request, version, list(pairs))


def _listed(
    service: ScoringService, request: Any, model: str, pairs: Sequence[tuple[Any, float]]
) -> RankAnswer:
    """Log a list of (id, score) and answer with it."""
    event = log_event(
        service,
        query=getattr(request, "query", None),
        user=request.user,
        model=model,
        ids=[str(item) for item, _ in pairs],
        scores=np.array([value for _, value in pairs], dtype=np.float64),
    )
    items = [AnswerItem(item, float(v), rank) for rank, (item, v) in enumerate(pairs, 1)]
    return RankAnswer(event, model, items)
