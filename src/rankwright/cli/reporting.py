"""Report pages of verbs: which sections a comparison and a training have."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import Any

from rankwright.cli.files.systems import Judged, System, features_for
from rankwright.cli.training import last_step
from rankwright.data.items import Items
from rankwright.metrics.comparison import Comparison
from rankwright.metrics.evaluation import Scores
from rankwright.report.page import Page, Section, write_page
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
from rankwright.selection.auto import AutoRanker


def report_on_systems(
    path: str,
    systems: Mapping[str, System],
    judged: Judged,
    comparison: Comparison,
    scores: Mapping[str, Scores],
) -> None:
    """The page of ``compare --report``."""
    sections = table_sections(comparison, scores)
    if judged.items is not None:
        sections += _on_items(systems, judged.items, comparison)
    files = [*(system.path for system in systems.values()), judged.path]
    sections.append(settings_section(provenance(*files)))
    lead = f"{len(systems)} systems on {judged.path}."
    facts = _facts(comparison, scores)
    write_page(Page("Comparison of rankings", lead, tuple(sections), facts), path)


def report_on_training(
    path: str, model: AutoRanker, held_out: Items | None, data: str, about: Mapping[str, Any]
) -> None:
    """The page of ``train --report``."""
    sections: list[Section] = []
    tried, best = model.results_, model.results_.best
    comparison = tried.comparison
    scores = {each.name: each.scores for each in tried if each.scores is not None}
    if comparison is not None:
        sections += table_sections(comparison, scores)
        curves = {each.name: each.curve for each in tried if each.curve is not None}
        if curves:
            sections.insert(1, learning_section(curves, str(comparison.measures[0])))
    if held_out is not None:
        sections += _of_model(model.best_estimator_, held_out, best.name)
        others = [each for each in tried if each is not best and each.held_out is not None]
        if others and best.held_out is not None:
            pair: dict[str, Any] = {others[0].name: others[0].held_out, best.name: best.held_out}
            sections.append(rankings_section(pair, held_out.y, held_out.qid, held_out.docid))
    settings = {"ranker": repr(model.best_estimator_), **about, **provenance(data)}
    sections.append(settings_section(settings))
    chosen = "was chosen on held-out queries" if len(tried) > 1 else "was requested"
    lead = f"Trained on {data}; {best.name} {chosen}."
    facts = {} if comparison is None else _facts(comparison, scores)
    write_page(Page(f"Training: {best.name}", lead, tuple(sections), facts), path)


def _facts(comparison: Comparison, scores: Mapping[str, Scores]) -> dict[str, str]:
    """The best system, its measures, and on how many queries."""
    best = by_mean(comparison)[0]
    row = comparison.means[comparison.systems.index(best)]
    means = {str(m): f"{mean:.4f}" for m, mean in zip(comparison.measures, row, strict=True)}
    return {"best": best, **means, "queries": f"{scores[best].n_queries:,}"}


def table_sections(comparison: Comparison, scores: Mapping[str, Scores]) -> list[Section]:
    """Table, queries, wins and losses."""
    sections = [comparison_section(comparison), queries_section(scores, comparison)]
    if len(scores) > 1:
        sections.append(win_loss_section(scores, comparison))
    return sections


def provenance(*files: str) -> dict[str, Any]:
    """Command, versions, and size and checksum of each file."""
    rows: dict[str, Any] = {"command": shlex.join(["rankwright", *sys.argv[1:]])}
    for path in files:
        found = file_fingerprint(path)
        if "sha256" in found:
            rows[path] = f"{found['bytes']:,} bytes, SHA-256 {found['sha256']}"
    return rows | environment()


def _on_items(systems: Mapping[str, System], items: Items, comparison: Comparison) -> list[Section]:
    """What models say about the features, and two lists side by side."""
    sections: list[Section] = []
    scored = {}
    for name, system in systems.items():
        if system.run is not None:
            continue
        scored[name] = system.on(items)[0]
        if system.model is None or len(sections) >= 3:
            continue
        X = features_for(system.model, items, system.path)
        names = system.model.feature_names
        found = contributions_section(system.model, X, names, f"What the features add: {name}")
        sections += [found] if found is not None else []
        cuts = getattr(system.model.scorer, "thresholds", None)
        if cuts is not None and getattr(cuts, "ndim", 0) == 1:
            sections.append(thresholds_section(scored[name], items.y, cuts, f"Thresholds: {name}"))
    ordered = [name for name in comparison.systems if name in scored][:2]
    if len(ordered) == 2:
        pair = {name: scored[name] for name in ordered}
        sections.append(rankings_section(pair, items.y, items.qid, items.docid))
    return sections


def _of_model(model: Any, items: Items, name: str) -> list[Section]:
    sections = []
    found = contributions_section(model, items.X, items.feature_names)
    if found is not None:
        sections.append(found)
    cuts = getattr(last_step(model), "thresholds_", None)
    if cuts is not None and getattr(cuts, "ndim", 0) == 1:
        scores = model.decision_function(items.X)
        sections.append(thresholds_section(scores, items.y, cuts, f"Thresholds: {name}"))
    return sections
