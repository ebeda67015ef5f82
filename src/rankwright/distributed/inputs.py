"""What ``fit`` takes on an engine: arrays, Dask data frames and arrays, folders and globs of files.

Whatever it is, it becomes parts of rows, which one shuffle turns into shards. Arrays of this
process are checked and cut here; everything else is read, checked and cut by the workers.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import IntArray, Matrix, MatrixLike
from rankwright.data.io.files import RemoteFile, is_parquet, open_binary
from rankwright.data.io.items import detect_format, items_from_piece, names_columns, read_items
from rankwright.data.io.letor.reader import read_letor
from rankwright.data.io.tables import items_from_frame
from rankwright.data.items import Items
from rankwright.data.vocabulary import as_ids
from rankwright.distributed.base import Engine, ShardedValues
from rankwright.distributed.engines import LocalEngine
from rankwright.distributed.files import list_files
from rankwright.distributed.shards import (
    LooseRows,
    by_shard,
    join_rows,
    merge_shards,
    n_shards,
    split_rows,
)
from rankwright.exceptions import DataError, ParameterError, quoted
from rankwright.feedback.base import as_grades, frozen_weights
from rankwright.runtime import is_path

CHUNK = 1 << 26  # bytes of a LETOR file that are one part
ROW_BITS = 40  # a row has the number: that of its part, shifted by this, plus that in the part

Roles = Mapping[str, Any]  # y, qid, sample_weight, query_weight: names of columns, or None


class FilePiece(NamedTuple):
    """A file or a piece of one: bytes of lines, or a row group of a Parquet file."""

    path: str
    number: int
    first: int = 0
    last: int = -1


class InputPart(NamedTuple):
    """Rows of a part of the input, and the names of their features."""

    rows: LooseRows
    names: tuple[str, ...] | None
    where: str  # for error messages


class Info(NamedTuple):
    """What parts must agree on."""

    n_rows: int
    n_features: int
    names: tuple[str, ...] | None
    kind: str  # the kind of the ids
    where: str


def is_remote(X: MatrixLike) -> bool:
    """Whether rows are not in this process: a path, several, or a collection of Dask."""
    if is_path(X):
        return True
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


def shard_input(
    engine: Engine, estimator: BaseEstimator, X: MatrixLike, roles: Roles
) -> ShardedValues:
    """The shards of rows that workers read; sets the names of features of the estimator."""
    checks = estimator._row_checks()
    what = (f"{len(X)} files" if isinstance(X, list | tuple) else str(X)) if is_path(X) else "X"
    if is_path(X):
        sources = list_sources(X, engine.memory)
        engine.expect(sum(_size(path) for path in {one.path for some in sources for one in some}))
        given = engine.scatter(sources)
        engine.stage = f"reading {what} ({len(sources)} parts)"
        if isinstance(engine, LocalEngine) and engine.memory is not None:
            parts = engine.unfold(read_parts, given, roles, checks, _chunk(engine.memory))
        else:
            parts = engine.map(read_part, given, roles, checks)
    else:
        parts = engine.map(make_part, _blocks(engine, X, roles), roles, checks)
    infos: list[Info] = engine.gather(engine.map(part_info, parts))
    infos = [info for info in infos if info.n_rows]
    if not infos:
        raise DataError(f"{what} has no row.")
    common = _agree(infos)
    rows = engine.map(fit_part, parts, common)
    names, width = common.names, common.n_features
    for attribute in ("feature_names_in_", "n_features_in_"):
        estimator.__dict__.pop(attribute, None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    estimator.n_features_in_ = width  # after the names, as scikit-learn does: files keep the order
    count = n_shards(sum(info.n_rows for info in infos))
    cut, merge = partial(split_rows, count=count), partial(merge_shards, count=count)
    return engine.exchange(rows, cut, merge, count)


class Common(NamedTuple):
    """What all parts are brought to: names and number of features, and whether ids are text."""

    names: tuple[str, ...] | None
    n_features: int
    as_text: bool


def _agree(infos: list[Info]) -> Common:
    """The names of the features, which all parts share in any order."""
    first = infos[0].names
    for info in infos:
        if set(info.names or ()) != set(first or ()):
            odd = sorted(set(info.names or ()) ^ set(first or ()))
            raise DataError(
                f"{info.where} has different columns from {infos[0].where} "
                f"({', '.join(odd[:4])}). Give files with the same columns."
            )
    width = len(first) if first else max(info.n_features for info in infos)
    return Common(first, width, len({info.kind for info in infos}) > 1)


def list_sources(path: Any, memory: int | None = None) -> list[tuple[FilePiece, ...]]:
    """Files of folders and globs in order of name: large ones in pieces, small ones together."""
    chunk = CHUNK if memory is None else _chunk(memory)
    groups: list[tuple[FilePiece, ...]] = []
    room, number = 0, 0
    for file in list_files(path):
        pieces = _pieces(file, chunk)
        small = _n_bytes(file) if len(pieces) == 1 else chunk
        for name, *bounds in pieces:
            piece = FilePiece(name, number, *bounds)
            number += 1
            if groups and small <= room:
                groups[-1] += (piece,)
            else:
                groups.append((piece,))
                room = chunk // 8
            room -= small
    return groups


def _n_bytes(path: str) -> int:
    if isinstance(path, RemoteFile):
        system, name = path.system()
        return int(system.size(name))
    return os.path.getsize(path)


def _chunk(memory: int) -> int:
    """Bytes of a part: each thread has several copies of one while it reads."""
    return max(1 << 20, min(CHUNK, memory // 32))


def _size(path: str) -> int:
    """About how many bytes the rows of a file take in memory."""
    if not is_parquet(path) or find_spec("pyarrow") is None:
        return _n_bytes(path) * (8 if path.endswith(".gz") else 1)
    with _parquet(path) as file:
        return int(8 * file.metadata.num_rows * file.metadata.num_columns)


@contextmanager
def _parquet(path: str, **options: Any) -> Iterator[Any]:
    """An open Parquet file; what is wrong with it is said with its name."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with open_binary(path) as raw, ParquetFile(raw, **options) as file:
            yield file
    except (ArrowException, OSError) as error:
        raise DataError(f"{path}: this Parquet file cannot be read ({quoted(error)}).") from None


