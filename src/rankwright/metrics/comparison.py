"""Compare systems: means, bootstrap intervals, and which differences are significant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.exceptions import DataError, ParameterError
from rankwright.metrics.evaluation import Scores, find_measure
from rankwright.metrics.measure import Measure, parse_measures
from rankwright.metrics.tables import Cell, Table
from rankwright.parallel import map_jobs

_BATCH = 1 << 22  # resampled values held at once


def paired_t(first: Any, second: Any, **_: Any) -> float:
    """Two-sided p-value of Student's t-test on the differences.

    >>> round(paired_t([0.5, 0.6, 0.7, 0.9], [0.4, 0.4, 0.6, 0.6]), 4)
    0.0354
    """
    differences = _differences(first, second)
    if np.ptp(differences) < 1e-12:  # no spread: equal, or better every time by the same amount
        return 0.0 if len(differences) > 1 and differences[0] else 1.0
    from scipy import stats

    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def wilcoxon(first: Any, second: Any, **_: Any) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test; equal pairs are left out.

    >>> wilcoxon([0.5, 0.6, 0.7, 0.9], [0.4, 0.4, 0.6, 0.6])
    0.125
    """
    differences = _differences(first, second)
    if not differences.any():
        return 1.0
    from scipy import stats

    return float(stats.wilcoxon(differences[differences != 0]).pvalue)


