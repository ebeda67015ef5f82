"""A rank profile of Vespa with the model as a ranking expression."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exports.expressions import (
    Language,
    Text,
    grade_text,
    score_text,
)
from rankwright.exports.form import Form
from rankwright.exports.target import Files, Options, Reading, Target

FUNCTIONS = {"tanh": np.tanh, "exp": np.exp, "pow": np.power, "abs": np.abs, "isNan": np.isnan}
COMPARISONS = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_TOKEN = re.compile(r"\s*(\d+\.?\d*(?:e[+-]?\d+)?|<=|>=|[a-zA-Z]+|[-+*/<>(),\[\]])")


class Vespa(Target):
    """A ``rank-profile`` for a schema: doubles, any rank feature as a feature."""

    name: ClassVar[str] = "vespa"
    extension: ClassVar[str] = "profile"

    holds: ClassVar[str] = "it is one expression of one row"

    def write(self, form: Form, options: Options) -> Files:
        language = RankingExpression()
        score = score_text(form, language)
        parts = {"score": score}
        if form.grades is not None:
            parts["grade"] = grade_text(form, score, language)
        functions = "".join(
            f"    function {name}() {{\n        expression {{\n            {part}\n"
            "        }\n    }\n"
            for name, part in parts.items()
        )
        profile = re.sub(r"\W", "_", options.name)
        text = f"rank-profile {profile} inherits default {{\n{functions}"
        text += "    first-phase {\n        expression: score\n    }\n}\n"
        return {"": text.encode()}

    def read(self, files: Files, X: FloatArray, form: Form, options: Options) -> Reading:
        texts = re.findall(r"expression \{\n\s*(.*)\n", files[""].decode())
        parts = [evaluate_expression(text, form.names, X) for text in texts]
        reader = "rankwright's reader of ranking expressions (Vespa itself not run)"
        return Reading(parts[0], reader, parts[1] if form.grades else None)


class RankingExpression(Language):
    """Vespa's ranking expressions; a comparison with NaN is false."""

    def number(self, value: float) -> Text:
        return f"({value!r})" if value < 0 else repr(float(value))

    def feature(self, name: str, takes_nan: bool) -> Text:
        return name if "(" in name else f"attribute({name})"

    def missing(self, x: Text) -> Text:
        return f"isNan({x})"

    def choose(self, condition: Text, then: Text, otherwise: Text) -> Text:
        return f"if ({condition}, {then}, {otherwise})"

    def member(self, x: Text, values: tuple[float, ...]) -> Text:
        return f"{x} in [{', '.join(map(self.number, values))}]"


def evaluate_expression(text: str, names: tuple[str, ...], X: FloatArray) -> FloatArray:
    """The value of a ranking expression for each row; only what this module writes is read."""
    language = RankingExpression()
    columns = {language.feature(name, True): X[:, i] for i, name in enumerate(names)}
    with np.errstate(all="ignore"):
        value = _Parser(text, columns).expression()
    return np.broadcast_to(np.asarray(value, dtype=np.float64), len(X)).copy()


class _Parser:
    """Recursive descent: comparison < sum < product < value."""

    def __init__(self, text: str, columns: dict[str, FloatArray]) -> None:
        ordered = sorted(columns, key=len, reverse=True)
        token = re.compile("|".join([rf"\s*({'|'.join(map(re.escape, ordered))})", _TOKEN.pattern]))
        self.tokens = [m[1] or m[2] for m in token.finditer(text)]
        self.columns, self.place = columns, 0

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1]

    def expression(self) -> Any:
        left = self.total()
        if self.peek() in COMPARISONS:
            return COMPARISONS[self.take()](left, self.total())
        if self.peek() == "in":
            self.take()
            return np.isin(left, self.arguments("]"))
        return left

    def total(self) -> Any:
        value = self.product()
        while self.peek() in ("+", "-") and self.peek():
            value = value + self.product() if self.take() == "+" else value - self.product()
        return value

    def product(self) -> Any:
        value = self.value()
        while self.peek() in ("*", "/") and self.peek():
            value = value * self.value() if self.take() == "*" else value / self.value()
        return value

    def arguments(self, end: str) -> list[Any]:
        self.take()
        values = [self.expression()]
        while self.take() != end:
            values.append(self.expression())
        return values

    def value(self) -> Any:
        token = self.take()
        if token in self.columns:
            return self.columns[token]
        if token == "(":
            self.place -= 1
            return self.arguments(")")[0]
        if token == "-":
            return -self.value()
        if token == "if":
            return np.where(*self.arguments(")"))
        if token in FUNCTIONS:
            return FUNCTIONS[token](*self.arguments(")"))
        return float(token)
