"""Load model files for scoring only: NumPy, no scikit-learn, no numba, no SciPy.

A file holds a model twice: as what :func:`rankwright.load` rebuilds, and as what ``load_scorer``
computes scores with. Only a forged file holds two different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.data.inputs import checked_csr, columns_of, columns_of_dicts, feature_matrix
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.persist.codec import (
    EXACT,
    Unpacker,
    build_served,
    build_state,
    is_equal,
    is_same_state,
)
from rankwright.persist.format import (
    MAX_BYTES,
    SCORER,
    Array,
    Manifest,
    ModelNode,
    NotModelFile,
    Refused,
    StateNode,
    brief,
    read_file,
    refusing,
)
from rankwright.scoring.base import Scorer, Transform, row_blocks
from rankwright.scoring.linear import Additive
from rankwright.scoring.transforms import QueryScale

# The most values (1 GB) that transforms may create at once: no file can exhaust the memory, and an
# ordinary call stays one block, so that its scores equal those of the estimator to the last bit.
MOST_VALUES = 1 << 27


def load_scorer(path: Any, *, max_bytes: int = MAX_BYTES, verify: bool = False) -> SavedScorer:
    """Load a model file for scoring only.

    Scores equal those of the saved model bit for bit: both run the code of ``rankwright.scoring``.
    Only NumPy and msgspec are imported (narwhals for data frames), so a server starts quickly.

    Parameters
    ----------
    path : path of a file written by :func:`rankwright.save`, or of a model of another library as in
        :func:`rankwright.load`
    max_bytes : refuse a larger file before reading it; default 2 GiB
    verify : also rebuild the whole model, and refuse a file whose model would give other scores,
        which happens only with forged files. Needs scikit-learn. :func:`rankwright.load` always
        does this. Without it, the scorer is compared with the fitted values that the file contains:
        all of them for linear rankers, networks and boosted rankers, some for kernels and votes;
        of an ensemble, those of each member.

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
    >>> rw.save(rw.Regression().fit([[0.0], [1.0], [2.0]], [1, 2, 3]), path)
    >>> scorer = rw.load_scorer(path)
    >>> scorer
    SavedScorer('Regression', n_features=1)
    >>> scorer.rank([[0.5], [3.0]])
    array([2, 1])
    """
    with refusing(path):
        try:
            manifest, arrays = read_file(path, max_bytes)
        except NotModelFile as fault:
            from rankwright.persist.foreign import load_foreign

            return load_foreign(path, fault, max_bytes)
        if verify:
            from rankwright.persist.models import check_model

            check_model(manifest, arrays)
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
    saved = SavedScorer(kind, scorer, transforms, names, manifest.served.allow_nan)
    if names is not None and len(names) != saved.n_features:
        raise Refused(f"it names {len(names)} features for {saved.n_features} columns")
    learned = manifest.model.learned.get("n_features_in_", saved.n_features)
    if learned != saved.n_features:
        raise Refused("its model and its scorer disagree on the number of features")
    check_agreement(manifest, arrays)
    return saved


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
    columns are selected by name, in any order, and other columns are ignored. Text columns are
    encoded as in training (``one_hot``, with features ``column=word``); new values are ignored. An
    empty ``X`` gives an empty array.

    Attributes
    ----------
    kind : str
        The class that was saved: ``"RankBoost"``, ``"Pipeline"``, ...
    n_features : int
    feature_names : tuple of str, or None if the model was trained on unnamed columns
    allow_nan : bool
        Whether the model accepts missing values (NaN).
    """

    kind: str
    scorer: Scorer
    transforms: tuple[Transform, ...] = ()
    feature_names: tuple[str, ...] | None = None
    allow_nan: bool = False

    @property
    def n_features(self) -> int:
        first: Transform | Scorer = self.transforms[0] if self.transforms else self.scorer
        return first.n_features

    def decision_function(self, X: Any, qid: Any = None) -> FloatArray:
        """Compute the score of each row; higher ranks first.

        ``qid`` is used only by models that scale within queries (QueryNormalizer); None treats all
        rows as one query.
        """
        return self._apply(self.scorer.decision_function, X, qid)

    def predict(self, X: Any, qid: Any = None) -> FloatArray:
        """Predict the grade for ordinal models, otherwise the score."""
        return self._apply(self.scorer.predict, X, qid)

    def predict_expected(self, X: Any, qid: Any = None) -> FloatArray:
        """Predict the expected grade if the model has one; otherwise the same as ``predict``."""
        return self._apply(self.scorer.expected, X, qid)

    def rank(self, X: Any, qid: Any = None) -> NDArray[np.int64]:
        """Return the rank of each row in its query, from 1; ties keep the order of the rows."""
        scores = self.decision_function(X, qid)
        return Queries.from_ids(qid, len(scores)).places(scores)

    def _apply(self, function: Callable[[Any], FloatArray], X: Any, qid: Any) -> FloatArray:
        rows = _as_rows(X, self.feature_names, self.n_features)
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

    def _transformed(self, steps: tuple[Transform, ...], rows: Any, queries: Queries) -> Any:
        if not steps:
            return rows
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is reported by the check
            for step in steps:
                rows = step.transform(rows, queries)
        self._check_values(rows)
        return np.ascontiguousarray(rows) if isinstance(rows, np.ndarray) else rows

    def _check_values(self, rows: Any) -> None:
        values = rows if isinstance(rows, np.ndarray) else rows.data
        bad = np.isinf(values) if self.allow_nan else ~np.isfinite(values)
        if bad.any():
            fault = "an infinite value" if self.allow_nan else "NaN or an infinite value"
            where = f" in row {int(np.argwhere(bad)[0][0])}" if bad.ndim == 2 else ""
            raise DataError(f"X has {fault}{where}. Fill or drop it before scoring.")

    def __repr__(self) -> str:
        return f"SavedScorer({self.kind!r}, n_features={self.n_features})"


