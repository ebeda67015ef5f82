"""ONNX files of strangers: no other file is read, nothing runs for ever, memory is bounded."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import ModelFileError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
helper, FLOAT, INT64 = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def save(path: Path, nodes: list[Any], constants: list[Any] | None = None, **more: Any) -> Path:
    """A graph of these nodes from x (rows, 3) to y."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, [None, 3])],
        [helper.make_tensor_value_info("y", FLOAT, [None])],
        constants or [],
    )
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10, **more)
    path.write_bytes(model.SerializeToString())
    return path


def external(name: str, size: int) -> Any:
    """A tensor whose values are in another file."""
    tensor = onnx.TensorProto(name=name, data_type=FLOAT, dims=[size])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="secret.bin")
    return tensor


def constant(name: str, values: Any, dtype: Any = np.int64) -> Any:
    return onnx.numpy_helper.from_array(np.array(values, dtype=dtype), name)


def subgraph(nodes: list[Any], constants: list[Any] | None = None) -> Any:
    outputs = [helper.make_tensor_value_info("inner", FLOAT, None)]
    return helper.make_graph(nodes, "inner", [], outputs, constants or [])


TOTAL = helper.make_node("ReduceSum", ["z", "axes"], ["y"], keepdims=0)
AXES = constant("axes", [1])
ADD = helper.make_node("Add", ["x", "hidden"], ["z"])


@pytest.mark.parametrize("where", ["initializer", "constant", "sparse", "subgraph"])
def test_a_file_that_keeps_tensors_elsewhere_is_refused(tmp_path: Path, where: str) -> None:
    np.array([1.0, 2.0, 3.0], np.float32).tofile(tmp_path / "secret.bin")
    nodes, constants = [ADD, TOTAL], [AXES]
    if where == "initializer":
        constants.append(external("hidden", 3))
    elif where == "constant":
        nodes.insert(0, helper.make_node("Constant", [], ["hidden"], value=external("v", 3)))
    elif where == "sparse":
        sparse = onnx.SparseTensorProto(values=external("v", 3), dims=[3])
        sparse.indices.CopyFrom(constant("i", [0, 1, 2]))
        nodes.insert(0, helper.make_node("Constant", [], ["hidden"], sparse_value=sparse))
    else:
        inner = helper.make_node("Constant", [], ["inner"], value=external("v", 3))
        branch = subgraph([inner])
        nodes.insert(
            0, helper.make_node("If", ["yes"], ["hidden"], then_branch=branch, else_branch=branch)
        )
        constants.append(constant("yes", True, bool))
    with pytest.raises(ModelFileError, match="other files"):
        rw.load(save(tmp_path / "m.onnx", nodes, constants))


def endless() -> list[Any]:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [
            helper.make_tensor_value_info("n", INT64, []),
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("on", onnx.TensorProto.BOOL, [])],
    )
    return [helper.make_node("Loop", ["", "yes"], [], body=body), ADD, TOTAL]


@pytest.mark.parametrize(
    "nodes, constants, word",
    [
        (endless(), [constant("yes", True, bool), constant("hidden", [0.0], np.float32)], "Loop"),
        (
            [helper.make_node("ConstantOfShape", ["size"], ["hidden"]), ADD, TOTAL],
            [constant("size", [2**30, 1])],
            "ConstantOfShape",
        ),
        ([helper.make_node("Tile", ["x", "size"], ["z"]), TOTAL],
         [constant("size", [1, 2**30])], "Tile"),
        ([helper.make_node("Mine", ["x"], ["z"], domain="com.example"), TOTAL], [], "Mine"),
    ],
)  # fmt: skip
def test_operators_that_no_ranker_needs_are_refused(
    tmp_path: Path, nodes: list[Any], constants: list[Any], word: str
) -> None:
    with pytest.raises(ModelFileError, match=word):
        rw.load(save(tmp_path / "m.onnx", nodes, [AXES, *constants]))


def test_functions_of_a_file_are_refused(tmp_path: Path) -> None:
    sets = [helper.make_opsetid("", 21)]
    made = helper.make_function(
        "mine", "f", ["a"], ["b"], [helper.make_node("Identity", ["a"], ["b"])], sets
    )
    nodes = [helper.make_node("Identity", ["x"], ["z"]), TOTAL]
    with pytest.raises(ModelFileError, match="functions"):
        rw.load(save(tmp_path / "m.onnx", nodes, [AXES], functions=[made]))


@pytest.mark.parametrize("n_nodes, loads", [(5, True), (34, False)])
def test_a_small_file_cannot_take_all_memory(tmp_path: Path, n_nodes: int, loads: bool) -> None:
    """Each node doubles the width; with 34 of them a row has 2^34 numbers."""
    names = ["x", *(f"w{i}" for i in range(n_nodes - 1)), "z"]
    nodes = [helper.make_node("Concat", [a, a], [b], axis=1) for a, b in pairwise(names)]
    path = save(tmp_path / "m.onnx", [*nodes, TOTAL], [AXES])
    if loads:
        assert rw.load(path).decision_function([[1.0, 2.0, 3.0]]) == [6 * 2**n_nodes]
        return
    with pytest.raises(ModelFileError, match="onnxruntime cannot read it"):
        rw.load(path)
