"""What callers pass as data: frames of any library, Parquet files, rows of dicts, sparse matrices.

A model that was trained with ``one_hot`` has a feature ``column=word`` for each word. Its feature
names are all that is needed to encode new rows in the same way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import Column, DataFrame, FloatArray, IntArray, MatrixLike
from rankwright.data.io.files import PipedFile
from rankwright.data.vocabulary import is_missing
from rankwright.exceptions import DataError

if TYPE_CHECKING:
    import duckdb

Columns = dict[str, NDArray[Any]]


def columns_of(frame: Any) -> Columns:
    """The columns of a pandas, polars, pyarrow, duckdb or other data frame (through narwhals).

    A dict of columns is accepted too.

    >>> import pandas as pd
    >>> columns_of(pd.DataFrame({"a": [1, 2]}))
    {'a': array([1, 2])}
    """
    if isinstance(frame, dict):
        return {str(name): _one_per_row(column) for name, column in frame.items()}
    import narwhals as nw

    try:
        table: Any = nw.from_native(frame)
        if isinstance(table, nw.LazyFrame):
            table = table.collect()
        names = list(table.columns)
    except nw.exceptions.DuplicateError:
        names = list(getattr(frame, "column_names", frame.columns))
    except TypeError as error:
        kind, fix = type(frame).__name__, "a pandas, polars or pyarrow table, or a dict of columns"
        raise DataError(
            f"{kind} is not a data frame that narwhals supports ({error}). Give {fix}."
        ) from None
    check_columns(names)
    series = zip(names, table.iter_columns(), strict=True)
    return {str(name): _one_per_row(_values(column)) for name, column in series}


def check_columns(names: Sequence[Any], file: str | os.PathLike[str] | None = None) -> None:
    """Raise a DataError if two columns have the same name, or a name has several levels."""
    for name in names:
        if isinstance(name, tuple):
            fix = "Give each column one name."
            raise DataError(f"the column {name!r} has several names.", file=file, fix=fix)
    texts = [str(name) for name in names]
    if len(set(texts)) < len(texts):
        repeated = next(name for name in texts if texts.count(name) > 1)
        raise DataError(f"two columns are called {repeated!r}. Rename one.", file=file)


def _values(column: Any) -> NDArray[Any]:
    """The cells of a narwhals Series."""
    native = column.to_native()
    if hasattr(getattr(native, "type", None), "index_type"):
        # A dictionary of pyarrow, whose to_numpy gives nulls the last level.
        import narwhals as nw

        column = nw.from_native(native.cast(native.type.value_type), series_only=True)
    return np.asarray(column.to_numpy())


def _one_per_row(column: NDArray[Any]) -> NDArray[Any]:
    """A column as an array of one axis; lists and structs stay objects, bytes become text."""
    try:
        array = np.asarray(column)
    except ValueError:  # lists of different lengths
        array = np.empty((0, 0))
    if array.ndim > 1:
        array = np.empty(len(column), dtype=object)
        for row, cell in enumerate(column):
            array[row] = cell
    if array.dtype.kind == "S" or (array.dtype.kind == "O" and _holds_bytes(array)):
        array = _decoded(array)
    return array


def _holds_bytes(array: NDArray[Any]) -> bool:
    first = next((cell for cell in array if cell is not None), None)
    return isinstance(first, bytes | bytearray)


def _decoded(array: NDArray[Any]) -> NDArray[Any]:
    """Bytes as UTF-8 text: Parquet files of some writers do not say that their bytes are text."""
    texts = np.empty(len(array), dtype=object)
    for row, cell in enumerate(array.tolist()):
        try:
            texts[row] = bytes(cell).decode() if isinstance(cell, bytes | bytearray) else cell
        except UnicodeDecodeError:
            raise DataError(
                f"row {row} holds {bytes(cell)[:20]!r}, which is not text in UTF-8.",
                kind="wrong cell",
                line=row + 1,
                fix="Leave the column out, or decode it.",
            ) from None
    return texts


def ordered_categories(frame: DataFrame, name: str) -> list[str] | None:
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
    if isinstance(path, PipedFile):
        fix = "Save it to a file first."
        raise DataError("Parquet cannot be read from a pipe.", file=path, fix=fix)
    open(path, "rb").close()  # what cannot be opened is not a damaged file
    name = one_file(path)
    try:
        if library == "duckdb":
            import duckdb

            with duckdb.connect() as connection:
                # DuckDB renames a column whose name is that of another, also in another case.
                names = _top_names(connection, name)
                check_columns(names, path)
                query = "SELECT * FROM read_parquet(?, hive_partitioning = false)"
                table = connection.execute(query, [name]).fetchnumpy().values()
                pairs = zip(names, table, strict=True)
                return {name: _one_per_row(_unmasked(column)) for name, column in pairs}
        import narwhals as nw

        # The name of a folder (grade=7) is not a column, and * is a letter.
        options: dict[str, dict[str, Any]] = {
            "polars": {"glob": False, "hive_partitioning": False},
            "pyarrow": {"partitioning": None},
            "pandas": {"engine": "pyarrow", "partitioning": None},
        }
        return columns_of(nw.read_parquet(os.fspath(path), backend=library, **options[library]))
    except DataError as error:
        raise error.in_file(path) from None
    except Exception as error:  # every library has its own errors for a damaged file
        raise DataError(
            f"{library} cannot read this Parquet file ({error}).", file=path, fix="Copy it again."
        ) from error


def one_file(path: str | os.PathLike[str]) -> str:
    """A path as DuckDB needs it to read this file and no other: ``*``, ``?`` and ``[`` are letters.

    >>> one_file("/data/train[1].parquet")
    '/data/train[[]1].parquet'
    """
    if os.fsencode(path).decode("utf-8", "ignore") != os.fsdecode(path):
        fix = "Rename the file."
        raise DataError("the name is not UTF-8, which DuckDB needs.", file=path, fix=fix)
    return re.sub(r"([*?\[])", r"[\1]", os.path.abspath(path))


def _top_names(connection: duckdb.DuckDBPyConnection, path: str) -> list[str]:
    """The names of the columns of a Parquet file, without the parts of lists and structs."""
    query = "SELECT name, num_children FROM parquet_schema(?)"
    schema = connection.execute(query, [path]).fetchall()
    names, inside = [], 0  # how many of the next entries are parts of the last column
    for name, n_children in schema[1:]:
        if inside == 0:
            names.append(name)
            inside = 1
        inside += (n_children or 0) - 1
    return names


def parquet_names(path: str | os.PathLike[str]) -> list[str]:
    """The names of the columns of a Parquet file; with DuckDB or pyarrow without its rows."""
    if find_spec("duckdb"):
        import duckdb

        with duckdb.connect() as connection:
            return _top_names(connection, one_file(path))
    return list(read_parquet(path))


def _unmasked(column: Column) -> NDArray[Any]:
    """A column with its nulls as None or NaN, which the checks of ids and values find."""
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    if not np.ma.is_masked(column):
        return np.asarray(column.data)
    kind = column.dtype.kind
    numeric, timed = kind in "iuf", kind in "mM"
    plain: NDArray[Any] = column.data.copy() if timed else column.data
    plain = plain if timed else plain.astype(np.float64 if numeric else object)
    plain[np.ma.getmaskarray(column)] = np.nan if numeric else "NaT" if timed else None
    return plain


# Cells that mean a missing value. Those of NOT_NAMES cannot be the name of a column (na is sodium).
NOT_NAMES = frozenset(["", "NA", "NaN", "nan", "NULL", "?"])
MISSING = NOT_NAMES | {"N/A", "n/a", "#N/A", "null", "None", "na"}


def feature_matrix(columns: Mapping[str, Any], names: Sequence[str]) -> FloatArray:
    """The features of these names, in this order; a word that no name has counts for nothing.

    >>> names = ("price", "color=blue", "color=red")
    >>> feature_matrix({"color": ["red", "green"], "price": [9.5, "NA"], "id": [1, 2]}, names)
    array([[9.5, 0. , 1. ],
           [nan, 0. , 0. ]])
    """
    sources = [_source(name, columns) for name in names]
    absent = [name for name, source in zip(names, sources, strict=True) if source is None]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        trained = f"This model was trained on: {', '.join(names[:20])}."
        raise DataError(f"X lacks the column {absent[0]!r}{more}. {trained}")
    n_rows = len(next(iter(columns.values()), ()))
    matrix = np.empty((n_rows, len(names)))
    words: dict[str, list[str | None]] = {}
    for k, (name, source) in enumerate(zip(names, sources, strict=True)):
        if source == name:
            matrix[:, k] = _numbers(columns[name], name)
            continue
        column = str(source)
        if column not in words:
            words[column] = [_word(cell) for cell in np.asarray(columns[column]).tolist()]
        own = name[len(column) + 1 :]
        matrix[:, k] = [cell == own for cell in words[column]]
    return matrix


def encoded_words(X: Any, names: Sequence[str] | None) -> FloatArray | None:
    """The features of dicts, or of a data frame in which some columns hold words; None for others.

    >>> import pandas as pd
    >>> encoded_words(pd.DataFrame({"color": ["red", "green"]}), ("color=blue", "color=red"))
    array([[0., 1.],
           [0., 0.]])
    """
    if names is not None and (given := columns_of_dicts(X)) is not None:
        return feature_matrix(given, names)
    if names is None or not hasattr(type(X), "columns"):
        return None
    columns = dict.fromkeys(map(str, X.columns))
    sources = [_source(name, columns) for name in names]
    if None in sources or sources == list(names):
        return None
    return feature_matrix(columns_of(X), names)


def columns_of_dicts(X: Any) -> Mapping[str, Any] | None:
    """The columns of a dict of columns or of a list of dicts, one for each row; None for others."""
    if isinstance(X, Mapping):
        return _checked_columns(X)
    if isinstance(X, Sequence) and len(X) and all(isinstance(row, Mapping) for row in X):
        return _columns_of_rows(X)
    return None


def _columns_of_rows(rows: Sequence[Mapping[Any, Any]]) -> dict[str, list[Any]]:
    """The columns of a list of dicts, which all have the same keys.

    >>> _columns_of_rows([{"price": 9.5, "color": "red"}, {"color": "blue", "price": None}])
    {'price': [9.5, None], 'color': ['red', 'blue']}
    """
    first = rows[0].keys()
    for number, row in enumerate(rows):
        if row.keys() != first:
            name = sorted(map(str, row.keys() ^ first))[0]
            problem = "lacks" if name in map(str, first) else "has, unlike row 0,"
            raise DataError(f"row {number} {problem} {name!r}: give None for a missing value.")
    return {str(name): [row[name] for row in rows] for name in first}


def _checked_columns(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """The columns of a dict as given; each has one value per row.

    >>> _checked_columns({"price": 9.5})
    Traceback (most recent call last):
    rankwright.exceptions.DataError: 'price' of X is 9.5, not a column of values. Give a single row
    as a list of one dict: [X].
    """
    n_rows = None
    for name, column in columns.items():
        if np.ndim(column) != 1:
            kind = repr(column)[:40] if np.ndim(column) == 0 else f"an array of {np.shape(column)}"
            fix = "Give a single row as a list of one dict: [X]."
            raise DataError(f"{name!r} of X is {kind}, not a column of values. {fix}")
        n_rows = len(column) if n_rows is None else n_rows
        if len(column) != n_rows:
            first = next(iter(columns))
            lengths = f"{name!r} has {len(column)} values and {first!r} {n_rows}"
            raise DataError(f"the columns of X differ in length: {lengths}. Give one per row.")
    return columns


def _source(name: str, columns: Mapping[str, Any]) -> str | None:
    """The column of a feature: its name, or what is before an ``=`` in it."""
    if name in columns:
        return name
    cuts = [i for i, character in enumerate(name) if character == "="]
    return next((name[:i] for i in cuts if name[:i] in columns), None)


def _numbers(column: Column, name: str) -> FloatArray:
    values = np.asarray(column)
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    cells: list[Any] = [
        None if isinstance(c, str) and c.strip() in MISSING else c for c in values.tolist()
    ]
    numbers = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        try:
            numbers[row] = np.nan if is_missing(cell) else float(cell)
        except (TypeError, ValueError):
            fault = f"{name} is {cell!r} in row {row}"
            raise DataError(f"{fault}; this model was trained on numbers in that column.") from None
    return numbers


def _word(cell: object) -> str | None:
    """A cell as the file of the training data had it: 7.0 of a data frame is 7 there."""
    if is_missing(cell):
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


_FIX = "Build it again from its source, or see X.check_format(full_check=True)."


def checked_csr(X: Any, name: str = "X") -> Any:
    """A SciPy sparse matrix as CSR; raises a DataError if an index points outside of it.

    SciPy and compiled kernels follow these indices without a check, so a damaged matrix would read
    or write foreign memory. Values are not copied; indices become int32 where the matrix is small
    enough. SciPy remembers whether indices are sorted and distinct; the result forgets it, because
    arrays may have changed since.

    >>> from scipy.sparse import csr_array
    >>> X = csr_array([[1.0, 0.0], [0.0, 2.0]])
    >>> X.indices = X.indices.astype("int64")
    >>> checked_csr(X).indices.dtype
    dtype('int32')
    >>> X.indices[1] = 9
    >>> checked_csr(X)
    Traceback (most recent call last):
    rankwright.exceptions.DataError: X: row 1 stores a value in column 9, but there are 2 columns...
    """
    if getattr(X, "_rankwright_checked", False):
        return X
    if X.ndim != 2:
        raise DataError(f"{name} is a sparse array of {X.ndim} axes; it needs 2: rows, columns.")
    if X.format in ("csr", "csc", "bsr"):
        _check_compressed(X, name)
    elif X.format == "coo":
        for index, size, axis in zip((X.row, X.col), X.shape, ("row", "column"), strict=True):
            _check_integers(index, f"{name}: the {axis} numbers")
            _check_lengths(len(index) == len(X.data), name)
            _check_inside(index, size, f"{name}: {axis}")
    table = X.tocsr()
    if table is not X:
        _check_compressed(table, name)
    # One type of index wherever it suffices: kernels are compiled for each type they meet.
    kind = np.int32 if max(*table.shape, len(table.data)) < 2**31 else np.int64
    index = tuple(part.astype(kind, copy=False) for part in (table.indices, table.indptr))
    table = type(table)((table.data, *index), shape=table.shape, copy=False)
    table._rankwright_checked = True  # of this object, which no caller has
    return table


def checked_rows(X: MatrixLike, name: str = "X") -> Any:
    """A sparse matrix as :func:`checked_csr` gives it, a lazy frame collected; others as they are.

    >>> import polars as pl
    >>> checked_rows(pl.LazyFrame({"a": [1.0]})).shape
    (1, 1)
    """
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):  # polars' LazyFrame
        X = X.collect()
    return checked_csr(X, name) if hasattr(X, "tocsr") else X


def _check_compressed(X: Any, name: str) -> None:
    """Check the index arrays of a CSR, CSC or BSR matrix, in time O(stored values)."""
    block = X.data.shape[1:] if X.format == "bsr" else (1, 1)
    n_major, n_minor = (size // part for size, part in zip(X.shape, block, strict=True))
    major, minor = "row", "column"
    if X.format == "csc":
        n_major, n_minor, major, minor = n_minor, n_major, minor, major
    for array in (X.indices, X.indptr):
        _check_integers(array, f"{name}: the index arrays")
    ptr, n_stored = X.indptr, min(len(X.indices), len(X.data))
    _check_lengths(len(ptr) == n_major + 1 and len(X.indices) == len(X.data), name)
    if ptr[0] != 0 or ptr[-1] > n_stored or (ptr[1:] < ptr[:-1]).any():
        raise DataError(
            f"{name}: indptr runs from {ptr[0]} to {ptr[-1]} for {n_stored} stored values; it must "
            f"ascend from 0 to at most {n_stored}. The matrix is damaged. {_FIX}"
        )
    used = X.indices[: ptr[-1]]
    if len(used) and (used.min() < 0 or used.max() >= n_minor):
        at = int(np.argmax((used < 0) | (used >= n_minor)))
        row = int(np.searchsorted(ptr, at, side="right")) - 1
        raise DataError(
            f"{name}: {major} {row} stores a value in {minor} {used[at]}, but there are {n_minor} "
            f"{minor}s. The matrix is damaged. {_FIX}"
        )


def _check_integers(array: NDArray[Any], what: str) -> None:
    if not (isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu"):
        kind = f"{array.ndim}-d {array.dtype}" if isinstance(array, np.ndarray) else type(array)
        raise DataError(f"{what} are {kind}; they must be 1-d integers. {_FIX}")


def _check_lengths(fit: bool, name: str) -> None:
    if not fit:
        raise DataError(f"{name}: its arrays have different lengths. The matrix is damaged. {_FIX}")


def _check_inside(index: IntArray, size: int, what: str) -> None:
    if len(index) and (index.min() < 0 or index.max() >= size):
        at = int(np.argmax((index < 0) | (index >= size)))
        raise DataError(
            f"{what} {index[at]} of stored value {at} is outside 0 .. {size - 1}. The matrix is "
            f"damaged. {_FIX}"
        )
