"""``read_letor`` and scikit-learn's ``load_svmlight_file`` on the same files, in one run."""

from __future__ import annotations

import io
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np


def run() -> None:
    """Print seconds and ratios for files of several kinds, and the peak memory of the last."""
    print(f"{'':<41} {'sklearn':>9} {'rankwright':>11} {'':>6} {'first read':>11}")
    print(f"{'file':<34} {'MB':>6} {'s':>9} {'s':>11} {'ratio':>6} {'s':>11}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, make) in enumerate(FILES.items()):
            path = Path(folder) / f"{number}.txt"
            make(path)
            # A new process each: whether numba is loaded decides which parser reads a small file.
            code = f"from benchmarks.letor import compare; compare({str(path)!r}, {name!r})"
            subprocess.run([sys.executable, "-c", code], check=True)
        for reader in ("rankwright", "sklearn"):
            code = f"from benchmarks.letor import peak; peak({str(path)!r}, {reader!r})"
            subprocess.run([sys.executable, "-c", code], check=True)


def compare(path: str, name: str) -> None:
    """Time both readers on one file and print a line of the table."""
    from sklearn.datasets import load_svmlight_file

    import rankwright as rw

    size = Path(path).stat().st_size / 1e6
    repeats = 2 if size > 5 else 20
    _, first = _best(lambda: rw.read_letor(path), 1)  # with numba's import and the kernel's load
    items, ours = _best(lambda: rw.read_letor(path), repeats)
    (X, y, qid), theirs = _best(lambda: load_svmlight_file(path, query_id=True), repeats)
    same = np.array_equal(items.X if not items.is_sparse else items.X.toarray(), X.toarray())
    assert same, "the readers disagree"
    assert np.array_equal(items.y, y)
    assert np.array_equal(items.qid, qid)
    parser = "compiled" if "numba" in sys.modules else "lines"
    print(
        f"{name:<34} {size:6.2f} {theirs:9.4f} {ours:11.4f} {theirs / ours:6.1f} {first:11.4f}"
        f"  {parser}"
    )


def peak(path: str, name: str) -> None:
    """Print the peak memory of reading one file, as a multiple of the result."""
    from sklearn.datasets import load_svmlight_file

    import rankwright as rw
    from rankwright.data.io.letor import reader

    # Load the compiled code first: its memory is not part of the measurement.
    reader._LARGE_COLD = 0
    rw.read_letor(io.BytesIO(b"1 qid:1 1:1\n1 qid:1 1:1\n"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if name == "rankwright":
        items = rw.read_letor(path)
        texts = sum(map(sys.getsizeof, items.docid)) + items.docid.nbytes
        result = items.X.nbytes + items.y.nbytes + items.qid.nbytes + texts
    else:
        X, y, qid = load_svmlight_file(path, query_id=True)
        result = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes + qid.nbytes
    above = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    print(
        f"peak memory, {name}: {above / 1e6:.0f} MB for a result of {result / 1e6:.0f} MB "
        f"= {above / result:.2f} x"
    )


def _best(read: Callable[[], object], repeats: int) -> tuple[object, float]:
    """The result and the shortest of several times."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = read()
        times.append(time.perf_counter() - start)
    return result, min(times)


def _lines(path: Path, n_lines: int, n_features: int, share: float, digits: int | None) -> None:
    """A seeded file: queries of 100 items, with a share of the features in each line."""
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        for row in range(n_lines):
            columns = np.flatnonzero(rng.random(n_features) < share) + 1
            values = rng.random(len(columns)) * rng.choice([0.0, 1.0, 30.0], len(columns))
            numbers = [repr(v) if digits is None else f"{v:.{digits}f}" for v in values.tolist()]
            features = " ".join(map("{}:{}".format, columns.tolist(), numbers))
            file.write(f"{row % 5} qid:{row // 100 + 1} {features} #docid = D{row:07d}\n")


FILES: dict[str, Callable[[Path], None]] = {
    "100 lines x 46": lambda path: _lines(path, 100, 46, 1.0, 6),
    "2,000 lines x 46": lambda path: _lines(path, 2_000, 46, 1.0, 6),
    "1,000 lines x 300, 30 % filled": lambda path: _lines(path, 1_000, 300, 0.3, 2),
    "10,000 lines x 136, all digits": lambda path: _lines(path, 10_000, 136, 1.0, None),
    "15,000 lines x 5,000, 2 % filled": lambda path: _lines(path, 15_000, 5_000, 0.02, 4),
    "50,000 lines x 136": lambda path: _lines(path, 50_000, 136, 1.0, 6),
}
