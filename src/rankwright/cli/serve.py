"""``rankwright serve``, ``demo`` and ``compile``."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter, validators

from rankwright.cli import _shell as sh
from rankwright.exceptions import ParameterError


@Parameter(name="*", group=Group("What to judge at /judge", sort_key=10))
@dataclass(frozen=True)
class JudgingOptions:
    """What to judge.

    Args:
        images: Let the judging page load images from other sites.
        queue: What to judge: CSV, TSV, JSONL or a TREC run.
        documents: Titles, texts and URLs of the documents, by id: CSV, TSV or JSONL. A model with a
            feature set ranks them by the text of a query alone.
        queries: Texts of the queries: lines with a query id, a tab and the text.
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
    port: sh.Port = 8000,
    tokens: Annotated[str | None, Parameter(name="--token-file")] = None,
    demo: bool = False,
    learn: str | None = None,
    set: sh.Settings = [],
    learn_from: Literal["grades", "clicks"] = "grades",
    grades: str = "0-5",
    snapshot_every: sh.Count = 1000,
    retention_days: float | None = None,
    rate_limit: float | None = None,
    allow_host: list[str] = [],
    trusted_proxies: Annotated[list[str], Parameter(name="--trusted-proxy")] = [],
    workers: sh.Count = 1,
    replica_of: str | None = None,
    ack: Literal["leader", "replica"] = "leader",
    log_format: Literal["text", "json"] = "text",
    otlp_endpoint: str | None = None,
    header_timeout: float = 10.0,
    idle_timeout: float = 5.0,
    max_connections_per_address: sh.Count = 256,
    judging: JudgingOptions = JudgingOptions(),
) -> None:
    """Rank, recommend and fuse over HTTP; collect feedback and learn from it.

    GET /api lists the API, / shows the dashboard, and /judge collects judgments.
    It needs a model, a store with one, --learn, --queue or --demo.

    rankwright serve --demo
    rankwright serve shop.rw --store shop.db --port 8080
    rankwright serve --learn BayesianPRank
    rankwright serve shop.rw --host 0.0.0.0 --token-file tokens.txt

    Args:
        store: The SQLite file that keeps the log, uploaded models and snapshots.
        host: The address to listen on; if other machines can reach it, --token-file is required.
        port: The port to listen on; 0 picks a free one.
        tokens: A file with lines of TOKEN, NAME TOKEN or NAME TOKEN SCOPES; SIGHUP reads it again.
        demo: Serve a demo model and generated texts to judge, where nothing else is given.
        learn: An online ranker that learns from feedback, such as BayesianPRank, PRank, OAPBPM.
        learn_from: Learn from grades, or from clicks as grades 1 (clicked) and 0 (skipped).
        grades: The grades to learn: 0-4, or 0,1,2.
        snapshot_every: The number of feedback entries between two snapshots of the ranker.
        retention_days: Delete entries of the log that are older.
        rate_limit: Requests per second of one token or address.
        allow_host: Another host name of this service, such as that of a proxy; may be repeated.
        trusted_proxies: Address or network of a proxy whose X-Forwarded-* is believed; may repeat.
        workers: Processes that score requests; another one writes the log.
        replica_of: Address of a leader: copy its log, serve reads, and lead after POST /v1/promote.
        ack: Acknowledge writes when they are on this disk, or when a replica has them, too.
        log_format: text, or a line of JSON for each request and each message.
        otlp_endpoint: URL of a collector that takes a span of each request (rankwright[otel]).
        header_timeout: Seconds until the header of a request is complete.
        idle_timeout: Seconds that a connection is kept between two requests.
        max_connections_per_address: Connections of one address; trusted proxies have no limit.
    """
    if set and learn is None:
        raise ParameterError("--set needs --learn: it sets parameters of the ranker that learns.")
    files = (judging.queue, judging.documents, judging.queries, judging.guidelines)
    if judging.queue is None and (judging.queries or judging.guidelines):
        raise ParameterError("--queries and --guidelines belong to a --queue: give it.")
    if judging.queue is None and judging.documents and not models:
        raise ParameterError("--documents belong to a --queue, or to a model with a feature set.")
    from rankwright.selection.by_name import parse_grades, parse_settings, parse_value
    from rankwright.service.server import serve as run
    from rankwright.service.settings import Settings

    sh.check_targets(*models, tokens, *files, store=store)
    settings = Settings(
        models=models,
        demo=demo,
        store=store,
        learn=learn,
        learn_settings=tuple((k, parse_value(v)) for k, v in parse_settings(set).items()),
        learn_from=learn_from,
        grades=parse_grades(grades),
        snapshot_every=snapshot_every,
        token_file=tokens,
        host=host,
        allow_hosts=tuple(allow_host),
        trusted_proxies=tuple(trusted_proxies),
        header_timeout=header_timeout,
        idle_timeout=idle_timeout,
        max_connections_per_address=max_connections_per_address,
        workers=workers,
        replica_of=replica_of,
        ack=ack,
        otlp_endpoint=otlp_endpoint,
        retention_days=retention_days,
        rate_limit=rate_limit,
        **vars(judging),
    )
    if log_format == "json":
        run(settings, port, log_format=log_format)
        return
    run(settings, port, note=sh.note)


