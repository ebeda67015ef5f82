"""Verbs about files of data: ``check``, ``info``, ``convert`` and ``data``."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import ParameterError

EXIT_FAILED, EXIT_DATA = 1, 3


def check(
    data: str,
    /,
    *,
    against: str | None = None,
    strict: bool = False,
    json: opt.Json = False,
    table: opt.GradedOptions = opt.GradedOptions(),  # noqa: B008
    reading: opt.RatingsOptions = opt.RatingsOptions(),  # noqa: B008
) -> None:
    """Look for mistakes in data: a line PASS, WARN or FAIL for each rule.

    Exits with 3 if the file cannot be read, with 1 if a rule failed.

    rankwright check train.txt --against test.txt
    rankwright check train.csv --strict --json
    rankwright check ratings.csv --read-as ratings

    Args:
        data: Items, a TREC run, qrels, ratings, a log of impressions, or pairs of winner and loser.
        against: Other items, such as the test data: neither queries nor items may be in both.
        strict: Warnings count as failures.
    """
    kind = _detect_kind(data, table, reading)
    of_ratings = kind == "ratings"
    options = reading.parameters() if of_ratings else table.parameters(data)
    options = {} if kind in ("run", "log", "pairs") else options
    findings = rw.validate(data, against, kind=kind, **options)
    names = {"format": "--ratings-format"} if of_ratings else {}
    failed = [f for f in findings if f.status == "FAIL" or (strict and f.status == "WARN")]
    n_failed, n_rules = (len({f.rule for f in some}) for some in (failed, findings))
    result = f"{n_failed} of {n_rules} rules failed" if failed else "passed"
    rows = [vars(f) | {"fix": opt.in_options(f.fix, **names)} for f in findings]
    about = {"data": data, "passed": not failed, "findings": rows}
    console.answer(json, f"{opt.in_options(str(findings), **names)}\n{data}: {result}", about)
    if failed:
        unreadable = any(finding.rule == "readable" for finding in findings.failed)
        sys.exit(EXIT_DATA if unreadable else EXIT_FAILED)


def _detect_kind(path: str, table: opt.TableOptions, reading: opt.RatingsOptions) -> str:
    """What a file holds; options for ratings or for items decide before its columns do."""
    from rankwright.data.io.items import detect_kind

    if reading != opt.RatingsOptions():
        return "ratings"
    return detect_kind(path, table.format, by_columns=table == type(table)())


def info(
    file: str,
    /,
    *,
    json: opt.Json = False,
    table: opt.GradedOptions = opt.GradedOptions(),  # noqa: B008
    reading: opt.RatingsOptions = opt.RatingsOptions(),  # noqa: B008
) -> None:
    """Say what is in a model or data file.

    rankwright info model.rw
    rankwright info train.csv --json
    rankwright info ratings.csv --read-as ratings

    Args:
        file: A model, items, a TREC run, qrels, ratings, a log, or pairs of winner and loser.
    """
    kind = _detect_kind(file, table, reading)
    options = {"ratings": reading.parameters(), **table.parameters(file)}
    about = rw.persist.describe_file(file, kind, **options)
    console.answer(json, about, about)


def convert(
    source: str,
    target: str,
    /,
    *,
    write_as: opt.Format | None = None,
    json: opt.Json = False,
    table: opt.GradedOptions = opt.GradedOptions(),  # noqa: B008
) -> None:
    """Write data in another format; numbers keep their last bit.

    Items become LETOR, CSV, TSV, JSONL or Parquet; runs and qrels TREC,
    CSV, TSV or JSONL. Responses of Elasticsearch, OpenSearch or Solr with
    logged features, one per line, are items.

    rankwright convert train.txt train.csv
    rankwright convert train.csv.gz - --write-as letor | head
    rankwright convert responses.jsonl logged.csv

    Args:
        source: The data (- is standard input).
        target: New file; its extension gives the format (.txt: LETOR or TREC). - is stdout.
        write_as: The format, if the extension does not give it.
    """
    to_stdout = console.file_name(target) is None
    console.check_targets(source, table.group, TARGET=console.file_name(target))
    if to_stdout and write_as is None:
        raise ParameterError("-: standard output has no extension. Give --write-as.")
    if to_stdout and write_as == "parquet":
        raise ParameterError("Parquet is written to a file only. Give its name instead of -.")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "copy") if to_stdout else target
        options = table.parameters(source)
        forms: dict[str, Any] = {"read_as": options.pop("format"), "write_as": write_as}
        kind, n_rows = rw.data.convert(source, path, **forms, **options)
        if to_stdout:
            with open(path, encoding="utf-8", newline="") as file:
                console.write_result(file)
    about = {"source": source, "target": target, "format": kind, "n_rows": n_rows}
    if json or not to_stdout:
        console.answer(json, f"{target}: {n_rows:,} rows as {kind}", about)


app = App(name="data", help="Known public data sets.")
SetName = Annotated[str, Parameter(help="One of the names that `rankwright data list` prints.")]
Fold = Annotated[int | None, Parameter(help="For the LETOR sets: one of the folds, 1 to 5.")]


@app.command(name="list")
def list_(*, json: opt.Json = False) -> None:
    """Name every data set that can be loaded."""
    sets = rw.list_datasets()
    width = max(map(len, sets))
    console.answer(json, "\n".join(f"{name:{width}}  {sets[name]}" for name in sets), sets)


@app.command
def show(name: SetName, /, *, fold: Fold = None, json: opt.Json = False) -> None:
    """Load a data set (from RANKWRIGHT_DATA, the cache, or its publisher) and describe it."""
    data = rw.load_dataset(name, **({} if fold is None else {"fold": fold}))
    about = {"name": name, "about": rw.list_datasets()[name], "content": str(data)}
    console.answer(json, data, about)


@app.command
def write(
    name: SetName,
    target: str,
    /,
    *,
    fold: Fold = None,
    part: Literal["train", "vali", "test"] = "train",
    json: opt.Json = False,
) -> None:
    """Write a data set of graded items as a file, or a set of ratings as a table.

    Args:
        target: New file; its extension gives the format: .letor, .csv, .jsonl, .parquet, also .gz.
        part: With a fold: which part of it.
    """
    from rankwright.data.io.conversion import write_data

    data: Any = rw.load_dataset(name, **({} if fold is None else {"fold": fold}))
    if fold is not None:
        data = getattr(data, part, None)
    if not isinstance(data, rw.Items | rw.Ratings):
        raise ParameterError(f"{name}: only graded items and ratings can be written as a file.")
    write_data(data, target)
    about = {"name": name, "target": target, "n_rows": len(data)}
    console.answer(json, f"{target}: {len(data):,} rows", about)
