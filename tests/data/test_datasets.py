"""Named data sets are found, downloaded and verified, or the error says how to get them."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import numpy as np
import pytest

from rankwright.data.datasets import catalog
from rankwright.data.datasets import loading as folders
from rankwright.data.datasets.catalog import list_datasets, load_dataset
from rankwright.data.datasets.loading import Archive
from rankwright.data.queries import Queries
from rankwright.data.runs import align
from rankwright.exceptions import DatasetError, ParameterError

RATINGS = b"1::7::5::10\n2::7::3::20\n"


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A machine without data: no folder, and a cache of its own."""
    monkeypatch.delenv("RANKWRIGHT_DATA", raising=False)
    monkeypatch.setattr(folders, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path


def zipped(name: str = "ml-1m/ratings.dat", data: bytes = RATINGS) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, data)
        archive.writestr("../../evil", b"must not be unpacked")
    return file.getvalue()


class Handler(BaseHTTPRequestHandler):
    def __init__(self, content, *rest):
        self.content = content
        super().__init__(*rest)

    def do_GET(self):
        self.send_response(200 if self.path == "/ml.zip" else 404)
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *args):
        """Keep quiet."""


@pytest.fixture
def publisher(monkeypatch):
    """Serve an archive in place of GroupLens, with the given checksum (None: the right one)."""
    servers = []

    def publish(content: bytes, md5: str | None = None, path: str = "/ml.zip") -> None:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, content))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        url = f"http://127.0.0.1:{server.server_port}{path}"
        archive = Archive(url, md5 or hashlib.md5(content).hexdigest())
        entry = replace(catalog.DATASETS["movielens-1m"], archive=archive)
        monkeypatch.setitem(catalog.DATASETS, "movielens-1m", entry)

    yield publish
    for server in servers:
        server.shutdown()
        server.server_close()


# --- finding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("zip_it", [False, True])
def test_files_are_found_in_the_folder_that_is_named(nowhere, monkeypatch, zip_it):
    (nowhere / "data" / "movielens-1m").mkdir(parents=True)
    name, data = ("ratings.dat.gz", gzip.compress(RATINGS)) if zip_it else ("ratings.dat", RATINGS)
    (nowhere / "data" / "movielens-1m" / name).write_bytes(data)
    monkeypatch.setenv("RANKWRIGHT_DATA", str(nowhere / "data"))
    assert len(load_dataset("movielens-1m")) == 2


def test_files_are_found_in_the_cache(nowhere):
    (nowhere / "cache" / "movielens-1m").mkdir(parents=True)
    (nowhere / "cache" / "movielens-1m" / "ratings.dat").write_bytes(RATINGS)
    assert len(load_dataset("movielens-1m")) == 2


def test_an_archive_is_fetched_once_and_only_its_named_files_are_unpacked(nowhere, publisher):
    publisher(zipped())
    assert len(load_dataset("movielens-1m")) == 2
    publisher(b"no longer there", path="/gone")
    assert len(load_dataset("movielens-1m")) == 2
    found = [path.name for path in nowhere.rglob("*") if path.is_file()]
    assert found == ["ratings.dat"]


def test_an_archive_with_another_checksum_is_refused_and_not_kept(nowhere, publisher):
    publisher(zipped(), md5="0" * 32)
    with pytest.raises(DatasetError, match="wrong checksum"):
        load_dataset("movielens-1m")
    assert not [path for path in nowhere.rglob("*") if path.is_file()]


def test_an_archive_without_the_file_is_refused(nowhere, publisher):
    publisher(zipped("ml-1m/other.dat"))
    with pytest.raises(DatasetError, match=r"has no ratings\.dat"):
        load_dataset("movielens-1m")


def test_a_missing_page_is_a_clear_error(nowhere, publisher):
    publisher(zipped(), path="/moved")
    with pytest.raises(DatasetError, match="could not be downloaded"):
        load_dataset("movielens-1m")


def test_without_a_network_the_error_says_what_to_do(nowhere, monkeypatch):
    entry = replace(
        catalog.DATASETS["movielens-1m"], archive=Archive("http://127.0.0.1:9/a.zip", "")
    )
    monkeypatch.setitem(catalog.DATASETS, "movielens-1m", entry)
    with pytest.raises(
        DatasetError, match=r"could not be downloaded .* has ratings\.dat, or set RANK"
    ):
        load_dataset("movielens-1m")


@pytest.mark.parametrize("name", [n for n, e in catalog.DATASETS.items() if e.archive is None])
def test_a_set_that_cannot_be_fetched_is_explained(nowhere, name):
    with pytest.raises(DatasetError) as caught:
        load_dataset(name)
    entry = catalog.DATASETS[name]
    assert isinstance(caught.value, OSError)
    for words in (entry.address, entry.terms, *entry.files, "RANKWRIGHT_DATA"):
        assert words in str(caught.value)


