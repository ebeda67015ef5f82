"""Verbs about files of data: ``check``, ``info``, ``convert`` and ``data``."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

import rankwright as rw
from rankwright.cli import _shell as sh
from rankwright.exceptions import ParameterError


def check(
    data: str,
    /,
    *,
    against: str | None = None,
    strict: bool = False,
    json: sh.Json = False,
    table: sh.GradedOptions = sh.GradedOptions(),
    reading: sh.RatingsOptions = sh.RatingsOptions(),
) -> None:
    """Check data for mistakes: PASS, WARN or FAIL for each rule.

    Exits with 3 if the file cannot be read, with 1 if a rule failed.

    rankwright check train.txt --against test.txt
    rankwright check train.csv --strict --json
    rankwright check ratings.csv --read-as ratings

    Args:
        data: Items, a TREC run, qrels, ratings, a log of impressions, or pairs of winner and loser.
        against: Other items, such as the test data; no query or item may be in both.
        strict: Count warnings as failures.
    """
    kind = "ratings" if reading.parameters() else table.kind(data)
    options = {"ratings": reading.parameters(), "items": table.parameters(data)}
    content: Any = rw.service.read_log(data) if kind == "store" else data
    findings = rw.validate(content, against, kind=kind, **options.get(kind, {}))
    names = {"format": "--ratings-format"} if kind == "ratings" else {}
    failed, result = findings.failures(strict=strict), findings.summary(strict=strict)
    rows = [vars(f) | {"fix": sh.spelled(f.fix, **names)} for f in findings]
    drops = [word for name in findings.columns for word in ("--drop", name)]
    command = shlex.join(["rankwright", "train", data, *drops]) if drops else None
    about = {"data": data, "passed": not failed, "findings": rows, "command": command}
    text = f"{sh.spelled(findings.text(), **names)}\n{data}: {result}"
    sh.answer(json, text + (f"\nwithout these columns: {command}" if command else ""), about)
    if failed:
        sys.exit(3 if any(finding.rule == "readable" for finding in findings.failed) else 1)


def info(
    file: str,
    /,
    *,
    digest: bool = False,
    card: bool = False,
    json: sh.Json = False,
    table: sh.GradedOptions = sh.GradedOptions(),
    reading: sh.RatingsOptions = sh.RatingsOptions(),
) -> None:
    """Describe a model or data file.

    rankwright info model.rw
    rankwright info model.rw --digest
    rankwright info model.rw --card > MODEL_CARD.md
    rankwright info train.csv --json
    rankwright info ratings.csv --read-as ratings

    Args:
        file: A model, items, a TREC run, qrels, ratings, a log, or pairs of winner and loser.
        digest: Print the SHA-256 of a model only; equal models have equal digests.
        card: Print a model card in Markdown: how the model was made, and how well it ranks.
    """
    if digest:
        value = rw.model_digest(file)
        sh.answer(json, value, {"file": file, "digest": value})
        return
    from rankwright.cli import systems

    if card:
        text = systems.card(file)
        sh.answer(json, text.rstrip("\n"), {"file": file, "card": text})
        return

    ratings = reading.parameters()
    kind = "ratings" if ratings else table.kind(file)
    log = rw.service.read_log(file) if kind == "store" else None
    how: dict[str, Any] = {"ratings": ratings, "log": log, **table.parameters(file)}
    about = systems.describe_file(file, kind, **how)
    sh.answer(json, about, about)


def convert(
    source: str,
    target: sh.OrStdout,
    /,
    *,
    write_as: sh.Format | None = None,
    json: sh.Json = False,
    table: sh.GradedOptions = sh.GradedOptions(),
) -> None:
    """Convert data to another format; numbers are preserved exactly.

    Items become LETOR, CSV, TSV, JSONL or Parquet; runs and qrels TREC,
    CSV, TSV or JSONL. Responses of Elasticsearch, OpenSearch or Solr with
    logged features, one per line, are items.

    rankwright convert train.txt train.csv
    rankwright convert train.csv.gz - --write-as letor | head
    rankwright convert responses.jsonl logged.csv

    Args:
        source: The data (- is standard input).
        target: The new file; its extension gives the format (.txt: LETOR or TREC). - is stdout.
        write_as: The format, if the extension does not give it.
    """
    from rankwright.data.io.conversion import convert as convert_file

    sh.check_targets(source, table.group, TARGET=target)
    if target is None and write_as is None:
        raise ParameterError("-: standard output has no extension. Give --write-as.")
    if target is None and write_as == "parquet":
        raise ParameterError("Parquet is written to a file only. Give its name instead of -.")
    options = table.parameters(source)
    options["read_as"] = options.pop("format")
    with tempfile.TemporaryDirectory() as folder:
        path = target or os.path.join(folder, "copy")
        kind, n_rows = convert_file(source, path, write_as=write_as, **options)
        if target is None:
            with open(path, encoding="utf-8", newline="") as file:
                sh.write_result(file)
    about = {"source": source, "target": target, "format": kind, "n_rows": n_rows}
    if json or target is not None:
        sh.answer(json, f"{target}: {n_rows:,} rows as {kind}", about)


app = App(name="data", help="List, describe and write public data sets.")
SetName = Annotated[str, Parameter(help="One of the names that `rankwright data list` prints.")]
Fold = Annotated[int | None, Parameter(help="For the LETOR sets: one of the folds, 1 to 5.")]


@app.command(name="list")
def list_(*, json: sh.Json = False) -> None:
    """List the data sets that can be loaded."""
    sets = rw.list_datasets()
    width = max(map(len, sets))
    sh.answer(json, "\n".join(f"{name:{width}}  {sets[name]}" for name in sets), sets)


@app.command
def show(name: SetName, /, *, fold: Fold = None, json: sh.Json = False) -> None:
    """Load a data set (from RANKWRIGHT_DATA, the cache, or its publisher) and describe it."""
    data = rw.load_dataset(name, **({} if fold is None else {"fold": fold}))
    about = {"name": name, "about": rw.list_datasets()[name], "content": str(data)}
    sh.answer(json, data, about)


@app.command
def write(
    name: SetName,
    target: str,
    /,
    *,
    fold: Fold = None,
    part: Literal["train", "vali", "test"] = "train",
    json: sh.Json = False,
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
    sh.answer(json, f"{target}: {len(data):,} rows", about)
