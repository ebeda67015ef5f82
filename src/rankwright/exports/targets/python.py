"""A Python function that needs the standard library only."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exceptions import ParameterError
from rankwright.exports.expressions import Language, Text, grade_text, score_text
from rankwright.exports.form import Form
from rankwright.exports.target import Files, Options, Reading, Target


class Python(Target):
    """A module with ``score(row)``; a row maps names of features to numbers, None or NaN."""

    name: ClassVar[str] = "python"
    extension: ClassVar[str] = "py"

    holds: ClassVar[str] = "it is one expression of one row"

    def write(self, form: Form, options: Options) -> Files:
        language = Source(form.names)
        body = [f"    {x} = _number(row.get({name!r}))" for name, x in language.variables.items()]
        lines = [f'"""{_title(options.name)}"""', "", "import math", "", "", *NUMBER, "", ""]
        lines += ["def score(row):", *body, f"    return {score_text(form, language)}", ""]
        if form.grades is not None:
            grade = grade_text(form, "s", language)
            lines += ["", "def grade(row):", "    s = score(row)", f"    return {grade}", ""]
        text = "\n".join(lines)
        try:
            compile(text, "export", "exec")
        except (SyntaxError, RecursionError, MemoryError):
            raise ParameterError(
                "export: Python cannot compile an expression of this size. Use another target, "
                "such as onnx, or train a smaller model."
            ) from None
        return {"": text.encode()}

    def read(self, files: Files, X: FloatArray, form: Form, options: Options) -> Reading:
        module: dict[str, Any] = {}
        exec(compile(files[""], "export", "exec"), module)  # the text that ``write`` made
        rows = [dict(zip(form.names, row, strict=True)) for row in X.tolist()]

        def column(function: Callable[[dict[str, float]], float]) -> FloatArray:
            return np.array([function(row) for row in rows], dtype=np.float64)

        grades = column(module["grade"]) if form.grades is not None else None
        return Reading(column(module["score"]), f"Python {platform.python_version()}", grades)


NUMBER = (
    "def _number(value):",
    '    return float("nan") if value is None else float(value)',
)


def _title(name: str) -> str:
    """The first line of the module; no name can end the docstring."""
    return f"Scores of {name!r}, exported by rankwright.".replace("\\", "").replace('"', "'")


class Source(Language):
    """Python with floats; features are variables, so that any name will do."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.variables = {name: f"x{i}" for i, name in enumerate(names)}

    def number(self, value: float) -> Text:
        text = repr(float(value)) if np.isfinite(value) else f'float("{value}")'
        return f"({text})" if value < 0 else text

    def feature(self, name: str, takes_nan: bool) -> Text:
        return self.variables[name]

    def missing(self, x: Text) -> Text:
        return f"{x} != {x}"

    def choose(self, condition: Text, then: Text, otherwise: Text) -> Text:
        return f"({then} if {condition} else {otherwise})"

    def member(self, x: Text, values: tuple[float, ...]) -> Text:
        return f"{x} in ({', '.join(map(self.number, values))},)"

    def call(self, function: str, *arguments: Text) -> Text:
        place = "" if function == "abs" else "math."
        return f"{place}{function}({', '.join(arguments)})"
