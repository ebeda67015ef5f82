"""Drift: the columns of what a model ranks now, compared with those that it was trained on.

A model file holds statistics of its training columns. The lists in the log hold the features that
they were scored by, so nothing is counted while requests are answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from rankwright._typing import FloatArray
from rankwright.service.api.types import ColumnDrift, Drift
from rankwright.service.log.entries import decode_event

if TYPE_CHECKING:
    from rankwright.service.log.reader import LogReader
    from rankwright.service.models import DeployedModel

FEWEST_LISTS = 50  # fewer say little about a column
BLOCK = 500  # entries of the log that are read together
MOST_VALUES = 10_000_000  # of the features of all lists
# What counts as moved; the first two are shares of the rows.
MISSING, OUTSIDE, DEVIATIONS, LEVELS = 0.1, 0.05, 0.5, 0.2


def drift_of(model: DeployedModel, log: LogReader, n_lists: int, n_entries: int = 20_000) -> Drift:
    """The columns of the latest lists that a model ranked, compared with those of its training.

    Lists are looked for in the latest ``n_entries`` of the log.
    """
    made = model.provenance
    if made is None or (not made.statistics and not made.levels):
        return Drift(model.version, 0, 0, [], "The model file has no statistics of its columns.")
    found = list(islice(_latest_rows(model, log, n_entries), n_lists))
    rows = np.vstack(found) if found else np.zeros((0, 0))
    if len(found) < FEWEST_LISTS:
        note = (
            f"The latest {n_entries:,} entries of the log have {len(found)} lists with features of "
            f"this model; {FEWEST_LISTS} are needed."
        )
        return Drift(model.version, len(found), len(rows), [], note)
    # Features without names are recorded in their order.
    names = list(model.features or made.statistics)
    place = {name: number for number, name in enumerate(names)}
    columns = [
        _number(name, trained, rows[:, place[name]])
        for name, trained in made.statistics.items()
        if name in place
    ]
    for name, shares in made.levels.items():
        at = [place[f"{name}={level}"] for level in shares if f"{name}={level}" in place]
        if len(at) == len(shares):
            columns.append(_levels(name, shares, rows[:, at]))
    columns.sort(key=lambda column: not column.moved)
    n_moved = sum(column.moved for column in columns)
    note = f"{n_moved} of {len(columns)} columns moved."
    return Drift(model.version, len(found), len(rows), columns, note)


def _latest_rows(model: DeployedModel, log: LogReader, n_entries: int) -> Iterator[FloatArray]:
    """The features of each list that the model ranked, the latest list first."""
    stop = log.select("SELECT max(seq) FROM log")[0][0] or 0
    first, n_values = max(stop - n_entries, 0), 0
    while stop > first and n_values < MOST_VALUES:
        start = max(stop - BLOCK, first)
        bodies = log.select(
            "SELECT body FROM log WHERE seq > ? AND seq <= ? AND kind = 'event' ORDER BY seq DESC",
            (start, stop),
        )
        for (body,) in bodies:
            event = decode_event(body)
            if event.model == model.version and event.features and event.ids:
                rows = event.rows()
                n_values += rows.size
                yield rows
        stop = start


def _number(name: str, trained: dict[str, float], values: FloatArray) -> ColumnDrift:
    """A number: its mean, its missing values, and values that training did not have."""
    known = values[~np.isnan(values)]
    served = {"missing": round(1.0 - len(known) / len(values), 6)}
    why = []
    if abs(served["missing"] - trained["missing"]) > MISSING:
        why.append(f"missing in {served['missing']:.0%}, {trained['missing']:.0%} in training")
    if len(known) and "mean" in trained:
        outside = np.mean((known < trained["min"]) | (known > trained["max"]))
        served |= {"mean": float(known.mean()), "std": float(known.std())}
        served |= {"min": float(known.min()), "max": float(known.max()), "outside": float(outside)}
        distance = abs(served["mean"] - trained["mean"])
        if distance > DEVIATIONS * trained["std"] and distance > 1e-9 * abs(trained["mean"]):
            why.append(f"mean {served['mean']:.4g}, {trained['mean']:.4g} in training")
        if outside > OUTSIDE:
            why.append(f"{outside:.0%} outside of {trained['min']:.4g} .. {trained['max']:.4g}")
    return ColumnDrift(name, bool(why), "; ".join(why), dict(trained), served)


def _levels(name: str, trained: dict[str, float], values: FloatArray) -> ColumnDrift:
    """Text: how far the shares of its levels are from training, less what chance explains."""
    shares, expected = values.mean(axis=0), np.array(list(trained.values()))
    unknown = 1.0 - float(shares.sum())
    distance = (float(np.abs(shares - expected).sum()) + unknown) / 2
    chance = float(np.sqrt(expected * (1 - expected) / len(values)).sum()) / 2
    served = dict(zip(trained, np.round(shares, 6).tolist(), strict=True))
    why = []
    if distance - chance > LEVELS:
        most = max(served, key=lambda level: abs(served[level] - trained[level]))
        if abs(served[most] - trained[most]) > OUTSIDE:
            why.append(f"{most!r} has {served[most]:.0%}, {trained[most]:.0%} in training")
        elif unknown <= OUTSIDE:
            why.append(f"the shares of its levels differ by {distance:.0%} from training")
    if unknown > OUTSIDE:
        why.append(f"{unknown:.0%} are levels that training did not have")
    return ColumnDrift(name, bool(why), "; ".join(why), dict(trained), served)
