"""Whole files of numbers at NumPy's speed, where nothing in them is out of the ordinary."""

from __future__ import annotations

import io
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankwright.data.text import Text

__all__ = ["parse_numeric"]

# NumPy takes a bare CR for a line end, and the separators of ASCII for blanks.
_STRANGE = (b"\r", b"\x1c", b"\x1d", b"\x1e", b"\x1f")


def parse_numeric(
    text: Text, separator: str, dtype: Any, *, n_header: int = 0, ndmin: Literal[1, 2] = 1
) -> NDArray[Any] | None:
    """Every line as a row of numbers, or None where a slower, exact parser must have a look.

    None says that a number is missing or malformed, a line has another number of fields, or the
    text holds signs that NumPy reads in a way of its own (some letters of other scripts count as
    digits there). NaN and infinity pass: the caller knows which columns may hold them.

    >>> parse_numeric(Text("a.dat", b"1::0.5\\n2::1.5\\n"), "::", "i8,f8")["f1"]
    array([0.5, 1.5])
    >>> parse_numeric(Text("a.dat", b"1::0.5\\n2::\\n"), "::", "i8,f8") is None
    True
    """
    data = text.data
    if not data.isascii() or any(sign in data for sign in _STRANGE):
        return None
    if len(separator) > 1:  # NumPy wants one character; NUL stands in no text that was read
        data, separator = data.replace(separator.encode(), b"\0"), "\0"
    if n_header and not data.removesuffix(b"\n").count(b"\n"):
        return None  # nothing but a header, about which NumPy would warn
    file = io.BytesIO(data)
    try:
        rows: NDArray[Any] = np.loadtxt(file, dtype, None, separator, None, n_header, ndmin=ndmin)
    except ValueError:
        return None
    return rows
