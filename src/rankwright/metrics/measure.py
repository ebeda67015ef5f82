"""Measures as data: the definition of each, read from text and printed the same way."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from rankwright._typing import Matrix, MatrixLike
from rankwright.exceptions import (
    MeasureError,
    Message,
    MissingQueryWarning,
    ParameterError,
    Setting,
)
from rankwright.metrics import formulas, pairwise
from rankwright.metrics.ranked_lists import RankedLists

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


@dataclass(frozen=True)
class Parameter:
    """The values that a parameter may have, in words, and a function that reads them."""

    description: str
    read: Callable[[Any], Any]


@dataclass(frozen=True)
class Definition:
    """One measure; the docstring of its function says what it is."""

    name: str
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


def _choice(*choices: str) -> Parameter:
    def read(value: Any) -> str:
        text = str(value).lower()
        if text not in choices:
            raise ValueError
        return text

    return Parameter(" or ".join(choices), read)


def _number(description: str, fits: Callable[[float], bool]) -> Parameter:
    def read(value: Any) -> float | int:
        number = float(value)
        if not fits(number):
            raise ValueError
        return int(number) if number.is_integer() else number

    return Parameter(description, read)


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
_PREDICTIONS: dict[str, Any] = {"reads": "predictions"}
_PAIRS: dict[str, Any] = {"empty": "no pair of different grade"}

_DEFINITIONS = [
    Definition(
        "NDCG", formulas.ndcg, _GAIN, {"gain": "exp", "discount": "log2"}, "optional",
        grades="gain",
    ),
    Definition("ERR", formulas.err, _MAX, {"max": 4}, "optional", grades="stop"),
    Definition(
        "AP", formulas.average_precision, _REL | _OVER,
        {"rel": 1, "over": "all", "steps": "item"}, "optional",
    ),
    Definition(
        "P", formulas.precision, _REL | {"over": _choice("cutoff", "list")},
        {"rel": 1, "over": "cutoff"}, "required",
    ),
    Definition("R", formulas.recall, _REL, _REL_1, "required"),
    Definition("Rprec", formulas.r_precision, _REL, _REL_1),
    Definition("bpref", formulas.binary_preference, _REL, _REL_1),
    Definition("GMAP", formulas.average_precision, _REL, _REL_1, mean="geometric"),
    Definition("Judged", formulas.judged_share, cutoff="optional", empty="no retrieved item"),
    Definition("RR", formulas.reciprocal_rank, _REL, _REL_1, "optional"),
    Definition(
        "RBP", formulas.rank_biased_precision, _REL | _P, {"rel": 1, "p": 0.8}, "optional"
    ),
    Definition(
        "AUC", formulas.auc, _REL, _REL_1, empty="no pair of a relevant and another item"
    ),
    Definition("PROT", formulas.reciprocal_rank, _REL, _REL_MAX),
    Definition("Coverage", formulas.coverage, _REL, _REL_MAX),
    Definition("Top", formulas.top, _REL, _REL_1, "required"),
    Definition("HitRate", formulas.top, _REL, _REL_1, "required"),
    Definition(
        "AverageRank", formulas.average_rank, _REL | _CAP, {"rel": 1, "cap": float("inf")},
        higher_is_better=False,
    ),
    Definition("Disagreement", pairwise.disagreement, higher_is_better=False, **_PAIRS),
    Definition("Misranked", pairwise.misranked, higher_is_better=False, **_PAIRS),
    Definition("KendallTau", pairwise.kendall_tau, **_PAIRS),
    Definition("Spearman", pairwise.spearman, **_PAIRS),
    Definition("HR", pairwise.hinge_rank, _POWER, _N_1, **_COST),
    Definition("MP", pairwise.magnitude, _POWER, _N_1, **_COST),
    Definition("HMP", pairwise.hinge_magnitude, _POWER, _N_1, **_COST),
    Definition("SVR", pairwise.tube, _POWER | _EPS, {"n": 1, "eps": 0.1}, **_COST),
    Definition("MSD", pairwise.mean_square_difference, **_COST | _PREDICTIONS),
    Definition("M1D", pairwise.mean_1_difference, **_COST | _PREDICTIONS),
    Definition("RankLoss", formulas.rank_loss, **_COST | _PREDICTIONS | {"empty": "no item"}),
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


@dataclass(frozen=True, init=False, repr=False)
class Measure:
    """An evaluation measure, such as ``NDCG@10``.

    Parameters
    ----------
    name : str
        ``NDCG ERR AP P R Rprec bpref GMAP Judged RR RBP AUC PROT Coverage Top HitRate AverageRank
        Disagreement Misranked KendallTau Spearman HR MP HMP SVR MSD M1D RankLoss``, or text
        such as ``"NDCG@10"``, as :meth:`parse` reads it.
    params : mapping, optional
        Parameters of the measure that differ from its defaults, such as ``gain`` or ``rel``. Every
        measure also has ``empty`` ("skip", "zero", "one"): the value where it is undefined.
    cutoff : int, optional
        Number of top items to use; None uses all.

    Examples
    --------
    It prints as you write it, and reads what other tools write:

    >>> from rankwright.metrics import NDCG, P
    >>> NDCG @ 10, NDCG(gain="linear") @ 5, P(rel=2) @ 3
    (NDCG@10, NDCG(gain=linear)@5, P(rel=2)@3)
    >>> [Measure.parse(text) for text in ("ndcg_cut_10", "map@10", "recip_rank", "SVR(eps=0.2)")]
    [NDCG(gain=linear)@10, AP@10, RR, SVR(eps=0.2)]
    >>> Measure.parse("NDGC@10")
    Traceback (most recent call last):
    rankwright.exceptions.MeasureError: 'NDGC@10': unknown measure 'NDGC'. Did you mean NDCG?...
    """

    name: str
    params: tuple[tuple[str, Any], ...]
    cutoff: int | None

    def __init__(
        self, name: str, params: Mapping[str, Any] | None = None, cutoff: int | None = None
    ) -> None:
        if name not in CATALOG:
            read = Measure.parse(name)
            name, cutoff = read.name, read.cutoff if cutoff is None else cutoff
            params = {**dict(read.params), **(params or {})}
        known = {**CATALOG[name].parameters, "empty": EMPTY}
        given = {key: _read(name, known, key, value) for key, value in (params or {}).items()}
        ordered = tuple((key, given[key]) for key in known if key in given)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "params", ordered)
        object.__setattr__(self, "cutoff", _check_cutoff(name, cutoff))

    @classmethod
    def parse(cls, text: str | Measure) -> Measure:
        """Parse a measure in our spelling, or that of ranx, trec_eval, RankLib, XGBoost or
        ir_measures."""
        if isinstance(text, Measure):
            return text
        if not isinstance(text, str):
            raise MeasureError(f"a measure is a string such as 'NDCG@10', not {text!r}.")
        try:
            measure = _parse(text)
            measure._require_cutoff()
        except MeasureError as error:
            raise MeasureError(f"{text!r}: {error}") from None
        return measure

    def __call__(self, **params: Any) -> Measure:
        """The same measure with these parameters."""
        return Measure(self.name, {**dict(self.params), **params}, self.cutoff)

    def __matmul__(self, cutoff: int) -> Measure:
        """``NDCG @ 10``: the same measure on the first items only."""
        return Measure(self.name, dict(self.params), cutoff)

    def __str__(self) -> str:
        inside = ",".join(f"{key}={value}" for key, value in self.params)
        at = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.name}({inside}){at}" if inside else f"{self.name}{at}"

    __repr__ = __str__

    @property
    def definition(self) -> Definition:
        """Function, parameters and direction of this measure."""
        return CATALOG[self.name]

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value is a better ranking."""
        return self.definition.higher_is_better

    @property
    def sign(self) -> int:
        """1, or -1 for a loss: times its sign, a larger value of any measure is better."""
        return 1 if self.higher_is_better else -1

    @property
    def reads_predictions(self) -> bool:
        """Whether it reads predicted grades, not the order of scores."""
        return self.definition.reads == "predictions"

    def scorer(self, *, like: str | None = None) -> MeasureScorer:
        """This measure for ``scoring=`` of scikit-learn's searches and ``cross_val_score``.

        It requests ``qid`` as metadata (``sklearn.set_config(enable_metadata_routing=True)``);
        without it, a ranker trained on several queries is scored on one list, with a
        MissingQueryWarning. Higher is better: the value of a loss is negated. ``like`` is as in
        :func:`evaluate`.

        >>> from rankwright import RankSVM
        >>> model = RankSVM().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
        >>> Measure("NDCG@10").scorer()(model, [[0.0], [1.0]], [1, 0])
        0.6309297535714575
        """
        return MeasureScorer(self, like)

    def _require_cutoff(self) -> None:
        if self.cutoff is None and self.definition.cutoff == "required":
            raise MeasureError(f"{self.name} needs a cutoff, such as {self.name}@10.")


