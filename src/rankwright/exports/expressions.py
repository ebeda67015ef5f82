"""A model as one arithmetic expression, for languages that have nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exceptions import ParameterError
from rankwright.exports.forest import Forest, Leaf, Node
from rankwright.exports.form import Form, Total
from rankwright.scoring.base import Scorer, Transform
from rankwright.scoring.kernel import Kernel, KernelExpansion, KernelValues
from rankwright.scoring.linear import Deviations, Linear, Slopes, WithDeviations
from rankwright.scoring.network import unpack_layers
from rankwright.scoring.ordinal import Votes
from rankwright.scoring.transforms import Affine, LevelNumbers, Monomials

MAX_LENGTH = 1_000_000  # characters; SQLite's default limit of a statement
LONG_SUM = 64  # parsers have limits of depth: longer sums are added in halves

Text = str


class Language(ABC):
    """How a language writes numbers, features, functions and choices.

    A feature without a value makes every comparison false.
    """

    limit = MAX_LENGTH

    @abstractmethod
    def number(self, value: float) -> Text: ...

    @abstractmethod
    def feature(self, name: str, takes_nan: bool) -> Text: ...

    @abstractmethod
    def missing(self, x: Text) -> Text: ...

    @abstractmethod
    def choose(self, condition: Text, then: Text, otherwise: Text) -> Text: ...

    @abstractmethod
    def member(self, x: Text, values: tuple[float, ...]) -> Text: ...

    def call(self, function: str, *arguments: Text) -> Text:
        return f"{function}({', '.join(arguments)})"

    def compare(self, x: Text, sign: str, value: float) -> Text:
        return f"{x} {sign} {self.number(value)}"

    def sum(self, terms: list[Text]) -> Text:
        """A sum in parentheses; refuses one that has become too long."""
        if len(terms) > LONG_SUM:
            middle = len(terms) // 2
            terms = [self.sum(terms[:middle]), self.sum(terms[middle:])]
        text = " + ".join(terms) if terms else self.number(0.0)
        if len(text) > self.limit:
            raise ParameterError(
                f"export: the expression has more than {self.limit:,} characters. Use another "
                "target, such as onnx, or train a smaller model."
            )
        return f"({text})"

    def weighted(self, xs: list[Text], weights: FloatArray, intercept: float = 0.0) -> Text:
        """The sum of weight * x, zero weights left out."""
        pairs = zip(xs, np.asarray(weights).tolist(), strict=True)
        terms = [f"{self.number(weight)} * {x}" for x, weight in pairs if weight]
        return self.sum(terms + ([self.number(intercept)] if intercept else []))

    def expansion(self, body: KernelExpansion, xs: list[Text]) -> Text:
        """The sum of the kernels with the support rows."""
        values = [_kernel(body.kernel, xs, row, self) for row in body.support]
        return self.weighted(values, body.coef, body.intercept)


def score_text(form: Form, language: Language) -> Text:
    """The score of a row."""
    xs = [language.feature(name, form.reference.allow_nan) for name in form.names]
    if form.missing == "zero":
        zero = language.number(0.0)
        xs = [language.choose(language.missing(x), zero, x) for x in xs]
    for step in form.steps:
        xs = _stepped(step, xs, language)
    score = _scored(form.body, xs, language)
    return score if not form.constant else language.sum([score, language.number(form.constant)])


def grade_text(form: Form, score: Text, language: Language) -> Text:
    """The grade of a row, from the text of its score."""
    assert form.grades is not None
    thresholds, classes = (values.tolist() for values in form.grades)
    text = language.number(classes[0])
    for threshold, grade in zip(thresholds, classes[1:], strict=True):
        condition = language.compare(score, ">=", threshold)
        text = language.choose(condition, language.number(grade), text)
    return language.sum([text])


def _stepped(step: Transform, xs: list[Text], language: Language) -> list[Text]:
    if isinstance(step, Affine):
        return [_scaled(step, i, x, language) for i, x in enumerate(xs)]
    if isinstance(step, Monomials):
        return _products(step, xs, language)
    if isinstance(step, LevelNumbers):
        numbers = [_level_number(columns, xs, language) for columns in step.categories]
        return [*(xs[i] for i in step.others), *numbers]
    if isinstance(step, KernelValues):
        return [_kernel(step.kernel, xs, row, language) for row in step.support]
    assert isinstance(step, WithDeviations)
    return [*xs, _deviations(step.scorer, xs, language)]


def _scaled(step: Affine, i: int, x: Text, language: Language) -> Text:
    signs = {"shift": "-", "divisor": "/", "factor": "*", "offset": "+"}
    for name, column in step._columns().items():
        x = f"({x} {signs[name]} {language.number(float(column[i]))})"
    if step.low is not None:
        x = language.choose(language.compare(x, "<", step.low), language.number(step.low), x)
    if step.high is not None:
        x = language.choose(language.compare(x, ">", step.high), language.number(step.high), x)
    return x


def _products(step: Monomials, xs: list[Text], language: Language) -> list[Text]:
    texts = []
    for chosen, factor in zip(step.products(), step.factors.tolist(), strict=True):
        terms = [language.number(factor), *(xs[i] for i in chosen)]
        texts.append(f"({' * '.join(terms)})")
    return texts


def _level_number(columns: slice, xs: list[Text], language: Language) -> Text:
    """The number of the first column that is 1; 0 without one."""
    text = language.number(0.0)
    for number, x in reversed([*enumerate(xs[columns], 1)]):
        text = language.choose(language.member(x, (1.0,)), language.number(number), text)
    return text


def kernel_text(kernel: Kernel, xs: list[Text], values: list[Text], language: Language) -> Text:
    """The kernel of the row with a row of these values."""
    if kernel.name == "rbf":
        gaps = [f"({x} - {v})" for x, v in zip(xs, values, strict=True)]
        squares = language.sum([f"{gap} * {gap}" for gap in gaps])
        return language.call("exp", f"{language.number(-kernel.gamma)} * {squares}")
    product = language.sum([f"{v} * {x}" for x, v in zip(xs, values, strict=True)])
    if kernel.name == "linear":
        return product
    inner = [f"{language.number(kernel.gamma)} * {product}", language.number(kernel.coef0)]
    return language.call("pow", language.sum(inner), language.number(float(kernel.degree)))


def _kernel(kernel: Kernel, xs: list[Text], row: FloatArray, language: Language) -> Text:
    at = range(len(row)) if kernel.name == "rbf" else np.flatnonzero(row).tolist()
    values = [language.number(float(row[i])) for i in at]
    return kernel_text(kernel, [xs[i] for i in at], values, language)


def _deviations(body: Deviations, xs: list[Text], language: Language) -> Text:
    zero, terms, masses = language.number(0.0), [], []
    for x, mean, coef in zip(xs, body.mean.tolist(), body.coef.tolist(), strict=True):
        value = f"{language.number(coef)} * ({x} - {language.number(mean)})"
        absent = language.missing(x)
        terms.append(language.choose(absent, zero, value))
        masses.append(language.choose(absent, zero, language.number(abs(coef))))
    total = language.sum(terms)
    if body.rated_only:
        mass = language.sum(masses)
        total = language.choose(language.compare(mass, ">", 0.0), f"{total} / {mass}", zero)
    return language.sum([total, language.number(body.intercept)])


def _scored(body: Any, xs: list[Text], language: Language) -> Text:
    if isinstance(body, Forest):
        return language.sum([_tree(tree, xs, language) for tree in body.trees])
    if isinstance(body, Total):
        return language.sum([_term(*term, xs, language) for term in body.terms])
    if isinstance(body, Linear):
        return language.weighted(xs, body.coef, body.intercept)
    if isinstance(body, Slopes):
        return language.sum([_slope(body, i, xs, language) for i in range(len(body.feature))])
    if isinstance(body, Deviations):
        return _deviations(body, xs, language)
    if isinstance(body, KernelExpansion):
        return language.expansion(body, xs)
    if isinstance(body, Votes):
        return _votes(body, xs, language)
    *hidden, (last, _) = unpack_layers(body.layers.tolist(), body.weights)
    for table, offset in hidden:
        units = zip(table.T, offset.tolist(), strict=True)
        xs = [language.call("tanh", language.weighted(xs, row, bias)) for row, bias in units]
    return language.weighted(xs, last[:, 0])


def _term(
    factor: float,
    steps: Sequence[Transform],
    body: Forest | Scorer | Total,
    xs: list[Text],
    language: Language,
) -> Text:
    for step in steps:
        xs = _stepped(step, xs, language)
    score = _scored(body, xs, language)
    return score if factor == 1.0 else f"{language.number(factor)} * {score}"


def _slope(body: Slopes, i: int, xs: list[Text], language: Language) -> Text:
    x = xs[int(body.feature[i])]
    slope, offset, missing = (
        language.number(float(part[i])) for part in (body.slope, body.offset, body.missing)
    )
    return language.choose(language.missing(x), missing, f"({slope} * {x} + {offset})")


def _votes(body: Votes, xs: list[Text], language: Language) -> Text:
    """The mean grade, and a small share of the mean score that orders equal means."""
    rules = [language.weighted(xs, row) for row in body.coef]
    total, gaps = float(body.votes.sum()), np.diff(body.classes).tolist()
    zero, terms = language.number(0.0), [language.number(float(body.classes[0]) * total)]
    for r, gap in enumerate(gaps):
        for rule, limit, votes in zip(rules, body.thresholds[:, r], body.votes, strict=True):
            test = language.compare(rule, ">=", float(limit))
            terms.append(language.choose(test, language.number(gap * float(votes)), zero))
    mean = f"{language.sum(terms)} / {language.number(total)}"
    score = f"({language.weighted(rules, body.votes)} / {language.number(total)})"
    share = 0.49 * min(gaps, default=1.0) / total
    scale = language.number(1.0 + float(np.abs(body.thresholds).max(initial=0.0)))
    spread = language.sum([scale, language.call("abs", score)])
    return language.sum([mean, f"{language.number(share)} * ({score} / {spread})"])


def _tree(node: Node, xs: list[Text], language: Language) -> Text:
    if isinstance(node, Leaf):
        return language.number(node.value)
    x, low, high = xs[node.feature], *(_tree(n, xs, language) for n in (node.low, node.high))
    if node.categories:
        text = language.choose(language.member(x, node.categories), high, low)
        return language.choose(language.missing(x), high, text) if node.default else text
    if np.isinf(node.threshold):
        sides = (high, low) if node.threshold > 0 else (low, high)
        to_high = node.default == (node.threshold > 0)
        return language.choose(language.missing(x), *sides) if to_high else sides[1]
    if node.default:
        return language.choose(language.compare(x, "<=", node.threshold), low, high)
    return language.choose(language.compare(x, ">", node.threshold), high, low)
