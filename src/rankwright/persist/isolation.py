"""Foreign readers in a child process: a file that crashes them does not crash the caller.

A child imports the library once and forks a worker for each file, with bounds on its memory and
time; so no file can change how the next one is read. Where the system cannot fork, the child itself
reads, and is started again after a crash.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rankwright.exceptions import quoted
from rankwright.persist.format import Refused

SECONDS = {"catboost": 60, "onnxruntime": 10}  # for one file
MEMORY = 2 << 30  # bytes that reading it may add
MAX_INPUT = 1 << 20  # features of an ONNX graph
TRIED_VALUES = 1 << 22  # of the rows that an ONNX graph is tried with

# Operators that rankers and their preparation of features use. None of them makes a large tensor
# from a small one without a file of that size, runs a subgraph, or depends on anything but inputs.
OPERATORS = frozenset({
    "Abs", "Add", "And", "ArgMax", "ArrayFeatureExtractor", "BatchNormalization", "Binarizer",
    "Cast", "Clip", "Concat", "Constant", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp",
    "FeatureVectorizer", "Flatten", "Floor", "Gather", "GatherElements", "Gelu", "Gemm",
    "Greater", "GreaterOrEqual", "HardSigmoid", "Identity", "Imputer", "IsInf", "IsNaN",
    "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "LinearRegressor", "Log",
    "LogSoftmax", "MatMul", "Max", "Mean", "Min", "Mish", "Mul", "Neg", "Normalizer", "Not",
    "Or", "PRelu", "Pow", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Round", "SVMRegressor",
    "Scaler", "Selu", "Shape", "Sigmoid", "Sign", "Slice", "Softmax", "Softplus", "Softsign",
    "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "Transpose", "TreeEnsemble",
    "TreeEnsembleClassifier", "TreeEnsembleRegressor", "Unsqueeze", "Where", "Xor",
})  # fmt: skip
DOMAINS = ("", "ai.onnx", "ai.onnx.ml")

# Runs in the child: reads a request per line, answers a line. Only the library named is imported.
_CHILD = r"""
import json, os, signal, sys
library, seconds, memory = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
out = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.dup2(1, 2)
if library == "catboost":
    import catboost
    def work(source, target, **more):
        model = catboost.CatBoost()
        model.load_model(source, format="cbm")
        model.save_model(target, format="json")
else:
    import numpy, onnxruntime
    def work(source, n_features, dtype, n_rows):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        with open(source, "rb") as file:
            content = file.read()
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        for rows in (numpy.zeros((3, n_features)), numpy.full((n_rows, n_features), 0.5)):
            session.run(None, {session.get_inputs()[0].name: rows.astype(dtype)})
def attempt(line):
    try:
        work(**json.loads(line))
        return None
    except BaseException as error:
        return [type(error).__name__, f"{error}"[:300]]