def parse_limit(fail_under: str, measures: Sequence[Measure]) -> tuple[Measure, float]:
    """A measure and the limit of its mean, from ``0.4`` (of the first measure) or ``AP=0.4``.

    >>> measure, limit = parse_limit("AP=0.4", parse_measures("NDCG@10,AP"))
    >>> str(measure), limit
    ('AP', 0.4)
    """
    name, equals, number = fail_under.rpartition("=")
    with suppress(ValueError):
        measure, limit = Measure.parse(name) if equals else measures[0], float(number)
        if measure in measures and not math.isnan(limit):
            return measure, limit
    form = f"a number, or MEASURE=number with one of {', '.join(map(str, measures))}"
    raise ParameterError(Setting("fail_under", fail_under), f": write {form}.")


def parse_measures(measures: str | Measure | Iterable[str | Measure]) -> list[Measure]:
    """One measure or several, in the order given, each once; a text may hold several.

    >>> [str(measure) for measure in parse_measures("NDCG@10, NDCG(gain=linear, discount=log2)@5")]
    ['NDCG@10', 'NDCG(gain=linear,discount=log2)@5']
    """
    if isinstance(measures, str | Measure) or not isinstance(measures, Iterable):
        measures = [measures]
    parsed = [
        Measure.parse(part)
        for one in measures
        for part in (re.split(r",(?![^()]*\))", one) if isinstance(one, str) else [one])
    ]
    for measure in parsed:
        measure._require_cutoff()
    if not parsed:
        fix = Message("Give one, such as ", Setting("measures", ["NDCG@10"]), ".")
        raise MeasureError("no measure was given.", parameter="measures", fix=fix)
    return list(dict.fromkeys(parsed))


