"""XGBoost's own model file, as JSON."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exports.forest import (
    Leaf,
    Node,
    float32_test,
    number32,
    without_categories,
)
from rankwright.exports.form import Form
from rankwright.exports.target import Files, Options, Reading, Target, json_of

ROOT_PARENT = 2147483647
OBJECTIVE = {
    "name": "rank:pairwise",
    "lambdarank_param": {
        "lambdarank_bias_norm": "1",
        "lambdarank_normalization": "1",
        "lambdarank_num_pair_per_sample": "4294967295",
        "lambdarank_pair_method": "topk",
        "lambdarank_score_normalization": "1",
        "lambdarank_unbiased": "0",
        "ndcg_exp_gain": "1",
    },
}


class XGBoost(Target):
    """``Booster.load_model`` reads it; tests are ``x < c`` and sums are in float32."""

    name: ClassVar[str] = "xgboost"
    dtype: ClassVar[type] = np.float32

    holds: ClassVar[str] = "XGBoost's file holds linear models and trees only"

    def write(self, form: Form, options: Options) -> Files:
        booster, base = _linear(form) if form.forest is None else (_trees(form), 0.0)
        n = len(form.names)
        learner = {
            "attributes": {},
            "feature_names": list(form.names),
            "feature_types": ["float"] * n,
            "gradient_booster": booster,
            "learner_model_param": {
                "base_score": f"[{number32(base)!r}]",
                "boost_from_average": "1",
                "num_class": "0",
                "num_feature": str(n),
                "num_target": "1",
            },
            "objective": OBJECTIVE,
        }
        return {"": json_of({"learner": learner, "version": [3, 2, 0]})}

    def read(self, files: Files, X: FloatArray, form: Form, options: Options) -> Reading:
        try:
            import xgboost
        except ImportError:
            from rankwright.persist.foreign import read_xgboost

            scores = read_xgboost(files[""]).decision_function(X)
            return Reading(scores, "rankwright's reader of XGBoost files (xgboost not installed)")
        booster = xgboost.Booster(model_file=bytearray(files[""]))
        rows = xgboost.DMatrix(X.astype(np.float32), feature_names=list(form.names), nthread=1)
        scores = booster.predict(rows, output_margin=True).astype(np.float64)
        return Reading(scores, f"xgboost {xgboost.__version__}")


def _linear(form: Form) -> tuple[dict[str, Any], float]:
    linear = form.linear
    assert linear is not None
    weights = [*map(number32, linear.coef.tolist()), 0.0]
    model = {"boosted_rounds": 1, "weights": weights}
    return {"model": model, "name": "gblinear"}, linear.intercept


def _trees(form: Form) -> dict[str, Any]:
    forest = form.forest
    assert forest is not None
    trees = without_categories(forest).trees or (Leaf(0.0),)
    model = {
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(len(trees) + 1)),
        "tree_info": [0] * len(trees),
        "trees": [_tree(tree, i, len(form.names)) for i, tree in enumerate(trees)],
    }
    return {"model": model, "name": "gbtree"}


def _tree(tree: Node, number: int, n_features: int) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    queue = [(tree, ROOT_PARENT)]
    for node, parent in queue:  # grows: the children of a node are neighbors, as XGBoost's are
        entry: dict[str, Any] = {"parent": parent, "left": -1, "right": -1}
        if isinstance(node, Leaf):
            entry |= {"feature": 0, "condition": number32(node.value), "default": 0}
        else:
            limit, yes, no, missing = float32_test(node)
            entry |= {
                "feature": node.feature,
                "condition": number32(limit),
                "default": int(missing),
            }
            entry |= {"left": len(queue), "right": len(queue) + 1}
            queue += [(yes, len(nodes)), (no, len(nodes))]
        nodes.append(entry)
    n, zeros = len(nodes), [0.0] * len(nodes)
    return {
        "base_weights": [node["condition"] if node["left"] < 0 else 0.0 for node in nodes],
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": [node["default"] for node in nodes],
        "id": number,
        "left_children": [node["left"] for node in nodes],
        "loss_changes": zeros,
        "parents": [node["parent"] for node in nodes],
        "right_children": [node["right"] for node in nodes],
        "split_conditions": [node["condition"] for node in nodes],
        "split_indices": [node["feature"] for node in nodes],
        "split_type": [0] * n,
        "sum_hessian": zeros,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(n),
            "size_leaf_vector": "1",
        },
    }
