"""``rankwright serve``: rank over HTTP, collect feedback, learn while serving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter, validators

from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import ParameterError


@Parameter(name="*", group=Group("What to judge at /judge", sort_key=10))
@dataclass(frozen=True)
class JudgingOptions:
    """What to judge.

    Args:
        images: Let the judging page show pictures of other sites.
        queue: What to judge: CSV, TSV, JSONL or a TREC run; by default generated texts.
        documents: Titles, texts and URLs of the documents of the queue: CSV, TSV or JSONL with ids.
        queries: Texts of the queries of the queue: lines of a query id, a tab and the text.
        guidelines: What the grades mean, in Markdown.
        judging_grades: The number of grades that judges give.
        overlap: The share of the queue that every judge gets; the rest goes to one judge each.
    """

    images: bool = False
    queue: str | None = None
    documents: str | None = None
    queries: str | None = None
    guidelines: str | None = None
    judging_grades: Annotated[int, Parameter(validator=validators.Number(gte=2, lte=5))] = 5
    overlap: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=1))] = 0.3


def serve(
    *models: Annotated[str, Parameter(name="MODEL", help="Model files; the first is active.")],
    store: str = "feedback.db",
    host: str = "127.0.0.1",
    port: opt.Port = 8000,
    tokens: Annotated[str | None, Parameter(name="--token-file")] = None,
    learn: str | None = None,
    set: opt.Settings = [],  # noqa: B006
    learn_from: Literal["grades", "clicks"] = "grades",
    grades: str = "0-5",
    snapshot_every: opt.Count = 1000,
    retention_days: float | None = None,
    rate_limit: float | None = None,
    allow_host: list[str] = [],  # noqa: B006
    judging: JudgingOptions = JudgingOptions(),  # noqa: B008
) -> None:
    """Rank, recommend and fuse over HTTP; collect feedback, and learn from it.

    Without a model it starts with the demo model. GET /api lists the API,
    / shows the dashboard, /judge collects judgments.

    rankwright serve
    rankwright serve shop.rw --store shop.db --port 8080
    rankwright serve --learn BayesianPRank
    rankwright serve shop.rw --host 0.0.0.0 --token-file tokens.txt

    Args:
        store: The SQLite file that keeps the log, uploaded models and snapshots.
        host: The address to listen on; one that other machines reach needs --token-file.
        port: The port to listen on; 0 takes a free one.
        tokens: Lines of TOKEN, NAME TOKEN or NAME TOKEN SCOPES.
        learn: An online ranker that learns from feedback, such as BayesianPRank, PRank, OAPBPM.
        learn_from: Learn grades, or clicks as grades 1 (clicked) and 0 (passed over).
        grades: The grades to learn: 0-4, or 0,1,2.
        snapshot_every: Feedback entries between two snapshots of the ranker that learns.
        retention_days: Delete entries of the log that are older.
        rate_limit: Requests a second of one token or address.
        allow_host: Another name of this service, such as that of a proxy; may be repeated.
    """
    if set and learn is None:
        raise ParameterError("--set needs --learn: it sets parameters of the ranker that learns.")
    files = (judging.queue, judging.documents, judging.queries, judging.guidelines)
    if judging.queue is None and any(files):
        raise ParameterError(
            "--documents, --queries and --guidelines belong to a --queue: give it."
        )
    from rankwright.selection.by_name import parse_grades, parse_settings, parse_value
    from rankwright.service.api.security import NO_TOKENS, Tokens
    from rankwright.service.app import Settings
    from rankwright.service.server import serve as run

    console.check_targets(*models, tokens, *files, store=store)
    settings = Settings(
        models=models,
        store=store,
        learn=learn,
        learn_settings=tuple((k, parse_value(v)) for k, v in parse_settings(set).items()),
        learn_from=learn_from,
        grades=parse_grades(grades),
        snapshot_every=snapshot_every,
        tokens=NO_TOKENS if tokens is None else Tokens.read(tokens),
        host=host,
        allow_hosts=tuple(allow_host),
        retention_days=retention_days,
        rate_limit=rate_limit,
        **vars(judging),
    )
    run(settings, port, note=console.note)
