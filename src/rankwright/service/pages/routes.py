"""The pages of a service and their routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import BaseRoute

from rankwright.service.judging.demo import demo_judgments, demo_queue
from rankwright.service.judging.queue import read_queue
from rankwright.service.judging.state import Judging
from rankwright.service.pages.dashboard import Dashboard
from rankwright.service.pages.judge import JudgePages

if TYPE_CHECKING:
    from rankwright.service.app import Service


def page_routes(service: Service) -> list[BaseRoute]:
    """The dashboard and the judging page."""
    judging = open_judging(service)
    return [*Dashboard(service, judging).routes(), *JudgePages(service, judging).routes()]


def open_judging(service: Service) -> Judging:
    """The queue of the settings, or that of the demo, with the judgments of the log."""
    settings = service.settings
    if settings.queue is None:
        queue = demo_queue()
        judging = Judging(queue, overlap=1.0)
        for key, judge, judgment in demo_judgments(queue):  # constants: they are not in the log
            judging.apply(key, judge, judgment)
    else:
        queue = read_queue(
            settings.queue,
            documents=settings.documents,
            queries=settings.queries,
            guidelines=settings.guidelines,
            n_grades=settings.judging_grades,
        )
        judging = Judging(queue, overlap=settings.overlap)
    judging.follow(service.store)
    service.on_delete.append(judging.forget)
    return judging
