"""Evaluate scores against grades: :func:`evaluate` and its result, :class:`Scores`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError, DegenerateDataWarning, MeasureError
from rankwright.metrics.measure import Conventions, Measure, parse_measures
from rankwright.metrics.ranked_lists import query_blocks, ranked_lists
from rankwright.metrics.tables import Cell, Table
from rankwright.parallel import current_engine, map_jobs, ranges

Columns = dict[str, NDArray[Any]]
N_JOBS = 64  # of an evaluation on an engine


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Mapping[str, float]):
    """Values of measures per query: a mapping from the name of a measure to its mean.

    Attributes
    ----------
    measures : tuple of Measure
    query_ids : (n_queries,) array
        Ids of the queries, in order of first appearance.
    matrix : (n_measures, n_queries) float64
        NaN marks a query that was skipped because the measure is undefined.
    query_weight : (n_queries,) float64 or None
    conventions : dict of str
        Descriptions: ties, empty queries, gain, discount, relevance threshold.

    Examples
    --------
    >>> from rankwright import evaluate
    >>> scores = evaluate([3, 2, 1, 9], [1, 0, 1, 0], qid=["a", "a", "a", "b"], measures="AP")
    >>> round(scores["AP"], 4), scores.n_skipped("AP"), scores.query_ids.tolist()
    (0.8333, 1, ['a', 'b'])
    >>> scores.per_query("AP"), scores.per_query("AP", skipped=0.0)
    (array([0.83333333,        nan]), array([0.83333333, 0.        ]))
    """

    measures: tuple[Measure, ...]
    query_ids: NDArray[Any]
    matrix: FloatArray
    query_weight: FloatArray | None = None
    conventions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for array in (self.query_ids, self.matrix, self.query_weight):
            if array is not None:
                array.setflags(write=False)

    @property
    def n_queries(self) -> int:
        return len(self.query_ids)

    def __getitem__(self, measure: str | Measure) -> float:
        """The (weighted) mean over the queries that count; of GMAP the geometric mean."""
        mean = self._mean(self._number(measure))
        if mean is None:
            reason = Measure.parse(measure).definition.empty
            raise DataError(
                f"{measure} has no mean: none of the {self.n_queries} queries counts "
                f"({reason}, or no weight). Evaluate with empty='zero' or 'one'."
            )
        return mean

    def __contains__(self, measure: object) -> bool:
        try:
            return isinstance(measure, str | Measure) and Measure.parse(measure) in self.measures
        except MeasureError:
            return False

    def __iter__(self) -> Iterator[str]:
        return (str(measure) for measure in self.measures)

    def __len__(self) -> int:
        return len(self.measures)

    def per_query(self, measure: str | Measure, *, skipped: float = np.nan) -> FloatArray:
        """The value of each query, in the order of ``query_ids``; ``skipped`` if left out."""
        values: FloatArray = self.matrix[self._number(measure)]
        return values if np.isnan(skipped) else np.where(np.isnan(values), skipped, values)

    def n_skipped(self, measure: str | Measure) -> int:
        """Number of queries that were skipped because the measure is undefined."""
        return int(np.isnan(self.matrix[self._number(measure)]).sum())

    def to_dict(self) -> dict[str, float | None]:
        """Means by name; None where there is none."""
        return {str(m): self._mean(number) for number, m in enumerate(self.measures)}

    def describe(self, *, per_query: bool = False) -> dict[str, Any]:
        """Means, counts and conventions as plain values; with ``per_query`` also each query's."""
        content: dict[str, Any] = {
            "n_queries": self.n_queries,
            "measures": self.to_dict(),
            "skipped": {name: self.n_skipped(name) for name in self},
            "conventions": dict(self.conventions),
        }
        if per_query:
            ids = [str(query) for query in self.query_ids.tolist()]
            content["per_query"] = {
                name: dict(zip(ids, self.per_query(name).tolist(), strict=True)) for name in self
            }
        return content

    def to_frame(self, backend: str = "pandas") -> Any:
        """A row for each query, a column for each measure, in any library narwhals knows.

        ``backend`` is "pandas", "polars", "pyarrow", "modin" or "cudf".
        """
        import narwhals as nw

        columns: dict[str, Any] = {"query_id": self.query_ids.tolist()}
        columns |= {str(m): self.matrix[i] for i, m in enumerate(self.measures)}
        return nw.to_native(nw.from_dict(columns, backend=cast("Any", backend)))

    def table(self) -> Table:
        """Means, number of queries, and the conventions as notes."""
        rows = []
        for number, measure in enumerate(self.measures):
            mean = self._mean(number)
            text = "-" if mean is None else f"{mean:.4f}"
            counts = (str(self.n_queries), str(self.n_skipped(measure)))
            rows.append(tuple(Cell(cell) for cell in (str(measure), text, *counts)))
        conventions = "; ".join(f"{key}: {value}" for key, value in self.conventions.items())
        header = ("measure", "mean", "queries", "skipped")
        return Table(header, tuple(rows), (conventions,) if conventions else ())

    def failure(self, measure: str | Measure, limit: float) -> str | None:
        """Why a mean is worse than a limit, in words; None if it is not.

        >>> from rankwright import evaluate
        >>> evaluate([2, 1], [0, 1], measures="AP").failure("AP", 0.6)
        'AP is 0.5000, below the limit of 0.6'
        """
        parsed, mean = Measure.parse(measure), self[measure]
        if parsed.sign * mean >= parsed.sign * limit:
            return None
        side = "below" if parsed.higher_is_better else "above"
        return f"{parsed} is {mean:.4f}, {side} the limit of {limit:g}"

    def to_text(self, *, per_query: bool = False) -> str:
        """The table of means; with ``per_query`` also the value of each query, "-" for none."""
        if not per_query:
            return self.table().to_text()
        rows = ["\t".join(["query", *self])]
        for query, values in zip(self.query_ids.tolist(), self.matrix.T, strict=True):
            cells = ["-" if np.isnan(value) else f"{value:.4f}" for value in values]
            rows.append("\t".join([str(query), *cells]))
        return self.table().to_text() + "\n\n" + "\n".join(rows)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def _number(self, measure: str | Measure) -> int:
        return find_measure(measure, self.measures, "evaluated")

    def _mean(self, number: int) -> float | None:
        values = self.matrix[number]
        counts = ~np.isnan(values)
        weights = counts if self.query_weight is None else self.query_weight * counts
        total = float(weights.sum())
        if not total:
            return None
        if self.measures[number].definition.mean == "geometric":  # as trec_eval, 1e-5 at least
            logs = np.log(np.maximum(np.where(counts, values, 1.0), 1e-5))
            return float(np.exp(logs @ weights / total))
        return float(np.where(counts, values, 0.0) @ weights / total)


