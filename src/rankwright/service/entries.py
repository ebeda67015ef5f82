"""What the log holds: events (what was shown), feedback and judgments, encoded and described."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from rankwright._typing import FloatArray

if TYPE_CHECKING:
    from rankwright.service.store import Entry


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """A list that was shown: items best first, with the features that they were scored by.

    Arrays are raw little-endian float64, so that a replay sees the same bits.
    """

    query: str | None
    model: str
    ids: list[str]
    scores: bytes
    features: bytes = b""
    names: list[str] | None = None  # of the features, where the model knows them
    shadow: dict[str, bytes] = {}  # model -> scores of the same items, not shown
    experiment: str | None = None
    interleaved: dict[str, Any] = {}  # of an experiment: what credits its clicks

    def rows(self) -> FloatArray:
        """(n_items, n_features) features, in the order of ``ids``; no column if none were sent."""
        values = np.frombuffer(self.features, "<f8")
        return values.reshape(len(self.ids), -1) if self.ids else values.reshape(0, 0)


class Feedback(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a user said about a list; ``id`` is the client's own."""

    id: str
    grades: dict[str, float] | None = None
    clicks: list[str] | None = None
    dwell: dict[str, float] | None = None
    preferences: list[tuple[str, str]] | None = None


_ENCODER = msgspec.msgpack.Encoder()
_EVENT = msgspec.msgpack.Decoder(Event)
_FEEDBACK = msgspec.msgpack.Decoder(Feedback)


def encode(body: Any) -> bytes:
    """The body of an entry as bytes."""
    return _ENCODER.encode(body)


def decode_event(body: bytes) -> Event:
    return _EVENT.decode(body)


def decode_feedback(body: bytes) -> Feedback:
    return _FEEDBACK.decode(body)


def describe(entry: Entry) -> dict[str, Any]:
    """An entry as a plain object, as ``GET /v1/log`` prints it; NaN becomes None."""
    common: dict[str, Any] = {"kind": entry.kind, "seq": entry.seq, "time": entry.time}
    if entry.kind == "event":
        return {**common, "event": entry.event, **_describe_event(entry)}
    if entry.kind == "feedback":
        feedback = msgspec.to_builtins(decode_feedback(entry.body))
        return {**common, "event": entry.event, **feedback}
    return {**common, "key": entry.key, "user": entry.user, **msgspec.msgpack.decode(entry.body)}


def _describe_event(entry: Entry) -> dict[str, Any]:
    event = decode_event(entry.body)
    scores = np.frombuffer(event.scores, "<f8").tolist()
    items: list[dict[str, Any]] = [
        {"id": id, "rank": rank, "score": score}
        for rank, (id, score) in enumerate(zip(event.ids, scores, strict=True), 1)
    ]
    if event.features:
        names = event.names
        for item, row in zip(items, event.rows().tolist(), strict=True):
            values = [None if math.isnan(value) else value for value in row]
            item["features"] = values if names is None else dict(zip(names, values, strict=True))
    about: dict[str, Any] = {"query": event.query, "user": entry.user, "model": event.model}
    if event.experiment is not None:
        about |= {"experiment": event.experiment, "interleaved": event.interleaved}
    if event.shadow:
        about["shadow"] = {k: np.frombuffer(v, "<f8").tolist() for k, v in event.shadow.items()}
    return {**about, "items": items}
