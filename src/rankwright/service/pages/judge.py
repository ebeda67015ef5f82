"""The judging page: sign in as a judge, judge one item after another, take back, export."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from markupsafe import Markup, escape
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from rankwright.exceptions import DataError
from rankwright.service.api.problems import HttpProblem
from rankwright.service.judging.active_learning import LiveModel
from rankwright.service.judging.state import KIND, Judging, date, to_csv, to_letor, to_qrels
from rankwright.service.learning.retraining import file_of
from rankwright.service.log.entries import MODES, Judgment, Mode, encode
from rankwright.service.models import LIVE
from rankwright.service.pages.rendering import (
    loss_table,
    page_list,
    read_form,
    render_markdown,
    require,
    require_confirmation,
    series_table,
)

if TYPE_CHECKING:
    from rankwright.service.app import Service

COOKIE = "rankwright_judge"
MOST_NAME = 60
PAGE = 50  # answers on a page of a judge's own judgments
LEARN_SECONDS = 1.0  # that an answer waits for the ranker to learn it
KEYS = ("0 a", "1 s", "2 d", "3 f", "4 g")
UNITS = {"grades": "grades", "pairs": "steps of left, tie, right", "magnitudes": "points"}
EXPORTS = {
    "qrels": (to_qrels, "judgments.qrels", "text/plain"),
    "letor": (to_letor, "judgments.txt", "text/plain"),
    "csv": (to_csv, "judgments.csv", "text/csv"),
}


async def no_queue(request: Request) -> Response:
    """The page in the place of a queue."""
    raise HttpProblem(404, "There is nothing to judge. Start the service with --queue FILE.")


class JudgePages:
    """Handlers of ``/judge``; every answer goes to the log before it counts."""

    def __init__(self, service: Service, judging: Judging) -> None:
        self.service, self.judging = service, judging
        self.guidelines = Markup(render_markdown(judging.queue.guidelines))

    def routes(self) -> list[BaseRoute]:
        handlers = [
            ("POST", "/judge", self.start),
            ("GET", "/judge", self.page),
            ("POST", "/judge/answer", self.answer),
            ("POST", "/judge/undo", self.undo),
            ("POST", "/judge/model", self.serve_model),
            ("GET", "/judge/mine", self.mine),
            ("GET", "/judge/lead", self.lead),
            ("GET", "/judge/export/{kind}", self.export),
        ]
        return page_list(self.service, handlers)

    async def start(self, request: Request) -> Response:
        """Take the judge's name and mode, then show the first item."""
        require(request, "judge")
        form = await read_form(request)
        name = self._principal_name(request) or _clean_name(form.get("name", ""))
        if not name:
            return self._start_page(request, "Write a name: letters, digits, blanks, - . _ @", 422)
        response = RedirectResponse(f"/judge?mode={_mode(form)}", 303)
        flags = "Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000"
        response.headers.append("set-cookie", f"{COOKIE}={quote(name)}; {flags}")
        return response

    async def page(self, request: Request) -> Response:
        """The item to judge, or the form that asks for a name and a mode."""
        require(request, "judge")
        if self._judge(request) is None or "mode" not in request.query_params:
            return self._start_page(request)
        mode, key = _mode(request.query_params), request.query_params.get("again", "")
        return await self._work(request, mode, "judge.html", key)

    async def mine(self, request: Request) -> Response:
        """What the judge has answered, the newest first, with a way to change it."""
        require(request, "judge")
        judge, mode = self._named(request), _mode(request.query_params)
        try:
            page = max(int(request.query_params.get("page", "1")), 1)
        except ValueError as error:
            raise HttpProblem(
                422, "The page is not a number. Use the links of the page."
            ) from error
        facts = await run_in_threadpool(self._own_answers, judge, mode, page)
        return self.service.render(request, "judge_mine.html", **facts)

    def _own_answers(self, judge: str, mode: Mode, page: int) -> dict[str, Any]:
        judging = self.judging
        with judging.lock:
            records = judging.answered(judge, mode)
            rows = [
                {
                    "key": record.key,
                    "date": date(record.time)[:16].replace("T", " "),
                    "query": judging.queue.query_texts[record.judgment.query],
                    "titles": [
                        judging.title(record.judgment, id) for id in record.judgment.documents
                    ],
                    "answer": self._said(record.judgment).rstrip("."),
                    "note": record.judgment.note,
                }
                for record in records[PAGE * (page - 1) : PAGE * page]
            ]
        last = max(-(-len(records) // PAGE), 1)
        return {
            "judge": judge, "mode": mode, "modes": MODES, "rows": rows, "n": len(records),
            "number": page, "last": last,
        }  # fmt: skip

    async def answer(self, request: Request) -> Response:
        """Log a judgment and show the next item."""
        require(request, "judge")
        form = await read_form(request)
        mode = _mode(form)
        documents = [form[name] for name in ("document", "other") if form.get(name)]
        action: Any = form.get("action", "judge")
        if action not in ("judge", "skip", "later", "cannot"):
            raise HttpProblem(
                422, f"The action {action[:40]!r} is unknown. Use the buttons of the page."
            )
        try:
            value = float(form["value"]) if action == "judge" else None
            judgment = self.judging.answer(
                mode, form.get("query", ""), documents, value, action=action,
                note=form.get("note", ""),
            )  # fmt: skip
        except (KeyError, ValueError) as error:
            raise HttpProblem(422, _reason(error)) from error
        said = self._said(judgment)
        return await self._logged(request, form, judgment, said)

    async def undo(self, request: Request) -> Response:
        """Log that the judge's last answer is taken back, and show its item again."""
        require(request, "judge")
        form = await read_form(request)
        try:
            judgment = self.judging.undo(self._named(request), _mode(form))
        except DataError as error:
            raise HttpProblem(409, str(error)) from error
        return await self._logged(request, form, judgment, "The last judgment was taken back.")

    async def lead(self, request: Request) -> Response:
        """Agreement, differences and progress of all judges, which judges do not see."""
        require(request, "admin")
        mode = _mode(request.query_params)
        facts = await run_in_threadpool(self._lead_facts, mode)
        return self.service.render(request, "judge_lead.html", **facts)

    def _lead_facts(self, mode: Mode) -> dict[str, Any]:
        judging = self.judging
        with judging.lock:
            found = judging.agreement(mode)
            return {
                "mode": mode,
                "modes": MODES,
                "agreement": found,
                "verdict": verdict(found.value),
                "judge_pairs": judging.judge_pairs(mode)[:20],
                "disputed": self._disputed(mode),
                "judges": [(name, judging.progress(name, mode)) for name in judging.judges],
            }

    async def serve_model(self, request: Request) -> Response:
        """Let the model that learned from the judgments rank, from now on."""
        require(request, "admin")
        form = await read_form(request)
        mode = _mode(form)
        require_confirmation(form)
        await run_in_threadpool(self._activate, mode)
        return RedirectResponse("/", 303)

    def _live(self, mode: Mode) -> Any:
        """The ranker that learns while serving, where it learns these judgments; else None."""
        queue, learner = self.judging.queue, self.service.learner
        learns = mode == "grades" and learner.learns(queue.feature_names, range(queue.n_grades))
        return learner.live if learns else None

    def _activate(self, mode: Mode) -> None:
        live = self._live(mode)
        if live is not None and live.started:
            self.service.models.activate(LIVE)
            return
        with self.judging.lock:
            model = self.judging.model(mode)
            if not model.n_seen:
                raise HttpProblem(
                    409, "The model has not learned anything yet. Judge something first."
                )
            measures = {"RankLoss": float(model.curve()[-1]), "judgments": float(model.n_seen)}
            content = file_of(model.pipeline())
        info = self.service.models.upload(content, f"judged-{mode}", "trained", **measures)
        self.service.models.activate(info.version)

    async def export(self, request: Request) -> Response:
        """Judgments as a file; nothing to export is 404."""
        require(request, "judge")
        kind = request.path_params["kind"]
        if kind not in EXPORTS:
            raise HttpProblem(404, f"{kind[:40]!r} is not a format. Formats: {', '.join(EXPORTS)}.")
        write, name, media_type = EXPORTS[kind]
        if kind == "letor" and request.query_params.get("mode") == "magnitudes":
            write = lambda judging: to_letor(judging, "magnitudes")  # noqa: E731
        try:
            text = await run_in_threadpool(write, self.judging)
        except DataError as error:
            raise HttpProblem(404, str(error)) from error
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(text, headers=headers, media_type=f"{media_type}; charset=utf-8")

    async def _logged(
        self, request: Request, form: dict[str, str], judgment: Judgment, said: str
    ) -> Response:
        judge = self._named(request)
        key = form.get("key", "")
        if not re.fullmatch(r"[\w-]{8,64}", key):
            raise HttpProblem(422, "The form has no key. Reload the page and try again.")
        key = f"{KIND}/{judge}/{key}"
        entry = self.service.store.append(KIND, key, encode(judgment), user=judge)
        appended = await run_in_threadpool(entry.result)
        await run_in_threadpool(self.judging.follow, self.service.store)
        mode = judgment.mode
        if self._live(mode) is not None:
            await run_in_threadpool(self.service.learner.wait_for, appended.seq, LEARN_SECONDS)
        if "hx-request" not in request.headers:
            return RedirectResponse(f"/judge?mode={mode}", 303)
        return await self._work(request, mode, "_work.html", said=said)

    async def _work(
        self, request: Request, mode: Mode, template: str, again: str = "", **values: Any
    ) -> Response:
        may_serve = "admin" in request.scope["principal"].scopes
        values |= await run_in_threadpool(self._facts, self._named(request), mode, may_serve, again)
        return self.service.render(request, template, **values)

    def _facts(self, judge: str, mode: Mode, may_serve: bool, again: str) -> dict[str, Any]:
        """Everything that the working page shows; ``again`` is the key of an answer to change."""
        judging = self.judging
        with judging.lock:
            model, live = judging.model(mode), self._live(mode)
            task, given = judging.again(judge, mode, again) or (judging.next(judge, mode), None)
            return {
                "judge": judge,
                "mode": mode,
                "modes": MODES,
                "queue": judging.queue,
                "task": task,
                "given": given,
                "form_key": secrets.token_urlsafe(12),
                "grades": list(zip(judging.queue.grade_names, KEYS, strict=False)),
                "progress": judging.progress(judge, mode),
                "has_undo": judging.last(judge, mode) is not None,
                "model": model,
                "live": live,
                "chart": _learning_curve(model, mode) if live is None else loss_table(live),
                "guidelines": self.guidelines,
                "images": self.service.settings.images,
                "may_serve": may_serve,
                "highlighted": highlighted,
            }

    def _disputed(self, mode: Mode) -> list[dict[str, Any]]:
        documents = self.judging.queue.documents
        return [
            {
                "titles": [documents[row].title or documents[row].id for row in entry.item],
                "grades": entry.grades,
            }
            for entry in self.judging.disputed(mode)
        ]

    def _said(self, judgment: Judgment) -> str:
        """What a screen reader hears after an answer."""
        if judgment.value is None:
            words = {
                "skip": "Skipped.",
                "later": "Saved for later.",
                "cannot": "Marked: cannot judge.",
            }
            return words[judgment.action]
        if judgment.mode == "grades":
            return (
                f"Graded {judgment.value:g}: {self.judging.queue.grade_names[int(judgment.value)]}."
            )
        if judgment.mode == "pairs":
            return {1: "First preferred.", -1: "Second preferred.", 0: "A tie."}[
                int(judgment.value)
            ]
        return f"Magnitude {judgment.value:g}."

    def _start_page(self, request: Request, fault: str = "", status: int = 200) -> Response:
        response = self.service.render(
            request, "judge_start.html", fault=fault, modes=MODES, queue=self.judging.queue,
            name=self._judge(request) or "", fixed=self._principal_name(request),
            guidelines=self.guidelines,
        )  # fmt: skip
        response.status_code = status
        return response

    def _principal_name(self, request: Request) -> str:
        """The judge that the token names; empty if the service has no tokens."""
        has_tokens = bool(self.service.sessions.tokens.principals)
        return request.scope["principal"].name if has_tokens else ""

    def _judge(self, request: Request) -> str | None:
        name = self._principal_name(request) or unquote(request.cookies.get(COOKIE, ""))
        return _clean_name(name) or None

    def _named(self, request: Request) -> str:
        judge = self._judge(request)
        if judge is None:
            raise HttpProblem(409, "Who judges is not known. Open /judge and write your name.")
        return judge


def _learning_curve(model: LiveModel, mode: Mode) -> Any:
    """The mean rank loss while the model learned, beside that of always answering the median."""
    if model.n_seen < 2:
        return None
    curve, baseline = model.curve(), model.baseline()
    return series_table(
        {
            "model": list(enumerate(curve.tolist(), 1)),
            "median so far": list(enumerate(baseline.tolist(), 1)),
        },
        x_title="judgments",
        y_title=f"average prediction error ({UNITS[mode]})",
        label=f"Learning curve: after {model.n_seen} judgments the mean error is {curve[-1]:.2f}; "
        f"always answering the median would give {baseline[-1]:.2f}.",
    )


def verdict(agreement: float) -> str:
    """An agreement in a word; empty if it is not known.

    >>> [verdict(value) for value in (0.1, 0.5, 0.7, 0.9, float("nan"))]
    ['weak', 'fair', 'good', 'very good', '']
    """
    steps = ((0.4, "weak"), (0.667, "fair"), (0.8, "good"), (1.1, "very good"))
    return next((word for limit, word in steps if agreement < limit), "")


def highlighted(text: str, query: str) -> Markup:
    """A text with the words of a query marked.

    >>> highlighted("Salt & sweat", "sweat salts")
    Markup('Salt &amp; <mark>sweat</mark>')
    """
    words = sorted(set(re.findall(r"\w{3,}", query)), key=len, reverse=True)
    if not words:
        return escape(text)
    parts = re.split(rf"\b({'|'.join(map(re.escape, words))})\b", text, flags=re.IGNORECASE)
    marked = (
        Markup("<mark>{}</mark>").format(p) if k % 2 else escape(p) for k, p in enumerate(parts)
    )
    return Markup("").join(marked)


def _mode(form: Mapping[str, str]) -> Mode:
    mode = form.get("mode", "grades")
    if mode not in MODES:
        raise HttpProblem(
            422, f"The mode {str(mode)[:40]!r} is unknown. Modes: {', '.join(MODES)}."
        )
    return mode


def _clean_name(name: str) -> str:
    """The name without outer blanks; empty if it has anything but letters, digits, blanks, -._@."""
    name = " ".join(name.split())
    return name if re.fullmatch(rf"[\w .@()-]{{1,{MOST_NAME}}}", name) else ""


def _reason(error: Exception) -> str:
    if isinstance(error, DataError):
        return str(error)
    return "The form has no value, or one that is not a number. Use the buttons of the page."
