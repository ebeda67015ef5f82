"""The models of LightGBM, XGBoost, CatBoost and RankLib as trees, every index checked."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from math import log
from typing import Any, NamedTuple, SupportsFloat

import numpy as np

from rankwright.persist.format import Refused
from rankwright.scoring.trees import Node, Trees

MAX_NODES, MAX_FEATURES = 2**26, 2**24
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_NONE, _ZERO, _NAN = 0, 1, 2  # LightGBM's kinds of missing values
_RANKLIB_TAG = re.compile(r"<(/?)(ensemble|tree|split|feature|threshold|output)\b([^<>]*)>([^<>]*)")
_DEFAULT_NAME = re.compile(r"Column_\d+")


class Foreign(NamedTuple):
    """What a file of another library holds: trees with a factor each, or weights."""

    n_features: int
    names: tuple[str, ...] | None
    trees: list[list[Node]]
    factors: list[float]
    base: float = 0.0
    weights: list[float] | None = None

    def scorer(self) -> Trees:
        """The sum of the trees and the base score."""
        trees, factors = self.trees, self.factors
        if self.base:
            trees, factors = [*trees, [Node(value=self.base)]], [*factors, 1.0]
        if (n_nodes := sum(map(len, trees))) > MAX_NODES:
            raise Refused(f"it has {n_nodes:,} nodes, the limit is {MAX_NODES:,}")
        last = width(trees) - 1
        if last >= self.n_features:
            raise Refused(f"a split tests feature {last}; it has {self.n_features} features")
        return Trees.from_nodes(self.n_features, [*map(_in_order, trees)], factors)


def width(trees: list[list[Node]]) -> int:
    """How many columns the splits need, at least 1."""
    return max((node.feature for tree in trees for node in tree), default=0) + 1 or 1


def _leaf(value: SupportsFloat | str) -> Node:
    return Node(value=float(value))


def _in_order(nodes: list[Node]) -> list[Node]:
    """A tree whose node 0 is the root, with children after their parent.

    Refuses cycles, shared nodes and wrong numbers.
    """
    ordered: list[Node] = []
    waiting: list[tuple[int, Node | None, bool]] = [(0, None, False)]
    seen: set[int] = set()
    while waiting:
        number, parent, is_high = waiting.pop()
        if not 0 <= number < len(nodes) or number in seen:
            raise Refused(f"node {number} is missing, or is the child of two nodes")
        seen.add(number)
        node = nodes[number]
        if parent is not None:
            setattr(parent, "high" if is_high else "low", len(ordered))
        ordered.append(node)
        if node.feature >= 0:
            node.value = 0.0
            waiting += [(node.low, node, False), (node.high, node, True)]
        else:
            node.low = node.high = 0
    return ordered


def parse_json(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise Refused("its JSON is damaged or cut off") from error


def _whole(value: Any, what: str, high: int = MAX_FEATURES) -> int:
    number = int(value)
    if not 0 <= number <= high:
        raise Refused(f"its {what} is {number}")
    return number


def lightgbm_model(raw: bytes) -> Foreign:
    """The trees of LightGBM's text format."""
    text = raw.decode("utf-8", "strict").replace("\r\n", "\n")
    head, *blocks = re.split(r"\n(?=Tree=\d+\n)", text.partition("\nend of trees")[0])
    if "\nend of trees" not in text:
        raise Refused("it is cut off: the line 'end of trees' is missing")
    header = _lines(head)
    if int(header.get("num_class", 1)) != 1 or int(header.get("num_tree_per_iteration", 1)) != 1:
        raise Refused("it has several classes", "A ranker has one score per row.")
    sizes = header.get("tree_sizes", "").split()
    if len(sizes) != len(blocks):
        raise Refused(f"it names {len(sizes)} trees and holds {len(blocks)}")
    n_features = _whole(header["max_feature_idx"], "max_feature_idx") + 1
    weight = 1.0 / max(len(blocks), 1) if "average_output" in header else 1.0
    trees = [_lightgbm_tree(_lines(block)) for block in blocks]
    names = header.get("feature_names", "").split(" ")
    named = None if len(names) != n_features or all(map(_DEFAULT_NAME.fullmatch, names)) else names
    return Foreign(
        n_features, None if named is None else tuple(named), trees, [weight] * len(trees)
    )