def find_measure(measure: str | Measure, measures: Sequence[Measure], done: str) -> int:
    """The index of a measure, or a KeyError."""
    parsed = Measure.parse(measure)
    if parsed not in measures:
        raise KeyError(f"{parsed} was not {done}; there are {', '.join(map(str, measures))}")
    return measures.index(parsed)


def evaluate(
    scores: Any,
    y: Any,
    qid: Any = None,
    measures: str | Measure | Iterable[str | Measure] = ("NDCG@10", "AP"),
    *,
    ties: str | None = None,
    empty: str | None = None,
    like: str | None = None,
    predictions: Any = None,
    query_weight: Any = None,
    docid: Any = None,
    judged: Any = None,
) -> Scores:
    """Evaluate how well scores order the items of each query.

    Parameters
    ----------
    scores : (n_items,) array
        Higher means earlier in the list. -inf marks an item that was not retrieved: it counts as
        relevant but is in no list (NDCG, ERR, AP, P, R, RR, RBP, Top); for measures on pairs and
        ranks it is tied at the end.
    y : (n_items,) array
        Grades, ratings or 0/1.
    qid : (n_items,) array, optional
        The query of each item, any type, any order; None treats all rows as one query.
    measures : str, Measure, or several
        Such as ``["NDCG@10", "AP(rel=2)"]``; see :class:`Measure`.
    ties : {"expected", "stable", "worst", "best", "docid"}, optional
        The order of tied scores. The default, "expected", is the exact mean over all orders.
        "stable" keeps the order given; "worst" and "best" put the lowest or highest grade first;
        "docid" orders by descending document id.
    empty : {"skip", "zero", "one"}, optional
        A query without a relevant item (or without a pair, for measures on pairs) is left out of
        the mean and counted ("skip", the default), or counts 0 or 1.
    like : {"trec_eval", "letor3", "lightgbm", "xgboost", "sklearn", "ranx"}, optional
        Use the gain, discount, ties and rule for empty queries of this tool. Parameters of a
        measure, ``ties`` and ``empty`` take precedence.
    predictions : (n_items,) array, optional
        Predictions in the units of y, for RankLoss, MSD and M1D; the scores when None.
    query_weight : (n_queries,) array, optional
        The weight of each query in the mean, in order of first appearance in ``qid``.
    docid : (n_items,) array, optional
        Document ids, for ``ties="docid"`` and ``like="trec_eval"``.
    judged : (n_items,) array of bool, optional
        Which items were judged, for bpref and Judged; all when None. :func:`align` gives it.

    Returns
    -------
    Scores
        ``scores["NDCG@10"]`` is the mean, ``scores.per_query("NDCG@10")`` the values. A
        DegenerateDataWarning says that a measure is undefined for all queries.

    Examples
    --------
    >>> scores = evaluate([3, 2, 1, 5, 5], [0, 1, 2, 1, 0], qid=[7, 7, 7, 8, 8],
    ...                   measures=["NDCG@2", "RR"])
    >>> scores
    measure    mean  queries  skipped
    NDCG@2   0.4946        2        0
    RR       0.6250        2        0
    ties: expectation over random order; empty queries: left out and counted; gain: 2^grade
    - 1; discount: log2; rel: 1
    >>> scores.per_query("RR")
    array([0.5 , 0.75])
    """
    parsed = parse_measures(measures)
    conventions = Conventions.choose(like, ties, empty)
    columns = _columns(scores, y, predictions, judged, conventions)
    queries = Queries.from_ids(qid, len(columns["grades"]))
    weights = _query_weights(query_weight, queries)
    for measure in parsed:
        _check_range(measure, conventions.parameters(measure), columns)
    key = _tie_key(conventions.ties, docid, queries.n_items)
    whole = (parsed, columns, queries, conventions, key)
    values = _compute(*whole) if current_engine() is None else _compute_blocks(*whole)
    result = Scores(tuple(parsed), queries.ids, values, weights, conventions.describe(parsed))
    _warn_of_undefined_means(result)
    return result


