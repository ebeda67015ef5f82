"""Models of other libraries, read without their code: LightGBM, XGBoost, RankLib, CatBoost, ONNX.

LightGBM's text, XGBoost's JSON and UBJSON and RankLib's text are parsed here, every index checked,
and scored by ``rankwright.scoring``: a damaged file is refused and cannot crash the process.
CatBoost's files are converted, and ONNX files tried, in a child process first (``isolation``).
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray
from rankwright.data.io.files import file_size
from rankwright.data.queries import Queries
from rankwright.persist import foreign_trees as trees
from rankwright.persist.format import NotModelFile, Refused, open_regular
from rankwright.persist.isolation import convert_catboost, onnx_inputs, try_onnx
from rankwright.persist.scorer import SavedScorer
from rankwright.scoring.base import Matrix, RowMap, Scorer
from rankwright.scoring.linear import Additive, Linear

MAX_DEPTH, MAX_VALUES = 64, 2**25
_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_CONSTANTS = {"Z": None, "T": True, "F": False}


def decode_ubjson(raw: bytes) -> Any:
    """The value that a UBJSON text holds.

    >>> decode_ubjson(b"{i\\x01a[$U#i\\x02\\x05\\x06i\\x01b[TZ]}")
    {'a': [5, 6], 'b': [True, None]}
    """
    decoder = _Decoder(raw)
    try:
        value = decoder.value(decoder.mark(), 0)
    except (IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
        raise Refused("its UBJSON is damaged or cut off") from error
    return value


class _Decoder:
    def __init__(self, raw: bytes) -> None:
        self.raw, self.place, self.n_values = raw, 0, 0

    def mark(self) -> str:
        self.place += 1
        return chr(self.raw[self.place - 1])

    def take(self, size: int) -> bytes:
        if size < 0 or self.place + size > len(self.raw):
            raise IndexError
        self.place += size
        return self.raw[self.place - size : self.place]

    def count(self) -> int:
        mark = self.mark()
        if mark not in "iUIlL":
            raise ValueError
        value = int(self.value(mark, 0))
        if value < 0:
            raise ValueError
        return value

    def value(self, mark: str, depth: int) -> Any:
        self.n_values += 1
        if depth > MAX_DEPTH or self.n_values > MAX_VALUES:
            raise Refused("its UBJSON is too deep or holds too many values")
        if mark in _NUMBERS:
            dtype = np.dtype(_NUMBERS[mark])
            return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()
        if mark in _CONSTANTS:
            return _CONSTANTS[mark]
        if mark == "S":
            return self.take(self.count()).decode()
        if mark == "C":
            return self.take(1).decode()
        if mark == "[":
            return self.array(depth)
        if mark == "{":
            return self.object(depth)
        raise ValueError

    def shape(self) -> tuple[str | None, int | None]:
        """The type and the number of values, where a container says them."""
        kind, size = None, None
        if chr(self.raw[self.place]) == "$":
            self.place += 1
            kind = self.mark()
        if chr(self.raw[self.place]) == "#":
            self.place += 1
            size = self.count()
        if kind is not None and size is None:
            raise ValueError
        return kind, size

    def array(self, depth: int) -> list[Any]:
        kind, size = self.shape()
        if kind in _NUMBERS and size is not None:
            dtype = np.dtype(_NUMBERS[kind])
            return list(np.frombuffer(self.take(size * dtype.itemsize), dtype).tolist())
        values: list[Any] = []
        while size is None or len(values) < size:
            mark = kind or self.mark()
            if size is None and mark == "]":
                break
            values.append(self.value(mark, depth + 1))
        return values

    def object(self, depth: int) -> dict[str, Any]:
        kind, size = self.shape()
        values: dict[str, Any] = {}
        while size is None or len(values) < size:
            if size is None and chr(self.raw[self.place]) == "}":
                self.place += 1
                break
            key = self.take(self.count()).decode()
            if key in values:
                raise ValueError
            values[key] = self.value(kind or self.mark(), depth + 1)
        return values


MAX_FOREIGN = 2**29  # a parsed text takes several times its size

# Kind by first bytes; CatBoost and ONNX have extensions as well.
_RANKLIB = rb"## (LambdaMART|MART|Random Forests|RankBoost|Linear Regression|Coordinate Ascent|\w+)"
_STARTS = {
    "lightgbm": rb"tree\r?\n(version|num_class)",
    "ranklib": _RANKLIB,
    "xgboost": rb"\s*\{\s*\"(learner|version)\"|\{[LliIU].{0,8}learner",
    "catboost": rb"CBM1",
}


@dataclass(frozen=True, eq=False)
class Rounded(RowMap):
    """Values as float32, as XGBoost, CatBoost and RankLib keep them; NaN as 0 if ``fill``."""

    kind: ClassVar[str] = "float32"
    n_columns: int
    fill: bool = False
    _width: ClassVar[str] = "n_columns"

    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        rows = X if isinstance(X, np.ndarray) else X.toarray()
        with np.errstate(over="ignore"):
            rounded = rows.astype(np.float32).astype(np.float64)
        return np.nan_to_num(rounded, nan=0.0) if self.fill else np.asarray(rounded)


@dataclass(frozen=True, eq=False, repr=False)
class ForeignScorer(SavedScorer):
    """A model of another library; ``takes_more``: rows may have more features than it names."""

    takes_more: bool = False

    def _apply(
        self, function: Callable[[Any], FloatArray], X: Any, qid: ArrayLike | None
    ) -> FloatArray:
        shape: tuple[int, ...] = getattr(X, "shape", ())
        if self.takes_more and len(shape) == 2 and shape[1] > self.n_features:
            X = X[:, : self.n_features]
        return super()._apply(function, X, qid)

    def __repr__(self) -> str:
        return f"ForeignScorer({self.kind!r}, n_features={self.n_features})"


def foreign_kind(path: str | os.PathLike[str]) -> str | None:
    """Which library wrote a file, by its first bytes and its extension; None if none of these."""
    with open_regular(path) as file:
        start = file.read(4096)
    kinds = (kind for kind, pattern in _STARTS.items() if re.match(pattern, start, re.DOTALL))
    kind = next(kinds, None)
    extension = os.path.splitext(os.fspath(path))[1].lower()
    by_name = {".onnx": "onnx", ".cbm": "catboost", ".ubj": "xgboost"}
    return kind or (by_name.get(extension) if start else None)


def load_foreign(
    path: str | os.PathLike[str], fault: NotModelFile, max_bytes: int
) -> ForeignScorer:
    """Read a model of another library; refuse it if it is damaged, or with the fault given."""
    kind = foreign_kind(path)
    if kind is None:
        raise fault
    limit = min(max_bytes, MAX_FOREIGN)
    with open_regular(path) as file:
        size = file_size(file)
        if size > limit:
            raise Refused(f"it has {size:,} bytes, the limit is {limit:,}", "Use a smaller model.")
        raw = b"" if kind in _BY_PATH else file.read(limit)
    try:
        return _BY_PATH[kind](path) if kind in _BY_PATH else _READERS[kind](raw)
    except Refused as error:
        reason = f"it looks like {_LIBRARIES[kind]}, but {error.reason}"
        raise Refused(reason, error.remedy) from error
    except OSError:
        raise
    except Exception as error:
        raise Refused(f"it looks like {_LIBRARIES[kind]}, but it is damaged") from error


def read_lightgbm(raw: bytes) -> ForeignScorer:
    """A model in LightGBM's text format."""
    model = trees.lightgbm_model(raw)
    scorer = model.scorer()
    return ForeignScorer("LightGBM", scorer, (), model.names, True)


