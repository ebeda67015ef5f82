"""``rankwright train --cluster`` and ``--memory``: files that workers read."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, NamedTuple

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli._options import TableOptions
from rankwright.cli._training import make_ranker
from rankwright.exceptions import ParameterError

AUTO = "LambdaMART"  # what auto is where several rankers would each need a pass over all files


class Engine(NamedTuple):
    """Where to train."""

    cluster: str | None
    memory: str | None

    @property
    def options(self) -> str:
        given = {"--cluster": self.cluster, "--memory": self.memory}
        return " ".join(f"{name} {value}" for name, value in given.items() if value is not None)


class Job(NamedTuple):
    """What ``rankwright train`` was asked for."""

    data: str
    valid: str | None
    ranker: str
    settings: dict[str, Any]
    output: str
    table: TableOptions
    json: bool


def train_on_engine(job: Job, engine: Engine, **others: Any) -> None:
    """Train one ranker on a file, folder or glob; ``others`` are options that must not be set."""
    start = time.perf_counter()
    _refuse(engine, job.table, others)
    name = AUTO if job.ranker == "auto" else job.ranker
    if job.ranker == "auto":
        console.note(f"{engine.options}: training {AUTO}; choose another with --ranker")
    model = make_ranker(name, job.settings)
    if "verbose" in model.get_params() and "verbose" not in job.settings:
        model.set_params(verbose=1)
    eval_set: dict[str, Any] = {}
    if job.valid is not None:
        other = job.table.read(job.valid)
        eval_set = {"eval_set": (other.X, other.y), "eval_qid": other.qid}
    with rw.engine(engine.cluster or "local", memory=engine.memory):
        model.fit(job.data, job.table.y, qid=job.table.qid, **eval_set)
    if "verbose" in model.get_params() and "verbose" not in job.settings:
        model.set_params(verbose=0)
    rw.save(model, job.output)
    seconds = round(time.perf_counter() - start, 3)
    if job.json:
        result = {"model": job.output, "ranker": type(model).__name__, "seconds": seconds}
        parameters = console.plain_values(model.get_params(deep=False))
        data = {"path": job.data, "n_queries": model.n_queries_in_}
        console.print_json({**result, "parameters": parameters, "data": data})
        return
    print(
        f"model: {job.output} ({type(model).__name__}, {model.n_queries_in_} queries, {seconds} s)"
    )
    console.suggest("evaluate", job.output, "TEST-DATA", *job.table.columns())


def _refuse(engine: Engine, table: TableOptions, others: dict[str, Any]) -> None:
    """Refuse the options that files on an engine do not have."""
    defaults, given = type(table)(), dataclasses.asdict(table)
    unread = {n: v for n, v in given.items() if n not in ("y", "qid") and v != getattr(defaults, n)}
    for name, value in (unread | others).items():
        if value:
            raise ParameterError(
                f"--{name.replace('_', '-')} with {engine.options}: not used where workers read "
                "the files. Leave it out, or train on one machine."
            )
