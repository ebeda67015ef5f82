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

    Args:
        grades: Predict grades (for ordinal rankers) instead of scores.
    """
    if cluster is not None:
        reading = table.of_many_files(cluster, {"--grades": grades, "--json": json})
        _score_files(model, data, output, cluster, ranked=False, **reading)
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

    Args:
        trec: Print a TREC run: query Q0 item rank score name.
    """
    if json and trec:
        raise ParameterError("--json and --trec: give one of them.")
    if cluster is not None:
        reading = table.of_many_files(cluster, {"--trec": trec, "--json": json})
        _score_files(model, data, output, cluster, cutoff=cutoff, **reading)
        return
    scorer, items = _open(model, data, output, table)
    opt.note_missing_queries(items, data)
    rows = items.ranking(scorer.decision_function(items.X, items.qid), cutoff)
    about = {"model": model, "data": data} if json else None
    console.write_ranking(rows, output, name if trec else None, about)


def _open(
    model: str, data: str, output: str | None, table: opt.TableOptions
) -> tuple[Any, rw.Items]:
    console.check_targets(model, data, table.group, output=console.file_name(output))
    scorer = rw.persist.load_system(model, ["model"])
    return scorer, table.read(data, graded=False, like=scorer)


def _score_files(model: str, data: str, output: str | None, cluster: str, **how: Any) -> None:
    """A file of results for each file, in a folder."""
    if output is None or console.file_name(output) is None:
        raise ParameterError(
            f"--cluster {cluster}: workers write a file of results for each file. Name the folder "
            "for them with --output."
        )
    scorer = rw.persist.load_system(model, ["model"])
    with rw.engine(cluster):
        counts = rw.score_files(scorer, data, output, **how)
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

    Args:
        to: The format.
        output: The file to write; by default MODEL.FORMAT.json or the like, in this folder. Other
            files that belong to it, and the certificate, are written beside it.
        allow_order_only: Also write a file that loses a constant of all scores: the order stays.
        check: Data to check the file with; by default rows are generated around every threshold.
        missing: A missing feature means what it means to the model, means 0, or never occurs.
        feature_names: Names of the features in the target, in order; use commas.
        name: The name of the model in the target; by default that of the model file.
        feature_set: Elasticsearch, OpenSearch: the feature set. Solr: the feature store.
        constant: Elasticsearch, OpenSearch: what is added to all scores, so that none is negative.
        dialect: SQL: the database.
    """
    stem = os.path.splitext(os.path.basename(model))[0]
    path = output or f"{stem}.{rw.exports.usual_extension(to)}"
    certificate_path = f"{os.path.splitext(path)[0]}.certificate.json"
    console.check_targets(model, check, table.group, output=path, certificate=certificate_path)
    fitted = rw.load(model)
    # Rows for a fusion are places in runs; for others they look as the scorer of the file says.
    like = None if hasattr(fitted, "engines_") else rw.load_scorer(model)
    certificate = rw.export(
        fitted,
        path,
        to=to,
        feature_names=opt.split(feature_names) or None,
        missing=missing,
        allow_order_only=allow_order_only,
        check=None if check is None else table.read(check, graded=False, like=like),
        name=name or stem,
        feature_set=feature_set,
        constant=constant,
        dialect=dialect,
    )
    about = {"source": model, "file": path, **certificate.to_dict()}
    console.answer(json, f"{path}: {certificate}", about)
