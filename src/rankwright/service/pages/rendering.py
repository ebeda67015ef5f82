"""What pages are made of: routes, forms, problems as pages, Markdown, and tables of curves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from rankwright.exceptions import RankwrightError
from rankwright.service.api.problems import PROBLEM, HttpProblem, as_problem, encode_problem
from rankwright.service.api.security import ANYONE, form_fields, session_cookie, wants_page

if TYPE_CHECKING:
    from rankwright.service.app import Service
    from rankwright.service.learning.live import LiveRanker

Handler = Callable[[Request], Awaitable[Response]]
SAFE_LINKS = ("http://", "https://", "mailto:", "#")  # how a link of the guidelines may begin
MOST_ROWS = 8  # of a table of curves


def page_list(service: Service, handlers: Iterable[tuple[str, str, Handler]]) -> list[BaseRoute]:
    """Routes of (method, path, handler); a problem becomes a page that says what it is."""
    return [
        Route(path, _shown(service, handler), methods=[method])
        for method, path, handler in handlers
    ]


def _shown(service: Service, handler: Handler) -> Handler:
    async def run(request: Request) -> Response:
        try:
            return await handler(request)
        except RankwrightError as error:
            return service.problem_page(request.scope, as_problem(error))

    return run


def require_confirmation(form: Mapping[str, str]) -> None:
    """Refuse a form without its checkbox, which a browser can be made to leave out."""
    if form.get("sure") != "yes":
        raise HttpProblem(422, "The change was not confirmed. Check the box and send it again.")


def require(request: Request, scope: str) -> None:
    """Refuse a request whose token may not do this."""
    principal = request.scope["principal"]
    if scope not in principal.scopes:
        raise HttpProblem(403, f"The token {principal.name!r} has no scope {scope!r}.")


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a posted form."""
    return form_fields(await request.body())


async def missing_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = error.status_code == 404
    text = f"There is nothing at {request.url.path[:200]!r}. See /openapi.json."
    detail = text if known else f"{request.method} is not allowed here."
    problem = HttpProblem(error.status_code, detail)
    if wants_page(request.scope):
        service: Service = request.app.state.service
        return service.problem_page(request.scope, problem)
    return Response(encode_problem(problem), error.status_code, error.headers, media_type=PROBLEM)


async def login_page(request: Request) -> Response:
    """Sign in with a token; pages are then open to this browser."""
    service: Service = request.app.state.service
    tokens = service.sessions.tokens
    if request.method == "GET":
        return service.render(request, "login.html", failed=False)
    principal = tokens.find((await read_form(request)).get("token", "").strip())
    if not tokens.principals:
        principal = ANYONE
    if principal is None:
        response = service.render(request, "login.html", failed=True)
        response.status_code = 401
        return response
    secure = request.url.scheme == "https"
    cookie = session_cookie(service.sessions.issue(principal), secure=secure)
    return RedirectResponse("/", 303, {"set-cookie": cookie})


async def logout(request: Request) -> Response:
    """End the session of this browser."""
    await run_in_threadpool(request.app.state.service.end_session, request.scope["session"])
    return RedirectResponse("/login", 303, {"set-cookie": session_cookie("")})


def render_markdown(text: str) -> str:
    """Markdown as HTML. Tags in it are shown as text; links lead to web pages only.

    >>> render_markdown("# How to grade")
    '<h3>How to grade</h3>\\n'
    >>> render_markdown("**4** is *perfect* <script>")
    '<p><strong>4</strong> is <em>perfect</em> &lt;script&gt;</p>\\n'
    """
    from markdown_it import MarkdownIt

    reader = MarkdownIt("js-default", {"html": False, "linkify": False}).disable("image")
    reader.validateLink = lambda url: url.lower().startswith(SAFE_LINKS)  # type: ignore[method-assign]
    tokens = reader.parse(text)
    for token in tokens:  # the pages' content security policy forbids styles of elements
        token.attrs.pop("style", None)
        if token.type.startswith("heading"):  # below the page's own h1 and h2
            token.tag = f"h{min(int(token.tag[1]) + 2, 6)}"
    return str(reader.renderer.render(tokens, reader.options, {}))


def series_table(
    lines: Mapping[str, Sequence[tuple[float, float]]], *, x_title: str, y_title: str, label: str
) -> Markup:
    """A table of lines through the same x: a column for each, at most ``MOST_ROWS`` rows.

    >>> points = [(1, 1.0), (2, 0.5)]
    >>> table = series_table({"a<b": points}, x_title="n", y_title="loss", label="The loss")
    >>> "a&lt;b" in table, table.count("<tr>")
    (True, 3)
    """
    columns = list(lines.values())
    rows = np.linspace(0, len(columns[0]) - 1, MOST_ROWS).round().astype(int).tolist()
    body = "".join(
        f"<tr><th>{columns[0][row][0]:,g}</th>"
        + "".join(f"<td>{column[row][1]:.3g}</td>" for column in columns)
        + "</tr>"
        for row in dict.fromkeys(rows)
    )
    head = "".join(f"<th>{escape(name)}</th>" for name in (x_title, *lines))
    caption = f"<caption>{escape(label)} Values: {escape(y_title)}.</caption>"
    return Markup(
        f'<table class="series">{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def loss_table(live: LiveRanker) -> Markup | None:
    """The rank loss of a ranker that learns, beside that of always answering the median."""
    curve = live.progress.curve
    if len(curve) < 2:
        return None
    last, loss, median = curve[-1]
    return series_table(
        {
            live.plan.ranker: [(float(n), value) for n, value, _ in curve],
            "median so far": [(float(n), value) for n, _, value in curve],
        },
        x_title="examples",
        y_title="average prediction error (grades)",
        label=f"Rank loss of the live ranker after {last} examples: {loss:.3f}; always answering "
        f"the median would give {median:.3f}.",
    )
