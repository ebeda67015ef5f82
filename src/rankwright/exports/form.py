"""The neutral form of a model: what every target is written from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.exceptions import ParameterError, Setting
from rankwright.exports.forest import Branch, Forest, Leaf, Node
from rankwright.persist import classes
from rankwright.persist.foreign import Rounded
from rankwright.persist.scorer import SavedScorer
from rankwright.rankers.preprocessing import first_estimator, flat_steps
from rankwright.scoring.base import RowMap, Scorer, Transform
from rankwright.scoring.kernel import KernelExpansion
from rankwright.scoring.linear import Additive, Deviations, FilledAverage, Linear, Slopes
from rankwright.scoring.network import Network, unpack_layers
from rankwright.scoring.ordinal import Ordinal, Prototypes, Votes
from rankwright.scoring.sums import Sum
from rankwright.scoring.transforms import Affine, Mapped, QueryScale, folded
from rankwright.scoring.trees import Trees

MISSING = ("model", "zero", "never")


class GradeThresholds(NamedTuple):
    """The grade of a row is the first one whose threshold is above its score."""

    thresholds: FloatArray
    classes: FloatArray


class Term(NamedTuple):
    """A part of a sum: factor * the score that ``body`` gives to rows after ``steps``."""

    factor: float
    steps: tuple[Transform, ...]
    body: Forest | Scorer


@dataclass(frozen=True, eq=False)
class Total:
    """The sum of several terms: one for all trees, one for all linear parts, the others apart."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class Form:
    """A model as targets see it: names of the features, transforms, and what scores the rows.

    ``body`` is a :class:`Forest` for all sums of steps and trees, :class:`Linear` for weighted
    sums that take no NaN, a :class:`Total` for sums of different kinds, else a scorer.
    ``reference`` scores rows as the model does.
    """

    kind: str
    names: tuple[str, ...]
    steps: tuple[Transform, ...]
    body: Forest | Scorer | Total
    grades: GradeThresholds | None
    missing: str
    takes_nan: bool
    constant: float
    reference: SavedScorer
    members: tuple[str, ...] = ()  # the names of an ensemble's members, where they are known

    def scores(self, X: FloatArray, qid: ArrayLike | None = None) -> FloatArray:
        """The scores that an exact export gives."""
        rows = np.nan_to_num(X, nan=0.0) if self.missing == "zero" else X
        return self.reference.decision_function(rows, qid)

    @property
    def terms(self) -> tuple[Term, ...]:
        """What is added up: the terms of a sum, or the body itself."""
        if isinstance(self.body, Total):
            return tuple(term._replace(steps=self.steps + term.steps) for term in self.body.terms)
        return (Term(1.0, self.steps, self.body),)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that the model is made of, as ``scoring.kinds`` names them."""
        kinds: set[str] = set().union(*(_kinds(term, len(self.names)) for term in self.terms))
        return frozenset(kinds | ({"sum"} if len(self.terms) > 1 else set()))

    @property
    def forest(self) -> Forest | None:
        """The trees, if no transform is left in front of them."""
        return self.body if isinstance(self.body, Forest) and not self.steps else None

    @property
    def affine(self) -> tuple[FloatArray, FloatArray] | None:
        """Factors and offsets of the scalers in front (1 and 0 without any); None if not affine."""
        return folded(self.steps, len(self.names))

    @property
    def linear(self) -> Linear | None:
        """Weights of the raw features with an intercept, scalers folded in; None if not linear."""
        affine = self.affine
        if affine is None or not isinstance(self.body, Linear):
            return None
        factor, offset = affine
        return Linear(self.body.coef * factor, float(offset @ self.body.coef + self.body.intercept))

    @property
    def layers(self) -> list[tuple[FloatArray, FloatArray]] | None:
        """Tables and offsets of a network on raw features, scalers folded in."""
        affine = self.affine
        if affine is None or not isinstance(self.body, Network):
            return None
        layers = unpack_layers(self.body.layers.tolist(), self.body.weights)
        (factor, offset), (table, bias) = affine, layers[0]
        layers[0] = factor[:, None] * table, bias + offset @ table
        layers[-1] = layers[-1][0], np.zeros(1)
        return layers


def form_of(
    model: BaseEstimator, feature_names: Sequence[str] | None = None, missing: str = "model"
) -> Form:
    """The neutral form of a fitted model, a saved scorer, or a scorer of rankwright.scoring."""
    if missing not in MISSING:
        raise ParameterError(Setting("missing", missing), f": use one of {', '.join(MISSING)}.")
    if hasattr(model, "_saved_as"):
        model = model._saved_as()
    saved = _served(model)
    steps, scorer, grades = _unwrapped(saved)
    takes_nan = saved.allow_nan and missing == "model"
    steps, body, constant = _plain(
        steps, scorer, takes_nan, missing if saved.allow_nan else "never"
    )
    names = _names(saved, feature_names)
    ranker = flat_steps(model)[-1]
    members = tuple(name for name, _ in ranker._named()) if hasattr(ranker, "members_") else ()
    parts = (steps, body, grades, missing, takes_nan, constant)
    return Form(saved.kind, names, *parts, saved, members)


def _served(model: BaseEstimator) -> SavedScorer:
    if isinstance(model, SavedScorer):
        return model
    if isinstance(model, Scorer):
        takes_nan = isinstance(model, Additive | Trees | Slopes | Deviations | FilledAverage)
        return SavedScorer(type(model).__name__, model, (), None, takes_nan)
    kind, names = type(model).__name__, None
    if hasattr(model, "engines_"):  # a learned fusion: each engine is a feature
        model, names = model.ranker_, model.engines_
        if model is None:
            raise ParameterError(
                "export: LearnedFusion(method='hedge') puts whole lists in order and scores no "
                "rows. Use method='ranker'."
            )
    for step in classes.foreign_steps(model):
        raise ParameterError(
            f"export: no target holds the step {step} of this pipeline. Use StandardScaler, "
            "MinMaxScaler, MaxAbsScaler or a transformer of rankwright."
        )
    scoring = classes.serve(model) if _is_fitted(model) else None
    if scoring is None:
        raise ParameterError(
            f"export: {kind} does not score rows, is not fitted, or has estimators that are not "
            "of rankwright. Give a fitted ranker, a pipeline that ends in one, or a LearnedFusion."
        )
    steps, scorer, takes_nan = scoring
    if names is None:
        names = getattr(first_estimator(model), "feature_names_in_", None)
    named = None if names is None else tuple(map(str, names))
    return SavedScorer(kind, scorer, tuple(steps), named, takes_nan)


def _is_fitted(model: BaseEstimator) -> bool:
    return hasattr(first_estimator(model), "n_features_in_")


def _names(saved: SavedScorer, given: Sequence[str] | None) -> tuple[str, ...]:
    n = saved.n_features
    names = given if given is not None else saved.feature_names
    if names is None:
        return tuple(f"feature_{number}" for number in range(1, n + 1))
    named = tuple(map(str, names))
    if len(named) != n or len(set(named)) < n or not all(named):
        raise ParameterError(
            Setting("feature_names"),
            f" has {len(named)} names, {len(set(named))} of them distinct, for a model of {n} "
            "features.",
            fix="Give one distinct name per feature.",
        )
    return named


def _unwrapped(saved: SavedScorer) -> tuple[tuple[Transform, ...], Scorer, GradeThresholds | None]:
    """Transforms, the scorer of their rows, and grades: wrappers taken apart."""
    steps, body, grades = list(saved.transforms), saved.scorer, None
    while isinstance(body, Ordinal | Mapped):
        if isinstance(body, Ordinal):
            grades = GradeThresholds(body.thresholds, body.classes)
        else:
            steps.append(body.map)
        body = body.score
    return tuple(steps), body, grades


def _plain(
    steps: tuple[Transform, ...], scorer: Scorer, takes_nan: bool, missing: str
) -> tuple[tuple[Transform, ...], Forest | Scorer | Total, float]:
    """Steps that are left, the plainest equal body, and a constant to add."""
    if isinstance(scorer, Sum):
        return _total(steps, scorer, takes_nan, missing)
    body, constant = _simplified(scorer, takes_nan)
    if isinstance(body, Forest):
        steps, body = _folded(steps, body)
        body = body.with_missing(missing)
    return steps, body, constant


def _total(
    steps: tuple[Transform, ...], scorer: Sum, takes_nan: bool, missing: str
) -> tuple[tuple[Transform, ...], Forest | Scorer | Total, float]:
    """A sum with all trees in one forest; a sum of one term is that term."""
    behind = next((i for i, s in enumerate(reversed(steps)) if not isinstance(s, RowMap)), None)
    n_front = 0 if behind is None else len(steps) - behind
    whole: Scorer = scorer
    for step in reversed(steps[n_front:]):
        whole = Mapped(step, whole)  # type: ignore[arg-type]
    merged = Sum((whole,), np.ones(1)).merged
    trees: list[Node] = []
    lines: list[Linear] = []
    terms: list[Term] = []
    constant = 0.0
    for factor, term in zip(merged.factors.tolist(), merged.terms, strict=True):
        maps: list[Transform] = []
        while isinstance(term, Mapped):
            maps.append(term.map)
            term = term.score
        left, body, extra = _plain(tuple(maps), term, takes_nan, missing)
        constant += factor * extra
        if isinstance(body, Forest) and not left and factor == 1.0:
            trees += body.trees
        elif isinstance(body, Linear) and not left:
            lines.append(Linear(factor * body.coef, factor * body.intercept))
        else:
            assert not isinstance(body, Total)
            terms.append(Term(factor, left, body))
    if lines:
        coef = np.sum([line.coef for line in lines], axis=0)
        line = Linear(coef, float(sum(line.intercept for line in lines)))
        terms.insert(0, Term(1.0, (), line))
    if trees:
        terms.insert(0, Term(1.0, (), Forest(tuple(trees))))
    if len(terms) == 1 and terms[0].factor == 1.0:
        return steps[:n_front] + terms[0].steps, terms[0].body, constant
    return steps[:n_front], Total(tuple(terms)), constant


_STEP_KINDS: dict[type, str] = {QueryScale: "query", Rounded: "rounded"}
_BODY_KINDS: dict[type, str] = {
    Forest: "trees", Linear: "linear", Network: "network", Slopes: "slopes",
    Deviations: "deviations", KernelExpansion: "kernel", Votes: "votes", Prototypes: "prototypes",
}  # fmt: skip


def _kinds(term: Term, n_features: int) -> set[str]:
    """The kinds of a term; scalers before linear functions and networks become part of them."""
    kind = _BODY_KINDS.get(type(term.body), "unknown")
    if kind in ("linear", "network") and folded(term.steps, n_features) is not None:
        return {kind}
    return {kind, *(_STEP_KINDS.get(type(step), "mapped") for step in term.steps)}


def _simplified(body: Scorer, takes_nan: bool) -> tuple[Forest | Scorer, float]:
    """The plainest equal body, and a constant to add."""
    constant = 0.0
    if isinstance(body, Network) and len(body.layers) == 2:
        return Linear(body.weights), 0.0
    if isinstance(body, KernelExpansion) and body.kernel.name == "linear":
        return Linear(body.coef @ body.support, body.intercept), 0.0
    if isinstance(body, Deviations) and not body.rated_only:
        every, zeros = np.arange(body.n_features), np.zeros(body.n_features)
        constant = body.intercept
        body = Slopes(body.n_features, every, body.coef, -body.coef * body.mean, zeros)
    if isinstance(body, FilledAverage):
        share = np.full(len(body.feature), 1.0 / len(body.feature))
        body = Slopes(body.n_inputs, body.feature, share, 0 * share, body.default * share)
    if isinstance(body, Slopes) and not takes_nan:
        coef = np.bincount(body.feature, body.slope, body.n_inputs).astype(np.float64)
        return Linear(coef, float(body.offset.sum()) + constant), 0.0
    if isinstance(body, Additive):
        return Forest(tuple(_steps_tree(body, i) for i in range(len(body.feature)))), 0.0
    if isinstance(body, Trees):
        return Forest(tuple(_tree(body, i) for i in range(len(body.root)))), 0.0
    return body, constant


def _steps_tree(body: Additive, i: int) -> Node:
    """All steps of a feature as one balanced tree; NaN has a leaf of its own where needed."""
    feature = int(body.feature[i])
    thresholds, values, missing = body._curve(i)
    last = missing != values[0] and missing == values[-1]

    def balanced(start: int, stop: int) -> Node:
        if start == stop:
            return Leaf(float(values[start]))
        middle = (start + stop) // 2
        parts = balanced(start, middle), balanced(middle + 1, stop)
        return Branch(feature, float(thresholds[middle]), *parts, default=bool(last))

    tree = balanced(0, len(thresholds))
    if missing == values[0] or last:
        return tree
    return Branch(feature, np.inf, tree, Leaf(missing), default=True)


def _tree(body: Trees, tree: int) -> Node:
    """A tree of nested nodes, its weight in its leaves; children come after their parents."""
    built: dict[int, Node] = {}
    stack = [int(body.root[tree])]
    order = []
    while stack:
        node = stack.pop()
        order.append(node)
        if body.feature[node] >= 0:
            stack += [int(body.low[node]), int(body.high[node])]
    for node in reversed(order):
        if body.feature[node] < 0:
            built[node] = Leaf(float(body.weight[tree] * body.value[node]))
            continue
        low, high = built.pop(int(body.low[node])), built.pop(int(body.high[node]))
        chosen = tuple(body.categories(node).tolist())
        feature, threshold = int(body.feature[node]), float(body.threshold[node])
        built[node] = Branch(feature, threshold, low, high, bool(body.default[node]), chosen)
    return built[int(body.root[tree])]


def _folded(steps: tuple[Transform, ...], forest: Forest) -> tuple[tuple[Transform, ...], Forest]:
    """Scalers (and rounding) right before a forest become part of its thresholds, exactly."""
    while steps and (
        isinstance(steps[-1], Rounded)
        or (isinstance(steps[-1], Affine) and not forest.has_categories)
    ):
        forest = _behind(steps[-1], forest)
        if isinstance(steps[-1], Rounded) and steps[-1].fill:
            forest = forest.with_missing("zero")
        steps = steps[:-1]
    return steps, forest


def _behind(step: Affine | Rounded, forest: Forest) -> Forest:
    keys = sorted({(s.feature, s.threshold) for s in forest.splits() if np.isfinite(s.threshold)})
    if not keys:
        return forest
    columns = np.array([feature for feature, _ in keys])
    boundaries = dict(zip(keys, _boundaries(step, columns, [t for _, t in keys]), strict=True))

    def moved(split: Branch) -> Node:
        if split.categories or not np.isfinite(split.threshold):
            return split
        boundary, rising = boundaries[split.feature, split.threshold]
        if rising:
            return replace(split, threshold=boundary)
        low, high = split.high, split.low
        return Branch(split.feature, boundary, low, high, not split.default)

    return forest.change(moved)


def _boundaries(
    step: Affine | Rounded, columns: IntArray, limits: Sequence[float] | FloatArray
) -> list[tuple[float, bool]]:
    """For each column and limit: the largest x on the lower side, and whether x rises with it.

    Rounded steps of arithmetic are monotone, so bisection over all doubles finds the exact place.
    """
    picked: Affine | Rounded = Rounded(len(columns))
    if isinstance(step, Affine):
        part = {name: column[columns] for name, column in step._columns().items()}
        picked = Affine(**part, low=step.low, high=step.high)
    one = Queries.from_ids(None, 1)

    def above(x: FloatArray) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            return picked.transform(x[None, :], one)[0] > np.asarray(limits)

    lows, highs = (np.full(len(limits), sign * np.finfo(np.float64).max) for sign in (-1, 1))
    at_low, at_high = above(lows), above(highs)
    low, high = _ordered(lows), _ordered(highs)
    while (low < high - 1).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        same = above(_double(middle)) == at_low
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    boundary = _double(low)
    rising = ~at_low
    constant = at_low == at_high
    boundary = np.where(constant, np.where(at_low, -np.inf, np.inf), boundary)
    rising = rising | constant
    return list(zip(boundary.tolist(), rising.tolist(), strict=True))


def _ordered(x: FloatArray) -> Any:
    """Doubles as integers in the same order."""
    bits = np.asarray(x, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _double(number: ArrayLike) -> FloatArray:
    number = np.asarray(number, dtype=np.int64)
    bits = np.where(number < 0, np.int64(-(2**63)) - number, number)
    return np.asarray(bits.view(np.float64))
