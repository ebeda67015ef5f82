"""All measures: function, parameters, direction, and their names in other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwright.metrics import formulas, pairwise
from rankwright.metrics.ranked_lists import RankedLists


@dataclass(frozen=True)
class Parameter:
    """The values that a parameter may have, in words, and a function that reads them."""

    words: str
    read: Callable[[Any], Any]


@dataclass(frozen=True)
class Definition:
    """One measure."""

    name: str
    words: str
    function: Callable[..., Any]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    cutoff: str = "none"  # or "optional", "required"
    higher_is_better: bool = True
    grades: str = "any"  # or "gain" (>= 0, small enough for its gain), "stop" (0 .. max)
    reads: str = "order"  # (scores may be infinite) or "scores", "predictions" (their size counts)
    empty: str = "no relevant item"  # why a query has nothing to measure
    mean: str = "arithmetic"  # over queries, or "geometric"

    def compute(self, lists: RankedLists, cutoff: int | None, params: Mapping[str, Any]) -> Any:
        """Value and "is defined" for each row."""
        extra = {} if self.cutoff == "none" else {"cutoff": cutoff}
        return self.function(lists, **extra, **params)


def _choice(*words: str) -> Parameter:
    def read(value: Any) -> str:
        text = str(value).lower()
        if text not in words:
            raise ValueError
        return text

    return Parameter(" or ".join(words), read)


def _number(words: str, fits: Callable[[float], bool]) -> Parameter:
    def read(value: Any) -> float | int:
        number = float(value)
        if not fits(number):
            raise ValueError
        return int(number) if number.is_integer() else number

    return Parameter(words, read)


_FINITE = _number("a finite number", lambda x: abs(x) < float("inf"))
_REL = {
    "rel": Parameter(
        "a grade, or max", lambda v: "max" if str(v).lower() == "max" else _FINITE.read(v)
    )
}
_POWER = {"n": _number("1 or 2", lambda x: x in (1, 2))}
_EPS = {"eps": _number("a number >= 0", lambda x: 0 <= x < float("inf"))}
_CAP = {"cap": _number("a number >= 1", lambda x: x >= 1)}
_P = {"p": _number("a number above 0 and below 1", lambda x: 0 < x < 1)}
_MAX = {"max": _number("a number above 0, at most 30", lambda x: 0 < x <= 30)}
_GAIN = {"gain": _choice("exp", "linear"), "discount": _choice("log2", "letor3")}
_OVER = {"over": _choice("all", "cutoff"), "steps": _choice("item", "threshold")}
EMPTY = _choice("skip", "zero", "one")

_REL_1, _REL_MAX, _N_1 = {"rel": 1}, {"rel": "max"}, {"n": 1}
_COST: dict[str, Any] = {"higher_is_better": False, "reads": "scores", "empty": "no pair"}
_PAIRS: dict[str, Any] = {"empty": "no pair of different grade"}

_DEFINITIONS = [
    Definition(
        "NDCG", "discounted gain over the best possible", formulas.ndcg, _GAIN,
        {"gain": "exp", "discount": "log2"}, "optional", grades="gain",
    ),
    Definition(
        "ERR", "expected reciprocal rank", formulas.err, _MAX, {"max": 4}, "optional", grades="stop"
    ),
    Definition(
        "AP", "average precision", formulas.average_precision, _REL | _OVER,
        {"rel": 1, "over": "all", "steps": "item"}, "optional",
    ),
    Definition(
        "P", "precision", formulas.precision, _REL | {"over": _choice("cutoff", "list")},
        {"rel": 1, "over": "cutoff"}, "required",
    ),
    Definition("R", "recall", formulas.recall, _REL, _REL_1, "required"),
    Definition(
        "Rprec", "precision at the number of relevant items", formulas.r_precision, _REL, _REL_1
    ),
    Definition("bpref", "preference over judged items", formulas.binary_preference, _REL, _REL_1),
    Definition(
        "GMAP", "geometric mean of the average precision", formulas.average_precision, _REL, _REL_1,
        mean="geometric",
    ),
    Definition(
        "Judged", "share of judged items", formulas.judged_share, cutoff="optional",
        empty="no retrieved item",
    ),
    Definition("RR", "reciprocal rank", formulas.reciprocal_rank, _REL, _REL_1, "optional"),
    Definition(
        "RBP", "rank-biased precision", formulas.rank_biased_precision, _REL | _P,
        {"rel": 1, "p": 0.8}, "optional",
    ),
    Definition(
        "AUC", "area under the ROC curve", formulas.auc, _REL, _REL_1,
        empty="no pair of a relevant and another item",
    ),
    Definition("PROT", "1 / place of the first top item", formulas.reciprocal_rank, _REL, _REL_MAX),
    Definition("Coverage", "precision at the last top item", formulas.coverage, _REL, _REL_MAX),
    Definition("Top", "a relevant item among the first", formulas.top, _REL, _REL_1, "required"),
    Definition("HitRate", "the same as Top", formulas.top, _REL, _REL_1, "required"),
    Definition(
        "AverageRank", "mean place of the relevant items", formulas.average_rank, _REL | _CAP,
        {"rel": 1, "cap": float("inf")}, higher_is_better=False,
    ),
    Definition(
        "Disagreement", "share of wrong pairs, ties half", pairwise.disagreement,
        higher_is_better=False, **_PAIRS,
    ),
    Definition(
        "Misranked", "share of pairs not in order, ties full", pairwise.misranked,
        higher_is_better=False, **_PAIRS,
    ),
    Definition("KendallTau", "Kendall's tau-b", pairwise.kendall_tau, **_PAIRS),
    Definition("Spearman", "Spearman's rho", pairwise.spearman, **_PAIRS),
    Definition("HR", "hinge rank cost", pairwise.hinge_rank, _POWER, _N_1, **_COST),
    Definition("MP", "magnitude-preserving cost", pairwise.magnitude, _POWER, _N_1, **_COST),
    Definition("HMP", "hinge magnitude cost", pairwise.hinge_magnitude, _POWER, _N_1, **_COST),
    Definition(
        "SVR", "cost outside a tube", pairwise.tube, _POWER | _EPS, {"n": 1, "eps": 0.1}, **_COST
    ),
    Definition(
        "MSD", "mean square difference", pairwise.mean_square_difference,
        **_COST | {"reads": "predictions"},
    ),
    Definition(
        "M1D", "mean 1-norm difference", pairwise.mean_1_difference,
        **_COST | {"reads": "predictions"},
    ),
    Definition(
        "RankLoss", "mean distance of grades", formulas.rank_loss,
        higher_is_better=False, reads="predictions", empty="no item",
    ),
]  # fmt: skip

CATALOG: dict[str, Definition] = {d.name: d for d in _DEFINITIONS}

# Names in ranx, trec_eval, RankLib, XGBoost, LightGBM, ir_measures and scikit-learn, in lower case.
# A name that only one tool uses implies its gain; "ndcg" has a different gain in each: ours, or
# that of like=.
_OTHER_NAMES = {
    "AP": "map map_cut mean_average_precision average_precision",
    "P": "pre prec precision",
    "R": "recall",
    "RR": "mrr recip_rank reciprocal_rank",
    "Top": "success",
    "HitRate": "hit_rate hit",
    "Rprec": "r_prec r_precision",
    "GMAP": "gm_map gm_ap",
    "AUC": "roc_auc",
    "KendallTau": "kendall tau kendall_tau",
    "Spearman": "spearmanr",
    "RankLoss": "rank_loss mae",
    "AverageRank": "average_rank",
}
SPELLINGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name.lower(): (name, {}) for name in CATALOG},
    **{other: (name, {}) for name, others in _OTHER_NAMES.items() for other in others.split()},
    "ndcg_burges": ("NDCG", {"gain": "exp"}),
    "ndcg_cut": ("NDCG", {"gain": "linear"}),
    "ndcg_score": ("NDCG", {"gain": "linear"}),
}