def read_xgboost(raw: bytes) -> ForeignScorer:
    """A model in XGBoost's JSON or UBJSON format; the score is the margin."""
    if raw[:1] == b"{" and raw[1:2] in b"LliIU#$" and raw[1:2]:
        content = decode_ubjson(raw)
    else:
        content = trees.parse_json(raw)
    model = trees.xgboost_model(content)
    scorer: Scorer
    if model.weights is not None:
        *weights, bias = model.weights
        scorer = Linear(np.array(weights, dtype=np.float64), bias + model.base)
        return ForeignScorer("XGBoost", scorer, (), model.names)
    scorer = model.scorer()
    return ForeignScorer("XGBoost", scorer, (Rounded(model.n_features),), model.names, True)


def read_catboost(raw: bytes) -> ForeignScorer:
    """A CatBoost model of numeric features, as CatBoost's JSON has it."""
    model = trees.catboost_model(trees.parse_json(raw))
    scorer = model.scorer()
    return ForeignScorer("CatBoost", scorer, (Rounded(model.n_features),), model.names, True)


def read_ranklib(raw: bytes, n_features: int | None = None) -> ForeignScorer:
    """A model in one of RankLib's text formats; features count from 1, a missing one is 0."""
    name, body = trees.ranklib_parts(raw)
    if name in ("LambdaMART", "MART", "Random Forests"):
        model = trees.ranklib_ensemble(body, n_features)
        width = model.n_features
        scorer: Scorer = model.scorer()
    else:
        fields = trees.ranklib_fields(body, 3 if name == "RankBoost" else 2)
        width = n_features or max(int(field[0]) for field in fields)
        scorer = _ranklib_sum(name, fields, width)
    return ForeignScorer(
        f"RankLib {name}", scorer, (Rounded(width, fill=True),), None, True, takes_more=True
    )


