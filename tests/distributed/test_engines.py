"""Engines: the same values in the same order, by threads and by Dask."""

from __future__ import annotations

import operator
import sys
import warnings

import numpy as np
import pytest

import rankwright as rw
from rankwright.distributed import engines
from rankwright.distributed.base import tree_reduce
from rankwright.distributed.engines import DaskEngine, LocalEngine, open_engine
from rankwright.exceptions import ClusterError
from rankwright.runtime import current_engine


def power(value: float, exponent: int) -> float:
    return value**exponent


def total(values: list[float]) -> float:
    return sum(values)


@pytest.fixture(params=["threads", "dask"])
def engine(request):
    if request.param == "threads":
        return LocalEngine(3)
    return DaskEngine(request.getfixturevalue("client"))


def test_map_reduce_gather(engine):
    values = engine.scatter(range(20))
    squares = engine.map(power, values, engine.broadcast(2))
    assert engine.gather(squares) == [i * i for i in range(20)]
    assert engine.reduce(squares, operator.add) == 2470
    both = engine.map(operator.sub, (squares, values))
    assert engine.gather(both) == [i * i - i for i in range(20)]


@pytest.mark.parametrize("blocks", [1, 2, 8, 64])
def test_a_sum_of_floats_does_not_depend_on_the_blocks(engine, blocks):
    values = np.random.default_rng(1).normal(size=64).tolist()
    handles = engine.scatter(values, blocks=blocks)
    assert engine.reduce(handles, operator.add) == tree_reduce(values, operator.add)
    assert len(handles) == 64
    sums = engine.gather(engine.map_blocks(total, handles))
    assert len(sums) == blocks
    assert sum(sums) == pytest.approx(sum(values))


def test_the_engine_is_the_one_of_the_block():
    assert current_engine() is None
    with rw.engine("local:2") as outer:
        assert current_engine() is outer
        with rw.engine("local:3") as inner:
            assert current_engine() is inner
            assert inner.threads == 3
        assert current_engine() is outer
    assert current_engine() is None


@pytest.mark.parametrize("has_bokeh", [True, False])
def test_the_cluster_is_printed_once_with_a_dashboard_that_works(
    has_bokeh, client, capsys, monkeypatch
):
    DaskEngine._announced.pop(client, None)
    specs = {"bokeh": True if has_bokeh else None}
    monkeypatch.setattr(engines, "find_spec", specs.__getitem__)
    for _ in range(2):
        with rw.engine(client):
            pass
    shown = capsys.readouterr().err
    assert shown.count(client.scheduler.address) == 1
    assert shown.count("dashboard") == has_bokeh


def test_a_scheduler_that_does_not_answer(monkeypatch):
    monkeypatch.setattr("rankwright.distributed.engines.PATIENCE", 0.2)
    with pytest.raises(ClusterError, match="no scheduler answers"):
        open_engine("tcp://127.0.0.1:9")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "rankwright\[cluster\]"'):
        open_engine("tcp://127.0.0.1:9")


def test_the_names_of_tasks_tell_their_stage(judged, client):
    names = set()
    submit = client.submit

    def watched(*arguments, key, **options):
        names.add(key.rsplit("-", 1)[0])
        return submit(*arguments, key=key, **options)

    client.submit = watched
    try:
        with warnings.catch_warnings(), rw.engine(client):
            warnings.simplefilter("ignore")
            rw.LambdaMART(n_estimators=1).fit(judged.X, judged.y, qid=judged.qid)
    finally:
        del client.submit
    assert {"rankwright-Rank", "rankwright-find_used"} <= names
    assert "rankwright-value" not in names
