"""The files and bodies in the tutorial are those that its commands write."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cli.test_guide import blocks, run_commands
from rankwright.data.io.logs.features import read_feature_log

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "tutorial_export.md"
TEXT = PAGE.read_text()


def curl_calls() -> list[tuple[str, str]]:
    """(path of the call, its body) of every curl in the page."""
    consoles = "\n".join(re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL))
    found = re.findall(
        r"curl -X (\w+) \"localhost:9200/(\S+)\"(?: -H \"\S+ \S+\" -d (@\S+|'.*?'))?\n",
        consoles,
        re.DOTALL,
    )
    assert len(found) == consoles.count("curl ")
    return [(f"{verb} {path}", body.strip("'")) for verb, path, body in found]


def test_every_file_in_the_tutorial_is_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_commands("".join(text for _, text in blocks(PAGE.name, "sh")), tmp_path)
    shown = re.findall(r"<!-- file: (\S+) -->\n```json\n(.*?)```", TEXT, re.DOTALL)
    assert [name for name, _ in shown] == [
        "shop.json",
        "shop.featureset.json",
        "shop.certificate.json",
    ]
    for name, text in shown:
        found = json.loads((tmp_path / name).read_text())
        expected = json.loads(text)
        for numbers in (found, expected):  # the last bits of a sum may differ between machines
            for key in ("largest_difference", "bound", "sha256", "rankwright"):
                numbers.pop(key, None)
        if name == "shop.json":
            assert _numbers(found) == pytest.approx(_numbers(expected), rel=1e-9)
        else:
            assert found == expected
    assert read_feature_log(tmp_path / "hits.jsonl").feature_names == ("title", "clicks")


def _numbers(body: dict[str, dict[str, dict[str, str]]]) -> list[float]:
    definition = body["model"]["model"]["definition"]
    return [float(part) for rule in definition.splitlines()[-1].split() for part in rule.split(":")]


def test_the_calls_name_what_the_files_hold() -> None:
    calls = dict(curl_calls())
    assert calls["PUT _ltr"] == ""
    featureset = json.loads(calls["POST _ltr/_featureset/shop"])["featureset"]
    body = json.loads(re.findall(r"file: shop.json -->\n```json\n(.*?)```", TEXT, re.DOTALL)[0])
    skeleton = re.findall(r"file: shop.featureset.json -->\n```json\n(.*?)```", TEXT, re.DOTALL)[0]
    names = [feature["name"] for feature in json.loads(skeleton)["featureset"]["features"]]
    assert [feature["name"] for feature in featureset["features"]] == names
    for feature in featureset["features"]:
        assert set(feature) == {"name", "params", "template_language", "template"}
    assert calls["POST _ltr/_featureset/shop/_createmodel"] == "@shop.json"
    searches = [json.loads(text) for path, text in curl_calls() if path.endswith("_search")]
    logging, ranking = searches
    logged = logging["query"]["bool"]["filter"]["sltr"]
    assert logged["featureset"] == featureset["name"]
    assert logging["ext"]["ltr_log"]["log_specs"]["named_query"] == logged["_name"]
    rescored = ranking["rescore"]["query"]["rescore_query"]["sltr"]
    assert rescored["model"] == body["model"]["name"]
    assert set(rescored["params"]) == {"keywords"}
