"""The sections of a report page, made from comparisons, models and scores."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries
from rankwright.metrics.comparison import Comparison
from rankwright.metrics.evaluation import Scores
from rankwright.report import charts
from rankwright.report.contributions import contributions
from rankwright.report.page import Chart, Section, key_value_table
from rankwright.report.plots import contribution_specs, means_spec, per_query_spec, win_loss_spec

N_QUERIES, N_RANKS = 3, 10
MIN_SPAN = 0.02  # of the span of the steepest curve; flatter curves are not shown


def rankings_section(
    scores: Mapping[str, ArrayLike], y: ArrayLike, qid: Any, docid: Any = None
) -> Section:
    """The rankings of two systems for the queries where they differ most.

    Parameters
    ----------
    scores : mapping of two names to (n_items,) scores
    y : (n_items,) grades
    qid : (n_items,) queries, or None
    docid : (n_items,) ids, or None to name items by their row
    """
    (first, one), (second, two) = scores.items()
    grades = np.asarray(y, dtype=np.float64)
    queries = Queries.from_ids(qid, len(grades))
    before, after = (queries.places(np.asarray(values, dtype=np.float64)) for values in (one, two))
    moved = np.bincount(
        queries.codes, np.abs(before - after) / np.minimum(before, after), queries.n_queries
    )
    names = [f"row {k + 1}" for k in range(len(grades))] if docid is None else docid
    parts = []
    for query in np.argsort(-moved, kind="stable")[:N_QUERIES].tolist():
        rows = np.flatnonzero(queries.codes == query)
        title = "" if qid is None else f"<h4>query {html.escape(str(queries.ids[query]))}</h4>"
        lists = [
            _list(first, rows, before, None, grades, names),
            _list(second, rows, after, before, grades, names),
        ]
        parts.append(f'<div class="pair">{title}<div class="lists">{"".join(lists)}</div></div>')
    remark = (
        f"The queries on which {first} and {second} differ most near the top. The box holds the "
        f"grade of the item; arrows show how many ranks {second} moved it."
    )
    return Section("Rankings side by side", "".join(parts), remark=remark)


def _list(
    name: str,
    rows: NDArray[np.int64],
    rank: NDArray[np.int64],
    other: NDArray[np.int64] | None,
    grades: NDArray[np.float64],
    names: Any,
) -> str:
    """The top of one ranking, with the moves from the other one if there is one."""
    lines = []
    for row in rows[np.argsort(rank[rows])][:N_RANKS].tolist():
        move = "" if other is None else _move(int(other[row] - rank[row]))
        lines.append(
            f"<tr><td>{rank[row]}</td><td><span class=grade>{grades[row]:g}</span></td>"
            f"<td>{html.escape(str(names[row]))}</td><td>{move}</td></tr>"
        )
    head = f"<tr><th>#</th><th>grade</th><th>{html.escape(name)}</th><th></th></tr>"
    table = f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _move(ranks: int) -> str:
    if ranks == 0:
        return '<span class="same" aria-label="not moved">=</span>'
    kind, arrow = ("up", "▲") if ranks > 0 else ("down", "▼")
    return f'<span class="{kind}" aria-label="{kind} {abs(ranks)}">{arrow} {abs(ranks)}</span>'


def comparison_section(comparison: Comparison, title: str = "Comparison") -> Section:
    """The table, and a chart of means with intervals for each measure."""
    charts = [Chart(means_spec(comparison, measure)) for measure in comparison.measures[:4]]
    several = len(comparison.systems) > 1
    body = comparison.to_html(intervals=True).replace(
        "<table>", '<div class="wide"><table class="compare">', 1
    )
    return Section(
        title,
        body.replace("</table>", "</table></div>", 1).replace("* best;", "Bold: best;", 1),
        tuple(charts) if several else (),
        "Dots are means over queries, lines their bootstrap intervals; the best mean is colored. "
        "Where intervals overlap widely, more queries are needed to separate the systems."
        if several
        else "",
        columns="two" if several and len(charts) > 1 else "one",
        headline=verdict(comparison),
    )


def verdict(comparison: Comparison) -> str:
    """The result for the first measure, in a sentence."""
    measure = comparison.measures[0]
    best, *others = by_mean(comparison)
    value = f"{comparison.means[comparison.systems.index(best), 0]:.4f}"
    if not others:
        return f"{best} has {measure} {value}."
    beaten = comparison.beaten(best, measure)
    if len(beaten) == len(others):
        than = "every other system" if len(others) > 1 else others[0]
        return f"{best} has the best {measure}, {value}: significantly better than {than}."
    close = [name for name in others if name not in beaten]
    shown = ", ".join(close[:3]) + (f" and {len(close) - 3} more" if close[3:] else "")
    return f"{best} has the best {measure}, {value}, not significantly better than {shown}."


def queries_section(
    systems: Mapping[str, Scores], comparison: Comparison, most_systems: int = 4
) -> Section:
    """The first measure on every query, for the best systems."""
    measure = str(comparison.measures[0])
    best = by_mean(comparison)[:most_systems]
    chosen = {name: systems[name] for name in best}
    more = f" The {len(best)} best of {len(systems)} systems." if len(best) < len(systems) else ""
    caption = (
        f"Every query is a column of points, sorted by {best[0]}: look for queries on which all "
        f"systems fail, and for those on which they differ.{more}"
    )
    return Section(
        f"{measure} per query", charts=(Chart(per_query_spec(chosen, measure), caption),)
    )


def win_loss_section(
    systems: Mapping[str, Scores], comparison: Comparison, most: int = 3
) -> Section:
    """The best system against the others, query by query."""
    measure = str(comparison.measures[0])
    first, *others = by_mean(comparison)
    charts, alike = [], []
    for other in others:
        spec, (wins, ties, losses) = win_loss_spec(systems, first, other, measure)
        if wins + losses == 0:
            alike.append(other)
            continue
        p = comparison.p_value(first, other, measure)
        verdict = "a significant" if p <= comparison.alpha else "no significant"
        caption = (
            f"{first} against {other}: better on {wins} queries, equal on {ties}, worse on "
            f"{losses}; {verdict} difference (p = {p:.2g})."
        )
        charts.append(Chart(spec, caption))
    remark = f"Equal to {first} on every query: {', '.join(alike)}." if alike else ""
    title = f"Wins and losses in {measure}"
    return Section(title, charts=tuple(charts[:most]), remark=remark)


def learning_section(
    curves: Mapping[str, ArrayLike], measure: str, x: str = "round", step: int = 1
) -> Section:
    """The measure after each round (or after every ``step`` of them)."""
    caption = (
        f"{measure[:1].upper()}{measure[1:]} by {x}: a curve that still improves at its end needs "
        "more training, one that has turned overfits."
    )
    chart = Chart(charts.lines(curves, x, measure, step=step), caption)
    return Section("Learning curves", charts=(chart,))


def contributions_section(
    model: Any, X: Any, names: Sequence[str] | None = None, title: str = "What the features add"
) -> Section | None:
    """Curves of the eight features that change the score most; None if no feature does."""
    curves = contributions(model, X, names)
    if not curves:
        return None
    shown = [curve for curve in curves if curve.span >= MIN_SPAN * curves[0].span]
    charts = tuple(Chart(spec) for spec in contribution_specs(shown))
    rest = [curve.name for curve in curves[len(shown) :]]
    remark = (
        "The mean change of the score as one feature changes and the others keep their values, "
        "most important first; all panels share one scale."
        + (f" Hardly any effect: {', '.join(rest)}." if rest else "")
    )
    return Section(title, charts=charts, remark=remark, columns="many")


def thresholds_section(
    scores: ArrayLike, y: ArrayLike, cuts: ArrayLike, title: str = "Thresholds"
) -> Section:
    """Where an ordinal ranker cuts its score into grades."""
    caption = (
        "Scores of the items of each true grade. Dashed lines are the thresholds: the predicted "
        "grade of an item is that of the interval its score falls into. The parts of a hill that "
        "cross a line are mistakes."
    )
    return Section(title, charts=(Chart(charts.histogram(scores, y, cuts), caption),))


def settings_section(settings: Mapping[str, Any], title: str = "To reproduce this") -> Section:
    """Command, versions, parameters and checksums of the data."""
    return Section(title, key_value_table(settings))


def by_mean(comparison: Comparison) -> list[str]:
    """Systems by the first measure, best first."""
    means = (comparison.measures[0].sign * comparison.means[:, 0]).tolist()
    order = sorted(range(len(means)), key=lambda k: -means[k])
    return [comparison.systems[k] for k in order]
