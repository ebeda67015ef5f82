"""What every target of an export does: say what it holds, write it, read it back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exceptions import Message, Setting
from rankwright.exports.form import Form, form_of
from rankwright.scoring.kinds import HOLDS
from rankwright.scoring.sums import Sum
from rankwright.scoring.transforms import QueryScale

Files = dict[str, bytes]  # by suffix; "" is the model itself


class Support(NamedTuple):
    """How well a target holds a model: ``exact``, ``order only`` or ``no``, and why not exact."""

    level: str
    reason: str = ""


EXACT = Support("exact")


class Options(NamedTuple):
    """What a file says besides the model."""

    name: str
    store: str
    dialect: str = "duckdb"
    constant: float | None = None
    lowest: float | None = None  # the lowest score of the user's data, where given


class Reading(NamedTuple):
    """Scores of rows by a reader of the file, and which reader that was."""

    scores: FloatArray
    reader: str
    grades: FloatArray | None = None
    constant: float = 0.0  # what the file adds to the model's scores


class Target(ABC):
    """A format that models are exported to."""

    kinds: ClassVar[dict[str, type[Target]]] = {}  # by name

    name: ClassVar[str]
    dtype: ClassVar[type] = np.float64  # of features and scores in the reader
    options: ClassVar[frozenset[str]] = frozenset()  # the options of export that it takes
    tiny: ClassVar[float] = 0.0  # features up to this size are 0 to the reader

    extension: ClassVar[str] = ""  # of the model's file; by default the name and json
    holds: ClassVar[str]  # what it holds, in words

    def __init_subclass__(cls) -> None:
        cls.kinds[cls.name] = cls

    def support(self, form: Form) -> Support:
        """Whether the format holds a model, by the table of ``scoring.kinds``."""
        if form.kinds <= HOLDS[self.name]:
            return self.limits(form)
        return Support("no", f"{self.holds}, and {describe(form, HOLDS[self.name])}")

    def limits(self, form: Form) -> Support:
        """How well the format holds a model of these kinds."""
        return EXACT

    @abstractmethod
    def write(self, form: Form, options: Options) -> Files:
        """The files, by suffix."""

    @abstractmethod
    def read(self, files: Files, X: FloatArray, form: Form, options: Options) -> Reading:
        """The scores of rows as a reader of the files gives them."""


def describe(form: Form, held: frozenset[str]) -> str:
    """What of a model a format that holds some kinds cannot hold, in words."""
    if any(isinstance(step, QueryScale) for step in form.steps):
        return "this model scales features within a query, which needs the whole list"
    scorer = form.reference.scorer
    if isinstance(scorer, Sum):
        return _describe_members(form, scorer, held)
    body = getattr(form.body, "kind", "trees")
    steps = sorted({step.kind for step in form.steps})
    front = f" after {', '.join(steps)}" if steps else ""
    return f"this model is a scorer of kind {body!r}{front}"


def _describe_members(form: Form, scorer: Sum, held: frozenset[str]) -> str:
    """The members that a format cannot hold, or those that it cannot add up."""
    names = form.members or tuple(f"term {i}" for i in range(1, len(scorer.terms) + 1))
    whole = replace(form.reference, transforms=())
    kinds = {
        name: form_of(replace(whole, scorer=Sum((term,), np.ones(1))), None, form.missing).kinds
        for name, term, factor in zip(names, scorer.terms, scorer.factors, strict=True)
        if factor
    }
    lacking = [name for name in kinds if not kinds[name] <= held] or list(kinds)
    listed = ", ".join(f"{name!r} ({', '.join(sorted(kinds[name]))})" for name in lacking[:5])
    more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
    if len(lacking) < len(kinds) or not set().union(*kinds.values()) <= held:
        return f"it cannot hold the members {listed}{more} of this ensemble"
    return f"it cannot add up different kinds: this ensemble has the members {listed}{more}"


def refuses_missing(form: Form, engine: str) -> Support | None:
    """Refuse a model whose NaN is not a 0, in an engine that takes missing features as 0."""
    forest = form.forest
    if not form.takes_nan or (forest is not None and forest.missing_is_zero):
        return None
    return Support(
        "no",
        Message(
            f"{engine} takes a missing feature as 0, and this model scores it otherwise (if "
            "features are never missing, say ",
            Setting("missing", "never"),
            "; if 0 is what the model is to see, ",
            Setting("missing", "zero"),
            ")",
        ),
    )


def json_of(content: object) -> bytes:
    """JSON as files hold it: no NaN, no infinite numbers."""
    import json

    return (json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()
