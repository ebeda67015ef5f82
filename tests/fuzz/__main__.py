"""Fuzzing for a bounded time: forged model files, readers, uploads, and faults at every call.

Run ``python -m tests.fuzz --minutes 5``. Each case must end with a right result or with an error
that rankwright documents. A case that does not is written to ``--save FOLDER`` and fails the run;
the files in ``corpus`` are cases that failed once, and are tried first. ``--seed`` repeats a run.
"""

from __future__ import annotations

import argparse
import builtins
import copy
import errno
import gzip
import hashlib
import io
import json
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import rankwright as rw
from rankwright.data.io.logs.features import read_log_features
from rankwright.exceptions import ModelFileError, RankwrightError

HERE = Path(__file__).parent
MUSEUM = HERE.parent / "persist" / "museum"
SLOW = 20.0  # CPU seconds: a case that takes longer failed
TOKENS = [
    b"\n", b"\0", b"\x1f", b"\x1b[31m", b"\xff", b"\xef\xbb\xbf", b"\r", b"\t", b",", b'"', b"#N/A",
    b"nan", b"inf", b"1e400", b"-1", b"2147483647:1", b"9" * 30, b"0" * 5000, b"{", b"[" * 3000,
    b'"\\ud800"', b"qid:", b"::", b"NULL", "字".encode(), b"\xc2\xa0", b"1e-400", b"'",
]  # fmt: skip

SEEDS: dict[str, tuple[Callable[[Path], Any], bytes]] = {
    "letor.txt": (rw.read_letor, b"2 qid:1 1:0.5 3:1 #docid = a\n0 qid:1 2:NULL\n1 qid:2 1:3\n"),
    "items.csv": (rw.read_items, b'qid,id,grade,x,"long, name"\n1,a,2,0.5,7\n1,b,0,,8\n'),
    "items.tsv": (rw.read_items, b"qid\tgrade\tx\n1\t2\t0.5\n1\t0\t0.25\n"),
    "items.jsonl": (rw.read_items, b'{"qid":1,"grade":2,"x":0.5}\n{"qid":1,"grade":0,"x":null}\n'),
    "logged.jsonl": (
        rw.read_items,
        b'{"qid":"q","hits":{"hits":[{"_id":"a","grade":1,"fields":{"_ltrlog":[{"log":'
        b'[{"name":"f","value":2.5}]}]}}]}}\n',
    ),
    "a.run": (rw.read_run, b"q1 Q0 d1 1 0.9 mine\nq1 Q0 d2 2 0.5 mine\nq2 Q0 d1 1 7 mine\n"),
    "a.qrels": (rw.read_qrels, b"q1 0 d1 2\nq1 0 d2 0\nq2 0 d1 1\n"),
    "ratings.csv": (rw.read_ratings, b"user,item,rating,time\n1,2,3,4\n1,3,5,6\n"),
    "ratings.dat": (rw.read_ratings, b"1::1193::5::978300760\n1::661::3::978302109\n"),
    "books.csv": (rw.read_ratings, b'"User-ID";"ISBN";"Book-Rating"\n"1";"a";"5"\n"2";"b";"0"\n'),
    "events.csv": (rw.read_interactions, b"user,item,timestamp\nann,7,2024-05-01\nbob,8,2024\n"),
    "feedback.jsonl": (rw.read_feedback, b'{"user":1,"item":2,"time":3}\n'),
    "log.csv": (rw.read_log, b"session,query,rank,doc,clicked\n1,shoes,1,a,0\n1,shoes,2,b,1\n"),
    "log.jsonl": (
        rw.read_log,
        b'{"kind":"event","event":1,"query":"q","items":[{"id":"a"},{"id":"b"}]}\n'
        b'{"kind":"feedback","event":1,"clicks":["b"]}\n',
    ),
    "features.jsonl": (
        read_log_features,
        b'{"query":1,"item":2,"clicks":0,"x":1.5}\n{"query":1,"item":3,"clicks":1,"x":2}\n',
    ),
    "pairs.csv": (rw.data.read_preferences, b"winner,loser,weight\nb,a,2\nb,c,1\n"),
    "cfquery": (rw.data.read_judges, b"QN 00001\nQU Is CF\nNR 00002\nRD 139 1222  151 0001\n"),
}


