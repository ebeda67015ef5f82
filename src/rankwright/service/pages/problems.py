"""Routes of pages, whose problems are pages as well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rankwright.exceptions import RankwrightError
from rankwright.service.protocol.problems import as_problem

if TYPE_CHECKING:
    from rankwright.service.app import Service

Handler = Callable[[Request], Awaitable[Response]]


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