def _pieces(path: str, chunk: int) -> list[tuple[Any, ...]]:
    size = _n_bytes(path)
    if is_parquet(path):
        if find_spec("pyarrow") is None:
            return [(path,)]
        with _parquet(path) as file:
            return [(path, i, i + 1) for i in range(file.num_row_groups)]
    if size > chunk and _has_plain_lines(path):
        return [(path, i, min(i + chunk, size)) for i in range(0, size, chunk)]
    return [(path,)]


def _has_plain_lines(path: str) -> bool:
    """Whether a file can be cut at any end of a line."""
    kind = detect_format(path) or "letor"
    if path.endswith(".gz") or kind not in ("letor", "csv", "tsv"):
        return False
    return kind == "letor" or (names_columns(path) and not _has_quotes(path))


def _has_quotes(path: str) -> bool:
    with open_binary(path) as file:
        return any(b'"' in block for block in iter(partial(file.read, 1 << 20), b""))


def read_part(sources: tuple[FilePiece, ...], roles: Roles, checks: dict[str, Any]) -> InputPart:
    """One part of the files: a piece of one, or several small ones."""
    parts = list(read_parts(sources, roles, checks))
    infos = [info for part in parts if (info := part_info(part)).n_rows]
    if len(parts) == 1 or not infos:
        return parts[0]
    common = _agree(infos)
    rows = [fit_part(part, common) for part in parts if len(part.rows.y)]
    return InputPart(join_rows(rows), common.names, infos[0].where)


def read_rows(engine: Engine, path: str | os.PathLike[str], roles: Roles) -> tuple[Any, ...]:
    """All rows of files, here: X with its names, y, qid and sample_weight, None if not named."""
    roles = {"query_weight": None, "sample_weight": None, **roles}
    checks = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": "allow-nan"}
    parts = engine.run(read_part, list_sources(path), roles, checks)
    infos = [info for part in parts if (info := part_info(part)).n_rows]
    if not infos:
        raise DataError(f"{path} has no row.")
    common = _agree(infos)
    rows = join_rows([fit_part(part, common) for part in parts if len(part.rows.y)])
    X = rows.X
    if common.names is not None and not hasattr(X, "tocsr") and find_spec("pandas") is not None:
        from pandas import DataFrame

        X = DataFrame(X, columns=list(common.names))
    has_queries = roles["qid"] is not None or len({*rows.qid.tolist()}) > 1
    weight = None if roles["sample_weight"] is None else rows.sample_weight
    return X, rows.y, rows.qid if has_queries else None, weight


