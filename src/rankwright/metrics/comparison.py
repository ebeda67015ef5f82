"""Compare systems: means, bootstrap intervals, and which differences are significant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from string import ascii_lowercase
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.exceptions import DataError, Message, ParameterError, Setting
from rankwright.metrics.measure import Measure, parse_measures
from rankwright.metrics.scores import Cell, Scores, Table, find_measure
from rankwright.metrics.significance import TESTS, bootstrap_interval, holm
from rankwright.runtime import map_jobs


def _p_value(
    pair: tuple[int, int, int], matrices: list[FloatArray], test: str, **how: Any
) -> float:
    """Of a test of two systems on one measure."""
    number, i, j = pair
    return TESTS[test](matrices[i][number], matrices[j][number], **how)


def compare(
    systems: Mapping[str, Scores],
    measures: str | Measure | Iterable[str | Measure] | None = None,
    *,
    test: str = "randomization",
    correction: str | None = "holm",
    alpha: float = 0.05,
    baseline: str | None = None,
    level: float = 0.95,
    n_resamples: int = 10_000,
    random_state: int = 0,
    unit: str = "queries",
) -> Comparison:
    """Compare systems that were evaluated on the same queries.

    Parameters
    ----------
    systems : mapping of name to Scores
    measures : measures to compare, optional
        None: all measures that every system has.
    test : {"randomization", "t", "wilcoxon"}
        Paired, two-sided, over queries.
    correction : {"holm", None}
        Holm's correction over the pairs of systems, separately for each measure.
    alpha : float
        Differences with a p-value of at most alpha are marked.
    baseline : str, optional
        Test only against this system, and print the difference from it; all pairs when None. The
        p-values of the other pairs, which are not tested, are NaN.
    level : float
        Level of the bootstrap intervals, of means and of differences.
    n_resamples : int
        Number of resamples of the randomization test (2,000 for intervals); exact with few queries.
    random_state : int
        Seeds the randomization test and the bootstrap.
    unit : str
        What to call the queries in tables and reports, such as "users" or "items".

    Examples
    --------
    >>> from rankwright import evaluate
    >>> rng = np.random.default_rng(0)
    >>> y, qid = rng.integers(0, 3, 600), np.repeat(np.arange(60), 10)
    >>> good, weak = y + rng.normal(size=600), y + 5 * rng.normal(size=600)
    >>> compare({"good": evaluate(good, y, qid, "AP"), "weak": evaluate(weak, y, qid, "AP")})
    system         AP
    a  good  *0.9488b
    b  weak   0.8196
    * best; letters: significantly better than these (randomization test, Holm, p <= 0.05)
    60 queries
    """
    _check(systems, test, correction, alpha, level, baseline)
    if n_resamples < 1:
        raise ParameterError(
            f"compare(n_resamples={n_resamples}): it must be at least 1.", parameter="n_resamples"
        )
    _check_conventions(systems)
    chosen = _common_measures(systems) if measures is None else parse_measures(measures)
    for measure in chosen:
        if measure.definition.mean == "geometric":
            raise ParameterError(
                f"{measure} is a geometric mean over queries, but the tests compare arithmetic "
                "means.",
                parameter="measures",
                fix=Message("Choose other measures, such as ", Setting("measures", ["AP"]), "."),
            )
    matrices = _align(systems, chosen)
    options: dict[str, Any] = {"n_resamples": n_resamples, "random_state": random_state}
    names = list(systems)
    pairs = list(combinations(range(len(names)), 2))
    if baseline is not None:
        pairs = [pair for pair in pairs if names.index(baseline) in pair]
    p_values = np.full((len(chosen), len(names), len(names)), np.nan)
    p_values[:, range(len(names)), range(len(names))] = 1.0
    tests = [(number, i, j) for number in range(len(chosen)) for i, j in pairs]
    computed = map_jobs(partial(_p_value, test=test, **options), tests, matrices, threads=1)
    for number, raw in enumerate(np.reshape(computed, (len(chosen), len(pairs)))):
        for (i, j), p in zip(pairs, holm(raw) if correction else raw, strict=True):
            p_values[number, i, j] = p_values[number, j, i] = p
    bootstrap = partial(bootstrap_interval, level=level, random_state=random_state)
    rows = [row for matrix in matrices for row in matrix]
    bounds = map_jobs(bootstrap, rows, threads=1)
    intervals = np.array(bounds).reshape(len(names), len(chosen), 2)
    means = np.array([[scores[measure] for measure in chosen] for scores in systems.values()])
    description = f"{test} test{', Holm' if correction else ''}, p <= {alpha:g}"
    known = (tuple(names), tuple(chosen), means, intervals, p_values, alpha, level, description)
    return Comparison(*known, np.array(matrices), baseline, random_state, unit)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The result of :func:`compare`; prints as a table, in notebooks too.

    Attributes
    ----------
    systems : tuple of str
    measures : tuple of Measure
    means : (n_systems, n_measures) float64
    intervals : (n_systems, n_measures, 2) float64
        Bootstrap interval of each mean.
    p_values : (n_measures, n_systems, n_systems) float64
        Corrected; NaN for a pair that was not tested, because neither is the baseline.
    alpha, level : float
    words : str
        The test, in words.
    values : (n_systems, n_measures, n_queries) float64
        The values of the queries; NaN where the measure is undefined.
    baseline : str or None
    random_state : int
    unit : str, what the queries are called

    Examples
    --------
    >>> from rankwright import evaluate
    >>> rng = np.random.default_rng(0)
    >>> y, qid = rng.integers(0, 3, 600), np.repeat(np.arange(60), 10)
    >>> noise = {"old": 5.0, "new": 1.0, "newer": 0.9}
    >>> systems = {name: evaluate(y + scale * rng.normal(size=600), y, qid, "AP")
    ...            for name, scale in noise.items()}
    >>> compare(systems, baseline="old")
    system                                     AP
    a  old                       0.8240  baseline
    b  new    *0.9411a +0.1170 [+0.0851, +0.1522]
    c  newer   0.9363a +0.1122 [+0.0729, +0.1492]
    * best; letters: significantly better than these (randomization test, Holm, p <= 0.05)
    60 queries
    + and -: difference from old [95% bootstrap interval]; other pairs were not tested
    """

    systems: tuple[str, ...]
    measures: tuple[Measure, ...]
    means: FloatArray
    intervals: FloatArray
    p_values: FloatArray
    alpha: float
    level: float
    words: str
    values: FloatArray
    baseline: str | None = None
    random_state: int = 0
    unit: str = "queries"

    def __post_init__(self) -> None:
        for array in (self.means, self.intervals, self.p_values, self.values):
            array.setflags(write=False)

    @property
    def n_queries(self) -> int:
        return int(self.values.shape[2])

    def difference(
        self, first: str, second: str, measure: str | Measure
    ) -> tuple[float, tuple[float, float]]:
        """The mean difference, first minus second, and its bootstrap interval, over queries."""
        number = self._measure(measure)
        left, right = (self.values[self._system(name), number] for name in (first, second))
        differences = left - right
        interval = bootstrap_interval(differences, level=self.level, random_state=self.random_state)
        return float(np.nanmean(differences)) if not np.isnan(differences).all() else 0.0, interval

    def is_tested(self, first: str, second: str) -> bool:
        """Whether this pair was tested: with a baseline, only pairs with the baseline are."""
        return first != second and self.baseline in (None, first, second)

    def p_value(self, first: str, second: str, measure: str | Measure) -> float:
        """The (corrected) p-value of the difference between two systems; NaN if not tested."""
        number = self._measure(measure)
        return float(self.p_values[number, self._system(first), self._system(second)])

    def interval(self, system: str, measure: str | Measure) -> tuple[float, float]:
        """The bootstrap interval of a mean."""
        low, high = self.intervals[self._system(system), self._measure(measure)]
        return float(low), float(high)

    def beaten(self, system: str, measure: str | Measure) -> tuple[str, ...]:
        """The systems this one is significantly better than."""
        number, own = self._measure(measure), self._system(system)
        better = self.measures[number].sign * (self.means[own, number] - self.means[:, number]) > 0
        significant = self.p_values[number, own] <= self.alpha
        return tuple(self.systems[i] for i in np.flatnonzero(better & significant))

    def table(self, *, intervals: bool = False, digits: int = 4) -> Table:
        """The table, with or without the bootstrap interval of each mean."""
        letters = [*ascii_lowercase, *map(str, range(27, len(self.systems) + 1))]
        separator = "," if len(self.systems) > 26 else ""
        rows = []
        for i, name in enumerate(self.systems):
            cells = [Cell(f"{letters[i]}  {name}")]
            for number, measure in enumerate(self.measures):
                beaten = [letters[self._system(other)] for other in self.beaten(name, measure)]
                text = f"{self.means[i, number]:.{digits}f}"
                best = bool(self._best(number)[i])
                beside = self._beside(name, measure, intervals, digits)
                cells.append(Cell(text, best, separator.join(beaten), beside))
            rows.append(tuple(cells))
        notes = [f"* best; letters: significantly better than these ({self.words})"]
        notes.append(self._about_queries())
        lower = [str(m) for m in self.measures if not m.higher_is_better]
        if lower:
            notes.append(f"lower is better: {', '.join(lower)}")
        if intervals:
            notes.append(f"[{self.level:.0%} bootstrap interval]")
        if self.baseline is not None:
            notes.append(
                f"+ and -: difference from {self.baseline} [{self.level:.0%} bootstrap interval]"
                + ("; other pairs were not tested" if len(self.systems) > 2 else "")
            )
        return Table(("system", *map(str, self.measures)), tuple(rows), tuple(notes))

    def _beside(self, name: str, measure: Measure, intervals: bool, digits: int) -> str:
        """The interval of a mean and the difference from the baseline, if requested."""
        low, high = self.interval(name, measure)
        parts = [f"[{low:.{digits}f}, {high:.{digits}f}]"] if intervals else []
        if self.baseline == name:
            parts.append("baseline")
        elif self.baseline is not None:
            mean, (low, high) = self.difference(name, self.baseline, measure)
            parts.append(f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]")
        return " ".join(parts)

    def _about_queries(self) -> str:
        """The number of queries, and of those that count where a measure leaves some out."""
        counts = (~np.isnan(self.values).any(axis=0)).sum(axis=1).tolist()
        fewer = [
            f"{measure} on {n:,}"
            for measure, n in zip(self.measures, counts, strict=True)
            if n < self.n_queries
        ]
        one = self.n_queries == 1 and self.unit == "queries"
        amount = "1 query" if one else f"{self.n_queries:,} {self.unit}"
        return amount + (f" ({', '.join(fewer)})" if fewer else "")

    def to_frame(self, backend: str = "pandas") -> Any:
        """A row for each pair of systems and measure, in any library narwhals knows.

        The columns are ``measure``, ``system``, ``other``, ``mean``, ``other_mean``,
        ``difference`` (system minus other), ``low`` and ``high`` (its bootstrap interval),
        ``p_value``, ``tested``, ``significant`` and ``n_queries``. A pair that was not tested has
        a p-value of NaN. ``backend`` is "pandas", "polars", "pyarrow", "modin" or "cudf".
        """
        import narwhals as nw

        rows = [self._pair(*pair, m) for m in self.measures for pair in self._pairs()]
        columns = {name: [row[name] for row in rows] for name in self._PAIR}
        return nw.to_native(nw.from_dict(columns, backend=cast("Any", backend)))

    _PAIR: ClassVar = (
        "measure", "system", "other", "mean", "other_mean", "difference", "low", "high", "p_value",
        "tested", "significant", "n_queries",
    )  # fmt: skip

    def _pairs(self) -> list[tuple[str, str]]:
        """Every pair once, the baseline (or the system given first) as the other."""
        pairs = [(b, a) for a, b in combinations(self.systems, 2)]
        return [(b, a) if a == self.baseline else (a, b) for a, b in pairs]

    def _pair(self, system: str, other: str, measure: Measure) -> dict[str, Any]:
        number, p = self._measure(measure), self.p_value(system, other, measure)
        mean, (low, high) = self.difference(system, other, measure)
        first, second = self._system(system), self._system(other)
        means = [float(self.means[i, number]) for i in (first, second)]
        counts = ~np.isnan(self.values[[first, second], number]).any(axis=0)
        significant, tested = bool(p <= self.alpha), self.is_tested(system, other)
        about = (str(measure), system, other, *means, mean, low, high, p)
        row = (*about, tested, significant, int(counts.sum()))
        return dict(zip(self._PAIR, row, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and text; a p-value that was not tested is None."""
        measures = {
            str(measure): {
                "mean": dict(zip(self.systems, self.means[:, i].tolist(), strict=True)),
                "interval": dict(zip(self.systems, self.intervals[:, i].tolist(), strict=True)),
                "p_value": [
                    [None if np.isnan(p) else p for p in row] for row in self.p_values[i].tolist()
                ],
                **self._differences_from_baseline(measure),
            }
            for i, measure in enumerate(self.measures)
        }
        known: dict[str, Any] = {"systems": list(self.systems), "test": self.words}
        known |= {"level": self.level, "baseline": self.baseline, "n_queries": self.n_queries}
        return {**known, "measures": measures}

    def _differences_from_baseline(self, measure: Measure) -> dict[str, Any]:
        others = [name for name in self.systems if self.baseline not in (None, name)]
        estimates = {name: self.difference(name, str(self.baseline), measure) for name in others}
        differences = {n: {"mean": d, "interval": list(ends)} for n, (d, ends) in estimates.items()}
        return {"difference": differences} if others else {}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def to_markdown(self, **options: Any) -> str:
        return self.table(**options).to_markdown()

    def to_latex(self, **options: Any) -> str:
        return self.table(**options).to_latex()

    def to_html(self, **options: Any) -> str:
        return self.table(**options).to_html()

    def __repr__(self) -> str:
        return self.table().to_text()

    def _repr_html_(self) -> str:
        return self.to_html()

    def _best(self, number: int) -> NDArray[np.bool_]:
        column = self.means[:, number]
        best = column.max() if self.measures[number].higher_is_better else column.min()
        return np.asarray(np.abs(column - best) <= 1e-12)

    def _system(self, name: str) -> int:
        if name not in self.systems:
            raise KeyError(f"there is no system {name!r}; there are {', '.join(self.systems)}")
        return self.systems.index(name)

    def _measure(self, measure: str | Measure) -> int:
        return find_measure(measure, self.measures, "compared")


def _check(
    systems: Mapping[str, Any],
    test: str,
    correction: str | None,
    alpha: float,
    level: float,
    baseline: str | None,
) -> None:
    if not isinstance(systems, Mapping) or not systems:
        raise ParameterError(
            f"compare got {systems if not systems else type(systems).__name__}: pass a dict "
            "{name: scores} with at least one system."
        )
    for name, scores in systems.items():
        if not isinstance(scores, Scores):
            kind = type(scores).__name__
            raise ParameterError(
                f"compare: {name!r} is a {kind}; pass the Scores that evaluate(...) returns."
            )
        if scores.query_weight is not None:
            raise ParameterError(
                f"compare: {name!r} was evaluated with query weights, but the tests give all "
                "queries the same weight. Evaluate without query_weight."
            )
    if test not in TESTS:
        raise ParameterError(Setting("test", test), f": use one of {', '.join(TESTS)}.")
    if correction not in ("holm", None):
        raise ParameterError(Setting("correction", correction), ": it must be 'holm' or None.")
    for key, value in (("alpha", alpha), ("level", level)):
        if not 0 < value < 1:
            raise ParameterError(Setting(key, value), ": it must be between 0 and 1.")
    if baseline is not None and baseline not in systems:
        names = ", ".join(systems)
        raise ParameterError(Setting("baseline", baseline), f": it must be one of {names}.")


def _check_conventions(systems: Mapping[str, Scores]) -> None:
    """Refuse values of one measure that were computed with different conventions."""
    (first_name, first), *others = systems.items()
    for name, scores in others:
        # What conventions say of gain, rel and so on holds for all measures evaluated together.
        same_measures = first.measures == scores.measures
        for key in first.conventions if same_measures else ("ties", "empty queries"):
            one, other = first.conventions.get(key), scores.conventions.get(key)
            if one is not None and other is not None and one != other:
                raise DataError(
                    f"compare: {first_name!r} and {name!r} were evaluated with different "
                    f"conventions ({key}: {one}, and {other}). Use the same like, ties and empty."
                )


def _common_measures(systems: Mapping[str, Scores]) -> list[Measure]:
    first, *rest = systems.values()
    common = [m for m in first.measures if all(m in scores.measures for scores in rest)]
    if not common:
        raise DataError(
            "compare: the systems have no measure in common. Evaluate them with the same measures."
        )
    return common


def _align(systems: Mapping[str, Scores], measures: list[Measure]) -> list[FloatArray]:
    """For each system (n_measures, n_queries), queries in the order of the first system."""
    (first_name, first), *_ = systems.items()
    queries = first.query_ids.tolist()
    matrices = []
    for name, scores in systems.items():
        column = {query: i for i, query in enumerate(scores.query_ids.tolist())}
        differing = column.keys() ^ set(queries)
        if differing:
            odd = next(query for query in [*queries, *column] if query in differing)
            raise DataError(
                f"compare: {first_name!r} and {name!r} were not evaluated on the same queries: "
                f"{odd!r} is in one only ({len(queries)} and {len(column)} queries)."
            )
        order = [column[query] for query in queries]
        matrices.append(np.array([scores.per_query(measure)[order] for measure in measures]))
    return matrices