def _as_rows(X: Any, names: Sequence[str] | None, n_features: int) -> Any:
    if hasattr(X, "tocsr"):
        rows = checked_csr(X)
        rows = rows if rows.dtype == np.float64 else checked_csr(rows.astype(np.float64))
    else:
        rows = _as_array(_named_rows(X, names))
    if rows.ndim == 1 and rows.size == 0:
        rows = rows.reshape(0, n_features)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        hint = " For a single row: X.reshape(1, -1)." if rows.shape == (n_features,) else ""
        raise DataError(
            f"X has shape {rows.shape}, this model needs (n_items, {n_features}).{hint}"
        )
    return rows


def _as_array(X: Any) -> FloatArray:
    try:
        array = np.asarray(X)
        if array.dtype.kind == "O" and not any(isinstance(v, str) for v in array.ravel()):
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"X is not a table of numbers ({brief(error)}).") from error
    if array.dtype.kind not in "fiub":
        raise DataError(f"X holds {array.dtype} values; a model scores numbers.")
    return np.ascontiguousarray(array, dtype=np.float64) if array.ndim else array


def _named_rows(X: Any, names: Sequence[str] | None) -> Any:
    """The features of a data frame, a dict of columns or a list of dicts; other X as it is."""
    columns = columns_of_dicts(X)
    if columns is None and hasattr(type(X), "columns"):
        columns = columns_of(X)
    if columns is None:
        return X
    if names is not None:
        return feature_matrix(columns, names)
    return np.column_stack([np.asarray(column) for column in columns.values()])


Learned = Mapping[str, Any]

_GRADES = {"thresholds": "thresholds_", "classes": "classes_"}
_LINE = {"coef": "coef_", "intercept": "intercept_"}
_NODE = ("feature", "threshold", "default", "low", "high", "value", "cat_ptr", "categories")
# The learned attribute that each field of a scorer repeats, by the kind of the scorer.
_REPEATED: dict[str, dict[str, str]] = {
    "linear": _LINE,
    "ordinal": _GRADES,
    "ordinal_probit": _GRADES,
    "prototypes": {"coef": "coef_", "classes": "classes_"},
    "network": {"layers": "layers_", "weights": "weights_"},
    "deviations": {"coef": "coef_"},  # the rest depends on what unseen values count for
    "filled_average": {"feature": "feature_", "default": "default_"},
    "kernel": {"intercept": "intercept_"},
    "votes": {"classes": "classes_"},
    "trees": {"root": "root_", "weight": "alpha_"} | {name: f"node_{name}_" for name in _NODE},
}
_ROUNDS = ("feature_", "threshold_", "default_", "alpha_")


def check_agreement(manifest: Manifest, arrays: Mapping[str, Array]) -> None:
    """Refuse a file whose scorer repeats other values than its model has learned.

    Not all of a model is repeated: kernels and votes are compared in part. What is derived from
    the rounds of boosting is derived again.
    """
    served, ranker = manifest.served, _last_step(manifest.model)
    if served is None or ranker is None:
        return
    is_pipeline = ranker is not manifest.model
    n_steps = int(ranker.params.get("normalize") == "query")
    if not is_pipeline and len(served.transforms) != n_steps:
        raise Refused("its model and its scorer disagree on how rows are scaled")
    names = Unpacker(arrays, {}, own=False).unpack(ranker.learned.get("feature_names_in_"))
    own = names.tolist() if isinstance(names, np.ndarray) else None
    if not is_pipeline and own != manifest.feature_names:
        raise Refused("its model and its scorer disagree on the names of the features")
    _compare_ranker(served.scorer, ranker, arrays)


