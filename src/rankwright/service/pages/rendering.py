"""What pages are made of: routes, forms, problems as pages, Markdown, and charts as SVG.

Charts are drawn on the server; their colors come from the style sheet by class.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from html import escape
from http import HTTPStatus
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from rankwright.exceptions import RankwrightError
from rankwright.service.api.problems import PROBLEM, Problem, as_problem, encode_problem
from rankwright.service.api.security import ANYONE, form_fields, session_cookie

if TYPE_CHECKING:
    from rankwright.service.app import Service

Handler = Callable[[Request], Awaitable[Response]]
SAFE_LINKS = ("http://", "https://", "mailto:", "#")  # how a link of the guidelines may begin
WIDTH, HEIGHT = 560, 240
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 12, 50
MOST_POINTS = 280


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
            problem = as_problem(error)
            title = HTTPStatus(problem.status).phrase
            values = {"title": title, "detail": problem.detail}
            response = service.render(request, "problem.html", **values)
            response.status_code = problem.status
            return response

    return run


def require(request: Request, scope: str) -> None:
    """Refuse a request whose token may not do this."""
    principal = request.scope["principal"]
    if scope not in principal.scopes:
        raise Problem(403, f"The token {principal.name!r} has no scope {scope!r}.")


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a posted form."""
    return form_fields(await request.body())


async def missing_page(request: Request, error: Any) -> Response:
    known = error.status_code == 404
    text = f"There is nothing at {request.url.path[:200]!r}. See /openapi.json."
    detail = text if known else f"{request.method} is not allowed here."
    body = encode_problem(Problem(error.status_code, detail))
    return Response(body, error.status_code, error.headers, media_type=PROBLEM)


async def login_page(request: Request) -> Response:
    """Sign in with a token; pages are then open to this browser."""
    service: Service = request.app.state.service
    tokens = service.settings.tokens
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


def line_chart(
    lines: Mapping[str, Sequence[tuple[float, float]]], *, x_title: str, y_title: str, label: str
) -> Markup:
    """Lines through points (x, y), y from 0 up; ``label`` is what a screen reader says.

    The first line is drawn in the accent color, the others dashed. Text is escaped.

    >>> points = [(1, 1.0), (2, 0.5)]
    >>> svg = line_chart({"a<b": points}, x_title="n", y_title="loss", label="The loss")
    >>> "a&lt;b" in svg, svg.count("<polyline")
    (True, 1)
    """
    points = [point for line in lines.values() for point in line] or [(0.0, 0.0)]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    last = max(last, first + 1)
    top = _round_up(max(y for _, y in points))

    def x_of(position: float) -> float:
        return LEFT + (position - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y_of(value: float) -> float:
        return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
    ]
    for value in (top * step / 4 for step in range(5)):
        ends = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(value):.1f}" y2="{y_of(value):.1f}"'
        parts += [
            f'<line class="grid-line" {ends}/>',
            _text(LEFT - 6, y_of(value) + 5, f"{value:g}", "end"),
        ]
    parts += [
        _text(x_of(position), HEIGHT - BOTTOM + 21, f"{position:,}", "middle")
        for position in _ticks(ceil(first), floor(last))
    ]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5, x_title, "middle"))
    for number, line in enumerate(lines.values()):
        pairs = (line[k] for k in _thinned(len(line)))
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in pairs)
        parts.append(f'<polyline class="line line-{number}" points="{path}"/>')
    legend = "".join(
        f'<span class="key key-{number}">{escape(name)}</span>' for number, name in enumerate(lines)
    )
    head = f'<p class="legend"><span class="axis">{escape(y_title)}</span>{legend}</p>'
    return Markup(head + "".join([*parts, "</svg>"]))


def loss_chart(live: Any) -> Markup | None:
    """The rank loss of a ranker that learns, beside that of always answering the median."""
    curve = live.progress.curve
    if len(curve) < 2:
        return None
    last, loss, median = curve[-1]
    return line_chart(
        {
            live.plan.ranker: [(float(n), value) for n, value, _ in curve],
            "median so far": [(float(n), value) for n, _, value in curve],
        },
        x_title="examples",
        y_title="mean error before learning, in grades",
        label=f"Rank loss of the live ranker after {last} examples: {loss:.3f}; always answering "
        f"the median would give {median:.3f}.",
    )


def interval_bar(low: float, middle: float, high: float, label: str) -> Markup:
    """A share from 0 to 1 with its interval, and a mark at one half."""
    x = [10 + 280 * min(max(value, 0.0), 1.0) for value in (low, middle, high)]
    return Markup(
        f'<svg class="interval" viewBox="0 0 300 26" role="img" aria-label="{escape(label)}">'
        '<line class="grid-line" x1="10" x2="290" y1="13" y2="13"/>'
        '<line class="half" x1="150" x2="150" y1="2" y2="24"/>'
        f'<line class="bar" x1="{x[0]:.1f}" x2="{x[2]:.1f}" y1="13" y2="13"/>'
        f'<circle class="dot" cx="{x[1]:.1f}" cy="13" r="5"/></svg>'
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 5 or 8 times a power of ten: quarters of it are short numbers.

    >>> [_round_up(value) for value in (0.37, 1.2, 4.5, 0.0)]
    [0.4, 2.0, 5.0, 1.0]
    """
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(float(f"{step * power:g}") for step in (1, 2, 4, 5, 8, 10) if step * power >= value)


def _ticks(first: int, last: int) -> list[int]:
    """At most six multiples of 1, 2, 5, 10, 20, ... from first to last.

    >>> _ticks(1, 90), _ticks(1, 3)
    ([20, 40, 60, 80], [1, 2, 3])
    """
    least = (last - first) / 5
    step = next(k * 10**e for e in range(20) for k in (1, 2, 5) if k * 10**e >= least)
    return list(range(ceil(first / step) * step, last + 1, step))


def _thinned(n: int) -> list[int]:
    """At most ``MOST_POINTS`` indices, the first and the last included."""
    step = max(1, ceil(n / MOST_POINTS))
    return [*range(0, n - 1, step), n - 1] if n else []