_FORM = re.compile(
    r"""\s* (?P<name> [A-Za-z][\w.\- ]*?) \s*
        (\( (?P<params> [^()]*) \))? \s*
        (@ \s* (?P<cutoff> \d+))? \s*
        (-l (?P<level> \d+))? (?P<minus> -)? \s*""",
    re.VERBOSE,
)
_TAIL = re.compile(r"(?P<name>.+?)[_.](?P<number>\d+)")
_DCG = {"log2": "linear", "exp-log2": "exp"}  # ir_measures: nDCG(dcg='exp-log2')


def _parse(text: str) -> Measure:
    form = _FORM.fullmatch(text) if len(text) <= 200 else None
    if form is None:
        raise MeasureError("cannot be parsed. Write name(parameters)@cutoff: NDCG(gain=exp)@10.")
    name, params, tail = _resolve(form["name"])
    cutoff = tail if form["cutoff"] is None else int(form["cutoff"])
    for part in filter(None, (form["params"] or "").split(",")):
        key, equals, value = (piece.strip(" '\"") for piece in part.partition("="))
        if not equals:
            raise MeasureError(f"parameter {part.strip()!r} has no value: write {key}=value.")
        if key == "cutoff":
            cutoff = _check_cutoff(name, value)
        elif key == "dcg" and value in _DCG:
            params["gain"] = _DCG[value]
        else:
            params[key] = value
    if form["level"]:  # ranx: map@100-l2
        params["rel"] = form["level"]
    if form["minus"]:  # XGBoost: ndcg@10- counts an empty query as 0
        params["empty"] = "zero"
    return Measure(name, params, cutoff)


def _resolve(spelling: str) -> tuple[str, dict[str, Any], int | None]:
    """Our name, the parameters the spelling implies and the number at its end (``P_10``)."""
    key = spelling.strip().lower().replace("-", "_").replace(" ", "_")
    if key in SPELLINGS:
        name, params = SPELLINGS[key]
        return name, dict(params), None
    tail = _TAIL.fullmatch(key)
    if tail and tail["name"] == "rbp":  # ranx: rbp.80
        return "RBP", {"p": float(f"0.{tail['number']}")}, None
    if tail and tail["name"] in SPELLINGS:
        name, params = SPELLINGS[tail["name"]]
        return name, dict(params), int(tail["number"])
    spelled = {key: known for key, (known, _) in SPELLINGS.items()}
    near = get_close_matches(spelling.lower(), spelled, n=3, cutoff=0.6)
    names = " or ".join(dict.fromkeys(spelled[key] for key in near))
    hint = f" Did you mean {names}?" if near else ""
    if spelling.lower() in _OF_CATALOGS:
        hint = " recommend.evaluate_top_n computes it: it is about whole catalogs."
    raise MeasureError(f"unknown measure {spelling!r}.{hint} Known: {', '.join(CATALOG)}.")


def _read(name: str, known: Mapping[str, Parameter], key: str, value: object) -> Any:
    if key not in known:
        raise MeasureError(f"{name} has no parameter {key!r}. It takes: {', '.join(known)}.")
    try:
        return known[key].read(value)
    except (TypeError, ValueError, OverflowError):
        raise MeasureError(
            f"{name}({key}={value}): {key} must be {known[key].description}."
        ) from None