def randomization(
    first: Any, second: Any, *, n_resamples: int = 10_000, random_state: int = 0
) -> float:
    """Two-sided p-value of Fisher's randomization test of the mean difference.

    The sign of each difference is drawn ``n_resamples`` times; with few queries all sign patterns
    are tried instead.

    >>> randomization([0.5, 0.6, 0.7, 0.9], [0.4, 0.4, 0.6, 0.6])
    0.125
    """
    differences = _differences(first, second)
    if not differences.any():
        return 1.0
    n, least = len(differences), abs(float(differences.sum())) * (1 - 1e-12)
    if 2**n <= n_resamples:
        every = np.arange(2**n)[:, None] >> np.arange(n) & 1
        return float(np.mean(_sums(every, differences) >= least))
    rng, n_extreme, left = np.random.default_rng(random_state), 0, n_resamples
    while left:
        n_drawn = min(left, max(1, _BATCH // n))
        bits = np.frombuffer(rng.bytes(n_drawn * ((n + 7) // 8)), np.uint8).reshape(n_drawn, -1)
        patterns = np.unpackbits(bits, axis=1, count=n)
        n_extreme += int(np.sum(_sums(patterns, differences) >= least))
        left -= n_drawn
    return (n_extreme + 1) / (n_resamples + 1)  # the pattern observed is one of them


def bootstrap_interval(
    values: Any, *, level: float = 0.95, n_resamples: int = 2000, random_state: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean; NaN (queries left out) is ignored.

    Fewer than two values, or equal ones, give the mean twice.

    >>> low, high = bootstrap_interval([0.1, 0.4, 0.35, 0.8, 0.6])
    >>> low < 0.45 < high
    True
    """
    kept = np.asarray(values, dtype=np.float64)
    kept = kept[~np.isnan(kept)]
    if len(kept) < 2 or np.ptp(kept) == 0:
        mean = float(kept.mean()) if len(kept) else 0.0
        return mean, mean
    from scipy import stats

    interval = stats.bootstrap(
        (kept,),
        np.mean,
        confidence_level=level,
        n_resamples=n_resamples,
        batch=max(1, _BATCH // len(kept)),
        method="percentile",
        random_state=np.random.default_rng(random_state),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def holm(p_values: Any) -> FloatArray:
    """P-values adjusted so that the probability of any false positive stays below the level.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def _p_value(
    pair: tuple[int, int, int], matrices: list[FloatArray], test: str, **how: Any
) -> float:
    """Of a test of two systems on one measure."""
    number, i, j = pair
    return TESTS[test](matrices[i][number], matrices[j][number], **how)


def _sums(patterns: NDArray[Any], differences: FloatArray) -> FloatArray:
    """The absolute sum of the differences with the signs of each pattern (1 is minus)."""
    sums = differences.sum() - 2.0 * (patterns.astype(np.float64) @ differences)
    return np.asarray(np.abs(sums))


TESTS: dict[str, Callable[..., float]] = {
    "randomization": randomization,
    "t": paired_t,
    "wilcoxon": wilcoxon,
}


def _differences(first: Any, second: Any) -> FloatArray:
    """Differences of pairs in which neither is NaN; what is only rounding is 0."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    differences = (a - b)[~(np.isnan(a) | np.isnan(b))]
    differences[np.abs(differences) < 1e-12] = 0.0
    return differences if len(differences) else np.zeros(1)


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
) -> Comparison:
    """Compare systems that were evaluated on the same queries.

    Parameters
    ----------
    systems : mapping of name to Scores
    measures : measures to compare, optional
        All that every system has when None.
    test : {"randomization", "t", "wilcoxon"}
        Paired, two-sided, over queries.
    correction : {"holm", None}
        Holm's correction over the pairs of systems, for each measure on its own.
    alpha : float
        Differences with a p-value up to alpha are marked.
    baseline : str, optional
        Test only against this system; all pairs when None.
    level : float
        Level of the bootstrap intervals.
    n_resamples : int
        Of the randomization test (the intervals take 2,000); with few queries it is exact.
    random_state : int
        For the randomization test and the bootstrap. Same seed, same table.

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
    """
    _check(systems, test, correction, alpha, level, baseline)
    if n_resamples < 1:
        raise ParameterError(f"compare(n_resamples={n_resamples}): at least 1 is needed.")
    _check_conventions(systems)
    chosen = _common_measures(systems) if measures is None else parse_measures(measures)
    matrices = _align(systems, chosen)
    options = {"n_resamples": n_resamples, "random_state": random_state}
    names = list(systems)
    pairs = list(combinations(range(len(names)), 2))
    if baseline is not None:
        pairs = [pair for pair in pairs if names.index(baseline) in pair]
    p_values = np.ones((len(chosen), len(names), len(names)))
    tests = [(number, i, j) for number in range(len(chosen)) for i, j in pairs]
    found = map_jobs(partial(_p_value, test=test, **options), tests, matrices, threads=1)
    for number, raw in enumerate(np.reshape(found, (len(chosen), len(pairs)))):
        for (i, j), p in zip(pairs, holm(raw) if correction else raw, strict=True):
            p_values[number, i, j] = p_values[number, j, i] = p
    bootstrap = partial(bootstrap_interval, level=level, random_state=random_state)
    rows = [row for matrix in matrices for row in matrix]
    bounds = map_jobs(bootstrap, rows, threads=1)
    intervals = np.array(bounds).reshape(len(names), len(chosen), 2)
    means = np.array([[scores[measure] for measure in chosen] for scores in systems.values()])
    words = f"{test} test{', Holm' if correction else ''}, p <= {alpha:g}"
    return Comparison(tuple(names), tuple(chosen), means, intervals, p_values, alpha, level, words)


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
        Corrected; 1 where nothing was tested.
    alpha, level : float
    words : str
        The test, in words.
    """

    systems: tuple[str, ...]
    measures: tuple[Measure, ...]
    means: FloatArray
    intervals: FloatArray
    p_values: FloatArray
    alpha: float
    level: float
    words: str

    def __post_init__(self) -> None:
        for array in (self.means, self.intervals, self.p_values):
            array.setflags(write=False)

    def p_value(self, first: str, second: str, measure: str | Measure) -> float:
        """The (corrected) p-value of the difference between two systems."""
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
                low, high = self.intervals[i, number]
                beside = f"[{low:.{digits}f}, {high:.{digits}f}]" if intervals else ""
                text = f"{self.means[i, number]:.{digits}f}"
                best = bool(self._best(number)[i])
                cells.append(Cell(text, best, separator.join(beaten), beside))
            rows.append(tuple(cells))
        notes = [f"* best; letters: significantly better than these ({self.words})"]
        lower = [str(m) for m in self.measures if not m.higher_is_better]
        if lower:
            notes.append(f"lower is better: {', '.join(lower)}")
        if intervals:
            notes.append(f"[{self.level:.0%} bootstrap interval]")
        return Table(("system", *map(str, self.measures)), tuple(rows), tuple(notes))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and text."""
        measures = {
            str(measure): {
                "mean": dict(zip(self.systems, self.means[:, i].tolist(), strict=True)),
                "interval": dict(zip(self.systems, self.intervals[:, i].tolist(), strict=True)),
                "p_value": self.p_values[i].tolist(),
            }
            for i, measure in enumerate(self.measures)
        }
        known = {"systems": list(self.systems), "test": self.words, "level": self.level}
        return {**known, "measures": measures}

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
            raise ParameterError(f"compare: {name!r} is a {kind}; evaluate(...) gives the Scores.")
        if scores.query_weight is not None:
            raise ParameterError(
                f"compare: {name!r} was evaluated with query weights, and the tests give all "
                "queries the same weight. Evaluate without query_weight."
            )
    if test not in TESTS:
        raise ParameterError(f"compare(test={test!r}): test must be one of {', '.join(TESTS)}.")
    if correction not in ("holm", None):
        raise ParameterError(f"compare(correction={correction!r}): it must be 'holm' or None.")
    for key, value in (("alpha", alpha), ("level", level)):
        if not 0 < value < 1:
            raise ParameterError(f"compare({key}={value}): {key} lies between 0 and 1.")
    if baseline is not None and baseline not in systems:
        names = ", ".join(systems)
        raise ParameterError(f"compare(baseline={baseline!r}): it must be one of {names}.")


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
        raise DataError("compare: the systems have no measure in common. Evaluate them alike.")
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
