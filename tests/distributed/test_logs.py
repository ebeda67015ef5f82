"""Log lines of fits on engines: stages, processes and rounds, as fields."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import rankwright as rw
from rankwright.distributed import engines
from rankwright.runtime.logs import JsonFormatter

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning")


@pytest.fixture
def lines() -> Iterator[Any]:
    """A function that returns the lines so far."""
    stream, logger = io.StringIO(), logging.getLogger("rankwright.cluster")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(before)


def fit(judged: rw.Items) -> None:
    model = rw.LambdaMART(n_estimators=3, min_samples_leaf=5, random_state=0)
    model.fit(judged.X, judged.y, qid=judged.qid)


def test_each_process_of_a_cluster_has_a_line_for_each_round(
    judged: rw.Items, clients: dict[int, Any], lines: Any
) -> None:
    with rw.engine(clients[2]):
        fit(judged)
    found = lines()
    assert any(line["message"].startswith("training LambdaMART") for line in found)
    assert [line["workers"] for line in found if "workers" in line] == [2]
    trees = [line for line in found if "round" in line]
    places = sorted((line["rank"], line["round"]) for line in trees)
    assert places == [(rank, number) for rank in (0, 1) for number in (1, 2, 3)]
    assert all(line["stage"] == "grow" and line["seconds"] > 0 for line in trees)
    assert all(line["bytes"] > 0 for line in trees)


def test_a_fit_on_one_machine_sends_no_bytes(judged: rw.Items, lines: Any) -> None:
    with rw.engine("local:2"):
        fit(judged)
    trees = [line for line in lines() if "round" in line]
    assert [(line["rank"], line["bytes"]) for line in trees] == [(0, 0)] * 3


def test_a_lost_connection_is_a_warning_that_names_the_trees_so_far(
    judged: rw.Items, clients: dict[int, Any], lines: Any, monkeypatch: Any
) -> None:
    call, left = engines.DaskGang._call, [1]

    def lose_one(self: Any, method: str, *arguments: Any) -> Any:
        if method == "grow" and left[0]:
            left[0] -= 1
            raise ConnectionError("another process of the fit has closed its connection")
        return call(self, method, *arguments)

    monkeypatch.setattr(engines.DaskGang, "_call", lose_one)
    with rw.engine(clients[2]):
        fit(judged)
    (lost,) = [line for line in lines() if line["level"] == "warning"]
    assert (lost["attempt"], lost["trees"], lost["error"]) == (1, 0, "ConnectionError")
