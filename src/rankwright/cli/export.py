"""``rankwright export``: a model in the format of a search engine, a runtime or a database."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import ParameterError

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
    try:
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
    except ParameterError as error:
        text = str(error).replace("allow_order_only=True", "--allow-order-only")
        raise ParameterError(opt.in_options(text, OPTIONS)) from None
    if json:
        console.print_json({"source": model, "file": path, **certificate.to_dict()})
    else:
        print(f"{path}: {certificate}")


OPTIONS = {name: name for name in ("missing", "dialect", "constant", "check", "to")}
OPTIONS |= {"feature_names": "feature-names", "feature_set": "feature-set"}


def _width(path: str, fitted: object) -> object:
    """What the check data are to look like: the scorer of a model file."""
    return rw.load_scorer(path) if not hasattr(fitted, "engines_") else None
