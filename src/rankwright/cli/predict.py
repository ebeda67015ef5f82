"""``rankwright predict``, ``rank`` and ``export``: what a model file is used for."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import ParameterError


def predict(
    model: opt.ModelFile,
    data: opt.Data,
    /,
    *,
    output: opt.Output = None,
    grades: bool = False,
    cluster: opt.Cluster = None,
    json: opt.Json = False,
    table: opt.TableOptions = opt.TableOptions(),  # noqa: B008
) -> None:
    """Score items with a model: one number per line, in the order of the data.

    rankwright predict model.rw new.txt
    cat new.txt | rankwright predict model.rw - -o scores.txt
    rankwright predict model.rw 'part-*.parquet' --cluster tcp://scheduler:8786 -o folder

    Parameters
    ----------
    grades
        Predict grades (for ordinal rankers) instead of scores.
    """
    if cluster is not None:
        others = {"grades": grades, "json": json}
        _score_files(model, data, output, cluster, table, ranked=False, **others)
        return
    scorer, items = _open(model, data, output, table)
    values = (scorer.predict if grades else scorer.decision_function)(items.X, items.qid)
    key = "grades" if grades else "scores"
    result = {"model": model, "data": data, "n_items": items.n_items, key: values}
    lines = (f"{value!r}\n" for value in values.tolist())
    console.write_result([console.to_json(result)] if json else lines, output)


def rank(
    model: opt.ModelFile,
    data: opt.Data,
    /,
    *,
    cutoff: opt.Cutoff = None,
    trec: bool = False,
    output: opt.Output = None,
    cluster: opt.Cluster = None,
    name: opt.RunName = "rankwright",
    json: opt.Json = False,
    table: opt.TableOptions = opt.TableOptions(),  # noqa: B008
) -> None:
    """Order the items of each query with a model, best first.

    Prints query, rank, item and score, separated by tabs. An item without
    an id is called by its row in the data, from 1.

    rankwright rank model.rw new.txt --cutoff 10
    rankwright rank model.rw new.txt --trec --name mine -o mine.run
    rankwright rank model.rw 'part-*.parquet' --cluster local:4 -o folder --cutoff 10

    Parameters
    ----------
    trec
        Print a TREC run: query Q0 item rank score name.
    """
    if json and trec:
        raise ParameterError("--json and --trec: give one of them.")
    if cluster is not None:
        others = {"trec": trec, "json": json}
        _score_files(model, data, output, cluster, table, cutoff=cutoff, **others)
        return
    scorer, items = _open(model, data, output, table)
    opt.note_missing_queries(items, data)
    rows = items.ranking(scorer.decision_function(items.X, items.qid), cutoff)
    about = {"model": model, "data": data} if json else None
    console.write_ranking(rows, output, run_name=name if trec else None, about=about)


def _open(
    model: str, data: str, output: str | None, table: opt.TableOptions
) -> tuple[Any, rw.Items]:
    console.check_targets(model, data, table.group, output=console.file_name(output))
    scorer = opt.load_system(model, "model")
    return scorer, table.read(data, graded=False, like=scorer)


def _score_files(
    model: str, data: str, output: str | None, cluster: str, table: opt.TableOptions, **how: Any
) -> None:
    """A file of results for each file, in a folder; ``how`` also has options that are not used."""
    arguments = {name: how.pop(name) for name in ("ranked", "cutoff") if name in how}
    reading = table.of_many_files(cluster, **how)
    if output is None or console.file_name(output) is None:
        raise ParameterError(
            f"--cluster {cluster}: workers write a file of results for each file. Name the folder "
            "for them with --output."
        )
    scorer = opt.load_system(model, "model")
    with rw.engine(cluster):
        counts = rw.score_files(scorer, data, output, **arguments, **reading)
    console.note(f"{output}: {sum(counts.values()):,} items in {len(counts):,} files")


Target = Literal[
    "elasticsearch", "opensearch", "solr", "vespa", "onnx", "xgboost", "lightgbm", "ranklib", "sql"
]


def export(
    model: opt.ModelFile,
    /,
    *,
    to: Target,
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    allow_order_only: bool = False,
    check: str | None = None,
    missing: Literal["model", "zero", "never"] = "model",
    feature_names: list[str] = [],  # noqa: B006
    name: str | None = None,
    feature_set: str | None = None,
    constant: float | None = None,
    dialect: Literal["duckdb", "postgresql", "sqlite"] | None = None,
    json: opt.Json = False,
    table: opt.TableOptions = opt.TableOptions(),  # noqa: B008
) -> None:
    """Write a model for another program, with a certificate that it scores the same.

    rankwright export model.rw --to opensearch -o model.json
    rankwright export model.rw --to onnx --check test.txt
    rankwright export model.rw --to sql --dialect sqlite -o score.sql

    Parameters
    ----------
    to
        The format.
    output
        The file to write; by default MODEL.FORMAT.json or the like, in this folder. Other files
        that belong to it, and the certificate, are written beside it.
    allow_order_only
        Also write a file that loses a constant of all scores: the order stays.
    check
        Data to check the file with, in the real reader where it is installed. By default rows are
        generated around every threshold.
    missing
        What a missing feature means: what it means to the model, a 0, or that none ever is.
    feature_names
        Names of the features in the target, in order; use commas.
    name
        The name of the model in the target; by default that of the model file.
    feature_set
        Elasticsearch, OpenSearch: the feature set. Solr: the feature store.
    constant
        Elasticsearch, OpenSearch: what is added to all scores, so that none is negative.
    dialect
        SQL: the database.
    """
    stem = os.path.splitext(os.path.basename(model))[0]
    path = output or f"{stem}.{rw.exports.usual_extension(to)}"
    certificate_path = f"{os.path.splitext(path)[0]}.certificate.json"
    console.check_targets(model, check, table.group, output=path, certificate=certificate_path)
    with opt.local_file(model) as local:
        fitted = rw.load(local)
    names = [part.strip() for text in feature_names for part in text.split(",")]
    data = None if check is None else table.read(check, graded=False, like=_width(local, fitted))
    with opt.translating_errors(opt.EXPORT_OPTIONS):
        certificate = rw.export(
            fitted,
            path,
            to=to,
            feature_names=names or None,
            missing=missing,
            allow_order_only=allow_order_only,
            check=data,
            name=name or stem,
            feature_set=feature_set,
            constant=constant,
            dialect=dialect,
        )
    if json:
        console.print_json({"source": model, "file": path, **certificate.to_dict()})
    else:
        print(f"{path}: {certificate}")


def _width(path: str, fitted: object) -> object:
    """What the check data are to look like: the scorer of a model file."""
    return rw.load_scorer(path) if not hasattr(fitted, "engines_") else None