def _lines(block: str) -> dict[str, str]:
    lines: dict[str, str] = {}
    for line in block.splitlines():
        key, _, value = line.partition("=")
        if key and key in lines:
            raise Refused(f"the line {key[:40]!r} occurs twice")
        lines[key] = value
    return lines


def _lightgbm_tree(lines: dict[str, str]) -> list[Node]:
    if lines.get("is_linear", "0").strip() != "0":
        raise Refused("it has linear trees", "Train without linear_tree.")
    n_leaves = _whole(lines["num_leaves"], "num_leaves", MAX_NODES)
    names = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
    columns = [lines.get(name, "").split() for name in names]
    values = list(map(float, lines["leaf_value"].split()))
    if n_leaves < 1 or len(values) != n_leaves or {len(c) for c in columns} != {n_leaves - 1}:
        raise Refused(f"a tree of {n_leaves} leaves has lines of another length")
    sets = _category_sets(lines)

    def place(child: str) -> int:
        number = int(child)
        return number if number >= 0 else n_leaves - 2 - number  # leaf -1 comes first

    nodes = []
    for feature, threshold, kind, left, right in zip(*columns, strict=True):
        ends = place(left), place(right)
        nodes.append(_lightgbm_split(int(feature), float(threshold), int(kind), ends, sets))
    return [*nodes, *map(_leaf, values)]


def _lightgbm_split(
    feature: int, threshold: float, kind: int, ends: tuple[int, int], sets: list[tuple[float, ...]]
) -> Node:
    if feature < 0:
        raise Refused(f"a split tests feature {feature}")
    missing, left_first = (kind >> 2) & 3, bool(kind & _DEFAULT_LEFT)
    if kind & _CATEGORICAL:
        chosen = sets[_whole(threshold, "set of categories")]
        default = missing != _NAN and 0.0 in chosen
        return Node(feature, 0.0, default, ends[1], ends[0], categories=chosen)
    zero_is_high = threshold < 0.0
    if missing == _ZERO and zero_is_high == left_first:
        raise Refused("it was trained with zero_as_missing", "Train without that option.")
    default = not left_first if missing == _NAN else zero_is_high
    return Node(feature, threshold, default, *ends)


def _category_sets(lines: dict[str, str]) -> list[tuple[float, ...]]:
    bounds = list(map(int, lines.get("cat_boundaries", "0").split()))
    words = list(map(int, lines.get("cat_threshold", "").split()))
    sets = []
    for start, stop in pairwise(bounds):
        if not 0 <= start <= stop <= len(words) or stop - start > MAX_FEATURES // 32:
            raise Refused("its sets of categories are damaged")
        bits = [
            32 * i + bit
            for i, word in enumerate(words[start:stop])
            for bit in range(32)
            if word >> bit & 1
        ]
        sets.append(tuple(map(float, bits)))
    return sets


def xgboost_model(content: dict[str, Any]) -> Foreign:
    """The trees or the weights of XGBoost's model, from its JSON."""
    learner = content["learner"]
    param, booster = learner["learner_model_param"], learner["gradient_booster"]
    if int(param.get("num_class", 0)) > 1 or int(param.get("num_target", 1)) > 1:
        raise Refused("it has several classes or targets", "A ranker has one score per row.")
    n_features = _whole(param["num_feature"], "num_feature")
    listed = learner.get("feature_names") or None
    names = None if listed is None else tuple(map(str, listed))
    base = float(str(param.get("base_score", "0")).strip("[]"))
    if learner["objective"]["name"] in ("binary:logistic", "reg:logistic", "binary:logitraw"):
        base = log(base / (1.0 - base))  # it is kept as a probability
    if booster["name"] == "gblinear":
        weights = list(map(float, booster["model"]["weights"]))
        if len(weights) != n_features + 1:
            raise Refused(f"it has {len(weights)} weights for {n_features} features")
        return Foreign(n_features, names, [], [], base, weights)
    drops = booster.get("weight_drop")
    trees = (booster["gbtree"] if booster["name"] == "dart" else booster)["model"]["trees"]
    factors = [1.0] * len(trees) if drops is None else list(map(float, drops))
    if len(factors) != len(trees):
        raise Refused(f"it has {len(factors)} weights for {len(trees)} trees")
    return Foreign(n_features, names, [*map(_xgboost_tree, trees)], factors, base)


