"""Whole report pages: of a comparison of systems, and of a training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rankwright.data.items import Items
from rankwright.metrics.comparison import Comparison
from rankwright.metrics.evaluation import Scores
from rankwright.persist.systems import score_items
from rankwright.report.page import Page, Section
from rankwright.report.provenance import environment, file_fingerprint
from rankwright.report.sections import (
    by_mean,
    comparison_section,
    contributions_section,
    learning_section,
    queries_section,
    rankings_section,
    settings_section,
    thresholds_section,
    win_loss_section,
)

MOST_MODELS = 3  # with charts of their own on the page of a comparison


def comparison_page(
    comparison: Comparison,
    scores: Mapping[str, Scores],
    *,
    systems: Mapping[str, tuple[Any, Items]] | None = None,
    data: str = "the data",
    settings: Mapping[str, Any] | None = None,
) -> Page:
    """The page of several systems on the same data.

    Parameters
    ----------
    comparison : what :func:`rankwright.compare` gives
    scores : name of each system -> what :func:`rankwright.evaluate` gives
    systems : name -> (model or scores, items with its features), of the systems that score items
    data : str
        What the systems were measured on.
    settings : mapping
        What to print under "To reproduce this", beside the versions.
    """
    systems = {} if systems is None else systems
    values = {name: score_items(system, items) for name, (system, items) in systems.items()}
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
    lead = f"{len(scores)} systems on {data}."
    return Page("Comparison of rankings", lead, tuple(sections), _facts(comparison, scores))


def training_page(
    model: Any,
    held_out: Items | None,
    *,
    data: str = "the data",
    settings: Mapping[str, Any] | None = None,
) -> Page:
    """The page of a fitted :class:`rankwright.AutoRanker`.

    Parameters
    ----------
    model : AutoRanker, fitted
    held_out : the items that the candidates were evaluated on; None if there were none
    data : str
        What the model was trained on.
    settings : mapping
        What to print under "To reproduce this", beside the ranker and the versions.
    """
    attempts, best = model.results_, model.results_.best
    comparison = attempts.comparison
    scores = {each.name: each.scores for each in attempts if each.scores is not None}
    sections: list[Section] = []
    if comparison is not None:
        sections = _table_sections(comparison, scores)
        curves = {each.name: each.curve for each in attempts if each.curve is not None}
        if curves:
            sections.insert(1, learning_section(curves, str(comparison.measures[0])))
    if held_out is not None:
        final = model.best_estimator_
        values = model.decision_function(held_out.X, held_out.qid)
        sections += _model_sections(final, held_out, values)
        others = [each for each in attempts if each is not best and each.held_out is not None]
        if others and best.held_out is not None:
            lists = {others[0].name: others[0].held_out, best.name: best.held_out}
            sections.append(rankings_section(lists, held_out.y, held_out.qid, held_out.docid))
    ranker = {"ranker": repr(model.best_estimator_)}
    sections.append(settings_section({**ranker, **(settings or {}), **environment()}))
    chosen = "was chosen on held-out queries" if len(attempts) > 1 else "was requested"
    lead = f"Trained on {data}; {best.name} {chosen}."
    facts = {} if comparison is None else _facts(comparison, scores)
    return Page(f"Training: {best.name}", lead, tuple(sections), facts)


def fingerprints(paths: Iterable[str]) -> dict[str, str]:
    """Size and checksum of each file; nothing for a pipe."""
    files = {path: file_fingerprint(path) for path in paths}
    return {
        path: f"{file['bytes']:,} bytes, SHA-256 {file['sha256']}"
        for path, file in files.items()
        if "sha256" in file
    }


def _table_sections(comparison: Comparison, scores: Mapping[str, Scores]) -> list[Section]:
    sections = [comparison_section(comparison), queries_section(scores, comparison)]
    return [*sections, win_loss_section(scores, comparison)] if len(scores) > 1 else sections


def _model_sections(model: Any, items: Items, scores: Any, name: str = "") -> list[Section]:
    """What the features add to the score, and the thresholds of an ordinal model."""
    title = f"What the features add{name}"
    curves = contributions_section(model, items.X, items.feature_names, title)
    thresholds = _thresholds(model)
    if thresholds is None:
        return [] if curves is None else [curves]
    section = thresholds_section(scores, items.y, thresholds, f"Thresholds{name}")
    return [section] if curves is None else [curves, section]


def _thresholds(model: Any) -> Any:
    """The thresholds of an ordinal ranker, a pipeline or a saved scorer; None without any."""
    last = model[-1] if hasattr(model, "steps") else model
    thresholds = getattr(last, "thresholds_", None)
    if thresholds is None:
        thresholds = getattr(getattr(last, "scorer", None), "thresholds", None)
    return thresholds if getattr(thresholds, "ndim", 0) == 1 else None


def _facts(comparison: Comparison, scores: Mapping[str, Scores]) -> dict[str, str]:
    """The best system, its measures, and on how many queries."""
    best = by_mean(comparison)[0]
    row = comparison.means[comparison.systems.index(best)]
    means = {str(m): f"{mean:.4f}" for m, mean in zip(comparison.measures, row, strict=True)}
    return {"best": best, **means, "queries": f"{scores[best].n_queries:,}"}
