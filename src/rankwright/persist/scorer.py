"""Load model files for scoring only: NumPy, no scikit-learn, no numba, no SciPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import FloatArray, Matrix, MatrixLike
from rankwright.data.columns import Encoding
from rankwright.data.inputs import checked_csr, columns_of, columns_of_dicts, feature_matrix
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError, quoted
from rankwright.features.fitted import FittedFeatures
from rankwright.persist.codec import Unpacker, build_served, build_state
from rankwright.persist.format import (
    MAX_BYTES,
    SCORER,
    Manifest,
    ModelNode,
    NotModelFile,
    Refused,
    read_file,
    refusing,
)
from rankwright.scoring.base import Scorer, Transform, row_blocks
from rankwright.scoring.transforms import QueryScale

# The most values (1 GB) that transforms may create at once: no file can exhaust the memory, and an
# ordinary call stays one block, so that its scores equal those of the estimator to the last bit.
MOST_VALUES = 1 << 27

Names = Sequence[str] | Encoding | FittedFeatures | None


def load_scorer(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> SavedScorer:
    """Load a model file for scoring only.

    Scores equal those of the saved model bit for bit: both run the code of ``rankwright.scoring``.
    Only NumPy and msgspec are imported (narwhals for data frames), so a server starts quickly.

    Parameters
    ----------
    path : path of a file written by :func:`rankwright.save`, or of a model of another library as in
        :func:`rankwright.load`
    max_bytes : refuse a larger file before reading it; default 2 GiB

    Raises
    ------
    ModelFileError
        The file is damaged, in another format, unsafe, too new, or contains no ranker.
    OSError
        The file does not exist or cannot be read.

    Examples
    --------
    >>> import tempfile, pathlib, rankwright as rw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.rw"
    >>> rw.save(rw.RidgeRanker().fit([[0.0], [1.0], [2.0]], [1, 2, 3]), path)
    >>> scorer = rw.load_scorer(path)
    >>> scorer
    SavedScorer('RidgeRanker', n_features=1)
    >>> scorer.rank([[0.5], [3.0]])
    array([2, 1])
    """
    with refusing(path):
        try:
            manifest, arrays = read_file(path, max_bytes)
        except NotModelFile as fault:
            from rankwright.persist.foreign import load_foreign

            return load_foreign(path, fault, max_bytes)
        return scorer_of(manifest, arrays)


def scorer_of(manifest: Manifest, arrays: dict[str, NDArray[Any]]) -> SavedScorer:
    """The scorer that a file's manifest describes."""
    if manifest.served is None:
        fault = f"it holds a {manifest.model.kind[:40]}, which has no scores for rows"
        raise Refused(fault, "Use rankwright.load(path).")
    unpacker = Unpacker(arrays, {"state": build_state}, own=False)
    transforms, scorer = build_served(unpacker, manifest.served)
    names = None if manifest.feature_names is None else tuple(manifest.feature_names)
    kind = _kind(manifest.model)
    encoding = encoding_of(manifest, arrays)
    saved = SavedScorer(kind, scorer, transforms, names, manifest.served.allow_nan, encoding)
    if encoding is not None:
        encoding.check()
        if encoding.feature_names != names:
            raise Refused("its encoding gives other features than it names")
    if names is not None and len(names) != saved.n_features:
        raise Refused(f"it names {len(names)} features for {saved.n_features} columns")
    return saved


def encoding_of(
    manifest: Manifest, arrays: dict[str, NDArray[Any]]
) -> Encoding | FittedFeatures | None:
    """What turns tables, or fields of queries and documents, into the rows of a model."""
    if manifest.features is None:
        return manifest.encoding
    if manifest.encoding is not None:
        raise Refused("it holds an encoding and a feature set")
    unpacker = Unpacker(arrays, {}, own=False)
    return FittedFeatures.from_state(unpacker.unpack(manifest.features))


def _kind(model: ModelNode) -> str:
    """The class that was saved; of a scorer only, the name of the user's class."""
    if model.kind != SCORER:
        return model.kind
    name = model.params.get("name")
    if not isinstance(name, str) or not name.isidentifier() or model.params.keys() != {"name"}:
        raise Refused("its scorer has no name of a class")
    if model.learned:
        raise Refused("it holds learned values beside its scorer")
    return name


