"""No verb destroys its input, hangs, leaves files behind or lets data command the terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import rankwright as rw
from rankwright.cli import _shell as console
from rankwright.cli.app import main
from rankwright.exceptions import MemoryLimitError, ParameterError

ONTO_ITSELF = [
    ("train", "a.txt", "-o", "a.txt"),
    ("train", "a.txt", "-o", "./a.txt"),
    ("train", "a.txt", "-o", "link.txt"),
    ("train", "a.txt", "-o", "hard.txt"),
    ("train", "a.txt", "--valid", "b.txt", "-o", "b.txt"),
    ("train", "a.txt", "-o", "new.rw", "--report", "new.rw"),
    ("train", "a.txt", "-o", "new.rw", "--report", "../{here}/new.rw"),
    ("train", "a.txt", "--group", "b.txt", "-o", "b.txt"),
    ("train", "sizes", "-o", "sizes.query"),
    ("train", "a.txt", "--config", "c.toml", "--report", "c.toml"),
    ("tune", "a.txt", "-o", "a.txt"),
    ("predict", "m.rw", "a.txt", "-o", "a.txt"),
    ("predict", "m.rw", "a.txt", "-o", "m.rw"),
    ("rank", "m.rw", "a.txt", "-o", "hard.txt"),
    ("compare", "m.rw", "a.txt", "-o", "m.rw"),
    ("compare", "m.rw", "a.txt", "--report", "a.txt"),
    ("compare", "m.rw", "a.txt", "-o", "x", "--report", "x"),
    ("fuse", "a.run", "b.run", "-o", "a.run"),
    ("fuse", "a.run", "b.run", "--qrels", "q.txt", "--save", "b.run"),
    ("fuse", "a.run", "b.run", "--qrels", "q.txt", "--save", "x", "-o", "x"),
    ("recommend", "r.csv", "-o", "r.csv"),
    ("recommend", "r.csv", "--save", "r.csv"),
    ("recommend", "r.csv", "--item-features", "b.txt", "--save", "b.txt"),
    ("export", "m.rw", "--to", "xgboost", "-o", "m.rw"),
    ("convert", "a.txt", "link.txt"),
    ("serve", "m.rw", "--store", "m.rw"),
]


@pytest.mark.parametrize("words", ONTO_ITSELF, ids=" ".join)
def test_no_result_replaces_what_is_read(words, shell, files, tmp_path):
    sources = {"a.txt": "train.txt", "b.txt": "test.txt", "m.rw": "model.rw", "q.txt": "qrels.txt"}
    sources |= {"r.csv": "ratings.csv"}
    runs = dict(zip(("a.run", "b.run"), sorted(files.glob("*.run")), strict=False))
    for name, source in {**{k: files / v for k, v in sources.items()}, **runs}.items():
        (tmp_path / name).write_bytes(source.read_bytes())
    os.symlink(tmp_path / "a.txt", tmp_path / "link.txt")
    os.link(tmp_path / "a.txt", tmp_path / "hard.txt")
    small = {"c.toml": "[train]\nrandom-state = 1\n"}
    small |= {"sizes": "1 1:2\n0 1:1\n", "sizes.query": "2\n"}
    for name, content in small.items():
        (tmp_path / name).write_text(content)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    told = shell(*(word.format(here=tmp_path.name) for word in words), code=2).stderr
    assert "would be overwritten" in told or "is also the output file of" in told
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_pipes_and_devices_may_be_given_twice(shell):
    for target in ("-", os.devnull):
        told = shell("predict", "$F/model.rw", "$F/test.txt", "-o", target)
        assert "would be overwritten" not in told.stderr


def test_group_sizes_are_found_beside_the_data(shell, tmp_path):
    (tmp_path / "rank.train").write_text("".join(f"{k % 3} 1:{k} 2:{k % 5}\n" for k in range(30)))
    assert "number of lines" not in shell("info", "rank.train").stderr
    told = shell("train", "rank.train", "--ranker", "RidgeRanker")
    assert "no line has a qid, so all items are taken as one list" in told.stderr
    assert "on all 30 rows" in told.stderr
    assert "the rows of a single list" in told.stdout
    (tmp_path / "rank.train.query").write_text("10\n" * 3)
    told = shell("info", "rank.train", "--json")
    assert "each query is read from rank.train.query" in told.stderr
    assert json.loads(told.stdout)["n_queries"] == 3
    (tmp_path / "sizes").write_text("5\n" * 6)
    told = shell("train", "rank.train", "--group", "sizes", "--ranker", "RidgeRanker")
    assert "6 queries" in told.stderr
    shell("evaluate", "model.rw", "rank.train")
    shell("check", "rank.train")


@pytest.mark.parametrize(
    "error, code, words",
    [
        (MemoryError("9 GB"), 6, "not enough memory (9 GB)"),
        (MemoryLimitError("it takes 9 GB"), 6, "rankwright: it takes 9 GB\n"),
        (RuntimeError("odd"), 70, "a bug in rankwright"),
    ],
)
def test_no_failure_looks_like_a_check_that_failed(shell, monkeypatch, error, code, words):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("rankwright.data.io.conversion.read_items", fail)
    told = shell("info", "$F/train.txt", code=code)
    assert words in told.stderr
    assert ("Traceback" in told.stderr) == (code == 70)


def test_control_characters_of_data_are_shown_and_not_obeyed(shell, tmp_path, monkeypatch):
    bell = tmp_path / "bell.txt"
    bell.write_bytes(b"1 qid:1 1:0.5 2:1 3:1 4:1 #docid = \x1b]0;owned\x07\n")
    words = ("rank", "$F/model.rw", str(bell))
    assert "\x1b]0;owned" in shell(*words).stdout  # a pipe carries the data as they are
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\\x1b]0;owned\\x07" in shell(*words).stdout
    (tmp_path / "bad.csv").write_text("grade,x\n1,\x1b[31m2\n0,3\n")
    told = shell("check", "bad.csv", code=3)
    assert "\x1b" not in told.stdout + told.stderr
    assert console.escape_controls("a\tb\n\x9b\r\u202e") == "a\tb\n\\x9b\\r\\u202e"


def test_names_that_are_not_utf8_are_printed(process, files, tmp_path):
    name = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / name).write_bytes((files / "test.txt").read_bytes())
    assert json.loads(process("info", name, "--json").stdout)["file"] == name
    assert "caf" in process("evaluate", name.replace("txt", "rw"), name, code=5).stderr


def test_a_full_disk_names_the_file(files, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no device that is always full")
    with open("/dev/full", "w") as full:
        words = ["-m", "rankwright", "predict", files / "model.rw", files / "test.txt"]
        done = subprocess.run([sys.executable, *words], stdout=full, stderr=-1, check=False)
    assert (done.returncode, b"standard output: No space left" in done.stderr) == (5, True)


SLOW = """
import sys, time
from rankwright.data.io import conversion
def slow(path, **options):
    print("reading", path, file=sys.stderr, flush=True)
    for _ in range(600):
        time.sleep(0.1)
