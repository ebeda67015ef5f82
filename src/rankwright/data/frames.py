"""Data frames of any library, and Parquet files, as named NumPy columns."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exceptions import DataError

Columns = dict[str, NDArray[Any]]


def columns_of(frame: Any) -> Columns:
    """The columns of a pandas, polars, pyarrow, duckdb or other data frame (through narwhals).

    A dict of columns is accepted too.

    >>> import pandas as pd
    >>> columns_of(pd.DataFrame({"a": [1, 2]}))
    {'a': array([1, 2])}
    """
    if isinstance(frame, dict):
        return {str(name): np.asarray(column) for name, column in frame.items()}
    import narwhals as nw

    try:
        table: Any = nw.from_native(frame)
    except TypeError as error:
        kind, fix = type(frame).__name__, "a pandas, polars or pyarrow table, or a dict of columns"
        raise DataError(
            f"{kind} is not a data frame that narwhals knows ({error}). Give {fix}."
        ) from None
    if isinstance(table, nw.LazyFrame):
        table = table.collect()
    return {name: table[name].to_numpy() for name in table.columns}


def ordered_categories(frame: Any, name: str) -> list[str] | None:
    """The categories of an ordered column of a data frame, from first to last; None otherwise.

    >>> import polars as pl
    >>> grade = pl.Series(["good"], dtype=pl.Enum(["bad", "good"]))
    >>> ordered_categories(pl.DataFrame({"grade": grade}), "grade")
    ['bad', 'good']
    """
    if isinstance(frame, dict):
        return None
    import narwhals as nw

    table: Any = nw.from_native(frame)
    kind = table.collect_schema()[name]
    return [str(word) for word in kind.categories] if isinstance(kind, nw.Enum) else None


def read_parquet(path: str | os.PathLike[str]) -> Columns:
    """The columns of a Parquet file, read by the first of four libraries that is installed."""
    libraries: list[Any] = ["duckdb", "polars", "pyarrow", "pandas"]
    library = next(filter(find_spec, libraries), None)
    if library is None:
        raise DataError(
            f"{path} is a Parquet file, but no library that reads Parquet is installed. "
            "Install duckdb: pip install 'rankwright[data]' (polars, pyarrow and pandas work too)."
        )
    try:
        if library == "duckdb":
            import duckdb

            with duckdb.connect() as connection:
                query = "SELECT * FROM read_parquet(?, hive_partitioning = false)"
                table = connection.execute(query, [one_file(path)])
                return {name: _unmasked(column) for name, column in table.fetchnumpy().items()}
        import narwhals as nw

        # The name of a folder (grade=7) is not a column, and * is a letter.
        options: dict[str, dict[str, Any]] = {
            "polars": {"glob": False, "hive_partitioning": False},
            "pyarrow": {"partitioning": None},
            "pandas": {"engine": "pyarrow", "partitioning": None},
        }
        return columns_of(nw.read_parquet(os.fspath(path), backend=library, **options[library]))
    except FileNotFoundError:
        raise
    except Exception as error:  # every library has its own errors for a damaged file
        raise DataError(
            f"{path}: {library} cannot read this Parquet file ({error}). Copy it again."
        ) from error


def one_file(path: str | os.PathLike[str]) -> str:
    """A path as DuckDB needs it to read this file and no other: ``*``, ``?`` and ``[`` are letters.

    >>> one_file("/data/train[1].parquet")
    '/data/train[[]1].parquet'
    """
    return re.sub(r"([*?\[])", r"[\1]", os.path.abspath(path))


def parquet_names(path: str | os.PathLike[str]) -> list[str]:
    """The names of the columns of a Parquet file; with DuckDB or pyarrow without its rows."""
    if find_spec("duckdb"):
        import duckdb

        with duckdb.connect() as connection:
            table = connection.execute(
                "SELECT name FROM parquet_schema(?) WHERE num_children IS NULL OR num_children = 0",
                [one_file(path)],
            )
            return [row[0] for row in table.fetchall()]
    return list(read_parquet(path))


def _unmasked(column: Any) -> NDArray[Any]:
    """A column with its nulls as None or NaN, which the checks of ids and values find."""
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    if not np.ma.is_masked(column):
        return np.asarray(column.data)
    numeric = column.dtype.kind in "iufb"
    plain: NDArray[Any] = column.data.astype(np.float64 if numeric else object)
    plain[np.ma.getmaskarray(column)] = np.nan if numeric else None
    return plain