def _xgboost_tree(tree: dict[str, Any]) -> list[Node]:
    keys = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
    columns = [tree[key] for key in keys]
    n = len(columns[0])
    kinds = tree.get("split_type") or [0] * n
    sets = _xgboost_sets(tree)
    nodes = []
    for i, (*row, kind) in enumerate(zip(*columns, kinds, strict=True)):
        left, right, feature, condition, default_left = row
        if left == -1:
            nodes.append(_leaf(np.float32(condition)))
            continue
        ends = int(left), int(right)
        if kind:
            nodes.append(Node(int(feature), 0.0, not default_left, *ends, categories=sets[i]))
            continue
        with np.errstate(over="ignore"):
            below = float(np.nextafter(np.float32(condition), np.float32(-np.inf)))
        if int(feature) < 0:
            raise Refused(f"a split tests feature {int(feature)}")
        nodes.append(Node(int(feature), below, not default_left, *ends))
    return nodes


def _xgboost_sets(tree: dict[str, Any]) -> dict[int, tuple[float, ...]]:
    parts = (tree.get(f"categories_{name}", []) for name in ("nodes", "segments", "sizes"))
    values = tree.get("categories", [])
    return {
        int(node): tuple(sorted(map(float, values[int(start) : int(start) + int(size)])))
        for node, start, size in zip(*parts, strict=True)
    }


def catboost_model(content: dict[str, Any]) -> Foreign:
    """CatBoost's trees of numeric features, symmetric or not, from its JSON."""
    info = content["features_info"]
    if info.get("categorical_features") or info.get("text_features"):
        raise Refused("it has categorical or text features", "Use a model of numeric features.")
    floats = info["float_features"]
    flat = {int(f["feature_index"]): int(f["flat_feature_index"]) for f in floats}
    as_true = {i for i, f in enumerate(floats) if f.get("nan_value_treatment") == "AsTrue"}
    scale, bias = content.get("scale_and_bias", [1.0, [0.0]])
    offsets = bias if isinstance(bias, list) else [bias]
    if len(offsets) > 1:
        raise Refused("it has several outputs", "A ranker has one score per row.")
    trees = [_symmetric_tree(tree, flat, as_true) for tree in content.get("oblivious_trees", ())]
    trees += [_free_tree(tree, flat, as_true) for tree in content.get("trees", ())]
    base = float(offsets[0]) if offsets else 0.0
    n_features = _whole(max(flat.values(), default=0) + 1, "number of features")
    ids = [str(f.get("feature_id") or "") for f in floats]
    numbered = all(name in ("", str(i)) for i, name in enumerate(ids))
    names = None if numbered or len(ids) != n_features else tuple(ids)
    return Foreign(n_features, names, trees, [float(scale)] * len(trees), base)


def _numeric(
    split: dict[str, Any], flat: dict[int, int], as_true: set[int]
) -> tuple[int, float, bool]:
    if split.get("split_type", "FloatFeature") != "FloatFeature":
        raise Refused("it has categorical splits", "Use a model of numeric features.")
    number = int(split["float_feature_index"])
    return flat[number], float(split["border"]), number in as_true


def _symmetric_tree(tree: dict[str, Any], flat: dict[int, int], as_true: set[int]) -> list[Node]:
    """All splits of a level are the same; bit i of a leaf's number says whether split i holds."""
    splits = [_numeric(split, flat, as_true) for split in tree["splits"] or ()]
    values = list(map(float, tree["leaf_values"]))
    depth = len(splits)
    if depth > 20 or len(values) != 1 << depth:
        raise Refused(f"a tree of {depth} splits has {len(values)} leaves")
    nodes = []
    for level in range(depth):
        feature, border, default = splits[depth - 1 - level]
        for i in range(1 << level):
            first = (2 << level) - 1 + 2 * i
            nodes.append(Node(feature, border, default, first, first + 1))
    return [*nodes, *map(_leaf, values)]