# Names that mean something else to people who evaluate recommenders.
_OTHER_MEANINGS = {
    "HR": "HR is the hinge rank cost and has no cutoff; for the hit rate write HitRate@{cutoff}.",
    "Coverage": "Coverage is the precision at the last top item, which has no cutoff; the share of "
    "the catalog in lists of {cutoff} is the ItemCoverage of recommend.evaluate_top_n.",
}
_OF_CATALOGS = ("itemcoverage", "novelty", "diversity", "popularitybias")


def _check_cutoff(name: str, cutoff: Any) -> int | None:
    if cutoff is None:
        return None
    if name in _OTHER_MEANINGS:
        raise MeasureError(_OTHER_MEANINGS[name].format(cutoff=cutoff))
    if CATALOG[name].cutoff == "none":
        raise MeasureError(f"{name} has no cutoff: write {name} without @{cutoff}.")
    try:
        number = 0 if isinstance(cutoff, bool) else int(cutoff)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1 or number != float(cutoff):
        raise MeasureError(f"{name}@{cutoff}: the cutoff must be an integer >= 1.")
    return number


NDCG, ERR, AP, P, R = (Measure(name) for name in ("NDCG", "ERR", "AP", "P", "R"))
Rprec, bpref, GMAP, Judged = (Measure(name) for name in ("Rprec", "bpref", "GMAP", "Judged"))
RR, RBP, AUC, PROT = (Measure(name) for name in ("RR", "RBP", "AUC", "PROT"))
Coverage, Top, HitRate = (Measure(name) for name in ("Coverage", "Top", "HitRate"))
AverageRank = Measure("AverageRank")
Disagreement, Misranked = Measure("Disagreement"), Measure("Misranked")
KendallTau, Spearman = Measure("KendallTau"), Measure("Spearman")
HR, MP, HMP, SVR = (Measure(name) for name in ("HR", "MP", "HMP", "SVR"))
MSD, M1D, RankLoss = (Measure(name) for name in ("MSD", "M1D", "RankLoss"))


def predict_with(model: BaseEstimator, method: str, X: MatrixLike, qid: ArrayLike | None) -> Any:
    """Call a method of a ranker or a pipeline; ``qid`` goes to every step that requests it."""
    from sklearn import config_context

    with config_context(enable_metadata_routing=True):
        return getattr(model, method)(X, qid=qid)


ROUTING = (
    "For grid search and cross-validation: sklearn.set_config(enable_metadata_routing=True) and "
    'GridSearchCV(ranker, grid, cv=GroupKFold().set_split_request(groups="qid"))'
    ".fit(X, y, qid=qid)."
)


def warn_without_queries(model: object, call: str) -> None:
    """Warn that ``call`` scores a ranker without qid if it was trained on several queries.

    The ranker may be the last step of a pipeline, or the best one of a search.
    """
    ranker = model
    while not hasattr(ranker, "n_queries_in_"):
        steps = getattr(ranker, "steps", [(None, None)])
        ranker = getattr(ranker, "best_estimator_", steps[-1][1])
        if ranker is None:
            return
    if ranker.n_queries_in_ > 1:
        warnings.warn(
            f"{type(ranker).__name__} was trained on {ranker.n_queries_in_} queries and is scored "
            f"without qid, so all rows count as one query. Pass qid to {call}. {ROUTING}",
            MissingQueryWarning,
            stacklevel=3,
        )


@dataclass(frozen=True)
class MeasureScorer:
    """What :meth:`Measure.scorer` returns: called with a fitted ranker, rows, grades and queries.

    The value of a loss, such as RankLoss, is negated: higher is better for every scorer.
    """

    measure: Measure
    like: str | None = None

    def __call__(
        self, estimator: BaseEstimator, X: Matrix, y: ArrayLike, qid: ArrayLike | None = None
    ) -> float:
        from rankwright.metrics.evaluation import evaluate

        if qid is None:
            warn_without_queries(estimator, "the scorer")
        scores = predict_with(estimator, "decision_function", X, qid)
        predictions = None
        if self.measure.reads_predictions:
            predictions = predict_with(estimator, "predict", X, qid)
        values = evaluate(scores, y, qid, self.measure, like=self.like, predictions=predictions)
        return self.measure.sign * values[self.measure]

    def get_metadata_routing(self) -> Any:
        """Tell scikit-learn's searches to pass ``qid`` on."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        request.score.add_request(param="qid", alias=True)
        return request
