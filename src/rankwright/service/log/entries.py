"""What the log holds: events (what was shown), feedback and judgments, encoded and described."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
import numpy as np

from rankwright._typing import FloatArray
from rankwright.exceptions import DataError

if TYPE_CHECKING:
    from rankwright.service.log.reader import LogEntry

CHECK = "Run: rankwright check-store STORE"


class DamagedStore(DataError):
    """The log of a service, or an entry of it, cannot be read."""

    def __init__(self, *message: str, file: str | None = None, fix: str = CHECK) -> None:
        super().__init__(*message, kind="damaged", file=file, fix=fix)


Form = Literal["f8", "f4", "i4", "i3"]  # float64, float32, millionths of 32 or 24 bits
Mode = Literal["grades", "pairs", "magnitudes"]  # how judges judge
MODES: tuple[Mode, ...] = ("grades", "pairs", "magnitudes")
Action = Literal["judge", "skip", "later", "cannot", "undo"]
MILLION = 1e6
T = TypeVar("T")
LEAST_LONG = 2**23  # millionths that need more than 24 bits


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """A list that was shown: items best first, with the features that they were scored by.

    Arrays are raw and little-endian, so that a replay sees the same bits. Scores are float64;
    features are what ``form`` says, see :func:`pack_rows`.
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
    form: Form = "f8"  # of the features

    def rows(self) -> FloatArray:
        """(n_items, n_features) features, in the order of ``ids``; no column if none were sent."""
        values = unpack(self.features, self.form)
        return values.reshape(len(self.ids), -1) if self.ids else values.reshape(0, 0)


class LoggedFeedback(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a user said about a list; ``id`` is the client's own."""

    id: str
    grades: dict[str, float] | None = None
    clicks: list[str] | None = None
    dwell: dict[str, float] | None = None
    preferences: list[tuple[str, str]] | None = None


class Judgment(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a judge said about one document of a query, or about two.

    ``value`` is a grade, a magnitude (0 to 100), or for two documents 1 if the first is better, -1
    if the second is, and 0 for a tie. ``features`` are those of the documents, so that the log is
    enough to learn from.
    """

    action: Action
    mode: Mode
    query: str = ""
    documents: tuple[str, ...] = ()
    value: float | None = None
    note: str = ""
    of: str = ""  # the key of the entry that is taken back
    features: list[list[float]] = []
    names: list[str] | None = None  # of the features

    def as_feedback(self) -> tuple[LoggedFeedback, Event]:
        """A grade as feedback on a list of one document."""
        assert self.value is not None
        rows = np.array(self.features, dtype=np.float64).tobytes()
        shown = Event(self.query, "", list(self.documents), b"", rows, self.names)
        return LoggedFeedback("", grades={self.documents[0]: self.value}), shown


def pack_rows(rows: FloatArray) -> tuple[bytes, Form]:
    """A table in half the bytes of float64 where that keeps every bit, and in what form it is.

    Most features are float32 numbers, or decimals with up to six places, which are stored as
    whole millionths: k / 1e6 is the float64 nearest to that decimal, and so is what was sent. If
    none is above 8.38, three bytes are enough for each.

    >>> [pack_rows(np.array([row]))[1] for row in ([0.1, -1.2], [99.5], [2.0**-9], [1 / 3])]
    ['i3', 'i4', 'f4', 'f8']
    """
    millionths = _packed(rows, "i4")
    if millionths is not None:
        if millionths.size and -LEAST_LONG < millionths.min() <= millionths.max() < LEAST_LONG:
            low = np.ndarray(millionths.size, "V3", millionths, strides=4)  # the three low bytes
            return low.tobytes(), "i3"
        return millionths.tobytes(), "i4"
    # Most tables fit or fail by their first row.
    if _packed(rows[:1], "f4") is not None and (single := _packed(rows, "f4")) is not None:
        return single.tobytes(), "f4"
    return rows.tobytes(), "f8"


def unpack(packed: bytes, form: Form) -> FloatArray:
    """The float64 values of :func:`pack_rows`."""
    if form == "i3":
        parts = np.frombuffer(packed, np.uint8).reshape(-1, 3)
        whole = np.zeros((len(parts), 4), np.uint8)
        whole[:, 1:] = parts  # the highest byte has the sign
        return (whole.view("<i4")[:, 0] >> 8) / MILLION
    values = np.frombuffer(packed, f"<{form}")
    return values / MILLION if form == "i4" else values.astype(np.float64, copy=False)


def _packed(rows: FloatArray, form: Form) -> Any:
    """The table in a form, None if some value has other bits then."""
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.rint(rows * MILLION) if form == "i4" else rows
        packed = scaled.astype(f"<{form}")
        again = packed / MILLION if form == "i4" else packed.astype(np.float64)
    return packed if again.tobytes() == rows.tobytes() else None


_ENCODER = msgspec.msgpack.Encoder()
_EVENT = msgspec.msgpack.Decoder(Event)
_FEEDBACK = msgspec.msgpack.Decoder(LoggedFeedback)
_JUDGMENT = msgspec.msgpack.Decoder(Judgment)


def encode(body: object) -> bytes:
    """The body of an entry as bytes."""
    return _ENCODER.encode(body)


def decode_event(body: bytes) -> Event:
    return _decoded(_EVENT, body)


def decode_feedback(body: bytes) -> LoggedFeedback:
    return _decoded(_FEEDBACK, body)


def decode_judgment(body: bytes) -> Judgment:
    return _decoded(_JUDGMENT, body)


def _decoded(decoder: msgspec.msgpack.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedStore(f"an entry of the log cannot be read ({error}).") from None


def describe(entry: LogEntry) -> dict[str, Any]:
    """An entry as a plain object, as ``GET /v1/log`` prints it; NaN becomes None.

    Of an entry that is damaged, ``kind`` is "damaged" and ``fault`` says why.
    """
    common: dict[str, Any] = {"kind": entry.kind, "seq": entry.seq, "time": entry.time}
    try:
        if entry.kind == "event":
            return {**common, "event": entry.event, **_describe_event(entry)}
        if entry.kind == "feedback":
            feedback = msgspec.to_builtins(decode_feedback(entry.body))
            return {**common, "event": entry.event, **feedback}
        body = msgspec.msgpack.decode(entry.body, type=dict[str, Any])
        return {**common, "key": entry.key, "user": entry.user, **body}
    except ValueError as error:  # of msgspec, of NumPy, or DamagedStore
        return {**common, "kind": "damaged", "key": entry.key, "fault": str(error)}


def _describe_event(entry: LogEntry) -> dict[str, Any]:
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