@dataclass(frozen=True, eq=False, repr=False)
class SavedScorer:
    """A model loaded by :func:`load_scorer`, which maps rows to scores.

    ``X`` may be a list of rows, an array, a data frame (lazy or not), a dict of columns, a list of
    dicts or a SciPy sparse matrix; it is converted to float64. If the model has feature names,
    columns are selected by name, in any order, and other columns are ignored. Text, booleans and
    dates are encoded as in training; a level that training did not have counts as missing, with an
    UnknownLevelWarning. An array has a column for each of ``feature_names``. An empty ``X`` gives
    an empty array.

    Attributes
    ----------
    kind : str
        The class that was saved: ``"RankBoost"``, ``"Pipeline"``, ...
    n_features : int
    feature_names : tuple of str, or None if the model was trained on unnamed columns
    allow_nan : bool
        Whether the model accepts missing values (NaN).
    encoding : Encoding, FittedFeatures or None
        How the columns of a table become features, if they hold more than numbers.
    """

    kind: str
    scorer: Scorer
    transforms: tuple[Transform, ...] = ()
    feature_names: tuple[str, ...] | None = None
    allow_nan: bool = False
    encoding: Encoding | FittedFeatures | None = None

    @property
    def n_features(self) -> int:
        first: Transform | Scorer = self.transforms[0] if self.transforms else self.scorer
        return first.n_features

    def decision_function(self, X: MatrixLike, qid: ArrayLike | None = None) -> FloatArray:
        """Compute the score of each row; higher ranks first.

        ``qid`` is used only by models that scale within queries (QueryNormalizer); None treats all
        rows as one query.
        """
        return self._apply(self.scorer.decision_function, X, qid)

    def predict(self, X: MatrixLike, qid: ArrayLike | None = None) -> FloatArray:
        """Predict the grade for ordinal models, otherwise the score."""
        return self._apply(self.scorer.predict, X, qid)

    def predict_expected(self, X: MatrixLike, qid: ArrayLike | None = None) -> FloatArray:
        """Predict the expected grade if the model has one; otherwise the same as ``predict``."""
        return self._apply(self.scorer.expected, X, qid)

    def rank(self, X: MatrixLike, qid: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the rank of each row in its query, from 1; ties keep the order of the rows."""
        scores = self.decision_function(X, qid)
        return Queries.from_ids(qid, len(scores)).places(scores)

    def contributions(self, rows: FloatArray) -> dict[str, FloatArray]:
        """How the scores of one query's rows change when a feature is as in their mean row.

        The features that were made of one column of a table are changed together; without names,
        features are numbered from 1.
        """
        if self.encoding is not None:
            parts = self.encoding.parts
        else:
            names = self.feature_names or tuple(map(str, range(1, self.n_features + 1)))
            parts = {name: slice(k, k + 1) for k, name in enumerate(names)}
        known = ~np.isnan(rows)
        means = np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        scores, changes = self.decision_function(rows), {}
        for name, chosen in parts.items():
            changed = rows.copy()
            changed[:, chosen] = means[chosen]
            changes[name] = scores - self.decision_function(changed)
        return changes

    def _apply(
        self, function: Callable[[Any], FloatArray], X: MatrixLike, qid: ArrayLike | None
    ) -> FloatArray:
        rows = _as_rows(X, self.encoding or self.feature_names, self.n_features, qid)
        self._check_values(rows)
        n_rows = rows.shape[0]
        if n_rows == 0:
            return np.empty(0)
        queries = Queries.from_ids(qid if self.transforms else None, n_rows)
        # Transforms up to the last one that needs whole queries, then row by row in blocks.
        scaled = [i for i, step in enumerate(self.transforms) if isinstance(step, QueryScale)]
        start = scaled[-1] + 1 if scaled else 0
        rows = self._transformed(self.transforms[:start], rows, queries)
        values = np.empty(n_rows)
        width = max([step.n_outputs for step in self.transforms[start:]], default=1)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is reported below
            for block in row_blocks(n_rows, width, MOST_VALUES):
                block_rows = self._transformed(self.transforms[start:], rows[block], queries)
                values[block] = function(block_rows)
        finite = np.isfinite(values)
        if not finite.all():
            raise DataError(
                f"the score of row {int(np.argmin(finite))} overflows: its values are too large "
                "for this model. Scale them as they were scaled for training."
            )
        return values

    def _transformed(self, steps: tuple[Transform, ...], rows: Matrix, queries: Queries) -> Any:
        if not steps:
            return rows
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is reported by the check
            for step in steps:
                rows = step.transform(rows, queries)
        self._check_values(rows)
        return np.ascontiguousarray(rows) if isinstance(rows, np.ndarray) else rows

    def _check_values(self, rows: Matrix) -> None:
        values = rows if isinstance(rows, np.ndarray) else rows.data
        bad = np.isinf(values) if self.allow_nan else ~np.isfinite(values)
        if bad.any():
            fault = "an infinite value" if self.allow_nan else "NaN or an infinite value"
            where = f" in row {int(np.argwhere(bad)[0][0])}" if bad.ndim == 2 else ""
            raise DataError(f"X has {fault}{where}. Fill or drop it before scoring.")

    def __repr__(self) -> str:
        return f"SavedScorer({self.kind!r}, n_features={self.n_features})"


def _as_rows(X: MatrixLike, names: Names, n_features: int, qid: ArrayLike | None = None) -> Any:
    if hasattr(X, "tocsr"):
        rows = checked_csr(X)
        rows = rows if rows.dtype == np.float64 else checked_csr(rows.astype(np.float64))
    else:
        rows = _as_array(_named_rows(X, names, qid))
    if rows.ndim == 1 and rows.size == 0:
        rows = rows.reshape(0, n_features)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        hint = " For a single row: X.reshape(1, -1)." if rows.shape == (n_features,) else ""
        raise DataError(
            f"X has shape {rows.shape}, this model needs (n_items, {n_features}).{hint}"
        )
    return rows


def _as_array(X: MatrixLike) -> FloatArray:
    try:
        array = np.asarray(X)
        if array.dtype.kind == "O" and not any(isinstance(v, str) for v in array.ravel()):
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"X is not a table of numbers ({quoted(error)}).") from error
    if array.dtype.kind not in "fiub":
        raise DataError(f"X holds {array.dtype} values; a model scores numbers.")
    return np.ascontiguousarray(array, dtype=np.float64) if array.ndim else array


def _named_rows(X: Any, names: Names, qid: ArrayLike | None = None) -> Any:
    """The features of a data frame, a dict of columns or a list of dicts; other X as it is."""
    columns = columns_of_dicts(X)
    if columns is None and hasattr(type(X), "columns"):
        columns = columns_of(X)
    if columns is None:
        return X
    if isinstance(names, Encoding | FittedFeatures):
        names.warn_of_unknown(columns)
        return names.encode(columns, qid=qid)
    if names is not None:
        return feature_matrix(columns, names)
    return np.column_stack([np.asarray(column) for column in columns.values()])
