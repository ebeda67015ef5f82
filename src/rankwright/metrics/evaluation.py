"""Evaluate scores against grades, with the conventions of this package or of another tool."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import FloatArray
from rankwright.data.queries import Queries
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    Message,
    ParameterError,
    Setting,
)
from rankwright.metrics.measure import Measure, parse_measures
from rankwright.metrics.ranked_lists import QueryBlock, list_blocks, query_blocks
from rankwright.metrics.scores import Scores
from rankwright.runtime import current_engine, map_jobs, ranges

Columns = dict[str, NDArray[Any]]
N_JOBS = 64  # of an evaluation on an engine


_TIES = {
    "expected": "expectation over random order",
    "stable": "order given",
    "worst": "lowest grade first",
    "best": "highest grade first",
    "docid": "document id, descending",
}
_EMPTY = {"skip": "left out and counted", "zero": "count 0", "one": "count 1"}
_PARAMETER_WORDS = {"exp": "2^grade - 1", "linear": "grade"}


@dataclass(frozen=True)
class Conventions:
    """What tools disagree about: gain, discount, ties, queries with nothing to measure."""

    ties: str = "expected"  # a key of _TIES
    empty: str = "skip"  # the value of a query with nothing to measure, a key of _EMPTY
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by name of measure
    single: bool = False  # whether scores are compared in single precision, so that close ones tie
    clip: bool = False  # whether negative grades count as 0

    @classmethod
    def choose(cls, like: str | None, ties: str | None, empty: str | None) -> Conventions:
        """The conventions of a tool, with ``ties`` and ``empty`` replaced where given."""
        given = [("like", like, [*LIKE]), ("ties", ties, [*_TIES]), ("empty", empty, [*_EMPTY])]
        for name, value, choices in given:
            if value is not None and value not in choices:
                known = ", ".join(choices)
                raise ParameterError(f"evaluate({name}={value!r}): {name} must be one of {known}.")
        tool = cls() if like is None else LIKE[like]
        defaults = {
            name: {k: v for k, v in params.items() if not (k == "empty" and empty)}
            for name, params in tool.defaults.items()
        }
        return cls(ties or tool.ties, empty or tool.empty, defaults, tool.single, tool.clip)

    def parameters(self, measure: Measure) -> dict[str, Any]:
        """Every parameter of a measure: as written, else as the tool has it, else our default."""
        return {
            "empty": self.empty,
            **measure.definition.defaults,
            **self.defaults.get(measure.name, {}),
            **dict(measure.params),
        }

    def describe(self, measures: list[Measure]) -> dict[str, str]:
        """In words, what was chosen for these measures."""
        texts = {"ties": _TIES[self.ties], "empty queries": _EMPTY[self.empty]}
        chosen = [(m, self.parameters(m)) for m in measures]
        for key in ("gain", "discount", "rel", "over", "steps"):
            values = {str(m): str(p[key]) for m, p in chosen if key in p}
            if len(set(values.values())) == 1:
                value = next(iter(values.values()))
                texts[key] = _PARAMETER_WORDS.get(value, value)
            elif values:
                texts[key] = ", ".join(f"{value} in {name}" for name, value in values.items())
        for measure, params in chosen:
            if params["empty"] != self.empty:
                texts[f"empty queries in {measure}"] = _EMPTY[params["empty"]]
        return texts


_LINEAR, _CUTOFF = {"NDCG": {"gain": "linear"}}, {"AP": {"over": "cutoff"}}
# Each entry was compared with the tool itself (tests/metrics/test_like.py): trec_eval through
# pytrec_eval-terrier 0.5.11, LightGBM 4.7.0, XGBoost 3.2.0, scikit-learn 1.9.1, ranx 0.3.21.
# "letor3" is the script of LETOR 3.0, except for lists shorter than the cutoff, for which that
# script gives nothing: here they end in irrelevant items, as in LETOR 4.0.
LIKE: dict[str, Conventions] = {
    "trec_eval": Conventions("docid", "zero", _LINEAR, single=True, clip=True),
    "letor3": Conventions("stable", "zero", {"NDCG": {"gain": "exp", "discount": "letor3"}}),
    "lightgbm": Conventions("stable", "one", _CUTOFF),
    "xgboost": Conventions(
        "stable", "one", {**_CUTOFF, "P": {"over": "list", "empty": "zero"}}, single=True
    ),
    "sklearn": Conventions("expected", "zero", {**_LINEAR, "AP": {"steps": "threshold"}}),
    # ranx keeps the order given in lists of up to 15 items; in longer ones its quicksort does not.
    "ranx": Conventions("stable", "zero", _LINEAR, clip=True),
}


def evaluate(
    scores: ArrayLike,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    measures: str | Measure | Iterable[str | Measure] = ("NDCG@10", "AP"),
    *,
    ties: str | None = None,
    empty: str | None = None,
    like: str | None = None,
    predictions: ArrayLike | None = None,
    query_weight: ArrayLike | None = None,
    docid: ArrayLike | None = None,
    judged: ArrayLike | None = None,
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
    params = [conventions.parameters(measure) for measure in measures]
    rule = "key" if tie_key is not None else conventions.ties
    key = {} if tie_key is None else {"tie_key": tie_key}
    blocks = list_blocks(queries, {**_without(columns, "scores"), **key})
    return _measured(measures, params, blocks, columns["scores"], rule, queries.n_queries)


def _without(columns: Columns, name: str) -> Columns:
    return {key: column for key, column in columns.items() if key != name}


def _measured(
    measures: list[Measure],
    params: list[dict[str, Any]],
    blocks: Iterable[QueryBlock],
    scores: NDArray[Any],
    ties: str,
    n_queries: int,
) -> FloatArray:
    """(n_measures, n_queries) values of these scores."""
    values = np.full((len(measures), n_queries), np.nan)
    empty = [{"skip": np.nan, "zero": 0.0, "one": 1.0}[p["empty"]] for p in params]
    params = [{name: p[name] for name in p if name != "empty"} for p in params]
    for block in blocks:
        for lists in block.ranked(scores, ties):
            for number, measure in enumerate(measures):
                value, defined = measure.definition.compute(lists, measure.cutoff, params[number])
                values[number, lists.query] = np.where(defined, value, empty[number])
    return values


class Evaluator:
    """:func:`evaluate` for many scores of the same items: what they share is computed once.

    Ties are averaged over, and queries that a measure is undefined for are NaN.

    Parameters
    ----------
    y : (n_items,) grades
    queries : the query of each item
    measure : Measure

    Examples
    --------
    >>> from rankwright.data.queries import Queries
    >>> queries = Queries.from_ids([7, 7, 7, 8, 8], 5)
    >>> evaluator = Evaluator([0, 1, 2, 1, 0], queries, Measure.parse("RR"))
    >>> evaluator.per_query([3, 2, 1, 5, 5]), evaluator.mean([3, 2, 1, 5, 5])
    (array([0.5 , 0.75]), 0.625)
    """

    def __init__(self, y: ArrayLike, queries: Queries, measure: Measure) -> None:
        conventions = Conventions()
        self._measure, self._queries = measure, queries
        self._columns = {"grades": _column("y", y)}
        self._params, self._ties = conventions.parameters(measure), conventions.ties
        self._blocks = list(list_blocks(queries, self._columns))

    def per_query(self, scores: ArrayLike) -> FloatArray:
        """The value of each query; NaN where the measure is undefined."""
        columns = {**self._columns, "scores": _column("scores", scores)}
        _check_range(self._measure, self._params, columns)
        given = ([self._measure], [self._params], self._blocks, columns["scores"], self._ties)
        values: FloatArray = _measured(*given, self._queries.n_queries)[0]
        return values

    def mean(self, scores: ArrayLike) -> float | None:
        """The mean over the queries; None if the measure is undefined for all."""
        values = self.per_query(scores)[None]
        return Scores((self._measure,), self._queries.ids, values).to_dict()[str(self._measure)]


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
    scores: ArrayLike,
    y: ArrayLike,
    predictions: ArrayLike | None,
    judged: ArrayLike | None,
    conventions: Conventions,
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


def _column(name: str, values: object) -> NDArray[Any]:
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


def _query_weights(query_weight: ArrayLike | None, queries: Queries) -> FloatArray | None:
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


def _tie_key(ties: str, docid: ArrayLike | None, n_items: int) -> NDArray[Any] | None:
    """A number per item: the later the document id in the alphabet, the smaller."""
    if ties != "docid":
        return None
    if docid is None:
        raise DataError(
            "ties='docid' needs the document ids, and docid is None.",
            fix=Message("Pass ", Setting("docid"), ", or use another rule such as ties='stable'."),
        )
    ids = np.asarray(docid).astype(str)
    if ids.shape != (n_items,):
        raise DataError(f"docid has shape {ids.shape}: one id per item is needed, ({n_items},).")
    return -np.unique(ids, return_inverse=True)[1].reshape(-1)


def _first(mask: NDArray[np.bool_]) -> int:
    return int(np.argmax(mask))
