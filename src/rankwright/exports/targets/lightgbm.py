"""LightGBM's text format."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exceptions import Message, ParameterError, Setting
from rankwright.exports.forest import MAX_CATEGORY, Branch, Forest, Leaf, Node
from rankwright.exports.form import Form
from rankwright.exports.target import Files, Options, Reading, Target

CATEGORICAL, DEFAULT_LEFT, MISSING_NAN = 1, 2, 8


class LightGBM(Target):
    """``lightgbm.Booster(model_file=...)`` reads it; doubles throughout."""

    name: ClassVar[str] = "lightgbm"
    extension: ClassVar[str] = "lightgbm.txt"
    tiny: ClassVar[float] = float(np.float32(1e-35))

    holds: ClassVar[str] = "LightGBM's file holds trees only"

    def write(self, form: Form, options: Options) -> Files:
        forest = form.forest
        assert forest is not None
        bad = [name for name in form.names if set(name) & set(' \t\n\r,[]{}":')]
        if bad:
            raise ParameterError(
                f'export: LightGBM does not allow spaces or any of , [ ] {{ }} " : in '
                f"feature names, as in {bad[0]!r}.",
                fix=Message("Give other names with ", Setting("feature_names"), "."),
            )
        trees = [_tree(tree, i) for i, tree in enumerate(_guarded(forest).trees or (Leaf(0.0),))]
        head = [
            "tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0",
            f"max_feature_idx={len(form.names) - 1}", "objective=lambdarank",
            "feature_names=" + " ".join(form.names),
            "feature_infos=" + " ".join(["[-inf:inf]"] * len(form.names)),
            "tree_sizes=" + " ".join(str(len(tree.encode())) for tree in trees),
        ]  # fmt: skip
        text = "\n".join(head) + "\n\n" + "".join(trees)
        tail = "end of trees\n\nfeature_importances:\n\nparameters:\n[objective: lambdarank]\n"
        return {"": (text + tail + "end of parameters\n\npandas_categorical:null\n").encode()}

    def read(self, files: Files, X: FloatArray, form: Form, options: Options) -> Reading:
        try:
            import lightgbm
        except ImportError:
            from rankwright.persist.foreign import read_lightgbm

            scores = read_lightgbm(files[""]).decision_function(X)
            return Reading(scores, "rankwright's reader of LightGBM files (lightgbm not installed)")
        booster = lightgbm.Booster(model_str=files[""].decode())
        scores = booster.predict(X, raw_score=True, num_threads=1)
        return Reading(np.asarray(scores), f"lightgbm {lightgbm.__version__}")


def _guarded(forest: Forest) -> Forest:
    """LightGBM sends NaN out of all sets of categories: test it first where the model does not."""

    def guarded(split: Branch) -> Node:
        if not split.categories or not split.default:
            return split
        inner = Branch(split.feature, 0.0, split.low, split.high, False, split.categories)
        return Branch(split.feature, np.inf, inner, split.high, True)

    return forest.change(guarded)


def _tree(tree: Node, number: int) -> str:
    splits: list[tuple[int, float, int, int, int]] = []  # feature, threshold, type, left, right
    leaves: list[float] = []
    boundaries, bits = [0], []

    def add(node: Node) -> int:
        if isinstance(node, Leaf):
            leaves.append(node.value)
            return -len(leaves)
        split = len(splits)
        splits.append((0, 0.0, 0, 0, 0))
        if node.categories:
            threshold, kind = float(len(boundaries) - 1), CATEGORICAL | MISSING_NAN
            bits.extend(_bits(node.categories))
            boundaries.append(len(bits))
            left, right = add(node.high), add(node.low)
        else:
            threshold, kind = node.threshold, MISSING_NAN | (0 if node.default else DEFAULT_LEFT)
            left, right = add(node.low), add(node.high)
        splits[split] = (node.feature, threshold, kind, left, right)
        return split

    add(tree)
    feature, threshold, kind, left, right = zip(*splits, strict=True) if splits else ((),) * 5
    zeros = [0] * len(splits)
    rows = {
        "num_leaves": [len(leaves)], "num_cat": [len(boundaries) - 1],
        "split_feature": feature, "split_gain": zeros, "threshold": threshold,
        "decision_type": kind, "left_child": left, "right_child": right, "leaf_value": leaves,
        "leaf_weight": [0] * len(leaves), "leaf_count": [0] * len(leaves),
        "internal_value": zeros, "internal_weight": zeros, "internal_count": zeros,
        **({"cat_boundaries": boundaries, "cat_threshold": bits} if bits else {}),
        "is_linear": [0], "shrinkage": [1],
    }  # fmt: skip
    lines = [f"{key}=" + " ".join(map(repr, values)) for key, values in rows.items()]
    return "\n".join([f"Tree={number}", *lines]) + "\n\n\n"


def _bits(categories: tuple[float, ...]) -> list[int]:
    """A set of whole numbers as words of 32 bits."""
    if any(value != int(value) or not 0 <= value <= MAX_CATEGORY for value in categories):
        raise ParameterError(
            f"export: LightGBM's categories are whole numbers from 0 to {MAX_CATEGORY:,}, and this "
            f"model has {min(categories):g} to {max(categories):g}."
        )
    words = [0] * (int(max(categories)) // 32 + 1)
    for value in map(int, categories):
        words[value // 32] |= 1 << (value % 32)
    return words
