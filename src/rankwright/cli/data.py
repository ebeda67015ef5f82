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

    Parameters
    ----------
    data
        Items, a TREC run, qrels, ratings (--read-as ratings, if not detected), a log of
        impressions, or pairs of winner and loser.
    against
        Other items, such as the test data: neither queries nor items may be in both.
    strict
        Warnings count as failures.
    """
    with opt.local_file(data) as local:
        kind = _detect_kind(local, table, reading)
        of_ratings = kind == "ratings"
        options = reading.parameters() if of_ratings else table.parameters(local)
        options = {} if kind in ("run", "log", "pairs") else options
        findings = rw.validate(local, against, kind=kind, **options)
    names = opt.RATING_OPTIONS if of_ratings else opt.ITEM_OPTIONS
    failed = [f for f in findings if f.status == "FAIL" or (strict and f.status == "WARN")]
    if json:
        rows = [vars(finding) | {"fix": opt.in_options(finding.fix, names)} for finding in findings]
        console.print_json({"data": data, "passed": not failed, "findings": rows})
    else:
        print(opt.in_options(str(findings).replace(local, data), names))
        n_failed, n_rules = (len({f.rule for f in some}) for some in (failed, findings))
        print(f"{data}: {f'{n_failed} of {n_rules} rules failed' if failed else 'passed'}")
    if failed:
        unreadable = any(finding.rule == "readable" for finding in findings.failed)
        sys.exit(EXIT_DATA if unreadable else EXIT_FAILED)


def _detect_kind(path: str, table: opt.TableOptions, reading: opt.RatingsOptions) -> str:
    """What a file holds; options for ratings or for items decide before its columns do."""
    from rankwright.data.validation.findings import detect_kind

    if reading != opt.RatingsOptions():
        return "ratings"
    return detect_kind(path, table.read_as, by_columns=table == type(table)())


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

    Parameters
    ----------
    file
        A model, items, a TREC run, qrels, ratings (--read-as ratings, if not detected), a log of
        impressions, or pairs of winner and loser.
    """
    with opt.local_file(file) as local:
        kind = _detect_kind(local, table, reading)
        options = {"ratings": reading.parameters(), **table.parameters(local)}
        about = {"file": file, **rw.persist.describe_file(local, kind, **options)}
    if json:
        console.print_json(about)
        return
    width = max(map(len, about))
    for key, value in about.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        if isinstance(value, dict):
            shown = ", ".join(f"{name}: {count}" for name, count in value.items())
        print(f"{key.replace('_', ' '):{width}}  {shown}")


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

    Parameters
    ----------
    source
        The data (- is standard input).
    target
        The new file; its extension gives the format (.txt: LETOR or TREC). - is standard output.
    write_as
        The format, if the extension does not give it.
    """
    to_stdout = target in ("-", console.STDIN)
    console.check_targets(source, table.group, TARGET=console.file_name(target))
    if to_stdout and write_as is None:
        raise ParameterError("-: standard output has no extension. Give --write-as.")
    if to_stdout and write_as == "parquet":
        raise ParameterError("Parquet is written to a file only. Give its name instead of -.")
    with opt.local_file(source) as local, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "copy") if to_stdout else target
        options = table.parameters(source)
        forms: dict[str, Any] = {"read_as": options.pop("format"), "write_as": write_as}
        kind, n_rows = rw.data.convert(local, path, **forms, **options)
        if to_stdout:
            with open(path, encoding="utf-8", newline="") as file:
                console.write_result(file)
    if json:
        console.print_json({"source": source, "target": target, "format": kind, "n_rows": n_rows})
    elif not to_stdout:
        console.note(f"{target}: {n_rows:,} rows as {kind}")


app = App(name="data", help="Known public data sets.")
SetName = Annotated[str, Parameter(help="One of the names that `rankwright data list` prints.")]
Fold = Annotated[int | None, Parameter(help="For the LETOR sets: one of the folds, 1 to 5.")]


@app.command(name="list")
def list_(*, json: opt.Json = False) -> None:
    """Name every data set that can be loaded."""
    sets = rw.list_datasets()
    width = max(map(len, sets))
    lines = (f"{name:{width}}  {about}\n" for name, about in sets.items())
    console.write_result([console.to_json(sets)] if json else lines)


@app.command
def show(name: SetName, /, *, fold: Fold = None, json: opt.Json = False) -> None:
    """Load a data set (from RANKWRIGHT_DATA, the cache, or its publisher) and describe it."""
    data = rw.load_dataset(name, **({} if fold is None else {"fold": fold}))
    about = {"name": name, "about": rw.list_datasets()[name], "content": str(data)}
    print(console.to_json(about) if json else data, end="" if json else "\n")


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

    Parameters
    ----------
    target
        The new file; its extension gives the format (.letor, .csv, .jsonl, .parquet, also .gz).
    part
        With a fold: which part of it.
    """
    from rankwright.data.io.writing import write_data

    data: Any = rw.load_dataset(name, **({} if fold is None else {"fold": fold}))
    if fold is not None:
        data = getattr(data, part, None)
    if not isinstance(data, rw.Items | rw.Ratings):
        raise ParameterError(f"{name}: only graded items and ratings can be written as a file.")
    write_data(data, target)
    if json:
        console.print_json({"name": name, "target": target, "n_rows": len(data)})
    else:
        console.note(f"{target}: {len(data):,} rows")
