"""What the verbs share: help, pipes, configuration, exit codes, interrupts, light imports."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankwright.cli.app import VERBS, app

MAIN = [sys.executable, "-m", "rankwright"]


def modules_after(*calls: list[str]) -> set[str]:
    """The packages that a fresh process has loaded after these calls."""
    code = (
        "import sys\nfrom rankwright.cli.app import main\n"
        f"for words in {list(calls)!r}:\n"
        "    sys.argv = ['rankwright', *words]\n"
        "    try: main()\n"
        "    except SystemExit as stop: assert not stop.code\n"
        "print('\\nMODULES', *{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split("MODULES")[1].split())


def test_help_and_version_load_next_to_nothing() -> None:
    heavy = {"numpy", "scipy", "sklearn", "numba", "vl_convert", "altair", "msgspec"}
    calls = [["--help"], ["--version"], *([verb, "--help"] for verb in VERBS)]
    assert not heavy & modules_after(*calls)


def test_what_serves_never_loads_what_trains(files: Path) -> None:
    model, data = str(files / "model.rw"), str(files / "test.txt")
    runs = [str(files / f"engine-{k}.run") for k in range(2)]
    calls = [
        ["predict", model, data],
        ["rank", model, data],
        ["evaluate", model, data],
        ["evaluate", runs[0], str(files / "qrels.txt")],
        ["fuse", *runs],
        ["info", model],
        ["check", data],
    ]
    assert not {"numba", "sklearn"} & modules_after(*calls)


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_explains_itself(shell, verb):
    done = shell(verb, "--help")
    assert "Usage: rankwright" in done.stdout


def test_completion_knows_the_verbs():
    script = app.generate_completion(shell="bash")
    assert all(verb in script for verb in VERBS)


@pytest.mark.parametrize(
    "words, code",
    [
        ([], 0),
        (["nothing"], 2),
        (["predict"], 2),
        (["predict", "$F/model.rw", "$F/test.txt", "--nothing"], 2),
        (["train", "$F/train.txt", "--ranker", "nothing"], 2),
        (["train", "$F/train.txt", "--ranker", "prank", "--set", "nothing=1"], 2),
        (["train", "$F/train.txt", "--ranker", "prank", "--set", "max_iter=0"], 2),
        (["evaluate", "$F/model.rw", "$F/test.txt", "-m", "NDGC@10"], 2),
        (["compare", "$F/model.rw"], 2),
        (["predict", "$F/test.txt", "$F/test.txt"], 4),
        (["predict", "$F/nothing.rw", "$F/test.txt"], 5),
        (["predict", "$F/model.rw", "$F/nothing.txt"], 5),
        (["predict", "$F/model.rw", "$F/test.txt", "-o", "$F/nothing/out.txt"], 5),
        (["evaluate", "$F/model.rw", "$F/qrels.txt"], 3),
        (["evaluate", "$F/model.rw", "$F/test.txt", "--config", "$F/nothing.toml"], 5),
    ],
)
def test_exit_codes_are_as_documented(shell, words, code):
    done = shell(*words, code=code)
    assert code == 0 or done.stderr.strip()


def test_a_damaged_model_is_refused_with_its_own_code(process, files, tmp_path):
    data = bytearray((files / "model.rw").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.rw").write_bytes(data)
    assert "bad.rw" in process("predict", "bad.rw", "$F/test.txt", code=4).stderr


def test_data_come_and_go_by_pipes(shell, files):
    text = (files / "test.txt").read_bytes()
    scores = shell("predict", "$F/model.rw", "-", stdin=text).stdout
    assert scores == shell("predict", "$F/model.rw", "$F/test.txt").stdout
    found = shell("evaluate", "-", "$F/test.txt", "--json", stdin=scores)
    expected = shell("evaluate", "$F/model.rw", "$F/test.txt", "--json")
    assert json.loads(found.stdout)["measures"] == json.loads(expected.stdout)["measures"]
    run = shell("rank", "$F/model.rw", "-", "--trec", stdin=text).stdout
    assert "a  <stdin>" in shell("compare", "-", "$F/prank.rw", "$F/test.txt", stdin=run).stdout
    table = shell("convert", "-", "-", "--write-as", "csv", stdin=text).stdout
    assert table.startswith("qid,docid,grade,f1")
    assert "passed" in shell("check", "-", stdin=table).stdout


def test_train_reads_a_pipe(process, files):
    text = (files / "train.txt").read_bytes()
    process("train", "-", "--ranker", "RidgeRanker", "-o", "m.rw", stdin=text)
    assert json.loads(process("info", "m.rw", "--json").stdout)["n_features"] == 4


def test_a_reader_that_goes_away_is_no_error(files: Path) -> None:
    words = ["predict", str(files / "model.rw"), str(files / "test.txt")]
    with subprocess.Popen([*MAIN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as head:
        assert head.stdout is not None
        head.stdout.close()
        assert head.wait(60) == 0
        assert head.stderr is not None
        assert head.stderr.read() == b""


@pytest.mark.parametrize(
    "closed, words, code",
    [
        (">&-", "--help", 0),
        (">&- 2>&-", "nothing", 2),
        (">&-", "predict model.rw test.txt", 0),
        ("<&-", "predict model.rw -", 3),
        ("<&- >&- 2>&-", "predict model.rw test.txt", 0),
        ("<&- >&- 2>&-", "predict model.rw -", 3),
    ],
)
def test_a_closed_stream_is_no_reason_for_a_traceback(files, closed, words, code):
    command = f'"{sys.executable}" -m rankwright {words} {closed}'
    done = subprocess.run(
        ["bash", "-c", command], cwd=files, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_remarks_do_not_go_where_results_go_when_their_stream_is_closed(files, tmp_path):
    words = f"train {files / 'train.txt'} --ranker RidgeRanker --json -o m.rw"
    command = f'"{sys.executable}" -m rankwright {words} 2>&-'
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(done.stdout)["ranker"] == "RidgeRanker"


def test_options_come_from_a_toml_file_and_words_win(shell, tmp_path):
    (tmp_path / "c.toml").write_text('[evaluate]\nmeasures = ["P@3", "AP"]\njson = true\n')
    words = ("evaluate", "$F/model.rw", "$F/test.txt", "--config", "c.toml")
    assert list(json.loads(shell(*words).stdout)["measures"]) == ["P@3", "AP"]
    assert list(json.loads(shell(*words, "-m", "RR").stdout)["measures"]) == ["RR"]
    (tmp_path / "bad.toml").write_text("[evaluate\n")
    assert "not TOML" in shell(*words[:3], "--config", "bad.toml", code=3).stderr
    (tmp_path / "odd.toml").write_text("[evaluate]\nnothing = 1\n")
    assert "nothing" in shell(*words[:3], "--config", "odd.toml", code=2).stderr


# A test that runs in the background of a shell inherits that SIGINT is ignored.
HEARS_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
SLOW = """
import sys, time
import {module}
def slowly(*args, **kwargs):
    'Something that takes its time.'
    print("ready", file=sys.stderr, flush=True)
    for _ in range(600):
        time.sleep(0.1)
{slow} = slowly
sys.argv = ["rankwright", *{words!r}]
from rankwright.cli.app import main
main()
"""


@pytest.mark.parametrize(
    "verb, slow, words",
    [
        (
            "train",
            "rankwright.selection.auto.fit_ranker",
            ["$F/train.txt", "--ranker", "RidgeRanker", "-o", "out.rw"],
        ),
        ("train", "rankwright.selection.base.read_items", ["$F/train.txt", "-o", "out.rw"]),
        ("train", "rankwright.save", ["$F/train.txt", "--ranker", "RidgeRanker", "-o", "out.rw"]),
        ("predict", "rankwright.read_items", ["$F/model.rw", "$F/test.txt", "-o", "out.txt"]),
        ("compare", "rankwright.compare", ["$F/model.rw", "$F/test.txt", "-o", "out.txt"]),
        ("convert", "rankwright.data.io.conversion.write_items", ["$F/test.txt", "out.csv"]),
        ("demo", "rankwright.report.demonstrations.PARTS", ["--report", "out.html"]),
    ],
)
def test_an_interrupt_ends_with_130_and_leaves_no_file(verb, slow, words, files, tmp_path):
    words = [verb, *(word.replace("$F", str(files)) for word in words)]
    module = slow.rpartition(".")[0]
    code = HEARS_INTERRUPTS + SLOW.format(module=module, slow=slow, words=words)
    code = code.replace("PARTS = slowly", "PARTS = (slowly,)")
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("ready"):
                break
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(60) == 130, rest
    assert "interrupted" in rest
    assert "Traceback" not in rest
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_being_written_appears_whole_or_not_at_all(files, tmp_path):
    code = (
        "import sys, time\n"
        "from rankwright.cli._shell import write_result\n"
        "def lines():\n"
        "    yield 'first\\n'\n"
        "    print('ready', flush=True)\n"
        "    for _ in range(600):\n"  # a signal just before a sleep is seen after it
        "        time.sleep(0.1)\n"
        "write_result(lines(), 'out.txt')\n"
    )
    (tmp_path / "out.txt").write_text("old\n")
    with subprocess.Popen(
        [sys.executable, "-c", HEARS_INTERRUPTS + code],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert os.listdir(tmp_path) == ["out.txt"]
    assert (tmp_path / "out.txt").read_text() == "old\n"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "data"])
def test_examples_in_the_help_keep_their_lines(shell, verb):
    """A command that the terminal wrapped could not be copied."""
    page = shell(verb, "--help").stdout.splitlines()
    text = inspect.getdoc(app[verb].default_command)
    examples = [line for line in text.splitlines() if line.startswith("rankwright ")]
    assert examples
    assert all(example in page for example in examples)
