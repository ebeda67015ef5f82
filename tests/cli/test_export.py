"""``rankwright export`` at a shell, and models of others in the other verbs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Shell


def test_export_writes_the_file_and_its_certificate(shell: Shell, tmp_path: Path) -> None:
    done = shell("export", "$F/model.rw", "--to", "onnx", "--check", "$F/test.txt")
    assert "model.onnx: exact: " in done.stdout
    certificate = json.loads((tmp_path / "model.certificate.json").read_text())
    assert certificate["rows_from"] == "data"
    shell("compare", "$F/model.rw", "model.onnx", "$F/test.txt")
    shell("rank", "model.onnx", "$F/test.txt", "-o", "ranked.txt")
    assert "ONNX" in shell("info", "model.onnx").stdout


def test_json_has_every_entry_of_the_certificate(shell: Shell, tmp_path: Path) -> None:
    words = ("--to", "sql", "--dialect", "sqlite", "--feature-names", "a,b,c,d", "--json")
    content = json.loads(shell("export", "$F/model.rw", *words).stdout)
    assert content["file"] == "model.sql"
    assert content["features"] == ["a", "b", "c", "d"]
    assert '"a"' in (tmp_path / "model.sql").read_text()


@pytest.mark.parametrize(
    "words, fault",
    [
        (("--to", "solr"), "--allow-order-only"),
        (("--to", "lightgbm"), "Targets that hold it: elasticsearch"),
        (("--to", "onnx", "--dialect", "sqlite"), "--dialect sqlite: onnx has no such option"),
        (("--to", "sql", "--feature-names", "a,b"), "--feature-names"),
    ],
)
def test_what_is_refused_speaks_of_options(
    words: tuple[str, ...], fault: str, shell: Shell, tmp_path: Path
) -> None:
    assert fault in shell("export", "$F/model.rw", *words, code=2).stderr.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


def test_the_order_is_kept_where_the_intercept_is_lost(shell: Shell) -> None:
    done = shell("export", "$F/model.rw", "--to", "solr", "--allow-order-only")
    assert "model.solr.json: order only" in done.stdout


def test_a_damaged_model_of_others_is_exit_code_four(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "present.txt").write_text("tree\nversion=v4\nnum_class=1\n")
    failed = shell("evaluate", "present.txt", "$F/test.txt", code=4)
    assert "looks like a LightGBM model, but it is cut off" in failed.stderr


def test_convert_reads_logged_features(shell: Shell, tmp_path: Path) -> None:
    line = {"qid": "q", "_id": "a", "fields": {"_ltrlog": [{"log": [{"name": "f", "value": 1.5}]}]}}
    (tmp_path / "log.jsonl").write_text(json.dumps(line) + "\n")
    shell("convert", "log.jsonl", "items.csv")
    assert (tmp_path / "items.csv").read_text() == "qid,docid,grade,f\nq,a,0,1.5\n"
