"""The sections of a report page, and the pages of a comparison of systems and of a training."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, IntArray, Matrix
from rankwright.data.items import Items
from rankwright.data.queries import Queries
from rankwright.metrics.comparison import Comparison
from rankwright.metrics.scores import Scores
from rankwright.plot import charts, figures
from rankwright.plot.dependence import contributions, importances
from rankwright.rankers.ensemble import RankEnsemble
from rankwright.rankers.preprocessing import ranker_of, without_encoder
from rankwright.report.page import (
    Chart,
    Page,
    Section,
    environment,
    file_fingerprint,
    key_value_table,
    write_page,
)
from rankwright.selection.auto import ENSEMBLE
from rankwright.selection.importance import score_rows

N_QUERIES, N_RANKS = 3, 10
MOST_SYSTEMS, MOST_PAIRS, MOST_MODELS = 4, 3, 3  # with charts of their own
MIN_SPAN = 0.02  # of the span of the steepest curve; flatter curves are not shown


def rankings_section(
    scores: Mapping[str, ArrayLike],
    y: ArrayLike,
    qid: ArrayLike | None,
    docid: ArrayLike | None = None,
) -> Section:
    """The rankings of two systems, {name: scores}, for the queries where they differ most."""
    (first, one), (second, two) = scores.items()
    grades = np.asarray(y, dtype=np.float64)
    queries = Queries.from_ids(qid, len(grades))
    before, after = (queries.places(np.asarray(values, dtype=np.float64)) for values in (one, two))
    move = np.abs(before - after) / np.minimum(before, after)
    moved = np.bincount(queries.codes, move, queries.n_queries)
    names = [f"row {k + 1}" for k in range(len(grades))] if docid is None else docid
    parts = []
    for query in np.argsort(-moved, kind="stable")[:N_QUERIES].tolist():
        rows = np.flatnonzero(queries.codes == query)
        title = "" if qid is None else f"<h3>query {html.escape(str(queries.ids[query]))}</h3>"
        lists = _list(first, rows, before, None, grades, names)
        lists += _list(second, rows, after, before, grades, names)
        parts.append(f'<div class="pair">{title}<div class="lists">{lists}</div></div>')
    remark = (
        f"The queries on which {first} and {second} differ most near the top. The box holds the "
        f"grade of the item; arrows show how many ranks {second} moved it."
    )
    return Section("Rankings side by side", "".join(parts), remark=remark)


def _list(
    name: str,
    rows: IntArray,
    rank: IntArray,
    other: IntArray | None,
    grades: FloatArray,
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
    head = f"<tr><th>#</th><th>grade</th><th>{html.escape(name)}</th><td></td></tr>"
    table = f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _move(ranks: int) -> str:
    if ranks == 0:
        return '<span class="same" aria-label="not moved">=</span>'
    kind, arrow = ("up", "▲") if ranks > 0 else ("down", "▼")
    return f'<span class="{kind}" aria-label="{kind} {abs(ranks)}">{arrow} {abs(ranks)}</span>'


def comparison_section(comparison: Comparison, title: str = "Comparison") -> Section:
    """The table, and a chart of means with intervals for each measure."""
    body = comparison.to_html(intervals=True).replace("* best;", "Bold: best;", 1)
    body = body.replace("<table>", '<div class="wide"><table class="compare">', 1)
    body = body.replace("</table>", "</table></div>", 1)
    if len(comparison.systems) == 1:
        return Section(title, body, headline=verdict(comparison))
    charts = tuple(
        Chart(figures.means_spec(comparison, measure)) for measure in comparison.measures[:4]
    )
    remark = (
        f"Dots are means over {comparison.unit}, lines their bootstrap intervals; the best mean is "
        f"colored. Where intervals overlap widely, more {comparison.unit} are needed to separate "
        "the systems."
    )
    columns: Any = "two" if len(charts) > 1 else "one"
    return Section(title, body, charts, remark, columns, verdict(comparison))


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
    systems: Mapping[str, Scores], comparison: Comparison, chosen: str | None = None
) -> Section:
    """The first measure on every query, for the chosen and the best systems."""
    measure = str(comparison.measures[0])
    best = by_mean(comparison, chosen)[:MOST_SYSTEMS]
    shown = {name: systems[name] for name in best}
    more = f" The {len(best)} best of {len(systems)} systems." if len(best) < len(systems) else ""
    caption = (
        f"Every query is a column of points, sorted by {best[0]}: look for queries on which all "
        f"systems fail, and for those on which they differ.{more}"
    )
    chart = Chart(figures.per_query_spec(shown, measure), caption)
    return Section(f"{measure} per query", charts=(chart,))


def win_loss_section(
    systems: Mapping[str, Scores], comparison: Comparison, chosen: str | None = None
) -> Section:
    """The chosen system, by default the best, against the others, query by query."""
    measure = str(comparison.measures[0])
    first, *others = by_mean(comparison, chosen)
    charts, alike = [], []
    for other in others:
        spec, (wins, ties, losses) = figures.win_loss_spec(systems, first, other, measure)
        if wins + losses == 0:
            alike.append(other)
            continue
        p = comparison.p_value(first, other, measure)
        verdict = "a significant" if p <= comparison.alpha else "no significant"
        caption = (
            f"{first} against {other}: better on {wins} {comparison.unit}, equal on {ties}, "
            f"worse on {losses}; {verdict} difference (p = {p:.2g})."
        )
        charts.append(Chart(spec, caption))
    remark = f"Equal to {first} on every query: {', '.join(alike)}." if alike else ""
    title = f"Wins and losses in {measure}"
    shown, folded = tuple(charts[:1]), tuple(charts[1:MOST_PAIRS])
    return Section(title, charts=shown, remark=remark, folded=folded)


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
    model: BaseEstimator,
    X: Matrix,
    names: Sequence[str] | None = None,
    title: str = "What the features add",
) -> Section | None:
    """Curves of the eight features that change the score most; None if no feature does."""
    curves = contributions(model, X, names)
    if not curves:
        return None
    shown = [curve for curve in curves if curve.span >= MIN_SPAN * curves[0].span]
    charts = tuple(Chart(spec) for spec in figures.effect_specs(shown))
    rest = [curve.name for curve in curves[len(shown) :]]
    remark = (
        "The mean change of the score as one feature changes and the others keep their values, "
        "most important first; all panels share one scale."
        + (f" Hardly any effect: {', '.join(rest)}." if rest else "")
    )
    return Section(title, charts=charts, remark=remark, columns="many")


def importance_section(
    model: BaseEstimator,
    X: Matrix,
    names: Sequence[str] | None = None,
    title: str = "Importance of features",
) -> Section | None:
    """The importance of every feature; None if no feature has any."""
    what, shares = importances(model, X, names)
    if not any(shares.values()):
        return None
    chart = Chart(charts.bars(shares, what), f"Every feature by its {what}, largest first.")
    return Section(title, charts=(chart,))


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


def by_mean(comparison: Comparison, chosen: str | None = None) -> list[str]:
    """Systems by the first measure, best first; the chosen one before all others."""
    means = (comparison.measures[0].sign * comparison.means[:, 0]).tolist()
    order = sorted(range(len(means)), key=lambda k: (comparison.systems[k] != chosen, -means[k]))
    return [comparison.systems[k] for k in order]


def comparison_page(
    comparison: Comparison,
    scores: Mapping[str, Scores],
    *,
    systems: Mapping[str, tuple[Any, Items]] | None = None,
    data: str = "the data",
    settings: Mapping[str, Any] | None = None,
) -> Page:
    """Build the report page that compares several systems on the same data.

    ``scores`` maps names to results of :func:`rankwright.evaluate`; ``systems`` maps names of
    systems that score items to (model or scores, items with its features). ``settings`` are printed
    under "To reproduce this".
    """
    systems = {} if systems is None else systems
    values = {
        name: system.decision_function(items.X, items.qid)
        if hasattr(system, "decision_function")
        else system
        for name, (system, items) in systems.items()
    }
    sections = _table_sections(comparison, scores)
    models = [name for name, (system, _) in systems.items() if hasattr(system, "predict")]
    for name in models[:MOST_MODELS]:
        sections += _model_sections(*systems[name], values[name], f": {name}")
    both = [name for name in comparison.systems if name in systems][:2]
    if len(both) == 2:
        items = systems[both[0]][1]
        lists = {name: values[name] for name in both}
        sections.append(rankings_section(lists, items.y, items.qid, items.docid))
    sections.append(settings_section({**(settings or {}), **environment()}))
    lead, facts = f"{len(scores)} systems on {data}.", _facts(comparison, scores)
    return Page("Comparison of rankings", lead, tuple(sections), facts)


def training_page(
    model: BaseEstimator,
    held_out: Items | None,
    *,
    data: str = "the data",
    settings: Mapping[str, Any] | None = None,
) -> Page:
    """Build the report page of a fitted :class:`rankwright.AutoRanker`."""
    results = model.results_
    best = next(result for result in results if result.name == model.best_name_)
    fitted = without_encoder(model.best_estimator_)
    is_ensemble = isinstance(fitted, RankEnsemble)
    name = ENSEMBLE if is_ensemble else best.name
    comparison = results.comparison
    scores = {result.name: result.scores for result in results if result.scores is not None}
    sections: list[Section] = []
    if comparison is not None:
        sections = _table_sections(comparison, scores, name)
        curves = {result.name: result.curve for result in results if result.curve is not None}
        if curves:
            section = learning_section(curves, str(comparison.measures[0]))
            n_folds = len(best.models)
            folds = f"means over {n_folds} folds" if n_folds > 1 else "of the one fold"
            remark = f"Curves are {folds} that candidates were evaluated on."
            sections.insert(1, replace(section, remark=remark))
    if held_out is not None:
        values = score_rows(fitted, held_out.X, held_out.qid)
        sections += _model_sections(fitted, held_out, values)
        shown = [best, results[-1] if results[-1] is not best else results[0]]
        lists = {one.name: one.held_out for one in shown if one.held_out is not None}
        if len(lists) == 2:
            sections.append(rankings_section(lists, held_out.y, held_out.qid, held_out.docid))
    weights = {name: f"{weight:.3f}" for name, weight in model.weights_.items()}
    ranker = {"weights": weights} if is_ensemble else {"ranker": repr(fitted)}
    sections.append(settings_section({**ranker, **(settings or {}), **environment()}))
    lead = f"Trained on {data}; {best.name} was kept."
    if is_ensemble:
        lead = f"Trained on {data}; an ensemble of {len(weights)}, weighted by held-out queries."
    facts = {} if comparison is None else _facts(comparison, scores, name)
    return Page(f"Training: {name}", lead, tuple(sections), facts)


def write_training(
    model: BaseEstimator,
    path: str,
    items: Items,
    valid: Items | None = None,
    *,
    data: str = "the data",
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Write the report page of a fitted :class:`rankwright.AutoRanker` trained on ``items``.

    ``valid`` are the items it was evaluated on, if they were not folds of ``items``. ``data`` is
    the file of the items, whose checksum is printed with the settings.
    """
    held_out = valid if model.held_out_rows_ is None else items.take(model.held_out_rows_)
    about = {**(settings or {}), **fingerprints([data])}
    write_page(training_page(model, held_out, data=data, settings=about), path)


