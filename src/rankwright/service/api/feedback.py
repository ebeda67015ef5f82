"""Feedback and the log over HTTP: durable, once each, exported and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from rankwright.service.api.problems import HttpProblem
from rankwright.service.api.routing import Call, Reply
from rankwright.service.api.types import Click, Deleted, FeedbackAnswer, FeedbackRequest
from rankwright.service.learning.labels import (
    choose_labels,
    json_lines,
    letor_lines,
    qrels_lines,
)
from rankwright.service.log.entries import LoggedFeedback, decode_feedback, encode
from rankwright.service.log.reader import LogEntry

if TYPE_CHECKING:
    from rankwright.service.app import Service

LINES_AT_ONCE = 200


class _Shown(msgspec.Struct):
    """The part of an event that feedback is checked against."""

    ids: list[str]


_SHOWN = msgspec.msgpack.Decoder(_Shown)


async def feedback(service: Service, call: Call) -> FeedbackAnswer:
    """``POST /v1/feedback``: answered when the feedback is on the disk."""
    request: FeedbackRequest = call.decode()
    content = _content(request)
    event = service.store.event(request.event)
    if event is None:
        raise HttpProblem(
            404,
            f"Event {request.event[:80]!r} is not in the log. Send the event of an answer of "
            "/v1/rank; old ones may have been deleted.",
        )
    _check_items(content, _SHOWN.decode(event.body).ids)
    _check_grades(content, service)
    key = f"{request.event}/{content.id}"
    future = service.store.append(
        "feedback", key, encode(content), event=request.event, user=event.user
    )
    appended = await asyncio.wrap_future(future)
    if appended.duplicate:
        _check_same(content, service.store.find(key, "feedback"))
    return FeedbackAnswer(request.event, request.id, appended.seq, appended.duplicate)


def _content(request: FeedbackRequest) -> LoggedFeedback:
    """Feedback as the log keeps it: ids as text, dwell times in one place."""
    dwell = dict(request.dwell or {})
    clicks: list[str] | None = None
    if request.clicks is not None:
        sent = [c if isinstance(c, Click) else Click(item=c) for c in request.clicks]
        dwell |= {str(click.item): click.dwell for click in sent if click.dwell is not None}
        clicks = list(dict.fromkeys(str(click.item) for click in sent))
    pairs = request.preferences
    preferences = None if pairs is None else [(str(a), str(b)) for a, b in pairs]
    if not request.grades and clicks is None and not preferences:
        raise HttpProblem(422, "There is no feedback. Send grades, clicks or preferences.")
    if dwell and not set(dwell) <= set(clicks or ()):
        raise HttpProblem(422, "dwell names an item that is not among the clicks.")
    return LoggedFeedback(str(request.id), request.grades, clicks, dwell or None, preferences)


def _check_items(content: LoggedFeedback, shown: list[str]) -> None:
    known = set(shown)
    named = [*(content.grades or ()), *(content.clicks or ())]
    for better, worse in content.preferences or ():
        if better == worse:
            raise HttpProblem(422, f"Item {better[:80]!r} is preferred to itself.")
        named += [better, worse]
    unknown = next((item for item in named if item not in known), None)
    if unknown is not None:
        raise HttpProblem(422, f"Item {unknown[:80]!r} was not in the list of this event.")


def _check_grades(content: LoggedFeedback, service: Service) -> None:
    """Refuse a grade that the ranker that learns does not know, before it is in the log."""
    plan = service.learner.plan
    if plan is None or plan.labels != "grades":
        return
    for item, grade in (content.grades or {}).items():
        if grade not in plan.grades:
            scale = ", ".join(f"{value:g}" for value in plan.grades)
            raise HttpProblem(
                422,
                f"Item {item[:80]!r} has grade {grade:g}. This service learns grades {scale}: "
                "send one of these.",
            )


def _check_same(content: LoggedFeedback, entry: LogEntry | None) -> None:
    if entry is not None and decode_feedback(entry.body) != content:
        raise HttpProblem(
            409,
            f"The feedback id {content.id[:80]!r} was used for this event with other content. "
            "Use a new id for new feedback.",
        )


async def read(service: Service, call: Call) -> Reply:
    """``GET /v1/log``: JSON lines, TREC qrels or LETOR lines, sent while they are read."""
    options = call.query()
    await asyncio.to_thread(service.store.flush)  # the log holds whatever was answered before
    store, user = service.store, options["user"]
    if options["format"] == "jsonl":
        lines = json_lines(store, options["after"], user)
        if options["limit"] is not None:
            lines = islice(lines, options["limit"])
        return Reply(_in_thread(lines), "application/x-ndjson")
    labels = options["labels"]
    labels = choose_labels(store) if labels == "auto" else labels
    writer = qrels_lines if options["format"] == "qrels" else letor_lines
    return Reply(_in_thread(writer(store, labels, user)), "text/plain; charset=utf-8")


async def delete(service: Service, call: Call) -> Deleted:
    """``DELETE /v1/log?user=ID``: delete all of a user's entries, and learn the rest again."""
    user = call.query()["user"]
    deleted = await asyncio.to_thread(service.store.delete_user, user)
    if deleted:
        service.learner.rebuild()
        if service.judging is not None:
            await asyncio.to_thread(service.judging.forget, user)
    return Deleted(deleted)


async def _in_thread(lines: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Blocks of lines, made in another thread so that other requests are served meanwhile."""
    while block := await asyncio.to_thread(lambda: b"".join(islice(lines, LINES_AT_ONCE))):
        yield block