conversion.read_items = slow
sys.argv = ["rankwright", "info", "-"]
from rankwright.cli import main
main()
"""
SLOW_IMPORT = """
import sys, time, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
class Slow:
    def find_spec(self, name, path, target=None):
        if name == "cyclopts":
            print("importing", file=sys.stderr, flush=True)
            for _ in range(600):
                time.sleep(0.1)
sys.meta_path.insert(0, Slow())
from rankwright.cli import main
main()
"""


@pytest.mark.parametrize(
    "script, number, code",
    [
        (SLOW, signal.SIGTERM, 143),
        (SLOW_IMPORT, signal.SIGTERM, 143),
        (SLOW_IMPORT, signal.SIGINT, 130),
    ],
    ids=["terminated", "terminated in imports", "interrupted in imports"],
)  # fmt: skip
def test_a_signal_ends_quietly_and_leaves_no_temporary_file(script, number, code, files, tmp_path):
    with open(files / "test.txt") as data:
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=data,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(tmp_path)},
            text=True,
        )
        assert process.stderr is not None
        assert process.stderr.readline().split()[0] in ("reading", "importing")
        time.sleep(0.05)
        process.send_signal(number)
        rest = process.communicate(timeout=30)[1]
    assert (process.returncode, "Traceback" in rest) == (code, False)
    assert os.listdir(tmp_path) == []


def test_the_library_leaves_interrupts_to_the_program():
    script = "import signal, rankwright; print(signal.getsignal(signal.SIGINT).__name__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"default_int_handler\n"


def test_a_report_that_cannot_be_written_leaves_the_model(shell, tmp_path, monkeypatch):
    import rankwright.report

    def full(*arguments, **more):
        raise OSError(28, "No space left on device", "page.html")

    monkeypatch.setattr(rankwright.report, "write_training", full)
    words = ("train", "$F/train.txt", "--ranker", "RidgeRanker", "--report", "page.html")
    result = shell(*words, code=5)
    assert "page.html: No space left on device" in result.stderr
    assert rw.load(tmp_path / "model.rw").coef_.shape == (4,)


@pytest.mark.parametrize("module, extra", [("jinja2", "serve"), ("prometheus_client", "serve")])
def test_a_verb_names_the_extra_that_it_needs(module, extra, shell, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("rankwright.service")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    done = shell("serve", "$F/model.rw", code=5)
    install = f"Run: pip install 'rankwright[{extra}]'"
    assert done.stderr == f"rankwright: this needs {module}, which is not installed. {install}\n"


def test_the_two_ways_in_are_one(monkeypatch):
    import rankwright.cli

    monkeypatch.setattr(sys, "argv", ["rankwright", "--version"])
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        rankwright.cli.main()
        main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    with pytest.raises(ParameterError):
        console.check_targets(output="-")
