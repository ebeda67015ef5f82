"""An ONNX graph in double precision: opset 21 with ai.onnx.ml 5."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray
from rankwright.exports.forest import Branch, Forest, Leaf, Node
from rankwright.exports.form import Form, Total
from rankwright.exports.target import Files, Options, Reading, Target
from rankwright.persist.foreign import Rounded
from rankwright.scoring.base import Scorer, Transform
from rankwright.scoring.kernel import Kernel, KernelExpansion, KernelValues
from rankwright.scoring.linear import Deviations, Linear, Slopes, WithDeviations
from rankwright.scoring.network import Network, unpack_layers
from rankwright.scoring.ordinal import Prototypes, Votes
from rankwright.scoring.transforms import Affine, LevelNumbers, Monomials, QueryScale

OPSET, ML_OPSET, IR_VERSION = 21, 5, 10
LEQ, MEMBER = 0, 6  # modes of a node in TreeEnsemble


class Onnx(Target):
    """Input ``X`` (rows, features), outputs ``score`` and, for ordinal models, ``grade``: doubles.

    A model that scales by query takes one query per call.
    """

    name: ClassVar[str] = "onnx"
    extension: ClassVar[str] = "onnx"

    holds: ClassVar[str] = "ONNX does not hold the graph of another program"

    def write(self, form: Form, options: Options) -> Files:
        try:
            import onnx
        except ImportError:
            raise ModuleNotFoundError(
                "an ONNX export needs onnx, which is not installed. Run: pip install "
                "'rankwright[export]'"
            ) from None
        from onnx import TensorProto, helper

        graph = _Graph()
        score = graph.score(form)
        graph.add("Identity", [score], output="score")
        outputs = ["score"]
        if form.grades is not None:
            graph.grade(form, score)
            outputs.append("grade")
        double = TensorProto.DOUBLE
        graph_proto = helper.make_graph(
            graph.nodes,
            "rankwright",
            [helper.make_tensor_value_info("X", double, ["rows", len(form.names)])],
            [helper.make_tensor_value_info(name, double, ["rows"]) for name in outputs],
            graph.constants,
        )
        sets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph_proto, opset_imports=sets, producer_name="rankwright")
        model.ir_version = IR_VERSION
        helper.set_model_props(model, {"features": "\n".join(form.names), "name": options.name})
        onnx.checker.check_model(model)
        return {"": model.SerializeToString()}

    def read(self, files: Files, X: FloatArray, form: Form, options: Options) -> Reading:
        try:
            import onnxruntime
        except ImportError:
            from onnx.reference import ReferenceEvaluator

            reader = "onnx's reference evaluator (onnxruntime not installed)"
            run: Any = ReferenceEvaluator(files[""]).run
        else:
            chosen = onnxruntime.SessionOptions()
            chosen.intra_op_num_threads = 1
            reader = f"onnxruntime {onnxruntime.__version__}"
            session = onnxruntime.InferenceSession(
                files[""], chosen, providers=["CPUExecutionProvider"]
            )
            run = session.run
        outputs = run(None, {"X": np.ascontiguousarray(X, dtype=np.float64)})
        return Reading(outputs[0], reader, outputs[1] if form.grades else None)


class _Graph:
    """Nodes and constants of a graph, made in the order of evaluation."""

    BODIES: ClassVar = {
        Forest: "forest", Linear: "linear", Slopes: "slopes", Deviations: "deviations",
        Network: "network", KernelExpansion: "expansion", Votes: "votes", Prototypes: "prototypes",
        Total: "summed",
    }  # fmt: skip

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, inputs: list[str], output: str | None = None, **more: Any) -> str:
        from onnx import helper

        name = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **more))
        return name

    def value(self, array: ArrayLike, dtype: type = np.float64) -> str:
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype=dtype), name))
        return name

    def binary(self, kind: str, x: str, array: ArrayLike) -> str:
        return self.add(kind, [x, self.value(array)])

    def total(self, x: str, axis: int = 1, keepdims: int = 0) -> str:
        return self.add("ReduceSum", [x, self.value([axis], np.int64)], keepdims=keepdims)

    def filled(self, x: str, array: ArrayLike) -> str:
        """The values, with others where they are NaN."""
        return self.add("Where", [self.add("IsNaN", [x]), self.value(array), x])

    def score(self, form: Form) -> str:
        x = self.filled("X", 0.0) if form.missing == "zero" else "X"
        for step in form.steps:
            x = self.step(step, x)
        score = self.body(form.body, x)
        return self.binary("Add", score, form.constant) if form.constant else score

    def grade(self, form: Form, score: str) -> None:
        assert form.grades is not None
        column = self.add("Unsqueeze", [score, self.value([1], np.int64)])
        above = self.binary("GreaterOrEqual", column, form.grades.thresholds)
        count = self.total(self.add("Cast", [above], to=7))
        self.add("Gather", [self.value(form.grades.classes), count], output="grade")

    def step(self, step: Transform, x: str) -> str:
        if isinstance(step, Affine):
            return self.affine(step, x)
        if isinstance(step, QueryScale):
            return getattr(self, f"query_{step.method}")(x)  # type: ignore[no-any-return]
        if isinstance(step, Monomials):
            return self.monomials(step, x)
        if isinstance(step, LevelNumbers):
            return self.level_numbers(step, x)
        if isinstance(step, KernelValues):
            return self.kernel(step.kernel, step.support, x)
        if isinstance(step, Rounded):
            x = self.add("Cast", [self.add("Cast", [x], to=1)], to=11)
            return self.filled(x, 0.0) if step.fill else x
        assert isinstance(step, WithDeviations)
        column = self.value([1], np.int64)
        deviation = self.add("Unsqueeze", [self.body(step.scorer, x), column])
        return self.add("Concat", [x, deviation], axis=1)

    def affine(self, step: Affine, x: str) -> str:
        kinds = {"shift": "Sub", "divisor": "Div", "factor": "Mul", "offset": "Add"}
        x = self.apart(x, step.n_features)
        for name, column in step._columns().items():
            x = self.binary(kinds[name], x, column)
        x = self.apart(x, step.n_features)
        for sign, limit in (("Less", step.low), ("Greater", step.high)):
            if limit is not None:
                bound = self.value(limit)
                x = self.add("Where", [self.add(sign, [x, bound]), bound, x])
        return x

    def apart(self, x: str, width: int) -> str:
        """Keep onnxruntime from joining a product of matrices with a single number in float32."""
        return self.filled(x, np.nan) if width == 1 else x

    def query_minmax(self, x: str) -> str:
        axes = self.value([0], np.int64)
        low = self.add("ReduceMin", [self.filled(x, np.inf), axes])
        high = self.add("ReduceMax", [self.filled(x, -np.inf), axes])
        spread = self.finite(self.add("Sub", [high, low]))
        return self.scaled(x, self.finite(low), spread)

    def query_max(self, x: str) -> str:
        absolute = self.filled(self.add("Abs", [x]), 0.0)
        top = self.add("ReduceMax", [absolute, self.value([0], np.int64)])
        return self.scaled(x, self.value(0.0), top)

    def query_standard(self, x: str) -> str:
        absent = self.add("IsNaN", [x])
        known = self.add("Where", [absent, self.value(0.0), self.value(1.0)])
        count = self.binary("Max", self.total(known, 0, 1), 1.0)
        mean = self.add("Div", [self.total(self.filled(x, 0.0), 0, 1), count])
        moved = self.filled(self.add("Sub", [x, mean]), 0.0)
        square = self.total(self.add("Mul", [moved, moved]), 0, 1)
        spread = self.add("Sqrt", [self.add("Div", [square, count])])
        size = self.binary("Max", self.add("Abs", [mean]), 1e-300)
        still = self.add("LessOrEqual", [spread, self.binary("Mul", size, 1e-12)])
        return self.scaled(x, mean, self.add("Where", [still, self.value(0.0), spread]))

    def finite(self, x: str) -> str:
        wild = self.add("GreaterOrEqual", [self.add("Abs", [x]), self.value(np.inf)])
        return self.add("Where", [wild, self.value(0.0), x])

    def scaled(self, x: str, low: str, spread: str) -> str:
        """(x - low) / spread; 0 where the spread is 0 and x is not NaN."""
        still = self.binary("Equal", spread, 0.0)
        divisor = self.add("Where", [still, self.value(1.0), spread])
        moved = self.add("Div", [self.add("Sub", [x, low]), divisor])
        known = self.add("Not", [self.add("IsNaN", [x])])
        return self.add("Where", [self.add("And", [still, known]), self.value(0.0), moved])

    def monomials(self, step: Monomials, x: str) -> str:
        """Each product of features: gathered columns with a 1 for an absent factor, multiplied."""
        one = [step.n_columns]
        chosen = [[*columns, *one * (step.degree - len(columns))] for columns in step.products()]
        ones = self.filled(self.binary("Mul", self.part(x, [0]), 0.0), 0.0)
        padded = self.add("Concat", [x, self.binary("Add", ones, 1.0)], axis=1)
        out = self.value(step.factors)
        for factor in range(step.degree):
            out = self.add("Mul", [out, self.part(padded, [row[factor] for row in chosen])])
        return out

    def level_numbers(self, step: LevelNumbers, x: str) -> str:
        """The other columns, then the place of the first 1 of each category, from 1; 0 without."""
        columns = [self.part(x, step.others)] if len(step.others) else []
        for levels in step.categories:
            is_level = self.binary("Equal", self.part(x, [*range(levels.start, levels.stop)]), 1.0)
            is_level = self.add("Cast", [is_level], to=11)
            place = self.add("Cast", [self.add("ArgMax", [is_level], axis=1, keepdims=1)], to=11)
            found = self.add("ReduceMax", [is_level, self.value([1], np.int64)], keepdims=1)
            columns.append(self.add("Mul", [self.binary("Add", place, 1.0), found]))
        return self.add("Concat", columns, axis=1)

    def part(self, x: str, columns: ArrayLike) -> str:
        return self.add("Gather", [x, self.value(columns, np.int64)], axis=1)

    def kernel(self, kernel: Kernel, support: FloatArray, x: str) -> str:
        # onnxruntime joins a product with a number behind it in float32, so gamma comes first.
        gamma = kernel.gamma if kernel.name == "poly" else 1.0
        products = self.binary("MatMul", x, np.ascontiguousarray(gamma * support.T))
        if kernel.name == "linear":
            return products
        if kernel.name == "poly":
            inner = self.binary("Add", products, kernel.coef0)
            return self.binary("Pow", inner, float(kernel.degree))
        squares = self.total(self.add("Mul", [x, x]), keepdims=1)
        distance = self.add("Add", [self.binary("Mul", products, -2.0), squares])
        distance = self.binary("Add", distance, np.einsum("ij,ij->i", support, support))
        distance = self.binary("Max", distance, 0.0)
        return self.add("Exp", [self.binary("Mul", distance, -kernel.gamma)])

    def body(self, body: Forest | Scorer | Total, x: str) -> str:
        return getattr(self, self.BODIES[type(body)])(body, x)  # type: ignore[no-any-return]

    def summed(self, body: Total, x: str) -> str:
        scores = []
        for factor, steps, part in body.terms:
            rows = x
            for step in steps:
                rows = self.step(step, rows)
            score = self.body(part, rows)
            scores.append(score if factor == 1.0 else self.binary("Mul", score, factor))
        return self.add("Sum", scores)

    def linear(self, body: Linear, x: str) -> str:
        return self.binary("Add", self.binary("MatMul", x, body.coef), body.intercept)

    def expansion(self, body: KernelExpansion, x: str) -> str:
        values = self.kernel(body.kernel, body.support, x)
        return self.binary("Add", self.binary("MatMul", values, body.coef), body.intercept)

    def slopes(self, body: Slopes, x: str) -> str:
        column = self.part(x, body.feature)
        value = self.binary("Add", self.binary("Mul", column, body.slope), body.offset)
        return self.total(self.filled(value, body.missing))

    def deviations(self, body: Deviations, x: str) -> str:
        moved = self.filled(self.binary("Sub", x, body.mean), 0.0)
        total = self.binary("MatMul", moved, body.coef)
        if body.rated_only:
            absent = self.add("IsNaN", [x])
            known = self.add("Where", [absent, self.value(0.0), self.value(1.0)])
            mass = self.binary("MatMul", known, np.abs(body.coef))
            none = self.binary("Equal", mass, 0.0)
            divisor = self.add("Where", [none, self.value(1.0), mass])
            quotient = self.add("Div", [total, divisor])
            total = self.add("Where", [none, self.value(0.0), quotient])
        return self.binary("Add", total, body.intercept)

    def network(self, body: Network, x: str) -> str:
        *hidden, (last, _) = unpack_layers(body.layers.tolist(), body.weights)
        for table, offset in hidden:
            x = self.add("Tanh", [self.binary("Add", self.binary("MatMul", x, table), offset)])
        return self.binary("MatMul", x, last[:, 0])

    def votes(self, body: Votes, x: str) -> str:
        scores = self.binary("MatMul", x, np.ascontiguousarray(body.coef.T))
        total, gaps = float(body.votes.sum()), np.diff(body.classes)
        summed = self.value(float(body.classes[0]) * total)
        for r, gap in enumerate(gaps):
            above = self.binary("GreaterOrEqual", scores, body.thresholds[:, r])
            votes = self.binary("MatMul", self.add("Cast", [above], to=11), gap * body.votes)
            summed = self.add("Add", [summed, votes])
        mean = self.binary("Div", summed, total)
        score = self.binary("MatMul", scores, body.votes / total)
        share = 0.49 * float(gaps.min(initial=1.0)) / total
        scale = 1.0 + float(np.abs(body.thresholds).max(initial=0.0))
        spread = self.binary("Add", self.add("Abs", [score]), scale)
        small = self.binary("Mul", self.add("Div", [score, spread]), share)
        return self.add("Add", [mean, small])

    def prototypes(self, body: Prototypes, x: str) -> str:
        scores = self.binary("MatMul", x, np.ascontiguousarray(body.coef.T))
        best = self.add("ArgMax", [scores], axis=1, keepdims=1)
        last, one = self.value(len(body.classes) - 1, np.int64), self.value(1, np.int64)
        up = self.add("Min", [self.add("Add", [best, one]), last])
        down = self.add("Max", [self.add("Sub", [best, one]), self.value(0, np.int64)])
        top, above, below = (
            self.add("GatherElements", [scores, index], axis=1) for index in (best, up, down)
        )
        gain = self.add("Sub", [above, top])
        lean = self.add("Sub", [gain, self.add("Sub", [below, top])])
        gap = 0.49 * float(np.diff(body.classes).min(initial=1.0))
        bounded = self.binary("Add", self.add("Abs", [lean]), 1.0)
        small = self.add("Div", [self.binary("Mul", lean, gap), bounded])
        grade = self.add("Gather", [self.value(body.classes), best])
        return self.total(self.add("Add", [grade, small]))

    def forest(self, body: Forest, x: str) -> str:
        from onnx import numpy_helper

        table = _TreeAttributes()
        for tree in body.trees or (Leaf(0.0),):
            table.roots.append(table.add(_with_split(tree)))
        tensors = {
            "nodes_splits": np.array(table.splits, np.float64),
            "nodes_modes": np.array(table.modes, np.uint8),
            "leaf_weights": np.array(table.weights, np.float64),
        }
        if table.members:
            tensors["membership_values"] = np.array(table.members, np.float64)
        column = self.add(
            "TreeEnsemble",
            [x],
            domain="ai.onnx.ml",
            n_targets=1,
            aggregate_function=1,
            post_transform=0,
            tree_roots=table.roots,
            nodes_featureids=table.features,
            nodes_truenodeids=table.true_ids,
            nodes_trueleafs=table.true_leaves,
            nodes_falsenodeids=table.false_ids,
            nodes_falseleafs=table.false_leaves,
            nodes_missing_value_tracks_true=table.missing,
            leaf_targetids=[0] * len(table.weights),
            **{name: numpy_helper.from_array(array, name) for name, array in tensors.items()},
        )
        return self.add("Squeeze", [column, self.value([1], np.int64)])


def _with_split(tree: Node) -> Node:
    """A tree of ONNX has a split at the root."""
    return Branch(0, 0.0, tree, tree, False) if isinstance(tree, Leaf) else tree


class _TreeAttributes:
    """The attributes of TreeEnsemble: one entry per split, one weight per leaf."""

    def __init__(self) -> None:
        self.roots: list[int] = []
        self.splits: list[float] = []
        self.modes: list[int] = []
        self.features: list[int] = []
        self.missing: list[int] = []
        self.true_ids: list[int] = []
        self.false_ids: list[int] = []
        self.true_leaves: list[int] = []
        self.false_leaves: list[int] = []
        self.weights: list[float] = []
        self.members: list[float] = []

    def add(self, node: Node) -> int:
        """A split (its place) or a leaf (the place of its weight)."""
        if isinstance(node, Leaf):
            self.weights.append(node.value)
            return len(self.weights) - 1
        number, member = len(self.splits), bool(node.categories)
        if member:
            self.members += [*node.categories, np.nan]
        true, false = (node.high, node.low) if member else (node.low, node.high)
        self.splits.append(0.0 if member else node.threshold)
        self.modes.append(MEMBER if member else LEQ)
        self.features.append(node.feature)
        self.missing.append(int(node.default if member else not node.default))
        for ids, leaves, child in (
            (self.true_ids, self.true_leaves, true),
            (self.false_ids, self.false_leaves, false),
        ):
            ids.append(0)
            leaves.append(int(isinstance(child, Leaf)))
        self.true_ids[number], self.false_ids[number] = self.add(true), self.add(false)
        return number
