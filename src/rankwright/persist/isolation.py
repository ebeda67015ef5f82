"""Foreign readers in a child process: a file that crashes them does not crash the caller.

A child imports the library once and forks a worker that reads the files; if one crashes it, the
child forks another. Where the system cannot fork, the child itself reads, and is started again.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from rankwright.persist.format import Refused, brief

SECONDS = 60  # for one file
MAX_INPUT = 1 << 20  # features of an ONNX graph

# Runs in the child: reads a request per line, answers a line. Only the library named is imported.
_CHILD = r"""
import json, os, signal, sys
library, seconds = sys.argv[1], int(sys.argv[2])
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
    def work(source, target, n_features, dtype):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        for rows in (numpy.zeros((3, n_features)), numpy.full((2, n_features), 0.5)):
            session.run(None, {session.get_inputs()[0].name: rows.astype(dtype)})
def attempt(request):
    try:
        work(**request)
        return ""
    except BaseException as error:
        return (str(error).splitlines() or [type(error).__name__])[0][:300] or "it failed"
def serve(lines, answers):
    for line in lines:
        if hasattr(signal, "alarm"):
            signal.alarm(seconds)
        answers.write(json.dumps(attempt(json.loads(line))) + "\n")
        answers.flush()
        if hasattr(signal, "alarm"):
            signal.alarm(0)
def start():
    (lines, to_worker), (from_worker, answers) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(to_worker)
        os.close(from_worker)
        serve(os.fdopen(lines), os.fdopen(answers, "w"))
        os._exit(0)
    os.close(lines)
    os.close(answers)
    return pid, os.fdopen(to_worker, "w"), os.fdopen(from_worker)
if not hasattr(os, "fork"):
    serve(sys.stdin, out)
    sys.exit()
worker = None
for line in sys.stdin:
    worker = worker or start()
    pid, requests, answers = worker
    requests.write(line)
    requests.flush()
    answer = answers.readline()
    if not answer:
        signal_number = os.waitpid(pid, 0)[1] & 127
        answer = json.dumps(f"its reader was stopped by signal {signal_number}") + "\n"
        worker = None
    out.write(answer)
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
            raise Refused(f"{self.library} cannot read it ({answer})")

    def _answer(self, line: str) -> str:
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
            return "its reader crashed"
        return str(json.loads(answer))

    def _running(self) -> subprocess.Popen[str]:
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-c", _CHILD, self.library, str(SECONDS)]
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


def convert_catboost(path: Any) -> bytes:
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


def onnx_inputs(path: Any) -> Inputs:
    """What rows an ONNX file takes; the file is checked, and not run."""
    _need("onnx")
    import onnx

    try:
        model = onnx.load_model_from_string(Path(path).read_bytes())
        onnx.checker.check_model(model)
    except Exception as error:
        raise Refused(f"it is not a valid ONNX model ({brief(error)})") from error
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
    if any(entry.data_location for entry in model.graph.initializer):
        raise Refused("it keeps tensors in other files", "Save it as one file.")
    props = {entry.key: entry.value for entry in model.metadata_props}
    names = tuple(props["features"].split("\n")) if "features" in props else None
    return Inputs(sizes[1], dtypes[tensor.elem_type], names)


def try_onnx(path: Any, n_features: int, dtype: str) -> Any:
    """An onnxruntime session of a file, after it ran a few rows in a child process."""
    _need("onnxruntime")
    source = os.path.abspath(path)
    _children["onnxruntime"].ask(source=source, target="", n_features=n_features, dtype=dtype)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