def judge(
    queue: Annotated[str, Parameter(help="What to judge: CSV, TSV, JSONL or a TREC run.")],
    *,
    store: str = "judgments.db",
    port: sh.Port = 8000,
    documents: str | None = None,
    queries: str | None = None,
    guidelines: str | None = None,
    judging_grades: Annotated[int, Parameter(validator=validators.Number(gte=2, lte=5))] = 5,
    overlap: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=1))] = 0.3,
    browser: bool = True,
) -> None:
    """Judge documents in a browser on this machine; judgments are kept in a store.

    rankwright judge pairs.csv
    rankwright judge run.trec --documents documents.jsonl --queries queries.tsv

    Args:
        store: The SQLite file that keeps the judgments.
        port: The port to listen on; 0 picks a free one.
        documents: Titles, texts and URLs of the documents, by id: CSV, TSV or JSONL.
        queries: Texts of the queries: lines with a query id, a tab and the text.
        guidelines: What the grades mean, in Markdown.
        judging_grades: The number of grades that judges give.
        overlap: The share of the queue that every judge gets; the rest goes to one judge each.
        browser: Open the page in a browser.
    """
    from rankwright.service.server import serve as run
    from rankwright.service.settings import Settings

    sh.check_targets(queue, documents, queries, guidelines, store=store)
    settings = Settings(
        store=store,
        demo=False,
        queue=queue,
        documents=documents,
        queries=queries,
        guidelines=guidelines,
        judging_grades=judging_grades,
        overlap=overlap,
    )

    def note(text: str) -> None:
        sh.note(text)
        if browser and text.startswith("serving on "):
            import webbrowser

            webbrowser.open(f"{text.split()[2]}/judge")

    run(settings, port, note=note)


def demo(
    *,
    random_state: sh.RandomState = 0,
    report: str = "report.html",
    json: sh.Json = False,
) -> None:
    """Train every family of rankers on generated data, and compare them.

    Prints tables and writes a report page. Needs no network and no files.
    The first run also compiles the kernels, which takes a while.

    rankwright demo
    rankwright demo --random-state 7 --report seven.html

    Args:
        report: Where to write the page.
    """
    from rankwright.report.demonstrations import write_demo

    start = time.perf_counter()
    sh.check_targets(report=report)
    tables = {}
    for part in write_demo(report, random_state, note=sh.note):
        tables[part.title] = part.comparison.to_dict()
        if not json:
            print(f"\n{part.title}\n\n{part.text}\n")
    seconds = round(time.perf_counter() - start, 1)
    following = sh.command("train", "YOUR-DATA.txt", "--report", "training.html")
    text = f"Done in {seconds:.0f} s. The report page: {os.path.abspath(report)}\nnext: {following}"
    sh.answer(json, text, {"tables": tables, "report": report, "seconds": seconds})


def compile(
    *,
    family: list[str] = [],
    processes: sh.MaybeCount = None,
    json: sh.Json = False,
) -> None:
    """Compile the kernels of every ranker, for example in a container image.

    Compiled code is kept in the folder NUMBA_CACHE_DIR, or next to the
    package. Training then loads it instead of compiling for 1 to 7 s.

    rankwright compile
    NUMBA_CACHE_DIR=/opt/kernels rankwright compile --family boosting

    Args:
        family: Only one of boosting, online, gradient, ..., recommend, readers; may be repeated.
        processes: The number of processes that compile; by default one for each core.
    """
    from rankwright.compilation import compile_kernels

    seconds = compile_kernels(family or None, n_processes=processes, note=sh.note)
    text = f"{len(seconds)} families compiled: {sum(seconds.values()):.0f} s of CPU"
    sh.answer(json, text, {name: round(value, 1) for name, value in seconds.items()})
