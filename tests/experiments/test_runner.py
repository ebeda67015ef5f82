"""``python -m experiments``: every run is recorded, and the records become a page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rankwright as rw

ROOT = Path(__file__).parents[2]
TOY = '''"""Toy, Table 1: nothing at all."""
def main(argv=None):
    print('paper 0.50 ours 0.51', argv)
    print('| a | b |\\n| :- | -: |\\n| **x** | 1 |')
'''
RESUMING = """
from pathlib import Path
KEPT = Path(__file__).parents[1] / '_results' / {kept!r}
def main(argv=None):
    KEPT.parent.mkdir(exist_ok=True, parents=True)
    known = KEPT.exists() and KEPT.read_text()
    KEPT.write_text('[1, 2]'), KEPT.read_text(), print('kept' if known else 'new')
"""


def run(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "experiments", *words],
        cwd=folder,
        env={**os.environ, "RANKWRIGHT_DATA": str(folder / "data")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def checkout(folder: Path, script: str) -> Path:
    """A folder with the runner and one experiment, toy/table_1."""
    experiments = folder / "experiments"
    (experiments / "toy").mkdir(parents=True)
    for name in ("__main__.py", "parts.py", "results.py", "runner.py", "sources.py"):
        shutil.copy(ROOT / "experiments" / name, experiments)
    (experiments / "toy" / "table_1.py").write_text(script)
    return experiments


def test_experiments_are_recorded_and_reported(tmp_path: Path) -> None:
    experiments = checkout(tmp_path, TOY)
    assert "not run yet" in run(tmp_path, "list").stdout
    assert "paper 0.50 ours 0.51 ['--quick']" in run(tmp_path, "toy", "--quick").stdout
    assert "has a result already" in run(tmp_path, "--quick").stderr
    run(tmp_path, "report", "--html", "page.html")
    text = (experiments / "RESULTS.md").read_text()
    assert "Toy, Table 1: nothing at all." in text
    assert "`python -m experiments toy/table_1 --quick`" in text
    page = (tmp_path / "page.html").read_text()
    assert "paper 0.50 ours 0.51" in page
    assert "<tr><td><b>x</b></td><td>1</td></tr>" in page
    record = experiments / "_results" / "records" / "toy--table_1-quick.json"
    assert json.loads(record.read_text())["version"] == rw.__version__
    assert "known: toy/table_1" in run(tmp_path, "else", code=1).stderr


def test_a_failed_experiment_leaves_no_record(tmp_path: Path) -> None:
    experiments = checkout(tmp_path, "def main(argv=None):\n    raise SystemExit(3)\n")
    assert "1 of 1 experiments failed: toy/table_1" in run(tmp_path, code=1).stderr
    assert not (experiments / "_results" / "records").exists()


@pytest.mark.parametrize("kept", ["toy.json", "toy/part_1.npz"])
def test_a_record_says_when_a_run_continued_from_kept_results(kept: str, tmp_path: Path) -> None:
    experiments = checkout(tmp_path, RESUMING.format(kept=kept))
    record = experiments / "_results" / "records" / "toy--table_1.json"
    assert run(tmp_path, "toy").stdout == "new\n"
    assert json.loads(record.read_text())["resumed"] == {}
    assert run(tmp_path, "toy").stdout == "kept\n"
    assert list(json.loads(record.read_text())["resumed"]) == [kept.partition("/")[0]]
    assert "after results kept from" in run(tmp_path, "list").stdout
    run(tmp_path, "report")
    assert "after results kept from" in (experiments / "RESULTS.md").read_text()


def test_the_experiments_of_this_checkout_are_found() -> None:
    assert "prank/" in run(ROOT, "list").stdout


def test_a_report_keeps_the_parts_of_experiments_that_were_not_run_here(tmp_path: Path) -> None:
    experiments = checkout(tmp_path, TOY)
    run(tmp_path, "toy/table_1", "--targets=3")
    (experiments / "RESULTS.md").write_text(
        "# Head\n\n## toy/figure_2\n\nkept\n\n## gone/table\n\nx\n"
    )
    (experiments / "toy" / "figure_2.py").write_text(TOY)
    run(tmp_path, "report", "--html", "page.html")
    text = (experiments / "RESULTS.md").read_text()
    assert "## toy/figure_2\n\nkept\n" in text
    assert "`python -m experiments toy/table_1 --targets=3`" in text
    assert "gone/table" not in text
    assert "Not run yet" not in text


def test_a_report_lists_results_of_older_code(tmp_path: Path) -> None:
    experiments = checkout(tmp_path, TOY)
    script = experiments / "toy" / "table_1.py"
    run(tmp_path, "toy")
    assert "0 results are of older code" in run(tmp_path, "report").stdout
    record = json.loads((experiments / "_results" / "records" / "toy--table_1.json").read_text())
    text = (experiments / "RESULTS.md").read_text()
    assert f"Source {record['source']}, {len(record['modules'])} modules" in text
    assert f"experiments/toy (table_1 {record['modules']['experiments/toy/table_1.py']})" in text
    same = TOY.replace("nothing at all", "another docstring").replace(
        "argv=None", "argv: list = None"
    )
    script.write_text("# a comment\n" + same + "    import math\n")
    assert "0 results are of older code" in run(tmp_path, "report").stdout
    assert "has a result already" in run(tmp_path).stderr
    script.write_text(TOY.replace("0.51", "0.52"))
    older = "1 results are of older code:\n  toy/table_1: experiments/toy/table_1.py\n"
    assert older in run(tmp_path, "report").stdout
    assert "of older code" in run(tmp_path, "list").stdout
    assert "has a result already" not in run(tmp_path).stderr


WORKER = """
from concurrent.futures import ProcessPoolExecutor
from experiments.sources import call_in_worker, note_worker
import rankwright as rw
def work():
    return rw.PRank().fit([[0.0], [1.0]], [1, 2]).coef_.tolist()
