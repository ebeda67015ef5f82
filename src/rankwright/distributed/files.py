"""Fit a model to many files, or score and evaluate them; each file is a job of the engine."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Mapping
from glob import glob
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from rankwright.data.io.files import RemoteFile, is_url, write_lines
from rankwright.data.io.items import detect_format, names_columns, read_items
from rankwright.data.items import Items
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError, DegenerateDataWarning, ParameterError
from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.measure import Measure, parse_measures
from rankwright.metrics.scores import Scores
from rankwright.runtime import current_engine, map_jobs, progress
from rankwright.selection.base import watching

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
StorageOptions = Mapping[str, Any] | None


def fit_files(
    model: BaseEstimator,
    files: Paths,
    y: str | None = None,
    *,
    qid: str | None = None,
    valid: Items | None = None,
    storage_options: StorageOptions = None,
    verbose: int = 0,
) -> Any:
    """Fit a ranker to files inside :func:`rankwright.engine`; return it.

    Parameters
    ----------
    model : a ranker that can be fitted on an engine, such as LambdaMART
    files : a file, folder (with Hive partitions such as ``day=1/``), glob such as
        ``"part-*.parquet"``, URL that fsspec reads such as ``"s3://bucket/train/"``, or several of
        these. Columns of tables are matched by name.
    y, qid : columns of the grade and the query; by default their usual names
    valid : Items for early stopping, or None
    storage_options : dict, options of the file system of URLs, used here and by the workers
    verbose : 1 prints a line to standard error every ten seconds

    Examples
    --------
    >>> import tempfile, rankwright as rw
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = path.write_text("0 qid:1 1:0.2\\n1 qid:1 1:0.7\\n")
    >>> with rw.engine("local:2"):
    ...     model = fit_files(rw.RankSVM(), str(path))
    >>> model.n_queries_in_
    1
    """
    engine = current_engine()
    if engine is None:
        raise ParameterError("fit_files: call it inside `with rankwright.engine(...):`.")
    for name in ("distributed", "distributed.client"):  # the error that is raised says it all
        logging.getLogger(name).setLevel(logging.CRITICAL)
    eval_set: dict[str, Any] = {}
    paths = list_files(files, storage_options)
    if valid is not None:
        X, names = valid.X, valid.feature_names
        if names is not None and _has_names(paths[0]):  # in any order
            X = dict(zip(names, valid.X.T, strict=True))
        eval_set = {"eval_set": (X, valid.y), "eval_qid": valid.qid}
    with (
        progress.task(lambda: str(engine.stage), active=bool(verbose)) as work,
        watching(model, work),
    ):
        return model.fit(paths, y, qid=qid, **eval_set)


def _has_names(path: str) -> bool:
    kind = detect_format(path)
    return kind in ("jsonl", "parquet") or (kind in ("csv", "tsv") and names_columns(path))


def score_files(
    model: BaseEstimator,
    files: Paths,
    output: str | os.PathLike[str],
    *,
    cutoff: int | None = None,
    ranked: bool = True,
    **reading: Any,
) -> dict[str, int]:
    """Score the items of many files and write a file of ranked lists for each.

    Inside :func:`rankwright.engine` the workers read and write the files, so all must see the same
    folders. Otherwise the threads of this machine do.

    Parameters
    ----------
    model : a fitted ranker, or what :func:`rankwright.load_scorer` gives
    files : a file, folder, glob such as ``"part-*.parquet"``, or several of these
    output : the folder to write to; created if needed
        For ``part-1.parquet`` it gets ``part-1.parquet.tsv`` with the columns qid, rank, docid and
        score, the best item first. An item without an id is identified by its row, from 1.
    cutoff : int or None
        At most this many items of each query.
    ranked : bool, default True
        If False, write ``part-1.parquet.scores`` instead: one score per line, in the order of the
        file.
    reading : arguments of :func:`rankwright.read_items`

    Returns
    -------
    dict of path to the number of items written to it

    Examples
    --------
    >>> import tempfile, rankwright as rw
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("0 qid:1 1:0.2\\n1 qid:1 1:0.7\\n")
    >>> model = rw.RidgeRanker().fit([[0.0], [1.0]], [0, 1])
    >>> list(score_files(model, folder / "a.txt", folder / "out").values())
    [2]
    >>> lines = (folder / "out" / "a.txt.tsv").read_text().splitlines()
    >>> [line.split()[:3] for line in lines]
    [['qid', 'rank', 'docid'], ['1', '1', '2'], ['1', '2', '1']]
    """
    if cutoff is not None and cutoff < 1:
        raise ParameterError(f"score_files(cutoff={cutoff!r}): give an integer >= 1, or None.")
    if cutoff is not None and not ranked:
        raise ParameterError("score_files(cutoff=..., ranked=False): a cutoff needs ranked=True.")
    jobs = _outputs(list_files(files), Path(output), ".tsv" if ranked else ".scores")
    Path(output).mkdir(parents=True, exist_ok=True)
    counts = map_jobs(_score_file, jobs, model, (ranked, cutoff), reading)
    return {target: count for (_, target), count in zip(jobs, counts, strict=True)}


def _outputs(files: list[str], folder: Path, ending: str) -> list[tuple[str, str]]:
    """Each file with the one that its lists go to."""
    targets = [str(folder / f"{Path(file).name}{ending}") for file in files]
    twice = [file for file, target in zip(files, targets, strict=True) if targets.count(target) > 1]
    if twice:
        raise ParameterError(
            f"score_files: {twice[0]} and {twice[1]} have the same name, so their results would go "
            "to the same file. Write them to separate folders."
        )
    return list(zip(files, targets, strict=True))


def _score_file(
    job: tuple[str, str],
    model: BaseEstimator,
    how: tuple[bool, int | None],
    reading: Mapping[str, Any],
) -> int:
    (path, target), (ranked, cutoff) = job, how
    items, scores = _scored(model, path, reading, graded=False)
    if not ranked:
        write_lines(target, (f"{score!r}\n" for score in scores.tolist()))
        return len(scores)
    queries = Queries.from_ids(items.qid, len(scores))
    rank = queries.places(scores)
    ids = np.arange(1, len(scores) + 1) if items.docid is None else items.docid
    order = np.lexsort((rank, queries.codes))
    if cutoff is not None:
        order = order[rank[order] <= cutoff]
    query = queries.ids[queries.codes]
    rows = zip(query[order], rank[order], ids[order], scores[order].tolist(), strict=True)
    lines = (f"{q}\t{k}\t{item}\t{score!r}\n" for q, k, item, score in rows)
    write_lines(target, chain(["qid\trank\tdocid\tscore\n"], lines))
    return len(order)


def evaluate_files(
    model: BaseEstimator,
    files: Paths,
    measures: str | Measure | Iterable[str | Measure] = ("NDCG@10", "AP"),
    *,
    ties: str | None = None,
    empty: str | None = None,
    like: str | None = None,
    **reading: Any,
) -> Scores:
    """Evaluate a model on many files of graded items; all rows of a query must be in one file.

    Inside :func:`rankwright.engine` the workers read the files. Otherwise the threads of this
    machine do.

    Parameters
    ----------
    model : a fitted ranker, or what :func:`rankwright.load_scorer` gives
    files : a file, folder, glob such as ``"part-*.parquet"``, or several of these
    measures, ties, empty, like : see :func:`rankwright.evaluate`
    reading : arguments of :func:`rankwright.read_items`

    Returns
    -------
    Scores of all queries, in the order of the files and of the queries in them
    """
    paths = list_files(files)
    how = {"measures": measures, "ties": ties, "empty": empty, "like": like}
    parts = map_jobs(_evaluate_file, paths, model, how, reading)
    ids = [query for part in parts for query in part.query_ids.tolist()]
    if len(set(ids)) < len(ids):
        owner: dict[Any, str] = {}
        for path, part in zip(paths, parts, strict=True):
            for query in part.query_ids.tolist():
                if query in owner:
                    raise DataError(
                        f"query {query!r} is in {owner[query]} and in {path}: a query must not be "
                        "split. Write all rows of a query to one file."
                    )
                owner[query] = path
    names = np.concatenate([part.query_ids for part in parts])
    matrix = np.concatenate([part.matrix for part in parts], axis=1)
    return Scores(parts[0].measures, names, matrix, None, parts[0].conventions)


def _evaluate_file(
    path: str, model: BaseEstimator, how: Mapping[str, Any], reading: Mapping[str, Any]
) -> Scores:
    items, scores = _scored(model, path, reading, graded=True)
    reads = any(measure.reads_predictions for measure in parse_measures(how["measures"]))
    predictions = model.predict(items.X, items.qid) if reads else None
    with warnings.catch_warnings():  # one file without a relevant item says nothing of the others
        warnings.simplefilter("ignore", DegenerateDataWarning)
        return evaluate(scores, items.y, items.qid, predictions=predictions, **how)


def _scored(
    model: BaseEstimator, path: str, reading: Mapping[str, Any], *, graded: bool
) -> tuple[Items, np.ndarray[Any, Any]]:
    like = model
    if hasattr(model, "n_features_in_"):
        names = getattr(model, "feature_names_in_", None)
        like = SimpleNamespace(n_features=model.n_features_in_, feature_names=names)
    items = read_items(path, graded=graded, **{"like": like, **reading})
    return items, np.asarray(model.decision_function(items.X, items.qid))


def list_files(files: Paths, storage_options: StorageOptions = None) -> list[str]:
    """List the files of a file, folder, glob, URL, or several of these; each once.

    Of a folder these are its files, and those of its Hive partitions (folders such as ``day=1``).
    """
    several = [files] if isinstance(files, str | os.PathLike) else list(files)
    paths: dict[str, None] = {}
    for one in several:
        if is_url(one):
            options = one.options if isinstance(one, RemoteFile) else storage_options
            paths |= dict.fromkeys(_remote_matches(RemoteFile(str(one), options)))
        else:
            paths |= dict.fromkeys(_matches(os.fspath(one)))
    if not paths:
        raise DataError("there is no file to read: give a file, folder or glob.")
    return list(paths)


def _is_data(name: str) -> bool:
    """Whether a file below a folder holds data: its name, and partitions above it, say so."""
    *folders, last = name.split("/")
    return last[:1] not in ("", ".", "_") and all("=" in folder for folder in folders)


def _remote_matches(url: RemoteFile) -> list[str]:
    system, name = url.system()
    if system.isdir(name):
        folder = name.rstrip("/") + "/"
        names = [one for one in system.find(name) if _is_data(one.removeprefix(folder))]
    else:
        names = [name] if system.exists(name) else sorted(system.glob(name))
    if not names:
        raise DataError(f"{url}: no such file, and no file matches it.")
    return [RemoteFile(system.unstrip_protocol(one), url.options) for one in sorted(names)]


def _matches(name: str) -> list[str]:
    if os.path.isdir(name):
        below = (p for p in Path(name).rglob("*") if p.is_file())
        return sorted(str(p) for p in below if _is_data(p.relative_to(name).as_posix()))
    paths = [name] if os.path.exists(name) else sorted(glob(name, recursive=True))
    if not paths:
        raise DataError(f"{name}: no such file, and no file matches it.")
    return paths