def read_parts(
    sources: tuple[FilePiece, ...],
    roles: Roles,
    checks: dict[str, Any],
    n_bytes: int | None = None,
) -> Iterator[InputPart]:
    """Parts of the files; rows of Parquet in parts of at most about so many bytes.

    Parts of a given size are stored, and cut into pieces later: these are views if rows are in the
    order of their shards.
    """
    for source in sources:
        for part in _read_source(source, roles, checks, n_bytes):
            yield part if n_bytes is None else part._replace(rows=by_shard(part.rows))


def _read_source(
    source: FilePiece, roles: Roles, checks: dict[str, Any], n_bytes: int | None
) -> Iterator[InputPart]:
    columns = {name: roles[name] for name in ("y", "qid")}
    first = 0
    for piece, start in _pieces_of(source, n_bytes):
        items: Items | None = None
        if isinstance(piece, str):
            items = read_items(piece, **columns)
        elif isinstance(piece, _Lines) and piece.is_letor:
            items = read_letor(piece)
        elif piece is not None:
            try:
                items = items_from_piece(piece, source.path, **columns)
            except DataError as error:
                if not start:
                    raise
                where = f"{source.path} (counted from row {start + 1:,})"
                raise error.replaced(file=where) from None
        yield _part(items, roles, checks, (source.number, first), source.path)
        first += 0 if items is None else items.n_items