def _free_tree(tree: dict[str, Any], flat: dict[int, int], as_true: set[int]) -> list[Node]:
    nodes: list[Node] = []
    waiting = [(tree, -1, False)]
    while waiting:
        part, parent, is_high = waiting.pop()
        number = len(nodes)
        if parent >= 0:
            setattr(nodes[parent], "high" if is_high else "low", number)
        if "split" not in part:
            nodes.append(_leaf(part["value"]))
            continue
        feature, border, default = _numeric(part["split"], flat, as_true)
        nodes.append(Node(feature, border, default, -1, -1))
        waiting += [(part["left"], number, False), (part["right"], number, True)]
    return nodes


def ranklib_parts(raw: bytes) -> tuple[str, str]:
    """The name in the first line of RankLib's text, and what follows its comments."""
    lines = raw.decode("utf-8", "strict").splitlines()
    name = lines[0].removeprefix("## ").strip()
    body = "\n".join(line for line in lines if line.strip() and not line.startswith("##"))
    known = ("LambdaMART", "MART", "Random Forests", "RankBoost", "Linear Regression")
    if name not in (*known, "Coordinate Ascent", "AdaRank"):
        raise Refused(
            f"it is a RankLib model of {name[:40]!r}",
            f"Models that are read: {', '.join(known)}, Coordinate Ascent, AdaRank.",
        )
    if not body:
        raise Refused("it holds a heading and no model")
    return name, body


def ranklib_fields(body: str, size: int) -> list[tuple[float, ...]]:
    """The rules ``feature:weight`` or ``feature:threshold:weight`` of a line."""
    fields = [tuple(map(float, rule.split(":"))) for rule in body.split()]
    if any(len(rule) != size or rule[0] != int(rule[0]) for rule in fields):
        raise Refused(f"a rule does not have {size} numbers with a feature first")
    return fields


def ranklib_ensemble(body: str, n_features: int | None) -> Foreign:
    """The trees of RankLib's ensembles; a forest is the mean of its ensembles."""
    n_ensembles = max(body.count("<ensemble"), 1)
    if body.count("<ensemble") != body.count("</ensemble>"):
        raise Refused("it is cut off: an <ensemble> has no end")
    trees, factors = [], []
    for block in re.findall(r"<tree\b([^<>]*)>(.*?)</tree>", body, re.DOTALL):
        weight = re.search(r'weight\s*=\s*"([^"]*)"', block[0])
        factors.append((float(weight[1]) if weight else 1.0) / n_ensembles)
        trees.append(_ranklib_tree(block[1]))
    if body.count("<tree") != len(trees) or not trees:
        raise Refused("it is cut off: a <tree> has no end")
    return Foreign(n_features or width(trees), None, trees, factors)


def _ranklib_tree(text: str) -> list[Node]:
    """Nodes in the order of their tags: ``split`` opens a node, ``pos`` says which child."""
    nodes: list[Node] = []
    open_nodes: list[int] = []
    for closing, tag, attributes, content in _RANKLIB_TAG.findall(text):
        if tag == "split" and closing:
            open_nodes.pop()
        elif tag == "split":
            node_number = len(nodes)
            nodes.append(Node(low=-1, high=-1, value=float("nan")))
            if open_nodes:
                side = "low" if "left" in attributes else "high"
                setattr(nodes[open_nodes[-1]], side, node_number)
            open_nodes.append(node_number)
        elif not closing:
            number, node = float(content), nodes[open_nodes[-1]]
            if tag == "feature":
                node.feature = int(number) - 1
            elif tag == "threshold":  # RankLib keeps it as float32
                node.threshold = float(np.float32(number))
            else:
                node.value = number
    return nodes
