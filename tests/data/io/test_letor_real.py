"""Published LETOR sets load with the counts that their folder's README states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.io.letor import reader as read
from rankwright.data.items import Items

RealData = Callable[[str], Path]


def join(paths: list[Path]) -> Items:
    return Items.concat([rw.read_letor(path) for path in paths])


def grades(items: Items) -> list[int]:
    assert (items.y == items.y.astype(int)).all()
    return np.bincount(items.y.astype(int)).tolist()


def shape(items: Items) -> tuple[int, int, int]:
    return items.n_queries, items.n_items, items.n_features


OHSUMED = (106, 16_140, 45)


@pytest.mark.parametrize("version", ["Feature-min", "Feature-null"])
def test_ohsumed_before_normalization(real_data: RealData, version: str) -> None:
    items = rw.read_letor(real_data(f"letor3-ohsumed/{version}/ALL/OHSUMED.txt.gz"))
    assert shape(items) == OHSUMED
    assert grades(items) == [11_303, 2_585, 2_252]
    assert (items.queries.sizes.min(), items.queries.sizes.max()) == (35, 320)
    assert np.isnan(items.X).sum() == (51_490 if version == "Feature-null" else 0)
    assert items.docid[0] == "244338"


def test_ohsumed_normalized_by_query(real_data: RealData) -> None:
    folder = real_data("letor3-ohsumed/QueryLevelNorm")
    tests = [rw.read_letor(folder / f"Fold{k}/test.txt.gz") for k in range(1, 6)]
    assert [part.n_queries for part in tests] == [22, 21, 21, 21, 21]
    items = Items.concat(tests)
    assert shape(items) == OHSUMED
    assert grades(items) == [11_303, 2_585, 2_252]
    best = np.zeros(items.n_queries)
    np.maximum.at(best, items.queries.codes, items.y)
    assert (best == 0).sum() == 1


@pytest.mark.parametrize("fold", [1, 5])
def test_the_parts_of_an_ohsumed_fold_share_no_query(real_data: RealData, fold: int) -> None:
    folder = real_data(f"letor3-ohsumed/QueryLevelNorm/Fold{fold}")
    parts = [rw.read_letor(folder / f"{name}.txt.gz") for name in ("train", "vali", "test")]
    ids = [set(part.qid.tolist()) for part in parts]
    assert sum(map(len, ids)) == len(set.union(*ids)) == 106
    assert sum(map(len, parts)) == 16_140


def test_mq2008(real_data: RealData) -> None:
    folder = real_data("letor4-mq2008")
    items = join([folder / f"Fold{k}/test.txt.gz" for k in range(1, 6)])
    assert shape(items) == (784, 15_211, 46)
    assert grades(items) == [12_279, 2_001, 931]
    assert (items.queries.sizes.min(), items.queries.sizes.max()) == (5, 121)
    best = np.zeros(items.n_queries)
    np.maximum.at(best, items.queries.codes, items.y)
    assert (best == 0).sum() == 220


def test_the_comments_of_mq2008_end_in_inc_and_prob(real_data: RealData) -> None:
    items = rw.read_letor(real_data("letor4-mq2008/Fold1/vali.txt.gz"), comments="keep")
    assert all(" inc = " in text and " prob = " in text for text in items.comment)
    assert all(docid.startswith("GX") for docid in items.docid)


def test_mq2007_partial(real_data: RealData) -> None:
    folder = real_data("letor4-mq2007-partial")
    items = join([folder / f"S{k}.partial.txt.gz" for k in range(1, 6)])
    assert shape(items) == (1_692, 59_135, 46)
    assert grades(items) == [43_857, 11_994, 3_284]
    assert (items.queries.sizes.min(), items.queries.sizes.max()) == (6, 127)


def test_mq2007_aggregation(real_data: RealData) -> None:
    folder = real_data("letor4-mq2007-agg")
    items = join([folder / f"A{k}.txt.gz" for k in range(1, 6)])
    assert shape(items) == (1_692, 69_623, 21)
    assert grades(items) == [51_632, 14_128, 3_863]
    assert np.isnan(items.X).sum() == 508_381
    assert (np.nanmin(items.X), np.nanmax(items.X)) == (1, 573)


def test_mq2008_aggregation_has_the_rows_of_mq2008(real_data: RealData) -> None:
    folder = real_data("letor4-mq2008-agg")
    items = join([folder / f"A{k}.txt.gz" for k in range(1, 6)])
    assert shape(items) == (784, 15_211, 25)
    assert np.isnan(items.X).sum() == 247_320
    assert np.nanmax(items.X) == 530
    features = real_data("letor4-mq2008")
    # The test part of fold k is the (k + 4)th of the release's five parts.
    other = join([features / f"Fold{k}/test.txt.gz" for k in (2, 3, 4, 5, 1)])
    assert items.docid.tolist() == other.docid.tolist()
    assert items.y.tolist() == other.y.tolist()


@pytest.mark.parametrize(
    "part, counts", [("train", [2_792, 1_458, 665, 55, 30]), ("test", [2_847, 1_442, 579, 98, 34])]
)
def test_mslr_sample(real_data: RealData, part: str, counts: list[int]) -> None:
    items = rw.read_letor(real_data(f"mslr-web-sample/msn1.fold1.{part}.5k.txt.gz"))
    assert shape(items) == (43, 5_000, 136)
    assert grades(items) == counts
    assert items.docid is None


@pytest.mark.parametrize("part, rows, groups", [("train", 3_005, 201), ("test", 768, 50)])
def test_lightgbm_rank_takes_its_queries_from_the_side_file(
    real_data: RealData, part: str, rows: int, groups: int
) -> None:
    path = real_data(f"lightgbm-rank/rank.{part}.gz")
    items = rw.read_letor(path, group=path.with_name(f"rank.{part}.query"), n_features=300)
    assert shape(items) == (groups, rows, 300)
    assert (items.y.min(), items.y.max()) == (0, 4)


def test_both_parsers_read_the_same_from_real_files(
    real_data: RealData, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = real_data("letor4-mq2007-agg/A1.txt.gz")
    results = []
    for large in (0, 2**62):
        monkeypatch.setattr(read, "_LARGE", large)
        monkeypatch.setattr(read, "_LARGE_COLD", large)
        results.append(rw.read_letor(path, comments="keep"))
    plain, kernel = results
    assert plain.X.tobytes() == kernel.X.tobytes()
    assert plain.qid.tolist() == kernel.qid.tolist()
    assert plain.comment.tolist() == kernel.comment.tolist()