def _warn_of_undefined_means(scores: Scores) -> None:
    undefined = [m for m in scores.measures if scores.n_skipped(m) == scores.n_queries]
    if undefined:
        warnings.warn(
            f"{', '.join(map(str, undefined))}: undefined for all {scores.n_queries} queries "
            f"({undefined[0].definition.empty}), so there is no mean. Use empty='zero' or 'one' to "
            "define one.",
            DegenerateDataWarning,
            stacklevel=3,
        )


def _compute(
    measures: list[Measure],
    columns: Columns,
    queries: Queries,
    conventions: Conventions,
    tie_key: NDArray[Any] | None,
) -> FloatArray:
    """(n_measures, n_queries) values; NaN where a query is left out."""
    values = np.full((len(measures), queries.n_queries), np.nan)
    params = [conventions.parameters(measure) for measure in measures]
    empty = [{"skip": np.nan, "zero": 0.0, "one": 1.0}[p.pop("empty")] for p in params]
    scores, grades = columns["scores"], columns["grades"]
    others = {name: columns[name] for name in columns if name not in ("scores", "grades")}
    rule = "key" if tie_key is not None else conventions.ties
    for lists in ranked_lists(scores, grades, queries, ties=rule, tie_key=tie_key, others=others):
        for number, measure in enumerate(measures):
            value, defined = measure.definition.compute(lists, measure.cutoff, params[number])
            values[number, lists.query] = np.where(defined, value, empty[number])
    return values


def _compute_blocks(
    measures: list[Measure],
    columns: Columns,
    queries: Queries,
    conventions: Conventions,
    tie_key: NDArray[Any] | None,
) -> FloatArray:
    """The same on the engine, in the same blocks of queries: lists are padded alike."""
    blocks = list(query_blocks(queries))
    parts = []
    for block in blocks:
        rows = np.concatenate([queries.order[slice(*queries.ptr[q : q + 2])] for q in block])
        code = np.repeat(np.arange(len(block)), queries.sizes[block])
        own = {name: column[rows] for name, column in columns.items()}
        part = Queries(code, queries.ids[block])
        parts.append((own, part, None if tie_key is None else tie_key[rows]))
    jobs = [parts[slice(*cut)] for cut in ranges(len(parts), N_JOBS)]
    values = np.full((len(measures), queries.n_queries), np.nan)
    blocks_of_values = map_jobs(_compute_job, jobs, measures, conventions)
    for block, value in zip(blocks, chain.from_iterable(blocks_of_values), strict=True):
        values[:, block] = value
    return values


def _compute_job(
    parts: list[Any], measures: list[Measure], conventions: Conventions
) -> list[FloatArray]:
    return [_compute(measures, own, queries, conventions, key) for own, queries, key in parts]