class Failed(Exception):
    """A case with a wrong result, or an error that is not documented."""


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, removed, repeated, or replaced by odd tokens."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice([0, 1, 1, 4, 20]))
        middle = rng.choice([
            b"", rng.choice(TOKENS), rng.choice(TOKENS), rng.randbytes(rng.randint(1, 3)),
            data[start:end] * rng.choice([2, 50]),
        ])  # fmt: skip
        data = data[:start] + middle + data[end:]
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data


def read_case(name: str, data: bytes, folder: Path) -> str:
    """Read damaged text; rankwright's own errors are right answers."""
    path = folder / name
    path.write_bytes(data)
    try:
        SEEDS[name.removesuffix(".gz")][0](path)
    except RankwrightError as error:
        if str(path) not in str(error):
            raise Failed(f"{error} does not name the file") from error
        return "refused"
    return "read"


def reader_cases(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    while True:
        name = rng.choice(list(SEEDS))
        data = mutate(SEEDS[name][1] * rng.choice([1, 1, 30]), rng)
        zipped = rng.random() < 0.1
        yield (f"{name}.gz", mutate(gzip.compress(data), rng)) if zipped else (name, data)


def forge(raw: bytes, rng: random.Random) -> bytes:
    """A model file with one to three values of it changed, and every checksum right again."""
    length = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8 : 8 + length]), bytearray(raw[8 + length :])
    manifest = json.loads(header["__metadata__"]["rankwright"])
    for _ in range(rng.randint(1, 3)):
        if data and rng.random() < 0.4:
            start = 8 * rng.randrange(max(1, len(data) // 8))
            value = rng.choice([np.nan, np.inf, -1.0, 1e308, 0.0, float(rng.randint(-5, 5))])
            odd = rng.choice([np.float64(value).tobytes(), rng.randbytes(8), b"\xff" * 8])
            data[start : start + 8] = odd[: len(data) - start]
        else:
            _edit(manifest, header, rng)
    for name, entry in manifest.get("arrays", {}).items():
        offsets = header.get(name, {}).get("data_offsets")
        if isinstance(entry, dict) and isinstance(offsets, list):
            entry["sha256"] = hashlib.sha256(data[slice(*offsets)]).hexdigest()
    text = json.dumps(manifest)
    digest = hashlib.sha256(text.encode()).hexdigest()
    header["__metadata__"] = {"rankwright": text, "sha256": digest}
    new = json.dumps(header).encode()
    return len(new).to_bytes(8, "little") + new + data


def _edit(manifest: dict[str, Any], header: dict[str, Any], rng: random.Random) -> None:
    """Change one value somewhere in the manifest."""
    places: list[tuple[Any, Any]] = []
    todo: list[Any] = [manifest["model"], manifest.get("served"), manifest["arrays"]]
    while todo:
        node = todo.pop()
        pairs = node.items() if isinstance(node, dict) else enumerate(node or ())
        for key, value in list(pairs):
            places.append((node, key))
            todo += [value] if isinstance(value, dict | list) else []
    names = list(manifest["arrays"]) or ["none"]
    odd = [
        None, True, 0, -1, 1, 2**31, 2**63, 1e308, 0.5, "", "linear", [], {}, {"float": "nan"},
        {"array": rng.choice(names)}, [{"array": rng.choice(names)}] * 50,
        rng.choice([-1, 1]) * rng.random() * 10.0 ** rng.randint(-300, 300),
    ]  # fmt: skip
    node, key = rng.choice(places)
    other = rng.choice(places)
    elsewhere = other[0].get(other[1]) if isinstance(other[0], dict) else 0
    node[key] = copy.deepcopy(rng.choice([*odd, elsewhere]))  # a copy: no node inside itself


def model_case(name: str, data: bytes, folder: Path) -> str:
    """load and load_scorer give the same finite scores, or refuse."""
    path = folder / "model.rw"
    path.write_bytes(data)
    scores = []
    for reader in (rw.load, rw.load_scorer):
        try:
            model = reader(path)
        except ModelFileError as error:
            if str(path) not in str(error):
                raise Failed(f"{error} does not name the file") from error
            continue
        if not hasattr(model, "decision_function"):
            return "loaded"
        n_features = getattr(model, "n_features", None) or model.n_features_in_
        rows = np.random.default_rng(0).normal(size=(5, min(n_features, 10_000)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores.append(model.decision_function(rows))
        except (RankwrightError, ValueError):
            scores.append(None)
    found = [values for values in scores if values is not None]
    if any(not np.isfinite(values).all() for values in found):
        raise Failed("a score is not finite")
    if len(found) == 2 and not np.allclose(*found, rtol=1e-9, atol=1e-9 * np.abs(found[0]).max()):
        raise Failed("load and load_scorer disagree")
    return "loaded" if found else "refused"


def upload_case(name: str, data: bytes, folder: Path) -> str:
    """The service serves an upload, or answers with a problem (a status below 500)."""
    from rankwright.service.api.problems import HttpProblem
    from rankwright.service.models import served_from_bytes

    try:
        served_from_bytes(data, "fuzzed", "upload")
    except HttpProblem as problem:
        if problem.status >= 500:
            raise Failed(f"status {problem.status}") from problem
        return "refused"
    except RankwrightError:
        return "refused"
    return "served"


def model_cases(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    paths = sorted(path for path in MUSEUM.rglob("*.rw") if path.stat().st_size < 20_000)
    while True:
        path = rng.choice(paths)
        raw = path.read_bytes()
        yield path.stem, (forge if rng.random() < 0.8 else mutate)(raw, rng)


# Faults: the n-th call fails, for n = 1, 2, ... until the whole operation runs without one.

IO_CALLS = [(os, name) for name in ("open", "fsync", "replace", "chmod", "fdopen", "stat")]
IO_CALLS += [(builtins, "open")]
FILE_CALLS = ("read", "readinto", "readline", "write", "flush")  # of the files that these open
MEMORY_CALLS = [
    (np, name)
    for name in (
        "empty", "zeros", "ones", "full", "array", "asarray", "ascontiguousarray", "concatenate",
        "frombuffer", "fromiter", "column_stack", "repeat", "cumsum", "diff",
    )
]  # fmt: skip


@contextmanager
def failing(calls: list[tuple[Any, str]], number: int, error: BaseException) -> Iterator[list[int]]:
    """Make the call of this number (from 1) to any of these functions raise the error.

    Reads and writes of a file that one of them opens are calls too.
    """
    count = [0]

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            count[0] += 1
            if count[0] == number:
                raise error
            result = real(*args, **kwargs)
            if isinstance(result, io.IOBase):
                for name in FILE_CALLS:
                    if hasattr(result, name):
                        setattr(result, name, wrapped(getattr(result, name)))
            return result

        return call

    with ExitStack() as stack:
        for module, name in calls:
            stack.enter_context(patch.object(module, name, wrapped(getattr(module, name))))
        yield count


def operations(folder: Path) -> dict[str, Callable[[], Any]]:
    """What is tried with faults; each leaves ``old`` or complete new files behind."""
    items = rw.Items([[0.5, 1.0], [2.0, 0.0], [1.0, 3.0]], [1, 0, 2], qid=[7, 7, 7])
    model = rw.RidgeRanker().fit(items.X, items.y, qid=items.qid)
    rw.save(model, folder / "given.rw")
    for name, (_, data) in SEEDS.items():
        (folder / name).write_bytes(data)
    found: dict[str, Callable[[], Any]] = {
        "save": lambda: rw.save(model, folder / "old"),
        "load": lambda: rw.load(folder / "given.rw"),
        "load_scorer": lambda: rw.load_scorer(folder / "given.rw"),
        "write letor": lambda: rw.write_letor(items, folder / "old"),
        "fit": lambda: rw.PRank().fit(items.X, items.y).decision_function(items.X),
        "write csv": lambda: rw.data.write_items(items, folder / "old", format="csv"),
    }
    for name, (read, _) in SEEDS.items():
        found[f"read {name}"] = lambda read=read, name=name: read(folder / name)
    return found


def check_faults(n_most: int = 300) -> Counter[str]:
    """Every operation with a fault at every call; raises Failed with what went wrong."""
    counts: Counter[str] = Counter()
    faults = [(IO_CALLS, OSError(errno.ENOSPC, "No space left on device"))]
    faults += [(IO_CALLS, OSError(errno.EIO, "Input/output error"))]
    for calls, error in [*faults, (MEMORY_CALLS, MemoryError("simulated"))]:
        with tempfile.TemporaryDirectory() as name:
            for what, run in operations(Path(name)).items():
                run()  # imports what it needs
                for number in range(1, n_most):
                    (Path(name) / "old").write_bytes(b"old")
                    kind = f"fault: {type(error).__name__}"
                    try:
                        with failing(calls, number, error) as count:
                            run()
                    except (OSError, MemoryError, RankwrightError):
                        counts[kind] += 1
                    except Exception as other:
                        raise Failed(f"{what}, call {number}: {other!r}") from other
                    strays = [f for f in os.listdir(name) if f.endswith(".rw-tmp")]
                    content = (Path(name) / "old").read_bytes()
                    if strays or not (content == b"old" or len(content) > 20):
                        raise Failed(f"{what}, call {number}: left {strays or content!r}")
                    if count[0] < number:
                        break
    return counts


CASES = {
    "models": (model_cases, model_case),
    "uploads": (model_cases, upload_case),
    "readers": (reader_cases, read_case),
}


def run_case(target: str, name: str, data: bytes, folder: Path) -> str:
    """The outcome of one case; raises Failed for an error or a time that is not documented."""
    start = time.process_time()
    try:
        outcome = CASES[target][1](name, data, folder)
    except (Failed, OSError):
        raise
    except BaseException as error:
        raise Failed(f"{type(error).__name__}: {str(error)[:200]}") from error
    if time.process_time() - start > SLOW:
        raise Failed(f"took {time.process_time() - start:.0f} s")
    return outcome


def corpus() -> Iterator[tuple[str, str, bytes]]:
    """Target, name and content of the cases that failed once: ``target--name`` in ``corpus``."""
    for path in sorted((HERE / "corpus").iterdir()):
        target, _, name = path.name.partition("--")
        if target in CASES:
            yield target, name.partition("~")[2] or name, path.read_bytes()


def fuzz(
    minutes: float, seed: int, save: Path | None, only: str | None = None
) -> tuple[Counter[str], list[str]]:
    """Counts of outcomes, and what failed."""
    rng, counts, failures = random.Random(seed), Counter[str](), list[str]()
    sources = {target: CASES[target][0](rng) for target in ([only] if only else CASES)}
    end = time.monotonic() + 60 * minutes
    todo = corpus()
    with tempfile.TemporaryDirectory() as name:
        while (case := next(todo, None)) or time.monotonic() < end:
            target = case[0] if case else rng.choice(list(sources))
            what, data = case[1:] if case else next(sources[target])
            try:
                counts[f"{target}: {run_case(target, what, data, Path(name))}"] += 1
            except Failed as failed:
                failures.append(f"{target} {what}: {failed}")
                if save is not None:
                    digest = hashlib.sha256(data).hexdigest()[:8]
                    (save / f"{target}--{digest}~{what}").write_bytes(data)
    return counts, failures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--save", type=Path)
    parser.add_argument("--only", choices=list(CASES), help="one kind of cases, and no faults")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    counts, failures = fuzz(given.minutes, given.seed, given.save, given.only)
    try:
        counts += Counter() if given.only else check_faults()
    except Failed as failed:
        failures.append(f"faults {failed}")
    print(f"seed {given.seed}, {counts.total():,} cases")
    for outcome, count in sorted(counts.items()):
        print(f"{count:9,}  {outcome}")
    print(f"{len(failures):9,}  failed", *failures[:40], sep="\n  ")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