def _ranklib_sum(name: str, fields: list[tuple[float, ...]], width: int) -> Scorer:
    number = np.array([int(field[0]) for field in fields])
    lowest = 0 if name == "Linear Regression" else 1
    if number.min() < lowest or number.max() > width:
        raise Refused(f"it has feature {number.max()}; features {lowest} to {width} are expected")
    weight = np.array([field[-1] for field in fields])
    if name == "RankBoost":
        threshold, zeros = np.array([field[1] for field in fields]), np.zeros(len(fields), np.int64)
        return Additive.from_rounds(width, number - 1, threshold, zeros, weight)
    coef = np.bincount(number, weight, width + 1).astype(np.float64)
    return Linear(coef[1:], float(coef[0]))


@dataclass(frozen=True, eq=False)
class OnnxScorer(Scorer):
    """An ONNX graph with one input of rows; its first output is the score."""

    kind: ClassVar[str] = "onnx"
    session: Any
    n_inputs: int
    dtype: Any
    _width: ClassVar[str] = "n_inputs"

    def decision_function(self, X: Matrix) -> FloatArray:
        rows = X if isinstance(X, np.ndarray) else X.toarray()
        name = self.session.get_inputs()[0].name
        scores = np.asarray(self.session.run(None, {name: rows.astype(self.dtype)})[0])
        if scores.size != len(rows):
            raise Refused(f"its first output has shape {scores.shape} for {len(rows)} rows")
        return scores.reshape(len(rows)).astype(np.float64)


def _read_onnx(path: str | os.PathLike[str]) -> ForeignScorer:
    content = Path(path).read_bytes()
    inputs = onnx_inputs(content)
    session = try_onnx(path, content, inputs)
    names = inputs.names if inputs.names and len(inputs.names) == inputs.n_features else None
    scorer = OnnxScorer(session, inputs.n_features, np.dtype(inputs.dtype))
    return ForeignScorer("ONNX", scorer, (), names, True)


_READERS: dict[str, Callable[[bytes], ForeignScorer]] = {
    "lightgbm": read_lightgbm,
    "xgboost": read_xgboost,
    "ranklib": read_ranklib,
}
_BY_PATH: dict[str, Callable[[Any], ForeignScorer]] = {  # read in a child process first
    "catboost": lambda path: read_catboost(convert_catboost(path)),
    "onnx": _read_onnx,
}
_LIBRARIES = {
    "lightgbm": "a LightGBM model", "xgboost": "an XGBoost model", "ranklib": "a RankLib model",
    "catboost": "a CatBoost model", "onnx": "an ONNX model",
}  # fmt: skip