def test_the_published_checksums_of_movielens_are_in_the_table():
    sums = {entry.archive.md5 for entry in catalog.DATASETS.values() if entry.archive}
    assert sums == {"c4d9eecfca2ab87c1945afe126590906", "0e33842e24a9c977be4e0107933c0723"}


# --- the real data, with the counts of their README -------------------------------------------


@pytest.fixture
def real(real_data):
    """Load a set from RANKWRIGHT_DATA, or skip."""

    def load(name, **options):
        entry = catalog.DATASETS[name]
        folder = real_data(entry.folder or name)
        if not folders.DatasetFolder(folder).has(entry.files):
            pytest.skip(f"{folder} is incomplete")
        return load_dataset(name, **options)

    return load


def test_movielens_1m(real):
    ratings = real("movielens-1m")
    assert (len(ratings), ratings.n_users, ratings.n_items) == (1_000_209, 6_040, 3_706)
    assert np.bincount(ratings.value.astype(int))[1:].tolist() == [
        56174,
        107557,
        261197,
        348971,
        226310,
    ]
    sizes = ratings.user_counts
    assert sizes.min() == 20
    bins = [(20, 40), (41, 60), (61, 80), (50, 300), (301, 10**9)]
    found = [int(((sizes >= low) & (sizes <= high)).sum()) for low, high in bins]
    assert found == [1351, 776, 578, 3342, 955]
    assert ratings.time is not None


def test_movielens_100k(real):
    ratings = real("movielens-100k")
    assert (len(ratings), ratings.n_users, ratings.n_items) == (100_000, 943, 1_682)
    assert np.bincount(ratings.value.astype(int))[1:].tolist() == [6110, 11370, 27145, 34174, 21201]
    assert ratings.user_counts.min() == 20


def test_jester(real):
    ratings = real("jester")
    assert (len(ratings), ratings.n_users, ratings.n_items) == (1_810_455, 24_983, 100)
    assert (ratings.value.min(), ratings.value.max()) == (-9.95, 10.0)
    sizes = ratings.user_counts
    assert (sizes.min(), int((sizes == 100).sum())) == (36, 7200)
    bins = [(36, 40), (41, 60), (61, 80)]
    assert [int(((sizes >= a) & (sizes <= b)).sum()) for a, b in bins] == [2102, 5975, 8325]


def test_book_crossing(real):
    everything = real("book-crossing", implicit=True)
    assert (len(everything), everything.n_users, everything.n_items) == (
        1_149_780,
        105_283,
        340_556,
    )
    assert int((everything.value == 0).sum()) == 716_109
    explicit = everything.take(everything.value > 0).compact()
    assert (len(explicit), explicit.n_users, explicit.n_items) == (433_671, 77_805, 185_973)
    active = explicit.take((explicit.user_counts >= 200)[explicit.user]).compact()
    assert active.n_users == 145
    dense = active.take((active.item_counts >= 10)[active.item]).compact()
    assert (dense.n_items, dense.n_users) == (87, 130)


def test_netflix_sample(real):
    parts = real("netflix-sample")
    assert (len(parts.train), parts.train.n_users, parts.train.n_items) == (109_065, 1_000, 1_667)
    assert (len(parts.test), parts.test.n_users, parts.test.n_items) == (3_326, 956, 657)
    assert (parts.train.user_counts.min(), parts.train.user_counts.max()) == (69, 493)


def test_cystic_fibrosis(real):
    judged = real("cystic-fibrosis")
    assert (len(judged), judged.n_judges, len(judged.queries)) == (4_819, 4, 100)


def average_precision(run, qrels) -> float:
    """Mean of the sum of precisions at the relevant documents found, over all relevant ones."""
    aligned = align(run, qrels)
    queries = Queries.from_ids(aligned.qid)
    values = []
    for start, stop in pairwise(queries.ptr):
        y = aligned.y[start:stop] > 0
        hits = y[np.isfinite(aligned.scores[start:stop])]
        precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        values.append((precision * hits).sum() / max(y.sum(), 1))
    return float(np.mean(values))


def test_trec9_ohsumed(real):
    track = real("trec9-ohsumed")
    assert (len(track.qrels), track.qrels.n_queries) == (3_205, 63)
    assert np.bincount(track.qrels.grade).tolist() == [0, 1649, 1556]
    sizes = sorted((len(run), run.n_queries) for run in track.runs.values())
    assert sizes == [(230, 25)] + [(3150, 63)] * 6
    assert round(average_precision(track.runs["bm25"], track.qrels), 4) == 0.0882


def test_trec_robust03(real):
    track = real("trec-robust03")
    assert np.bincount(track.qrels.grade).tolist() == [122_722, 5_667, 407]
    assert track.qrels.n_queries == 100
    sizes = {name: len(run) for name, run in track.runs.items()}
    assert len(sizes) == 17
    assert sorted(sizes.values())[3:] == [100_000] * 14
    assert (sizes["uic0301"], sizes["humR03dc"], sizes["NLPR03vb10"]) == (99_969, 10_000, 1_004)
    published = {
        "pircRBa1": 0.3101,
        "fub03IeOLKe3": 0.2503,
        "UAmsT03RDesc": 0.2065,
        "oce03noXbmD": 0.1986,
        "NLPR03vb10": 0.1055,
    }
    for name, expected in published.items():
        assert round(average_precision(track.runs[name], track.qrels), 4) == expected


