"""Every command and every piece of Python in README, guide and tutorials runs as printed.

RANKWRIGHT_WRITE_PAGES=1 writes what the steps of the tutorials print into their pages.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import warnings
from collections import Counter
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn

import rankwright as rw
from rankwright.cli.app import VERBS, main
from rankwright.data.datasets.synthetic import make_engines, make_queries
from rankwright.service import read_entries

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"


def blocks(page: str, languages: str) -> list[tuple[str, str]]:
    """(language, text) of the code of a page, in its order."""
    found = re.findall(rf"```({languages})\n(.*?)```", (GUIDE / page).read_text(), re.DOTALL)
    return [(language, text) for language, text in found]


STEP = re.compile(
    r"```(?P<language>sh|python)\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL
)
WIDEST, LONGEST = 100, 24  # columns and lines of an output that a page shows
VARIES = re.compile(  # times, dates, random ids, hashes
    r"\d+(?:\.\d+)? m?s\b|\d{4}-\d\d-\d\dT[\d:.]+Z?|\b[0-9a-f]{8,}\b|sha256 \w+"
)
LIVE = "train --log live.db"  # what was clicked depends on when the live ranker learned
NUMBER = re.compile(r"-?\b\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")


def write_outputs(path: Path, steps: list[re.Match[str]], printed: list[str]) -> None:
    """Put what each step printed below it, shortened with ``...``."""
    text = path.read_text()
    for step, result in reversed(list(zip(steps, printed, strict=True))):
        lines = result.rstrip().splitlines()
        lines = lines if len(lines) <= LONGEST else [*lines[: LONGEST - 1], "..."]
        lines = [x if len(x) <= WIDEST else x[: WIDEST - 3] + "..." for x in map(str.rstrip, lines)]
        code = f"```{step['language']}\n{step['code']}```\n"
        output = "\n```text\n" + "\n".join(lines) + "\n```\n" if lines else ""
        text = text[: step.start()] + code + output + text[step.end() :]
    path.write_text(text)


def check_output(code: str, shown: str, printed: str) -> None:
    """The same words in the same order; numbers may differ a little from machine to machine."""
    wanted, found = shown.rstrip().splitlines(), printed.rstrip().splitlines()
    if wanted[-1:] == ["..."]:
        found = [*found[: len(wanted) - 1], "..."]
    fault = f"{code}printed\n{printed}\nRANKWRIGHT_WRITE_PAGES=1 writes it into the page"
    assert len(found) == len(wanted), fault
    for line, other in zip(wanted, found, strict=True):
        if line.endswith("..."):
            line, other = line[:-3], other[: len(line) - 3]
        pair = [VARIES.sub("#", each) for each in (line, other)]
        words, others = ([" ".join(part.split()) for part in NUMBER.split(each)] for each in pair)
        assert others == words, fault
        numbers = [[float(n.replace(",", "")) for n in NUMBER.findall(each)] for each in pair]
        if LIVE not in code:
            assert numbers[1] == pytest.approx(numbers[0], rel=0.05, abs=0.02), fault


def run_commands(script: str, folder: Path) -> list[subprocess.Popen[str]]:
    """Run a script: ``rankwright`` inside this process, which saves its start, the rest by bash.

    A line that ends in ``&`` is a server; the servers that were started are returned.
    """
    rest: list[str] = []
    servers = []
    for line in script.splitlines():
        if "rankwright " not in line:
            rest.append(line)
            continue
        run_by_bash("\n".join(rest), folder)
        rest = []
        if line.endswith("&"):
            servers.append(start_server(line, folder))
        else:
            run_pipeline(line, folder)
    run_by_bash("\n".join(rest), folder)
    return servers


def start_server(line: str, folder: Path) -> subprocess.Popen[str]:
    """Run ``rankwright serve ... &`` until it says that it listens."""
    words = [sys.executable, "-m", *shlex.split(line.removesuffix("&"))]
    server = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    said = [""]
    while "serving on" not in said[-1]:
        said.append(server.stderr.readline())
        if not said[-1]:
            server.communicate()
            pytest.fail("the server stopped: " + "".join(said))
    return server


def free_ports(n: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def run_by_bash(script: str, folder: Path) -> None:
    if not script.strip():
        return
    tools = folder / ".tools"
    tools.mkdir(exist_ok=True)
    (tools / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python").chmod(0o755)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]  # python -m experiments
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    )
    print(done.stdout, end="")


def run_pipeline(line: str, folder: Path) -> None:
    """``rankwright a < in | rankwright b > out``, stage by stage."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    stages, data = [list(words) for end, words in groupby(lexer, "|".__eq__) if not end], b""
    for words in stages:
        target = None
        if "<" in words:
            place = words.index("<")
            data = (folder / words[place + 1]).read_bytes()
            del words[place : place + 2]
        if ">" in words:
            target = folder / words[words.index(">") + 1]
            del words[words.index(">") :]
        if words[0] == "rankwright":
            data = run_verb(words[1:], data)
        else:
            data = subprocess.run(
                words, input=data, cwd=folder, stdout=subprocess.PIPE, check=True
            ).stdout
        if target is not None:
            target.write_bytes(data)
            data = b""
    print(data.decode(), end="")