def _last_step(model: ModelNode) -> ModelNode | None:
    """The ranker of a model: itself, or the last step of a pipeline; None if there is none."""
    steps = model.params.get("steps")
    if not isinstance(steps, list) or not steps:
        return model if model.learned else None
    pair = steps[-1].get("tuple") if isinstance(steps[-1], dict) else None
    content = pair[-1].get("model") if pair and isinstance(pair[-1], dict) else None
    return None if content is None else msgspec.convert(content, ModelNode)


def _compare_ranker(scorer: StateNode, ranker: ModelNode, arrays: Mapping[str, Array]) -> None:
    members = ranker.learned.get("members_")
    if members is None:
        _compare(scorer, ranker.learned, arrays)
        return
    terms = scorer.values.get("terms")
    listed = terms.get("tuple") if isinstance(terms, dict) else None
    if not (isinstance(members, list) and isinstance(listed, list) and len(members) == len(listed)):
        raise Refused("its scorer is not the sum of its members")
    weights, scale, factors = (
        _array(value, arrays)
        for value in (
            ranker.learned.get("weights_"),
            ranker.learned.get("scale_"),
            scorer.values.get("factors"),
        )
    )
    if weights is None or scale is None or weights.shape != scale.shape or not scale.all():
        raise Refused("its weights and scales are not arrays of one length without 0")
    if not is_same_state(weights / scale, factors):
        raise Refused("its model and its scorer disagree on the weights of the members")
    for member, term in zip(members, listed, strict=True):
        node = _last_step(msgspec.convert(member["model"], ModelNode))
        state = msgspec.convert(term["state"], StateNode)
        while state.kind == "mapped" and isinstance(state.values.get("score"), dict):
            state = msgspec.convert(state.values["score"].get("state"), StateNode)
        if node is not None:
            _compare_ranker(state, node, arrays)


def _compare(scorer: StateNode, learned: Learned, arrays: Mapping[str, Array]) -> None:
    for field, value in scorer.values.items():
        if isinstance(value, dict) and isinstance(value.get("state"), dict):
            _compare(msgspec.convert(value["state"], StateNode), learned, arrays)
            continue
        name = _REPEATED.get(scorer.kind, {}).get(field)
        own = None if name is None else learned.get(name)
        if field == "intercept" and name is not None and name not in learned:
            own = 0.0
        exactly = field in EXACT.get(scorer.kind, set())
        if own is not None and not _is_same(own, value, arrays, exactly=exactly):
            raise Refused(f"its model and its scorer disagree: {name} is not the scorer's {field}")
    if scorer.kind == "additive" and all(learned.get(name) for name in _ROUNDS):
        _compare_rounds(scorer, learned, arrays)


def _compare_rounds(scorer: StateNode, learned: Learned, arrays: Mapping[str, Array]) -> None:
    """Compare the sum of all rounds, by feature, with the one that the rounds give."""
    rounds = [_array(learned[name], arrays) for name in _ROUNDS]
    if any(array is None or array.ndim != 1 for array in rounds):
        raise Refused("the rounds of its model are not arrays")
    try:
        made = Additive.from_rounds(scorer.values["n_inputs"], *rounds)  # type: ignore[arg-type]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise Refused(f"the rounds of its model cannot be added up ({str(error)[:60]})") from error
    for field in ("feature", "ptr", "threshold", "value", "missing"):
        is_same = is_equal if field == "threshold" else is_same_state
        if not is_same(getattr(made, field), _array(scorer.values.get(field), arrays)):
            raise Refused(f"its model and its scorer disagree: the rounds give another {field}")


def _is_same(own: Any, value: Any, arrays: Mapping[str, Array], *, exactly: bool) -> bool:
    """Whether two packed values are equal, but for the rounding of another platform."""
    if own == value:
        return True
    one, two = _array(own, arrays), _array(value, arrays)
    if one is not None and two is not None:
        return is_equal(one, two) if exactly else is_same_state(one, two)
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (own, value))
    return numbers and is_same_state(float(own), float(value))


def _array(value: Any, arrays: Mapping[str, Array]) -> Array | None:
    return arrays.get(value.get("array", "")) if isinstance(value, dict) else None