@pytest.mark.parametrize(
    "name, n_items, n_features, n_queries",
    [
        ("letor3-ohsumed", 16_140, 45, 106),
        ("letor4-mq2008", 15_211, 46, 784),
        ("letor4-mq2007-partial", 59_135, 46, 1_692),
        ("letor4-mq2007-agg", 69_623, 21, 1_692),
        ("letor4-mq2008-agg", 15_211, 25, 784),
    ],
)
def test_letor_sets_are_reached(real, name, n_items, n_features, n_queries):
    items = real(name)
    assert (items.n_items, items.n_features, items.n_queries) == (n_items, n_features, n_queries)


def test_the_folds_of_ohsumed_are_reached(real):
    fold = real("letor3-ohsumed", fold=1)
    sides = [set(part.qid.tolist()) for part in (fold.train, fold.vali, fold.test)]
    assert len(sides[2]) == 22
    assert len(set.union(*sides)) == sum(map(len, sides)) == 106
    with pytest.raises(ParameterError, match=r"one of 1 \.\. 5"):
        real("letor3-ohsumed", fold=6)


def test_the_raw_versions_of_ohsumed_are_reached(real):
    gaps = real("letor3-ohsumed", version="null")
    assert int(np.isnan(gaps.X).sum()) == 51_490
    with pytest.raises(ParameterError, match="was not published in folds"):
        real("letor3-ohsumed", version="null", fold=1)
    with pytest.raises(ParameterError, match="use"):
        real("letor3-ohsumed", version="max")


def test_folds_made_of_parts_rotate(real):
    whole = real("letor4-mq2008-agg")
    folds = [real("letor4-mq2008-agg", fold=k) for k in (1, 2)]
    assert folds[0].test.n_items + folds[0].vali.n_items + folds[0].train.n_items == whole.n_items
    assert folds[0].test.qid.tolist() == folds[1].vali.qid.tolist()
    assert folds[0].train.qid[0] == whole.qid[0]


def test_the_parts_of_mq2008_agree_with_its_published_folds(real):
    agg, letor = real("letor4-mq2008-agg", fold=3), real("letor4-mq2008", fold=3)
    for part in ("train", "vali", "test"):
        assert (getattr(agg, part).y == getattr(letor, part).y).all()


def test_mslr_and_lightgbm_samples_are_reached(real):
    mslr = real("mslr-web-sample")
    assert [(part.n_items, part.n_queries) for part in (mslr.train, mslr.test)] == [(5000, 43)] * 2
    sample = real("lightgbm-rank")
    assert (sample.train.n_items, sample.train.n_queries) == (3005, 201)
    assert (sample.test.n_items, sample.test.n_queries) == (768, 50)


@pytest.mark.parametrize(
    "name, shape, counts",
    [
        ("uci-abalone", (4177, 10), None),
        ("uci-housing", (506, 13), None),
        ("uci-machine-cpu", (209, 6), None),
        ("uci-winequality-red", (1599, 11), None),
        ("ben-david-era", (1000, 4), [92, 142, 181, 172, 158, 118, 88, 31, 18]),
        ("ben-david-esl", (488, 4), [2, 12, 38, 100, 116, 135, 62, 19, 4]),
        ("ben-david-lev", (1000, 4), [93, 280, 403, 197, 27]),
        ("ben-david-swd", (1000, 10), [32, 352, 399, 217]),
        ("equal-width-abalone", (4177, 10), 10),
        ("equal-width-auto", (392, 7), 10),
        ("equal-width-bostonhousing", (506, 13), 5),
        ("equal-width-machine", (199, 6), 10),
        ("equal-width-stock", (950, 9), 5),
        ("equal-width-wisconsin_breast", (194, 32), 5),
    ],
)
def test_ordinal_sets(real, name, shape, counts):
    items = real(name)
    assert items.X.shape == shape
    assert np.isfinite(items.X).all()
    _, found = np.unique(items.y, return_counts=True)
    if isinstance(counts, list):
        assert found.tolist() == counts
    elif counts:
        assert len(found) == counts


def test_every_folder_of_the_real_data_has_a_name(real_data):
    known = {entry.folder.split("/")[0] or name for name, entry in catalog.DATASETS.items()}
    folders = {entry.name for entry in os.scandir(real_data(".")) if entry.is_dir()}
    raw_text = {"cranfield", "home-depot"}  # queries and documents without features or ratings
    assert folders - raw_text <= known


def test_every_name_says_what_it_stands_for():
    assert len(list_datasets()) == len(catalog.DATASETS) >= 25
    assert all(list_datasets().values())