def run_verb(words: list[str], data: bytes) -> bytes:
    out = io.TextIOWrapper(io.BytesIO())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["rankwright", *words])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        patch.setattr(sys, "stdout", out)
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        main()
    out.flush()
    return out.buffer.getvalue()  # type: ignore[attr-defined]


def test_the_commands_of_the_guide_run_in_the_order_printed(
    files: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in files.iterdir():
        shutil.copy(path, tmp_path)
    script = "\n".join(text for _, text in blocks("command_line.md", "sh"))
    lines = [
        line for line in script.splitlines() if line and not line.startswith("rankwright demo")
    ]
    assert len(lines) > 20
    run_commands("\n".join(lines), tmp_path)
    assert (tmp_path / "compare.html").exists()


@pytest.mark.filterwarnings("default::rankwright.exceptions.UnknownLevelWarning")
@pytest.mark.parametrize("page", sorted(path.name for path in GUIDE.glob("tutorial_*.md")))
def test_a_tutorial_runs_and_prints_as_printed(page: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    text = (GUIDE / page).read_text()
    steps = list(STEP.finditer(text))
    assert {step["language"] for step in steps} == {"sh", "python"}
    if page == "tutorial_service.md" and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    ports = dict(zip(("8765", "8766"), map(str, free_ports(2)), strict=True))
    printed = []
    with ExitStack() as servers:
        for step in steps:
            code = re.sub("876[56]", lambda match: ports[match[0]], step["code"])
            out = io.StringIO()
            with redirect_stdout(out):
                if step["language"] == "python":
                    exec(code, names)
                else:
                    for server in run_commands(code, tmp_path):
                        servers.callback(server.communicate, timeout=30)  # the last one first
                        servers.callback(server.terminate)
            result = out.getvalue()
            for port, free in ports.items():
                result = result.replace(free, port)
            printed.append(result)
    if page == "tutorial_service.md":
        check_service_tutorial(names, tmp_path)
    if os.environ.get("RANKWRIGHT_WRITE_PAGES"):
        write_outputs(GUIDE / page, steps, printed)
        return
    for step, result in zip(steps, printed, strict=True):
        check_output(step["code"], step["output"] or "", result)


def check_service_tutorial(names: dict[str, Any], folder: Path) -> None:
    """The commands did what the page says they do."""
    places = [place for place in names["places"] if place is not None]
    assert np.mean(places) < 2
    assert len((folder / "judged.qrels").read_text().splitlines()) >= 40
    assert (folder / "clicks.qrels").read_text()
    kinds = Counter(entry["kind"] for entry in read_entries(folder / "live.db"))
    assert (kinds["event"], kinds["feedback"]) == (301, 300)


def taken_for_granted(folder: Path) -> dict[str, object]:
    """Data of yours, a model, and files of your engines, as the pages of the guide name them."""
    data = make_queries(30, docs_per_query=8, n_features=4, random_state=0).items
    engines = make_engines(12, 20, 3, list_length=10, random_state=0)
    runs = [
        replace(run, name=name)
        for run, name in zip(engines.runs, ("bm25", "dense", "clicks"), strict=True)
    ]
    for run in runs:
        rw.write_run(run, folder / f"{run.name}.run")
    rw.data.write_qrels(engines.qrels, folder / "judged.qrels")
    names = {"X": data.X, "y": data.y, "qid": data.qid, "frame": data.X, "new_runs": runs}
    model = rw.RidgeRanker().fit(data.X, data.y, qid=data.qid)
    other = rw.evaluate(data.X[:, 0], data.y, data.qid, ["NDCG@10", "AP", "P(rel=2)@5"])
    valid = {"X_val": data.X, "y_val": data.y, "qid_val": data.qid}
    rw.write_letor(data.take(data.qid < 20), folder / "train.txt")
    rw.write_letor(data.take(data.qid >= 20), folder / "test.txt")
    return {"rw": rw, **names, **valid, "model": model, "other": other}


PAGES = """
cluster.md command_line.md constraints.md data.md deployment.md explain.md exports.md features.md
feedback.md fusion.md magnitude.md metrics.md model_files.md rankers.md recommend.md tuning.md
""".split()  # noqa: SIM905


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = taken_for_granted(tmp_path)
    if page == "feedback.md":  # three documents are judged there
        names["X"] = names["X"][:3]  # type: ignore[index]
    optional = "|python optuna" if find_spec("optuna") else ""  # skipped where it is missing
    with sklearn.config_context():
        for _, text in blocks(page, f"python{optional}"):
            exec(text, names)


def test_pages_with_python_are_all_tried() -> None:
    tried = {*PAGES, "report.md", *(path.name for path in GUIDE.glob("tutorial_*.md"))}
    assert {path.name for path in GUIDE.glob("*.md") if blocks(path.name, "python")} == tried


def test_the_python_of_the_report_page_runs(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("altair")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for _, text in blocks("report.md", "python"):
        exec(text, names)
    assert (tmp_path / "own.html").stat().st_size > 10_000


README = (ROOT / "README.md").read_text()
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text()


def test_the_readme_runs_as_printed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert (result.failed, result.attempted) == (0, 18)
    # The shell commands go on from there; the last two need another model and a free port.
    commands = re.findall(r"(?m)^    (rankwright [^#\n]+)", README)
    assert [line.split()[1] for line in commands[-2:]] == ["compare", "serve"]
    run_commands("\n".join(line.strip() for line in commands[:-2]), tmp_path)
    assert {"model.rw", "page.html", "model.opensearch.json"} <= {*os.listdir(tmp_path)}


def test_the_first_page_of_the_documentation_runs_as_printed() -> None:
    result = doctest.testfile(str(ROOT / "docs" / "index.md"), module_relative=False)
    assert (result.failed, result.attempted) == (0, 6)


def test_the_make_targets_of_the_readme_exist() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    words = sorted(set(re.findall(r"(?m)(?:`|^    )make ([a-z]+)", README)))
    assert {"demo", "test", "docs"} <= set(words)
    subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, check=True)


def test_the_commands_behind_the_figures_of_the_readme_exist(monkeypatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from experiments.runner import experiment_names

    page = README + BENCHMARKS
    experiments = re.findall(r"python -m experiments (\S+?)(?: --\w+)?`", page)
    benchmarks = re.findall(r"python -m benchmarks ([a-z_]+)", page)
    assert set(experiments) <= set(experiment_names())
    assert experiments
    assert benchmarks
    known = {"compare", *(path.stem for path in (ROOT / "benchmarks").iterdir())}
    assert set(benchmarks) <= known


def test_every_figure_of_the_readme_is_in_the_page_of_benchmarks() -> None:
    table = README.partition("| what | figure | printed by |")[2].partition("\n\n")[0]
    figures = [line.split(" | ")[1] for line in table.splitlines()[2:]]
    assert len(figures) == 5
    for figure in figures:
        assert figure in BENCHMARKS


def test_the_verbs_that_the_readme_names_are_there() -> None:
    verbs = set(re.findall(r"(?m)^    rankwright (\w+)", README))
    assert len(verbs) >= 4
    assert verbs <= set(VERBS)
