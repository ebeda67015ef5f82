"""How a model was made: a block of its file that is no part of the model."""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from rankwright import __version__
from rankwright.data.columns import TableEncoding, column_statistics

if TYPE_CHECKING:
    from rankwright.data.items import Items

MOST_STATISTICS = 2000  # features; a wider table has none
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The mean of a measure over held-out queries, and its 95 % bootstrap interval."""

    mean: float
    low: float | None = None
    high: float | None = None
    n_queries: int | None = None

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.4f}, {self.high:.4f}]"
        return f"{self.mean:.4f}{interval}"


class DataFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The shape of the training data, and the SHA-256 of rows, grades and queries."""

    n_items: int
    n_features: int
    n_queries: int | None
    sha256: str
    name: str = ""


class ColumnRead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a column of the training table was read, and why."""

    name: str
    read_as: str
    why: str


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a model was made: parameters, versions, data, measures, date and command.

    It holds no rows, ids or query texts. It is outside of :func:`rankwright.model_digest`: equal
    models have equal digests, whenever and however they were made.
    """

    model: dict[str, Any]  # kind, parameters, and members of an ensemble
    versions: dict[str, str]
    random_state: int | None = None
    data: DataFacts | None = None
    columns: tuple[ColumnRead, ...] = ()
    statistics: dict[str, dict[str, float]] = {}
    levels: dict[str, dict[str, float]] = {}  # of text: the share of each level
    measures: dict[str, Measured] = {}
    measured_on: str = ""
    date: str = ""
    command: str = ""

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return dict(msgspec.to_builtins(self))


def provenance_of(
    model: object,
    items: Items | None = None,
    *,
    measures: Mapping[str, Any] | None = None,
    measured_on: str = "",
    name: str = "",
    command: str = "",
    random_state: int | None = None,
    dated: bool = True,
) -> Provenance:
    """Describe how a model was made, for ``save(model, path, provenance=...)``.

    Parameters
    ----------
    model : a fitted model
    items : Items or None
        What it was trained on: its shape and hash, how its columns were read, and statistics of
        each feature are recorded; rows, ids and queries are not.
    measures : {name: mean or (mean, low, high)} or None
        On queries that the model has not seen.
    measured_on : str
        Which queries these are.
    name, command : str
        The name of the data, and the command that trained the model.
    random_state : int or None
        The seed; by default that of the model.
    dated : bool, default True
        Whether to record the time.

    Examples
    --------
    >>> import rankwright as rw
    >>> items = rw.Items([[0.0], [1.0]], [0, 1])
    >>> made = provenance_of(rw.RidgeRanker(alpha=2.0).fit(items.X, items.y), items)
    >>> made.model["parameters"]["alpha"], made.data.n_items, made.statistics["feature 1"]["mean"]
    (2.0, 2, 0.5)
    """
    described = _described(model)
    seed = described["parameters"].get("random_state") if random_state is None else random_state
    facts: dict[str, Any] = {}
    if items is not None:
        facts = _facts(items, name)
    measured = {key: _measured(value) for key, value in (measures or {}).items()}
    return Provenance(
        described,
        {"rankwright": __version__, "python": platform.python_version(), **_versions()},
        random_state=seed if isinstance(seed, int) else None,
        measures={key: value for key, value in measured.items() if value is not None},
        measured_on=measured_on,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if dated else "",
        command=command,
        **facts,
    )


def _measured(value: object) -> Measured | None:
    if isinstance(value, Measured):
        return value
    mean, *bounds = value if isinstance(value, tuple | list) else (value,)
    if mean is None or not math.isfinite(mean):
        return None
    finite = [float(bound) for bound in bounds if bound is not None and math.isfinite(bound)]
    return Measured(float(mean), *(finite if len(finite) == 2 else ()))


@cache
def _versions() -> dict[str, str]:
    found = {}
    for library in _LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found


def _described(model: Any) -> dict[str, Any]:
    """The class and the parameters of a model, of the steps of a pipeline, and of members."""
    model = model._saved_as() if hasattr(model, "_saved_as") else model
    if hasattr(model, "steps"):
        steps = [_described(step) for _, step in model.steps if hasattr(step, "get_params")]
        return {**steps[-1], "steps": steps[:-1]} if steps else {"kind": "", "parameters": {}}
    params = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    about: dict[str, Any] = {"kind": type(model).__name__, "parameters": {}}
    about["parameters"] = {name: _plain(value) for name, value in params.items()}
    if hasattr(model, "_fitted_members"):
        about["parameters"].pop("members", None)
        about["members"] = {name: _described(member) for name, member in model._fitted_members()}
    return about


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple) and len(value) <= 100:
        return [_plain(part) for part in value]
    if isinstance(value, dict) and len(value) <= 1000:
        return {str(key): _plain(part) for key, part in value.items()}
    return type(value).__name__


