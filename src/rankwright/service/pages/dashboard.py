"""The dashboard: models, traffic, rank loss, experiments, latest entries, two models compared."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from rankwright.exceptions import RankwrightError
from rankwright.service.api.candidates import candidates, score
from rankwright.service.api.types import Drift, RankRequest
from rankwright.service.drift import drift_of
from rankwright.service.judging.state import Judging
from rankwright.service.log.entries import MODES, Event, decode_event, describe
from rankwright.service.pages.rendering import (
    loss_table,
    page_list,
    read_form,
    require,
    require_confirmation,
    series_table,
)

if TYPE_CHECKING:
    from rankwright.service.app import Service

MINUTES = 10  # of traffic in one row of its table, which has six
MOST_ENTRIES = 20_000  # latest entries of the log that are looked at
MOST_LATEST = 12
MOST_DRIFT = 200  # lists whose columns are compared with those of training
MOST_COMPARED = 20  # items of a list
MOST_QUERIES = 30  # latest lists that can be compared


class RankedRow(NamedTuple):
    """An item of a list, and how many ranks it is above (+) or below (-) its rank in the other."""

    rank: int
    id: str
    score: float
    move: int


class Dashboard:
    """Handlers of ``/`` and of its button to roll back."""

    def __init__(self, service: Service, judging: Judging | None) -> None:
        self.service, self.judging = service, judging

    def routes(self) -> list[BaseRoute]:
        handlers = [("GET", "/", self.page), ("POST", "/models/rollback", self.roll_back)]
        return page_list(self.service, handlers)

    async def roll_back(self, request: Request) -> Response:
        """Undo the last activation."""
        require(request, "admin")
        require_confirmation(await read_form(request))
        await run_in_threadpool(self.service.models.roll_back)
        return RedirectResponse("/", 303)

    async def page(self, request: Request) -> Response:
        scopes = request.scope["principal"].scopes
        if "judge" in scopes and "admin" not in scopes:
            return RedirectResponse("/judge", 303)
        require(request, "admin")
        chosen = {name: request.query_params.get(name, "") for name in ("event", "a", "b")}
        values = await run_in_threadpool(self._facts, chosen)
        address = f"{request.url.scheme}://{request.url.netloc}"
        return self.service.render(request, "dashboard.html", address=address, **values)

    def _facts(self, chosen: dict[str, str]) -> dict[str, Any]:
        service = self.service
        last = service.store.select("SELECT max(seq) FROM log")[0][0] or 0
        live = service.learner.live
        events = list(self._latest_lists(last))
        return {
            "note": service.models.note,
            "faults": service.faults(),
            "models": service.models.infos(),
            "modes": MODES,
            "has_previous": service.models.has_previous(),
            "active": service.models.active_versions(),
            "n_entries": last,
            "requests": self._requests(),
            "behind": service.learner.behind,
            "live": None if live is None else live.progress,
            "rank_loss": None if live is None or not live.started else live.rank_loss,
            "traffic": self._traffic(last),
            "drift": self._drift(),
            "loss": None if live is None else loss_table(live),
            "experiments": service.experiments.infos(),
            "latest": self._latest(last),
            "n_judgments": None if self.judging is None else len(self.judging.records),
            "agreement": None if self.judging is None else self.judging.agreement("grades"),
            "lists": events,
            "comparison": self._comparison(events, chosen),
            "example": self._example(),
            "ranking_models": [m for m in service.models.infos() if m.task == "rank"],
        }

    def _example(self) -> str:
        """Two items that the active ranker can rank, as JSON."""
        key = self.service.models.active_versions().get("rank")
        size = None if key is None else self.service.models.find(key, "rank").n_features
        rows = [[int(i == j) for j in range(size or 2)] for i in range(2)]
        return json.dumps([{"id": "ab"[i], "features": row} for i, row in enumerate(rows)])

    def _requests(self) -> dict[str, Any]:
        """Requests since the start, and the times within which half and 99 % were answered."""
        counts, buckets = self.service.metrics.answered("/v1/rank")
        return {"n": counts, "p50": _quantile(buckets, 0.5), "p99": _quantile(buckets, 0.99)}

    def _traffic(self, last: int) -> Any:
        """Lists and feedback in each ten minutes of the last hour."""
        now = time.time()
        rows = self.service.store.select(
            "SELECT CAST((? - time) / ? AS INTEGER) AS part, kind, count(*) FROM log "
            "WHERE seq > ? AND time > ? GROUP BY part, kind",
            (now, 60 * MINUTES, last - MOST_ENTRIES, now - 6 * 60 * MINUTES),
        )
        if not rows:
            return None
        counts = {(part, kind): n for part, kind, n in rows}
        kinds = {"lists": "event", "feedback": "feedback"}
        if any(kind == "judgment" for _, kind in counts):
            kinds["judgments"] = "judgment"
        lines = {
            name: [(MINUTES * (k + 1), float(counts.get((k, kind), 0))) for k in range(6)]
            for name, kind in kinds.items()
        }
        total = sum(counts.values())
        return series_table(
            lines, x_title="minutes ago", y_title=f"entries in {MINUTES} minutes",
            label=f"Traffic of the last hour: {total} entries in the log.",
        )  # fmt: skip

    def _drift(self) -> Drift | None:
        """The columns of the active ranker now and in training."""
        key = self.service.models.active_versions().get("rank")
        if key is None:
            return None
        model = self.service.models.find(key, "rank")
        return drift_of(model, self.service.store, MOST_DRIFT, 5 * MOST_DRIFT)

    def _latest(self, last: int) -> list[dict[str, Any]]:
        """The latest entries of the log, the newest first."""
        kinds = ("event", "feedback", "judgment")
        entries = list(self.service.store.entries(kinds, after=last - 3 * MOST_LATEST))
        return [_shown(describe(entry)) for entry in reversed(entries[-MOST_LATEST:])]

    def _latest_lists(self, last: int) -> Iterator[tuple[str, Event]]:
        """Lists with features, the newest first."""
        entries = list(self.service.store.entries(("event",), after=last - 10 * MOST_QUERIES))
        for entry in reversed(entries[-MOST_QUERIES:]):
            event = decode_event(entry.body)
            if event.features:
                yield str(entry.event), event

    def _comparison(
        self, lists: list[tuple[str, Event]], chosen: dict[str, str]
    ) -> dict[str, Any] | None:
        """The same candidates as two models rank them: by default the active one and another."""
        if not lists:
            return None
        event_id, event = next((pair for pair in lists if pair[0] == chosen["event"]), lists[0])
        n_features = event.rows().shape[1]
        models = [info for info in self.service.models.infos() if info.task == "rank"]
        active = self.service.models.active_versions().get("rank", models[0].version)
        others = (m.version for m in models if m.version != active and m.n_features == n_features)
        names = [chosen["a"] or active, chosen["b"] or next(others, active)]
        shown = {"event": event_id, "models": names}
        try:
            ranks = [self._ranks(event, name) for name in names]
        except RankwrightError as error:
            return {**shown, "fault": str(error)}
        return {**shown, "tables": [_table(*ranks), _table(*reversed(ranks))]}

    def _ranks(self, event: Event, name: str) -> dict[str, float]:
        """Items of a list with their scores by a model, best first."""
        served = self.service.models.find(name, "rank")
        rows = event.rows()
        if event.names is None or served.features is None:
            request = RankRequest(ids=list(event.ids), float64=rows.tobytes())
        else:
            columns = dict(zip(event.names, rows.T.tolist(), strict=True))
            request = RankRequest(ids=list(event.ids), columns=columns)
        known = event.names or ()
        table = candidates(request, served, known, self.service.settings.max_items)
        scores = score(table, served)
        return {table.keys[i]: float(scores[i]) for i in np.argsort(-scores, kind="stable")}


def _table(own: dict[str, float], other: dict[str, float]) -> list[RankedRow]:
    """A list with the moves from the other one."""
    other_rank = {id: rank for rank, id in enumerate(other, 1)}
    return [
        RankedRow(rank, id, value, other_rank[id] - rank)
        for rank, (id, value) in enumerate(own.items(), 1)
        if rank <= MOST_COMPARED
    ]


def _quantile(buckets: dict[float, float], share: float) -> str:
    """The upper end of the bucket that a quantile is in, in milliseconds."""
    total = max(buckets.values(), default=0.0)
    if not total:
        return "–"
    limit = next(le for le, count in sorted(buckets.items()) if count >= share * total)
    return f"< {1000 * limit:g} ms" if np.isfinite(limit) else "> 10 s"


def _shown(line: dict[str, Any]) -> dict[str, Any]:
    """An entry of the log in a few words."""
    when = datetime.fromtimestamp(line["time"], UTC).strftime("%H:%M:%S")
    if line["kind"] == "event":
        best = ", ".join(item["id"] for item in line["items"][:3])
        more = ", …" if len(line["items"]) > 3 else ""
        about = f"{line['query'] or 'a list'}: {best}{more} ({line['model']})"
    elif line["kind"] == "feedback":
        sizes = {name: len(line[name]) for name in _FEEDBACK if line.get(name) is not None}
        given = [f"{n} {name if n != 1 else name[:-1]}" for name, n in sizes.items()]
        about = f"{', '.join(given) or 'nothing'} for {line['event']}"
    else:
        value = "" if line.get("value") is None else f" {line['value']:g}"
        documents = " / ".join(line.get("documents", []))
        about = f"{line['user']}: {line['action']}{value} {line.get('query', '')} {documents}"
    return {"time": when, "kind": line["kind"], "about": about}


_FEEDBACK = ("grades", "clicks", "preferences")
