"""Files of ratings: MovieLens, Jester, Book-Crossing, Netflix, and any CSV or Parquet table."""

from __future__ import annotations

import os
import re
from typing import Any

from rankwright.data.ratings import DUPLICATES, Ratings
from rankwright.data.ratings_formats import NAMED_FORMATS
from rankwright.data.ratings_tables import read_csv_ratings, read_parquet_ratings
from rankwright.data.text import Text, read_text
from rankwright.exceptions import DataError, ParameterError

__all__ = ["read_ratings"]


def read_ratings(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    duplicates: str = "error",
    implicit: bool = False,
    **columns: Any,
) -> Ratings:
    """Read a file of ratings, gzipped or not.

    Parameters
    ----------
    path : path
    format : str or None
        None tells the format by its content; else one of

        ==================  =====================================================================
        ``movielens-1m``    ``user::movie::rating::time`` (also MovieLens 10M)
        ``movielens-100k``  the same, separated by tabs
        ``jester``          a line per user: how many were rated, then each joke; 99 = not rated
        ``book-crossing``   ``"user";"ISBN";"rating"`` with a header, latin-1; 0 = implicit
        ``netflix``         ``movie,customer,rating``
        ``csv``             any table with a separator; see ``columns``
        ``parquet``         any Parquet table; see ``columns``
        ==================  =====================================================================
    duplicates : {"error", "first", "last", "mean", "keep"}, default="error"
        What to do where a user rated an item more than once.
    implicit : bool, default=False
        Keep Book-Crossing's ratings of 0, which say "came across it" and are no points.
    **columns
        For ``csv`` and ``parquet``: ``user``, ``item``, ``value``, ``time``, each the name of a
        column or its place (from 0). Left out, the usual names are looked for (``userId``,
        ``movie_id``, ``rating``, ``timestamp`` and so on); a CSV file without a header holds user,
        item, value and perhaps time. For ``csv`` also ``separator`` and ``encoding``.

    Returns
    -------
    ratings : Ratings
        Whole-number ids are int64, others text, in order of first appearance.

    Raises
    ------
    FileFormatError
        With file, line, column, reason and fix, for the first line that is not as it should be:
        another number of fields, an id or value missing or not a number, a value outside the
        scale of the named data set, a pair of user and item that came before.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ratings.dat"
    >>> _ = path.write_text("1::1193::5::978300760\\n1::661::3::978302109\\n")
    >>> read_ratings(path)
    Ratings(2 ratings, 1 users, 2 items, values 3 to 5)
    """
    if duplicates not in DUPLICATES:
        raise ParameterError(f"duplicates={duplicates!r}: use one of {', '.join(DUPLICATES)}.")
    if format == "parquet" or (format is None and _is_parquet(path)):
        return read_parquet_ratings(path, duplicates, **columns)
    text = read_text(path, columns.pop("encoding", "utf-8"))
    format = format or _told_by_content(text, columns)
    if format == "csv":
        return read_csv_ratings(text, duplicates, **columns)
    if format not in NAMED_FORMATS:
        known = ", ".join([*NAMED_FORMATS, "csv", "parquet"])
        raise ParameterError(f"read_ratings(format={format!r}): use one of {known}.")
    if columns:
        raise ParameterError(f"{', '.join(columns)}: there is no choice of it in {format!r}.")
    ratings = NAMED_FORMATS[format](text, duplicates)
    if format == "book-crossing" and not implicit:
        return ratings.take(ratings.value > 0).compact()
    return ratings


def _is_parquet(path: str | os.PathLike[str]) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _told_by_content(text: Text, columns: dict[str, Any]) -> str:
    """The format, from the first line that is not blank."""
    line = text.data.lstrip().split(b"\n", 1)[0].strip()
    number = rb"\s*[+-]?[\d.]+\s*"
    signs = {
        "movielens-1m": number + rb"(::" + number + rb"){3}",
        "movielens-100k": rb"\d+(\t\d+){3}",
        "book-crossing": rb'"User-ID";"ISBN";"Book-Rating"',
        "jester": number + rb"(," + number + rb"){100}",
    }
    found = next((name for name, sign in signs.items() if re.fullmatch(sign, line)), "csv")
    if columns:
        return "csv"
    if found == "csv" and re.fullmatch(number + rb"(," + number + rb"){2}", line):
        raise DataError(
            f"{text.path}: three numbers without a header may be user, item, value or movie, "
            'customer, rating. Say format="csv" or format="netflix".'
        )
    return found
