"""RankLib's text formats: Linear Regression, RankBoost and LambdaMART."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exports.forest import (
    FLOAT32_MAX,
    Branch,
    Forest,
    Leaf,
    Node,
    floor32,
    number32,
    without_categories,
)
from rankwright.exports.form import Form
from rankwright.exports.target import (
    EXACT,
    Files,
    Options,
    Reading,
    Support,
    Target,
    refuses_missing,
)
from rankwright.scoring.linear import Linear

ALWAYS = -float(np.finfo(np.float64).max)  # x > ALWAYS holds for every number


class RankLib(Target):
    """``RankLib -load`` reads it; features are float32, missing ones are 0, sums are doubles."""

    name: ClassVar[str] = "ranklib"
    extension: ClassVar[str] = "ranklib.txt"
    dtype: ClassVar[type] = np.float32

    holds: ClassVar[str] = "RankLib holds linear models and trees only"

    def limits(self, form: Form) -> Support:
        missing = None if form.linear is not None else refuses_missing(form, "RankLib")
        return missing or EXACT

    def write(self, form: Form, options: Options) -> Files:
        return {"": ranklib_text(form.forest or form.linear, 0.0).encode()}

    def read(self, files: Files, X: FloatArray, form: Form, options: Options) -> Reading:
        from rankwright.persist.foreign import read_ranklib

        scores = read_ranklib(files[""], len(form.names)).decision_function(X)
        return Reading(scores, "rankwright's reader of RankLib files (RankLib itself not run)")


def ranklib_text(body: Forest | Linear | None, constant: float) -> str:
    """The text of a model with a constant added to its scores; features count from 1."""
    if isinstance(body, Linear):
        terms = enumerate([body.intercept + constant, *body.coef.tolist()])
        line = " ".join(f"{number}:{weight!r}" for number, weight in terms)
        return f"## Linear Regression\n## Lambda = 1.0E-10\n{line}\n"
    assert body is not None
    curves = body.curves()
    if curves is not None:
        return _rankboost(curves, constant)
    trees = (*without_categories(body).trees, *([Leaf(constant)] if constant else []))
    parts = "".join(
        f'<tree id="{i}" weight="1.0"><split>{_split(tree)}</split></tree>'
        for i, tree in enumerate(map(_with_split, trees), 1)
    )
    head = f"## LambdaMART\n## No. of trees = {len(trees)}\n## Learning rate = 1.0\n"
    return f"{head}\n<ensemble>{parts}</ensemble>\n"


def _rankboost(curves: list[tuple[int, list[float], list[float]]], constant: float) -> str:
    """Sums of thresholds: a rule for each rise, and one for the constant."""
    start = constant + sum(values[0] for _, _, values in curves)
    rules = [(0, ALWAYS, start)] if start or not any(t for _, t, _ in curves) else []
    for feature, thresholds, values in curves:
        for threshold, before, after in zip(thresholds, values[:-1], values[1:], strict=True):
            rules.append((feature, max(threshold, ALWAYS), after - before))
    line = " ".join(f"{f + 1}:{threshold!r}:{weight!r}" for f, threshold, weight in rules)
    return (
        f"## RankBoost\n## Iteration = {len(rules)}\n## No. of threshold candidates = 10\n{line}\n"
    )


def _with_split(tree: Node) -> Node:
    """RankLib's trees have a split at the root."""
    return Branch(0, 0.0, tree, tree, False) if isinstance(tree, Leaf) else tree


def _split(node: Node) -> str:
    if isinstance(node, Leaf):
        return f"<output> {node.value!r} </output>"
    limit = min(max(floor32(node.threshold), -FLOAT32_MAX), FLOAT32_MAX)
    left, right = _split(node.low), _split(node.high)
    test = f"<feature> {node.feature + 1} </feature><threshold> {number32(limit)!r} </threshold>"
    sides = f'<split pos="left">{left}</split><split pos="right">{right}</split>'
    return test + sides
