"""What tools disagree about: gain, discount, ties, queries with nothing to measure.

Each entry was compared with the tool itself (tests/metrics/test_like.py): trec_eval through
pytrec_eval-terrier 0.5.11, LightGBM 4.7.0, XGBoost 3.2.0, scikit-learn 1.9.1, ranx 0.3.21. "letor3"
is the script of LETOR 3.0, but for lists shorter than the cutoff, to which that script gives
nothing: here they end in irrelevant places, as in LETOR 4.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwright.exceptions import ParameterError
from rankwright.metrics.measure import Measure

TIES = ("expected", "stable", "worst", "best", "docid")
_EMPTY = ("skip", "zero", "one")


@dataclass(frozen=True)
class Conventions:
    """How to evaluate where a measure does not say it itself.

    Attributes
    ----------
    ties : {"expected", "stable", "worst", "best", "docid"}
        Tied scores: exact mean over all orders; the order given; lowest or highest grade first;
        document id descending as text (needs ``docid``).
    empty : {"skip", "zero", "one"}
        What a query counts as that has nothing to measure.
    defaults : mapping of measure name to parameters
        Parameters a tool fixes.
    single : bool
        Whether scores are compared in single precision, so that close ones tie.
    clip : bool
        Whether negative grades count as 0.
    """

    ties: str = "expected"
    empty: str = "skip"
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    single: bool = False
    clip: bool = False

    @classmethod
    def choose(cls, like: str | None, ties: str | None, empty: str | None) -> Conventions:
        """The conventions of a tool, with ``ties`` and ``empty`` replaced where given."""
        if like is not None and like not in LIKE:
            raise ParameterError(f"evaluate(like={like!r}): like must be one of {', '.join(LIKE)}.")
        tool = cls() if like is None else LIKE[like]
        if ties is not None and ties not in TIES:
            raise ParameterError(f"evaluate(ties={ties!r}): ties must be one of {', '.join(TIES)}.")
        if empty is not None and empty not in _EMPTY:
            words = ", ".join(_EMPTY)
            raise ParameterError(f"evaluate(empty={empty!r}): empty must be one of {words}.")
        defaults = {
            name: {k: v for k, v in params.items() if not (k == "empty" and empty)}
            for name, params in tool.defaults.items()
        }
        return cls(ties or tool.ties, empty or tool.empty, defaults, tool.single, tool.clip)

    def parameters(self, measure: Measure) -> dict[str, Any]:
        """Every parameter of a measure: as written, else as the tool has it, else our default."""
        return {
            "empty": self.empty,
            **measure.definition.defaults,
            **self.defaults.get(measure.name, {}),
            **dict(measure.params),
        }

    def describe(self, measures: list[Measure]) -> dict[str, str]:
        """In words, what was chosen for these measures."""
        words = {"ties": _TIE_WORDS[self.ties], "empty queries": _EMPTY_WORDS[self.empty]}
        chosen = [(m, self.parameters(m)) for m in measures]
        for key in ("gain", "discount", "rel", "over", "steps"):
            values = {str(m): str(p[key]) for m, p in chosen if key in p}
            if len(set(values.values())) == 1:
                value = next(iter(values.values()))
                words[key] = _PARAMETER_WORDS.get(value, value)
            elif values:
                words[key] = ", ".join(f"{value} in {name}" for name, value in values.items())
        for measure, params in chosen:
            if params["empty"] != self.empty:
                words[f"empty queries in {measure}"] = _EMPTY_WORDS[params["empty"]]
        return words


_TIE_WORDS = {
    "expected": "expectation over random order",
    "stable": "order given",
    "worst": "lowest grade first",
    "best": "highest grade first",
    "docid": "document id, descending",
}
_EMPTY_WORDS = {"skip": "left out and counted", "zero": "count 0", "one": "count 1"}
_PARAMETER_WORDS = {"exp": "2^grade - 1", "linear": "grade"}

_LINEAR = {"NDCG": {"gain": "linear"}}
LIKE: dict[str, Conventions] = {
    "trec_eval": Conventions("docid", "zero", _LINEAR, single=True, clip=True),
    "letor3": Conventions("stable", "zero", {"NDCG": {"gain": "exp", "discount": "letor3"}}),
    "lightgbm": Conventions("stable", "one", {"AP": {"over": "cutoff"}}),
    "xgboost": Conventions(
        "stable",
        "one",
        {"AP": {"over": "cutoff"}, "P": {"over": "list", "empty": "zero"}},
        single=True,
    ),
    "sklearn": Conventions("expected", "zero", {**_LINEAR, "AP": {"steps": "threshold"}}),
    # ranx keeps the order given in lists of up to 15 items; in longer ones its quicksort does not.
    "ranx": Conventions("stable", "zero", _LINEAR, clip=True),
}