def limit():
    signal.alarm(seconds)
    if not os.path.exists("/proc/self/statm"):
        return
    import resource
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
def in_a_fork(line):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        limit()
        os.write(writer, json.dumps(attempt(line)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode()
    stopped = os.waitpid(pid, 0)[1] & 127
    return ["", f"its reader was stopped by signal {stopped}"] if stopped else json.loads(answer)
for line in sys.stdin:
    out.write(json.dumps(in_a_fork(line) if hasattr(os, "fork") else attempt(line)) + "\n")
    out.flush()
"""


class _Child:
    """A child process with a library in it; started at the first request, ended at exit."""

    def __init__(self, library: str) -> None:
        self.library = library
        self.process: subprocess.Popen[str] | None = None

    def ask(self, **request: Any) -> None:
        """Have a file read; raises :class:`Refused` if that fails or crashes."""
        answer = self._answer(json.dumps(request))
        if answer:
            kind, text = answer
            shown = text.splitlines()[0] if text else kind
            raise Refused(f"{self.library} cannot read it ({shown})")

    def _answer(self, line: str) -> tuple[str, str] | None:
        """The class and the text of what went wrong, if anything did."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            self.stop()
            return "", "its reader crashed"
        kind_and_text: tuple[str, str] | None = json.loads(answer)
        return kind_and_text

    def _running(self) -> subprocess.Popen[str]:
        if self.process is None or self.process.poll() is not None:
            bounds = [str(SECONDS[self.library]), str(MEMORY)]
            command = [sys.executable, "-c", _CHILD, self.library, *bounds]
            pipe = subprocess.PIPE
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            self.process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, text=True, env=environment
            )
            atexit.register(self.stop)
        return self.process

    def stop(self) -> None:
        if self.process is not None:
            process, self.process = self.process, None
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
            process.kill()
            process.wait()


_children = {name: _Child(name) for name in ("catboost", "onnxruntime")}


def _need(library: str) -> None:
    from importlib.util import find_spec

    if find_spec(library) is None:
        raise Refused(
            f"reading it needs {library}, which is not installed",
            "Run: pip install 'rankwright[peers]'",
        )


def convert_catboost(path: str | os.PathLike[str]) -> bytes:
    """CatBoost's JSON of a ``.cbm`` file."""
    _need("catboost")
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "model.json")
        _children["catboost"].ask(source=os.path.abspath(path), target=target)
        return Path(target).read_bytes()


class Inputs(NamedTuple):
    """The one input of an ONNX graph of rows."""

    n_features: int
    dtype: str
    names: tuple[str, ...] | None


def onnx_inputs(content: bytes) -> Inputs:
    """What rows an ONNX model takes; it is checked, and not run."""
    _need("onnx")
    import onnx

    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:
        raise Refused(f"it is not a valid ONNX model ({quoted(error)})") from error
    _check_content(model)
    try:
        onnx.checker.check_model(model)
    except Exception as error:
        raise Refused(f"it is not a valid ONNX model ({quoted(error)})") from error
    given = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in given]
    if len(inputs) != 1:
        raise Refused(f"it has {len(inputs)} inputs", "Give a model with one input: the rows.")
    tensor = inputs[0].type.tensor_type
    sizes = [axis.dim_value for axis in tensor.shape.dim]
    dtypes = {onnx.TensorProto.FLOAT: "float32", onnx.TensorProto.DOUBLE: "float64"}
    if len(sizes) != 2 or not 0 < sizes[1] <= MAX_INPUT or tensor.elem_type not in dtypes:
        raise Refused(
            f"its input has the shape {sizes}; (rows, features) of float or double is needed"
        )
    props = {entry.key: entry.value for entry in model.metadata_props}
    names = tuple(props["features"].split("\n")) if "features" in props else None
    return Inputs(sizes[1], dtypes[tensor.elem_type], names)


def _check_content(model: Any) -> None:
    """Refuse a model that reads other files, has parts of its own code, or runs without end."""
    for part in _parts(model):
        kind = part.DESCRIPTOR.name
        if kind == "TensorProto" and (part.data_location or part.external_data):
            raise Refused("it keeps tensors in other files", "Save it as one file.")
    if model.functions or model.training_info:
        raise Refused("it has functions of its own", "Save it without them.")
    for node in model.graph.node:
        if node.op_type not in OPERATORS or node.domain not in DOMAINS:
            name = f"{node.domain}.{node.op_type}".lstrip(".")
            raise Refused(f"it uses the operator {name[:80]}, which no ranker needs")


def _parts(message: Any) -> Iterator[Any]:
    """A protobuf message and all messages in it, at any depth."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if isinstance(value, Sequence) else [value]:
                yield from _parts(part)


def try_onnx(path: str | os.PathLike[str], content: bytes, inputs: Inputs) -> Any:
    """An onnxruntime session of a file's content, after it ran rows in a child process."""
    _need("onnxruntime")
    n_rows = max(2, min(10_000, TRIED_VALUES // inputs.n_features))
    _children["onnxruntime"].ask(
        source=os.path.abspath(path),
        n_features=inputs.n_features,
        dtype=inputs.dtype,
        n_rows=n_rows,
    )
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
