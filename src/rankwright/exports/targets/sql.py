"""One SQL expression, for DuckDB, PostgreSQL or SQLite."""

from __future__ import annotations

import sqlite3
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exports.expressions import (
    MAX_LENGTH,
    Language,
    Text,
    grade_text,
    kernel_text,
    score_text,
)
from rankwright.exports.form import Form
from rankwright.exports.target import Files, Options, Reading, Target
from rankwright.scoring.kernel import KernelExpansion

DIALECTS = ("duckdb", "postgresql", "sqlite")


class Sql(Target):
    """An expression of the columns that bear the features' names; NULL and NaN are missing."""

    name: ClassVar[str] = "sql"
    extension: ClassVar[str] = "sql"
    options: ClassVar[frozenset[str]] = frozenset({"dialect"})

    holds: ClassVar[str] = "it is one expression of one row"

    def write(self, form: Form, options: Options) -> Files:
        language = Dialect(options.dialect)
        score = score_text(form, language)
        files = {"": f"{score}\n".encode()}
        if form.grades is not None:
            files[".grade.sql"] = f"{grade_text(form, score, language)}\n".encode()
        return files

    def read(self, files: Files, X: FloatArray, form: Form, options: Options) -> Reading:
        texts = [files[""].decode(), *([files[".grade.sql"].decode()] if form.grades else [])]
        run = _run_sqlite if options.dialect == "sqlite" else _run_duckdb
        columns, reader = run(texts, X, form.names)
        if options.dialect == "postgresql":
            reader += " on the PostgreSQL text (PostgreSQL itself not run)"
        return Reading(columns[0], reader, columns[1] if form.grades else None)


class Dialect(Language):
    """SQL with doubles throughout."""

    def __init__(self, name: str) -> None:
        self.name = name
        if name != "sqlite":  # which refuses longer statements by default
            self.limit = 4 * MAX_LENGTH  # for which DuckDB needs about 2 GB of memory

    def number(self, value: float) -> Text:
        text = repr(float(value))
        if self.name == "postgresql":
            return f"'{text}'::float8"
        if self.name == "duckdb" and "e" not in text:
            text += "e0"  # without an exponent it would be a DECIMAL
        return f"({text})" if value < 0 else text

    def feature(self, name: str, takes_nan: bool) -> Text:
        quoted = '"' + name.replace('"', '""') + '"'
        if not takes_nan or self.name == "sqlite":
            return quoted
        return f"NULLIF({quoted}, 'NaN'::float8)"

    def missing(self, x: Text) -> Text:
        return f"{x} IS NULL"

    def choose(self, condition: Text, then: Text, otherwise: Text) -> Text:
        return f"CASE WHEN {condition} THEN {then} ELSE {otherwise} END"

    def member(self, x: Text, values: tuple[float, ...]) -> Text:
        return f"{x} IN ({', '.join(map(self.number, values))})"

    def expansion(self, body: KernelExpansion, xs: list[Text]) -> Text:
        """A sum over a table of the support rows, which the features are written for once."""
        names = [f"rw_support_{i}" for i in range(body.support.shape[1])]
        rows = (
            f"({', '.join(map(self.number, [coef, *row]))})"
            for coef, row in zip(body.coef.tolist(), body.support.tolist(), strict=True)
        )
        kernel = kernel_text(body.kernel, xs, names, self)
        total = (
            f"(WITH rw_support(rw_coef, {', '.join(names)}) AS (VALUES {', '.join(rows)}) "
            f"SELECT sum(rw_coef * {kernel}) FROM rw_support)"
        )
        return self.sum([total, self.number(body.intercept)])


def _run_duckdb(texts: list[str], X: FloatArray, names: tuple[str, ...]) -> tuple[Any, str]:
    try:
        import duckdb
    except ImportError:
        raise ModuleNotFoundError(
            "the certificate of a SQL export runs the expression in DuckDB, which is not "
            "installed. Run: pip install 'rankwright[data]', or choose dialect='sqlite'."
        ) from None
    rows: dict[str, Any] = {f"c{i}": np.ascontiguousarray(X[:, i]) for i in range(X.shape[1])}
    rows["n"] = np.arange(len(X))
    named = ", ".join(f'c{i} AS "{n.replace(chr(34), chr(34) * 2)}"' for i, n in enumerate(names))
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.register("given", rows)
        listed = ", ".join(f"{text} AS v{i}" for i, text in enumerate(texts))
        query = f"SELECT {listed} FROM (SELECT n, {named} FROM given) ORDER BY n"
        result = connection.execute(query).fetchnumpy()
    columns = [np.ma.filled(result[f"v{i}"].astype(np.float64), np.nan) for i in range(len(texts))]
    return columns, f"duckdb {duckdb.__version__}"


def _run_sqlite(texts: list[str], X: FloatArray, names: tuple[str, ...]) -> tuple[Any, str]:
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    rows = [[None if v != v else v for v in row] for row in X.tolist()]
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"CREATE TABLE given ({', '.join(f'{name} REAL' for name in quoted)})")
        marks = ", ".join("?" * len(names))
        connection.executemany(f"INSERT INTO given VALUES ({marks})", rows)
        listed = ", ".join(texts)
        result = connection.execute(f"SELECT {listed} FROM given ORDER BY rowid").fetchall()
    finally:
        connection.close()
    columns = [np.array(column, dtype=np.float64) for column in zip(*result, strict=True)]
    return columns, f"sqlite {sqlite3.sqlite_version}"