def _facts(items: Items, name: str) -> dict[str, Any]:
    names = items.feature_names or [f"feature {k}" for k in range(1, items.n_features + 1)]
    facts: dict[str, Any] = {
        "data": DataFacts(
            items.n_items,
            items.n_features,
            None if items.qid is None else items.n_queries,
            digest_of(items),
            name,
        ),
        "columns": tuple(
            ColumnRead(read.name, "left out" if read.kind == "drop" else read.kind, read.why)
            for read in items.read
        ),
    }
    if items.n_features <= MOST_STATISTICS:
        statistics = column_statistics(items.X, names)
        facts["levels"] = _levels(items.encoding, statistics)
        shown = {name for levels in _text_features(items.encoding).values() for name in levels}
        facts["statistics"] = {n: entry for n, entry in statistics.items() if n not in shown}
    return facts


def _text_features(encoding: TableEncoding | None) -> dict[str, list[str]]:
    columns = () if encoding is None else encoding.columns
    return {c.name: c.feature_names() for c in columns if c.kind == "text"}


def _levels(
    encoding: TableEncoding | None, statistics: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """The share of each level, from the means of its feature."""
    shares = {}
    for column, features in _text_features(encoding).items():
        means = {feature[len(column) + 1 :]: statistics[feature] for feature in features}
        shares[column] = {level: round(entry["mean"], 6) for level, entry in means.items()}
    return shares


def digest_of(items: Items) -> str:
    """The SHA-256 of the rows, grades and queries of items, in their order."""
    parts: Iterable[Any] = (items.X,)
    if items.is_sparse:
        parts = (items.X.data, items.X.indices, items.X.indptr)
    hashed = hashlib.sha256(repr((items.X.shape, items.feature_names)).encode())
    for part in (*parts, items.y, items.queries.codes):
        hashed.update(np.ascontiguousarray(part).view(np.uint8).reshape(-1).data)
    return hashed.hexdigest()


def model_card(about: Mapping[str, Any], made: Provenance | None, title: str) -> str:
    """A model card as Markdown: what the model is, what it learned from, how well it ranks."""
    lines = [f"# Model card: {title}", ""]
    facts = {
        "Model": about.get("kind"),
        "Scored by": about.get("scored_by"),
        "Features": about.get("n_features"),
        "Accepts missing values": "yes" if about.get("takes_missing") else "no",
        "Digest": about.get("digest"),
        "Written by": about.get("written_by"),
    }
    if made is None:
        lines += _markdown_table(("", ""), facts.items())
        return "\n".join([*lines, "", "The file does not say how the model was made.", ""])
    facts |= {
        "Trained": made.date or None,
        "Command": f"`{made.command}`" if made.command else None,
    }
    lines += _markdown_table(("", ""), ((k, v) for k, v in facts.items() if v is not None))
    if made.measures:
        lines += [
            "",
            "## How well it ranks",
            "",
            f"On {made.measured_on or 'held-out queries'}:",
            "",
        ]
        rows = ((name, str(measured)) for name, measured in made.measures.items())
        lines += _markdown_table(("Measure", "Mean [95 % interval]"), rows)
    if made.data is not None:
        data = made.data
        lines += ["", "## Training data", ""]
        known = {"Name": data.name, "Items": f"{data.n_items:,}", "Queries": data.n_queries}
        known |= {"Features": f"{data.n_features:,}", "SHA-256": f"`{data.sha256}`"}
        lines += _markdown_table(("", ""), ((k, v) for k, v in known.items() if v is not None))
    if made.columns:
        read = ((c.name, c.read_as, c.why) for c in made.columns)
        lines += ["", "## Columns", "", *_markdown_table(("Column", "Read as", "Why"), read)]
    if made.levels:
        lines += ["", "## Levels of text", ""]
        for column, shares in made.levels.items():
            top = sorted(shares.items(), key=lambda pair: -pair[1])[:5]
            shown = ", ".join(f"{_cell(level)} {share:.1%}" for level, share in top)
            more = f", and {len(shares) - 5} more" if len(shares) > 5 else ""
            lines.append(f"- **{_cell(column)}**: {shown}{more}")
    lines += ["", "## Parameters", ""]
    lines += _markdown_table(("Parameter", "Value"), _parameter_rows(made.model))
    lines += ["", "## Versions", ""]
    lines += _markdown_table(("Library", "Version"), made.versions.items())
    lines += ["", "## Limits", "", _LIMITS, ""]
    return "\n".join(lines)


_LIMITS = (
    "Scores order the items of one query; they are not probabilities, and are not comparable "
    "between queries unless the ranker says so. Text that training did not have counts as missing. "
    "Check the measures on your own recent queries before use, and watch for drift of the columns."
)


def _parameter_rows(model: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows = [(f"{prefix}kind", model.get("kind"))]
    rows += [(f"{prefix}{k}", v) for k, v in model.get("parameters", {}).items() if v is not None]
    for name, member in model.get("members", {}).items():
        rows += _parameter_rows(member, f"{prefix}{name}.")
    return rows


def _markdown_table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return lines + [f"| {' | '.join(map(_cell, row))} |" for row in rows]


def _cell(value: object) -> str:
    """Text of data that cannot end a cell, a line or become HTML."""
    text = str(value).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return " ".join(text.split())