def main(argv=None):
    with ProcessPoolExecutor(1) as pool:
        print(note_worker(pool.submit(call_in_worker, work).result()))
"""


def test_a_record_names_the_modules_that_the_run_and_its_workers_loaded(tmp_path: Path) -> None:
    experiments = checkout(tmp_path, WORKER)
    (experiments / "toy" / "never_loaded.py").write_text("x = 1\n")
    run(tmp_path, "toy")
    record = json.loads((experiments / "_results" / "records" / "toy--table_1.json").read_text())
    modules = record["modules"]
    assert {"experiments/toy/table_1.py", "rankwright/rankers/online/prank.py"} <= set(modules)
    assert "rankwright/rankers/online/_kernels/prank.py" in modules
    loaded = {name.rpartition("/")[0] for name in modules}
    others = {"rankwright/rankers/boosting", "rankwright/report", "rankwright/persist"}
    assert not loaded & others
    (experiments / "toy" / "never_loaded.py").write_text("x = 2\n")
    assert "0 results are of older code" in run(tmp_path, "report").stdout


def test_a_record_of_other_fields_is_one_of_older_code(tmp_path: Path) -> None:
    experiments = checkout(tmp_path, TOY)
    run(tmp_path, "toy")
    path = experiments / "_results" / "records" / "toy--table_1.json"
    record = json.loads(path.read_text())
    del record["modules"]
    path.write_text(json.dumps({**record, "folders": ["rankwright"]}))
    assert "of older code" in run(tmp_path, "list").stdout


def test_results_without_a_source_are_of_older_code(tmp_path: Path) -> None:
    experiments = checkout(tmp_path, TOY)
    (experiments / "RESULTS.md").write_text("# Head\n\n## toy/table_1\n\nkept\n")
    assert "1 results are of older code:\n  toy/table_1\n" in run(tmp_path, "report").stdout


LONG = """
from experiments.parts import kept
def main(argv=None):
    parts = [kept('toy_long', f'part {i}', lambda i=i: work(i)) for i in range(3)]
    print('sum', sum(parts))
def work(i):
    print('computes', i)
    if i == 2 and not __import__('os').path.exists('ready'):
        raise SystemExit(3)
    return 10 * i
"""


def test_a_long_run_continues_where_it_stopped_unless_the_code_changed(tmp_path: Path) -> None:
    experiments = checkout(tmp_path, LONG)
    assert "computes 1" in run(tmp_path, "toy", code=1).stdout
    (tmp_path / "ready").touch()
    assert run(tmp_path, "toy").stdout == "computes 2\nsum 30\n"
    record = json.loads((experiments / "_results" / "records" / "toy--table_1.json").read_text())
    assert list(record["resumed"]) == ["toy_long"]
    script = experiments / "toy" / "table_1.py"
    script.write_text(LONG.replace("10 * i", "20 * i"))
    assert run(tmp_path, "toy").stdout.endswith("computes 2\nsum 60\n")