def _columns(
    scores: Any, y: Any, predictions: Any, judged: Any, conventions: Conventions
) -> Columns:
    columns = {"scores": _column("scores", scores), "grades": _column("y", y)}
    if predictions is not None:
        columns["predictions"] = _column("predictions", predictions)
    if judged is not None:
        columns["judged"] = _column("judged", judged).astype(np.bool_)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{n} {name}" for name, n in lengths.items())
        raise DataError(f"evaluate: {counts}: give one of each per item.")
    if lengths["grades"] == 0:
        raise DataError("evaluate: there are no items. Give at least one score.")
    if np.isinf(columns["grades"]).any():
        raise DataError(f"y is infinite in row {_first(np.isinf(columns['grades']))}.")
    if conventions.single:
        columns["scores"] = columns["scores"].astype(np.float32)
    if conventions.clip and columns["grades"].min() < 0:
        columns["grades"] = np.maximum(columns["grades"], 0)
    return columns


def _column(name: str, values: Any) -> NDArray[Any]:
    """A one-dimensional array of real numbers without NaN; integers and float32 stay such."""
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{name} has {array.ndim} axes {array.shape}: give one number per item.")
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(f"{name} has {array.dtype} values: give numbers.") from None
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise DataError(
            f"{name} is NaN in row {_first(np.isnan(array))}: every item needs a number. "
            "Leave out unjudged items, and give unranked items the lowest score."
        )
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and len(array):
        largest = max(abs(int(array.max())), abs(int(array.min())))
        if largest > 2**53:
            raise DataError(
                f"{name} holds the integer {largest}, above 2^53, which float64 cannot represent "
                "exactly. Give ranks or smaller numbers."
            )
    return array


def _check_range(measure: Measure, params: dict[str, Any], columns: Columns) -> None:
    """Refuse grades and scores that this measure cannot use."""
    grades, definition = columns["grades"], measure.definition
    if definition.grades != "any" and grades.min() < 0:
        row = int(np.argmin(grades))
        raise DataError(
            f"{measure}: y is {grades[row]} in row {row}: its gains need grades >= 0. "
            "Shift the grades, or use a measure on pairs such as Disagreement."
        )
    row = int(np.argmax(grades))
    if definition.grades == "gain" and params["gain"] == "exp" and grades[row] > 30:
        raise DataError(
            f"{measure}: y is {grades[row]} in row {row}: 2^grade - 1 needs grades up to 30. "
            f"Write {measure(gain='linear')} to use the grades as gains."
        )
    if definition.grades == "stop" and grades[row] > params["max"]:
        best = int(np.ceil(grades[row]))
        advice = f"Write {measure(max=best)}." if best <= 30 else "Map the grades to 0 .. 30."
        raise DataError(
            f"{measure}: y is {grades[row]} in row {row}, above the highest grade "
            f"max={params['max']}. {advice}"
        )
    if definition.reads != "order":
        name = definition.reads if definition.reads in columns else "scores"
        infinite = np.isinf(columns[name])
        if infinite.any():
            where = f"{measure}: {name} is infinite in row {_first(infinite)}"
            raise DataError(f"{where}; this measure needs finite numbers.")


def _query_weights(query_weight: Any, queries: Queries) -> FloatArray | None:
    if query_weight is None:
        return None
    weights = np.array(query_weight, dtype=np.float64)
    if weights.shape != (queries.n_queries,):
        raise DataError(
            f"query_weight has shape {weights.shape}: one weight per query is needed, "
            f"({queries.n_queries},), in order of first appearance in qid."
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        bad = _first(wrong)
        raise DataError(f"query_weight[{bad}] is {weights[bad]}: weights must be finite and >= 0.")
    return weights


def _tie_key(ties: str, docid: Any, n_items: int) -> NDArray[Any] | None:
    """A number per item: the later the document id in the alphabet, the smaller."""
    if ties != "docid":
        return None
    if docid is None:
        raise DataError(
            "ties='docid' needs the document ids, and docid is None. Pass docid=, or use another "
            "rule such as ties='stable'."
        )
    ids = np.asarray(docid).astype(str)
    if ids.shape != (n_items,):
        raise DataError(f"docid has shape {ids.shape}: one id per item is needed, ({n_items},).")
    return -np.unique(ids, return_inverse=True)[1].reshape(-1)


def _first(mask: NDArray[np.bool_]) -> int:
    return int(np.argmax(mask))
