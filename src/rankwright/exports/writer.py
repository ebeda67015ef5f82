"""Write a model for another program, with a certificate that it scores the same."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import FilePath, MatrixLike
from rankwright.data.inputs import checked_rows
from rankwright.data.io.files import atomic_write
from rankwright.data.items import Items
from rankwright.exceptions import Message, ParameterError, Setting
from rankwright.exports.certificate import Certificate, certify
from rankwright.exports.feature_sets import ENGINES, engine_files, vespa_functions, vespa_name
from rankwright.exports.form import Form, form_of
from rankwright.exports.target import Options, Support, Target, json_of
from rankwright.exports.targets import TARGETS
from rankwright.exports.targets.sql import DIALECTS
from rankwright.features.fitted import FittedFeatures
from rankwright.rankers.preprocessing import encoding_of
from rankwright.scoring.sums import Sum


def usual_extension(to: str) -> str:
    """Return the usual file extension of a target.

    >>> usual_extension("onnx"), usual_extension("solr")
    ('onnx', 'solr.json')
    """
    return TARGETS[to].extension or f"{to}.json"


def export(
    model: BaseEstimator,
    path: str | os.PathLike[str],
    to: str,
    *,
    feature_names: Sequence[str] | None = None,
    missing: str = "model",
    allow_order_only: bool = False,
    check: Items | MatrixLike | None = None,
    name: str | None = None,
    feature_set: str | None = None,
    constant: float | None = None,
    dialect: str | None = None,
) -> Certificate:
    """Export a model to a search engine, a runtime, another library or a database.

    The file gives the model's scores up to the rounding of the format, or nothing is written. A
    certificate next to it (``model.certificate.json``) records how this was checked.

    Parameters
    ----------
    model : a fitted ranker, a pipeline that ends in one, a ``LearnedFusion``, or what
        :func:`rankwright.load` or :func:`rankwright.load_scorer` returns
    path : the file to write; related files are written next to it
    to : {"elasticsearch", "opensearch", "solr", "vespa", "onnx", "xgboost", "lightgbm", \
"ranklib", "sql", "python"}
    feature_names : sequence of str or None
        Names of the features in the target, in the order of the model's; by default those the model
        was trained with, else feature_1, feature_2 ...
    missing : {"model", "zero", "never"}, default "model"
        How missing features are scored. ``model``: as the model does; targets that cannot
        distinguish them from 0 are refused if the model does. ``zero``: as 0. ``never``: there are
        no missing features.
    allow_order_only : bool, default False
        Also write a file whose scores differ by a constant, which does not change the order.
    check : Items, (n_items, n_features) array or None
        Rows to check the file with; by default rows are generated around every threshold.
    name : str or None
        The model's name in the target; by default that of the file.
    feature_set : str or None
        Elasticsearch, OpenSearch: the name of the feature set; Solr: of the feature store.
    constant : float or None
        Elasticsearch, OpenSearch: a constant to add to all scores, since engines refuse negative
        ones. By default the smallest that suffices: for trees on any row, for linear models on
        ``check``.
    dialect : {"duckdb", "postgresql", "sqlite"} or None
        SQL only; by default duckdb.

    Raises
    ------
    ParameterError
        The target does not support the model; the message says why, and which targets do.

    Examples
    --------
    >>> import pathlib, tempfile, rankwright as rw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "score.sql"
    >>> model = rw.RidgeRanker().fit([[0.0], [1.0], [2.0]], [1, 2, 3])
    >>> rw.export(model, path, to="sql", feature_names=["bm25"], dialect="sqlite").pairs_reversed
    0
    """
    target = _target(to)
    _check_options(target, feature_set=feature_set, constant=constant, dialect=dialect)
    fitted = _feature_set(model)
    if fitted is not None and to == "vespa" and feature_names is None:
        feature_names = [f"{vespa_name(name)}()" for name in fitted.feature_names]
    form = form_of(model, feature_names, missing)
    support = target.support(form)
    _check_support(form, target, support, allow_order_only)
    data = None if check is None else _rows(check, form)
    stem = _stem(path)
    lowest = None if data is None else float(form.scores(*data).min(initial=0.0))
    model_name = name or stem.name
    options = Options(model_name, feature_set or model_name, dialect or "duckdb", constant, lowest)
    files = target.write(form, options)
    certificate = certify(form, target, files, options, support.level, data)
    files[".certificate.json"] = json_of(certificate.to_dict())
    if fitted is not None and to in ENGINES:
        made = engine_files(fitted, to, form.names, options.store)
        files |= {suffix: json_of(content) for suffix, content in made.items()}
        if to == "vespa":
            profile = files[""].decode()
            end = profile.rindex("}")
            files[""] = (profile[:end] + vespa_functions(fitted) + profile[end:]).encode()
    for suffix, content in files.items():
        target_path = path if not suffix else stem.with_name(stem.name + suffix)
        with atomic_write(target_path, mode=0o666) as file:
            file.write(content)
    return certificate


def _feature_set(model: BaseEstimator) -> FittedFeatures | None:
    """The feature set in front of a model, if there is one."""
    encoding = getattr(model, "encoding", None) or encoding_of(model)  # of a SavedScorer, or not
    return encoding if isinstance(encoding, FittedFeatures) else None


def support(
    model: BaseEstimator,
    to: str,
    *,
    feature_names: Sequence[str] | None = None,
    missing: str = "model",
) -> Support:
    """Return whether a target supports a model: ("exact", "order only" or "no", reason).

    >>> import rankwright as rw
    >>> support(rw.RidgeRanker().fit([[0.0], [1.0], [2.0]], [1, 2, 3]), "solr").level
    'order only'
    """
    return _target(to).support(form_of(model, feature_names, missing))


def _target(to: str) -> Target:
    if to not in TARGETS:
        raise ParameterError(Setting("to", to), f": use one of {', '.join(TARGETS)}.")
    return TARGETS[to]


def _check_options(target: Target, **given: Any) -> None:
    for option, value in given.items():
        if value is not None and option not in target.options:
            supporting = [name for name, other in TARGETS.items() if option in other.options]
            raise ParameterError(
                Setting(option, value),
                f": {target.name} has no such option; it is for {', '.join(supporting)}.",
            )
    dialect, constant = given["dialect"], given["constant"]
    if dialect is not None and dialect not in DIALECTS:
        raise ParameterError(Setting("dialect", dialect), f": use one of {', '.join(DIALECTS)}.")
    if constant is not None and not np.isfinite(constant):
        raise ParameterError(Setting("constant", constant), ": give a finite number.")


def _check_support(form: Form, target: Target, support: Support, allow_order_only: bool) -> None:
    if support.level == "exact" or (support.level == "order only" and allow_order_only):
        return
    supporting = [name for name, other in TARGETS.items() if other.support(form).level == "exact"]
    fix = Message(f"Targets that hold it: {', '.join(supporting) or 'none'}.")
    if support.level == "order only":
        keep = Setting("allow_order_only", True)
        fix = Message("To keep the order only, set ", keep, ". ", fix)
    elif isinstance(form.reference.scorer, Sum):
        trained = f"AutoRanker(deploy_to={target.name!r}) trains only what it holds."
        fix = Message(fix, " ", trained.replace("'", '"'))
    reason = support.reason
    raise ParameterError(f"export: {form.kind} to {target.name}: ", reason, ".", fix=fix)


def _rows(check: Any, form: Form) -> tuple[Any, Any]:
    """Rows and queries to check a file with."""
    X, qid = getattr(check, "X", check), getattr(check, "qid", None)
    X = checked_rows(X)
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    n = len(form.names)
    if X.ndim != 2 or X.shape[1] != n or not len(X):
        raise ParameterError(f"check: rows of shape {X.shape}; give (n_items, {n}), n_items > 0.")
    if not form.takes_nan and form.missing != "zero" and np.isnan(X).any():
        raise ParameterError(
            "check: some features are missing, but ",
            Setting("missing", "never"),
            " was set.",
            fix=Message(
                "Fill them, or export with ",
                Setting("missing", "zero"),
                " (or 'model', for a model that takes missing values).",
            ),
        )
    return X, qid


def _stem(path: FilePath) -> Path:
    """The path without its extension: files that belong to it begin like this."""
    whole = Path(path)
    return whole.with_suffix("") if whole.suffix else whole
