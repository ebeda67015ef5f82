"""What :func:`rankwright.evaluate` returns: a mean for each measure, a value for each query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rankwright.exceptions import DataError, MeasureError
from rankwright.metrics.measure import Measure
from rankwright.metrics.tables import Cell, Table

__all__ = ["Scores"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Mapping[str, float]):
    """Values of some measures on some queries.

    It is a mapping from the name of a measure to its mean over queries.

    Attributes
    ----------
    measures : tuple of Measure
    query_ids : (n_queries,) array
        Ids of the queries, in order of first appearance.
    matrix : (n_measures, n_queries) float64
        NaN marks a query that was left out, because it has nothing to measure.
    query_weight : (n_queries,) float64 or None
    conventions : dict of str
        In words: ties, empty queries, gain, discount, what counts as relevant.

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
        """The (weighted) mean over the queries that count."""
        mean = self._mean(self._number(measure))
        if mean is None:
            asked = Measure.parse(measure)
            raise DataError(
                f"{asked} has no mean: none of the {self.n_queries} queries counts "
                f"({asked.definition.empty}, or no weight). Evaluate with empty='zero' or 'one'."
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
        if np.isnan(skipped):
            return values
        return np.where(np.isnan(values), skipped, values)

    def n_skipped(self, measure: str | Measure) -> int:
        """How many queries were left out because they have nothing to measure."""
        return int(np.isnan(self.matrix[self._number(measure)]).sum())

    def to_dict(self) -> dict[str, float | None]:
        """Means by name; None where there is none."""
        return {str(m): self._mean(number) for number, m in enumerate(self.measures)}

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
        words = "; ".join(f"{key}: {value}" for key, value in self.conventions.items())
        return Table(
            ("measure", "mean", "queries", "skipped"),
            tuple(rows),
            (words,) if words else (),
        )

    def __repr__(self) -> str:
        return self.table().to_text()

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def _number(self, measure: str | Measure) -> int:
        asked = Measure.parse(measure)
        if asked not in self.measures:
            raise KeyError(f"{asked} was not evaluated; there are {', '.join(self)}")
        return self.measures.index(asked)

    def _mean(self, number: int) -> float | None:
        values = self.matrix[number]
        counts = ~np.isnan(values)
        weights = counts if self.query_weight is None else self.query_weight * counts
        total = float(weights.sum())
        if total == 0:
            return None
        return float(np.where(counts, values, 0.0) @ weights / total)