def _pieces_of(source: FilePiece, n_bytes: int | None) -> Iterator[tuple[Any, int]]:
    """A path, lines, Arrow tables, or None without a row; and how many rows of a table precede."""
    if source.last < 0:
        yield source.path, 0
    elif not is_parquet(source.path):
        yield _read_lines(source), 0
    else:
        from pyarrow import Table

        with _parquet(source.path, buffer_size=1 << 16, pre_buffer=False) as file:
            start = sum(file.metadata.row_group(k).num_rows for k in range(source.first))
            if n_bytes is None:
                table = file.read_row_group(source.first)
                yield (table if table.num_rows else None), start
                return
            size = max(n_bytes // (8 * file.metadata.num_columns), 100)
            for batch in file.iter_batches(size, [source.first]):
                yield Table.from_batches([batch]), start
                start += batch.num_rows


class _Lines(io.BytesIO):
    """Some lines of a file, with its name for error messages."""

    name = ""
    is_letor = True


def _read_lines(source: FilePiece) -> _Lines | None:
    """The lines that start in a range of bytes, after the names of columns; None without one."""
    is_letor, header = (detect_format(source.path) or "letor") == "letor", b""
    with open_binary(source.path) as file:
        if source.first and not is_letor:
            header = file.readline()
        file.seek(max(source.first - 1, 0))
        if source.first:
            file.readline()  # the rest of a line that starts before the range
        n_bytes = source.last - file.tell()
        data = file.read(n_bytes) + file.readline() if n_bytes > 0 else b""
    if not data.strip():
        return None
    lines = _Lines(header + data)
    lines.name = f"{source.path} (bytes {source.first} to {source.last})"
    lines.is_letor = is_letor
    return lines


def make_part(value: tuple[int, Any], roles: Roles, checks: dict[str, Any]) -> InputPart:
    """One partition of a Dask data frame, or of arrays."""
    number, data = value
    if not isinstance(data, tuple):
        columns = {name: roles[name] for name in ("y", "qid")}
        items = items_from_frame(data, **columns) if len(data) else None
        return _part(items, roles, checks, (number, 0), f"partition {number + 1}")
    X, y, qid, sample_weight, query_weight = data
    names = getattr(X, "columns", None)
    weights = _weights(sample_weight, len(y)), _weights(query_weight, len(y))
    qid = np.zeros(len(y), np.int64) if qid is None else as_ids(qid)
    rows = LooseRows(_checked(X, checks, "X"), as_grades(np.asarray(y), "y"), qid, *weights,
                _numbers(number, 0, len(y)))  # fmt: skip
    return InputPart(
        rows, None if names is None else tuple(map(str, names)), f"partition {number + 1}"
    )


def _part(
    items: Items | None,
    roles: Roles,
    checks: Mapping[str, Any],
    number: tuple[int, int],
    where: str,
) -> InputPart:
    if items is None:
        none = np.zeros(0)
        ids = none.astype(np.int64)
        return InputPart(LooseRows(np.zeros((0, 0)), none, ids, none, none, ids), None, where)
    X, names, n = items.X, items.feature_names, items.n_items
    weights: list[Any] = []
    for role in ("sample_weight", "query_weight"):
        column = None
        if (name := roles[role]) is not None:
            X, names, column = _take_column(X, names, name, role, where)
        weights.append(_weights(column, n))
    qid = np.zeros(n, np.int64) if items.qid is None else np.asarray(items.qid)
    fields = _checked(X, checks, where), as_grades(items.y, "y"), qid, *weights
    return InputPart(LooseRows._make((*fields, _numbers(*number, n))), names, where)


def _take_column(
    X: Matrix, names: Sequence[str] | None, name: object, role: str, where: str
) -> tuple[Any, Any, Any]:
    """Rows without one column, and that column."""
    if not isinstance(name, str) or names is None or name not in names:
        raise ParameterError(
            f"{role}={name!r}: {where} has no such column. Give the name of one of its columns."
        )
    at = names.index(name)
    keep = [i for i in range(len(names)) if i != at]
    column = X[:, [at]]
    column = column.toarray() if hasattr(column, "toarray") else column
    return X[:, keep], tuple(names[i] for i in keep), column[:, 0]


def _weights(values: object, n: int) -> Any:
    return np.array(frozen_weights(None if values is None else np.asarray(values), n, "weights"))


def _numbers(part: int, first: int, n: int) -> IntArray:
    return (np.int64(part) << ROW_BITS) + np.arange(first, first + n)


def _checked(X: Matrix, checks: Mapping[str, Any], where: str) -> Any:
    from sklearn.utils import check_array

    try:
        return check_array(X, **checks, ensure_min_samples=0)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from None


def part_info(part: InputPart) -> Info:
    rows = part.rows
    return Info(len(rows.y), rows.X.shape[1], part.names, rows.qid.dtype.kind, part.where)


def fit_part(part: InputPart, common: Common) -> LooseRows:
    """Rows with all features in one order (what a LETOR file omits is zero), ids of one kind."""
    rows = part.rows
    X, width = rows.X, common.n_features
    if len(rows.y) and part.names is not None and part.names != common.names:
        assert common.names is not None
        X = X[:, [part.names.index(name) for name in common.names]]
    missing = width - X.shape[1]
    if missing and hasattr(X, "tocsr"):
        X = X.copy()
        X.resize(X.shape[0], width)
    elif missing:
        X = np.pad(X, ((0, 0), (0, missing)))
    ids = rows.qid.astype(str) if common.as_text else rows.qid
    return rows._replace(X=X, qid=ids)


def _blocks(engine: Engine, X: MatrixLike, roles: Roles) -> ShardedValues:
    """The partitions of Dask collections as numbered values."""
    import dask

    blocks = enumerate(_delayed(X, roles))
    return engine.adopt([dask.delayed(_pair)(i, block) for i, block in blocks])


def _pair(number: int, block: Any) -> tuple[int, Any]:
    return number, block


def _delayed(X: Any, roles: Roles) -> list[Any]:
    """What computes each partition: a frame, or a tuple of X, y, qid and both weights."""
    import dask

    is_frame = hasattr(X, "to_delayed") and hasattr(X, "columns")
    named = [value is None or isinstance(value, str) for value in roles.values()]
    if is_frame and all(named):
        return list(X.to_delayed())
    frame = X.to_delayed() if is_frame else _row_blocks(X, None)
    sizes = None if is_frame else X.chunks[0]
    columns = [_side(values, sizes, len(frame), name) for name, values in roles.items()]
    return [dask.delayed(_tuple)(*blocks) for blocks in zip(frame, *columns, strict=True)]


def _tuple(*blocks: Any) -> tuple[Any, ...]:
    return blocks


def _row_blocks(X: Any, sizes: Any) -> list[Any]:
    """The blocks of rows of a Dask array."""
    chunks = dict.fromkeys(range(1, X.ndim), -1) | ({} if sizes is None else {0: sizes})
    return list(X.rechunk(chunks).to_delayed().reshape(-1))


def _side(values: Any, sizes: Any, n: int, name: str) -> list[Any]:
    """One of y, qid and the weights in the partitions of X."""
    if values is None:
        return [None] * n
    if not is_remote(values):
        if sizes is None or any(np.isnan(sizes)):
            raise ParameterError(
                f"{name} is {type(values).__name__} and X a Dask collection with partitions of "
                f"unknown size: give {name} as a column of the same data frame."
            )
        return np.split(np.asarray(values), np.cumsum(sizes)[:-1])
    if hasattr(values, "columns") or hasattr(values, "to_frame"):
        return list(values.to_delayed())
    known = sizes is not None and not any(np.isnan(sizes))
    return _row_blocks(values, sizes if known else None)
