"""The values of measures per query, and the tables that print them and other results."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.exceptions import DataError, MeasureError
from rankwright.metrics.measure import Measure


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


@dataclass(frozen=True)
class Cell:
    """Text with optional marks: best of its column, letters above it, a note next to it."""

    text: str
    best: bool = False
    above: str = ""
    beside: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header; the first column holds names, the others numbers.

    Examples
    --------
    >>> table = Table(("system", "AP"), ((Cell("a"), Cell("0.50", best=True, above="b")),
    ...                                  (Cell("b"), Cell("0.25"))), ("higher is better",))
    >>> print(table)
    system      AP
    a       *0.50b
    b        0.25
    higher is better
    >>> print(table.to_markdown())
    | system | AP |
    | :--- | ---: |
    | a | **0.50**<sup>b</sup> |
    | b | 0.25 |
    <BLANKLINE>
    higher is better
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """Aligned columns; ``*`` marks the best."""
        columns: list[list[str]] = []
        for name, *cells in zip(self.header, *self.rows, strict=True):
            room = max((len(cell.above) for cell in cells), default=0)
            texts = [name, *(_plain(cell, room) for cell in cells)]
            width = max(map(len, texts))
            columns.append([f"{text:{'>' if columns else '<'}{width}}" for text in texts])
        lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
        return "\n".join([*lines, *(part for note in self.notes for part in wrap(note, 88))])

    def to_markdown(self) -> str:
        """A GitHub table."""
        rule = ["---:"] * len(self.header)
        rule[0] = ":---"
        head = [_escape_markdown(text) for text in self.header]
        body = [[_rich(cell, *_MARKDOWN) for cell in row] for row in self.rows]
        lines = [f"| {' | '.join(row)} |" for row in (head, rule, *body)]
        return "\n".join(lines + [line for note in self._rich_notes() for line in ("", note)])

    def to_latex(self) -> str:
        """A ``tabular`` with booktabs rules."""
        begin = rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}"
        head = " & ".join(_escape_latex(text) for text in self.header) + r" \\"
        body = [" & ".join(_rich(cell, *_TEX) for cell in row) + r" \\" for row in self.rows]
        lines = [begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
        return "\n".join(lines + [f"% {note}" for note in self._rich_notes()])

    def to_html(self) -> str:
        """A table without style of its own."""
        head = "".join(f"<th>{html.escape(text)}</th>" for text in self.header)
        body = "".join(
            f"<tr>{''.join(_html_cell(i, cell) for i, cell in enumerate(row))}</tr>"
            for row in self.rows
        )
        notes = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in self._rich_notes())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + notes

    def to_json(self) -> str:
        """The texts of the table: a list with an object for each row."""
        rows = [
            {name: _plain(cell) for name, cell in zip(self.header, row, strict=True)}
            for row in self.rows
        ]
        return json.dumps({"rows": rows, "notes": list(self.notes)}, indent=1)

    def _rich_notes(self) -> list[str]:
        """The notes for formats that show the best in bold and not by a star."""
        return [
            f"bold: {note.removeprefix('* ')}" if note.startswith("* ") else note
            for note in self.notes
        ]

    def _repr_html_(self) -> str:
        return self.to_html()


def _plain(cell: Cell, room: int = 0) -> str:
    beside = f" {cell.beside}" if cell.beside else ""
    return f"{'*' if cell.best else ''}{cell.text}{cell.above.ljust(room)}{beside}"


def _rich(cell: Cell, escape: Callable[[str], str], bold: str, above: str, beside: str) -> str:
    """A cell with its marks in these formats."""
    text = escape(cell.text)
    text = bold.format(text) if cell.best else text
    text += above.format(escape(cell.above)) if cell.above else ""
    return text + (beside.format(escape(cell.beside)) if cell.beside else "")


def _html_cell(column: int, cell: Cell) -> str:
    side = "right" if column else "left"
    return f'<td style="text-align:{side}">{_rich(cell, *_HTML)}</td>'


def _escape_markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {character: f"\\{character}" for character in "&%$#_{}"}


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


# Of each format: how to escape text, and formats for the best value, letters above, notes beside.
_MARKDOWN = (_escape_markdown, "**{}**", "<sup>{}</sup>", " {}")
_TEX = (_escape_latex, r"\textbf{{{}}}", r"$^{{\mathrm{{{}}}}}$", r" {{\small {}}}")
_HTML = (html.escape, "<b>{}</b>", "<sup>{}</sup>", " <small>{}</small>")