def write_comparison(
    comparison: Comparison,
    scores: Mapping[str, Scores],
    path: str,
    *,
    systems: Mapping[str, tuple[Any, Items]] | None = None,
    files: Sequence[str],
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Write the report page of a :func:`rankwright.compare` result.

    Parameters are those of :func:`comparison_page`; checksums of ``files``, data last, are printed.
    """
    about = {**(settings or {}), **fingerprints(files)}
    page = comparison_page(comparison, scores, systems=systems, data=files[-1], settings=about)
    write_page(page, path)


def fingerprints(paths: Iterable[str]) -> dict[str, str]:
    """Size and checksum of each file; nothing for a pipe."""
    files = {path: file_fingerprint(path) for path in paths}
    return {
        path: f"{file['bytes']:,} bytes, SHA-256 {file['sha256']}"
        for path, file in files.items()
        if "sha256" in file
    }


def _table_sections(
    comparison: Comparison, scores: Mapping[str, Scores], chosen: str | None = None
) -> list[Section]:
    sections = [comparison_section(comparison), queries_section(scores, comparison, chosen)]
    if len(scores) > 1:
        sections.append(win_loss_section(scores, comparison, chosen))
    return sections


def _model_sections(
    model: BaseEstimator, items: Items, scores: ArrayLike, name: str = ""
) -> list[Section]:
    title = f"What the features add{name}"
    curves = contributions_section(model, items.X, items.feature_names, title)
    importance = importance_section(
        model, items.X, items.feature_names, f"Importance of features{name}"
    )
    sections = [section for section in (curves, importance) if section is not None]
    thresholds = _thresholds(model)
    if thresholds is not None:
        sections.append(thresholds_section(scores, items.y, thresholds, f"Thresholds{name}"))
    return sections


def _thresholds(model: BaseEstimator) -> Any:
    """The thresholds of an ordinal ranker, a pipeline or a saved scorer; None without any."""
    last = ranker_of(model)
    thresholds = getattr(last, "thresholds_", None)
    if thresholds is None:
        thresholds = getattr(getattr(last, "scorer", None), "thresholds", None)
    return thresholds if getattr(thresholds, "ndim", 0) == 1 else None


def _facts(
    comparison: Comparison, scores: Mapping[str, Scores], chosen: str | None = None
) -> dict[str, str]:
    best = by_mean(comparison, chosen)[0]
    row = comparison.means[comparison.systems.index(best)]
    means = {str(m): f"{mean:.4f}" for m, mean in zip(comparison.measures, row, strict=True)}
    name = "best" if chosen is None else "chosen"
    return {name: best, **means, comparison.unit: f"{scores[best].n_queries:,}"}
