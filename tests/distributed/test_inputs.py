"""Files and Dask collections on an engine: the bytes of the local fit on the same rows."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from rankwright.distributed import inputs
from rankwright.exceptions import DataError, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning")


def ranker():
    return rw.LambdaMART(n_estimators=2, min_samples_leaf=5, max_leaf_nodes=8)


@pytest.fixture(scope="module")
def frame(judged):
    table = pd.DataFrame(judged.X, columns=[f"f{i}" for i in range(5)])
    table["label"], table["query"] = judged.y, [f"q{i}" for i in judged.qid]
    return table


@pytest.fixture(scope="module")
def local(frame, tmp_path_factory):
    model = ranker().fit(frame.filter(like="f"), frame["label"], qid=frame["query"])
    path = tmp_path_factory.mktemp("local") / "model.rw"
    rw.save(model, path)
    return path.read_bytes()


def write_parts(frame, folder, n_parts, suffix):
    order = np.random.default_rng(n_parts).permutation(len(frame))
    for i, rows in enumerate(np.array_split(order, n_parts)):
        part, path = frame.iloc[rows], folder / f"part-{i:02}{suffix}"
        if suffix == ".parquet":
            part.to_parquet(path, index=False, row_group_size=100)
        else:
            part.to_csv(path, index=False)
    return folder


@pytest.mark.parametrize("n_parts, suffix", [(1, ".parquet"), (7, ".parquet"), (2, ".csv")])
def test_folders_and_globs_of_tables(frame, local, n_parts, suffix, tmp_path, model_bytes):
    folder = write_parts(frame, tmp_path, n_parts, suffix)
    with rw.engine("local:3"):
        assert model_bytes(ranker().fit(folder, "label", qid="query")) == local
        pattern = str(folder / f"part-*{suffix}")
        assert model_bytes(ranker().fit(pattern, "label", qid="query")) == local


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask with pandas 3.1
def test_the_index_that_dask_and_pandas_write_is_no_feature(frame, local, tmp_path, model_bytes):
    dataframe = pytest.importorskip("dask.dataframe")
    dataframe.from_pandas(frame, npartitions=2).to_parquet(tmp_path / "dask")
    frame.sample(frac=1, random_state=0).to_parquet(tmp_path / "pandas.parquet")
    with rw.engine("local:2"):
        for path in ("dask", "pandas.parquet"):
            assert model_bytes(ranker().fit(tmp_path / path, "label", qid="query")) == local
    chosen = rw.read_items(tmp_path / "pandas.parquet", features=["f1", "__index_level_0__"])
    assert chosen.n_features == 2


@pytest.mark.parametrize("name", ["data.parquet", "data.csv", "data.tsv", "quoted.csv"])
def test_tables_in_pieces_with_usual_columns(
    frame, local, name, tmp_path, model_bytes, monkeypatch
):
    """Columns are found by name, ids left out, and one large row group is read in parts."""
    monkeypatch.setattr(inputs, "_chunk", lambda memory: 8000)
    table = frame.assign(docid=np.arange(len(frame)))
    if name.endswith("parquet"):
        table.to_parquet(tmp_path / name, index=False)
    else:
        quoting = {"quoting": 1} if name == "quoted.csv" else {}
        table.to_csv(tmp_path / name, index=False, sep="\t" if "tsv" in name else ",", **quoting)
    n_sources = len(inputs.list_sources(tmp_path / name, 1))
    assert n_sources > 2 if name in ("data.csv", "data.tsv") else n_sources == 1
    for memory in (None, "1MB"):
        with rw.engine("local:2", memory=memory):
            assert model_bytes(ranker().fit(tmp_path / name, None)) == local


def test_letor_files_in_pieces(judged, tmp_path, model_bytes, monkeypatch):
    X = np.nan_to_num(judged.X)
    rw.write_letor(rw.Items(X, y=judged.y, qid=judged.qid), tmp_path / "data.txt")
    whole = rw.read_letor(tmp_path / "data.txt")
    local = model_bytes(ranker().fit(whole.X, whole.y, qid=whole.qid))
    monkeypatch.setattr(inputs, "CHUNK", 4000)
    assert len(inputs.list_sources(tmp_path)) > 4
    with rw.engine("local:2"):
        assert model_bytes(ranker().fit(tmp_path / "data.txt", None)) == local


@pytest.mark.parametrize("n_parts", [1, 7])
def test_dask_data_frames(frame, local, client, n_parts, model_bytes):
    dd = pytest.importorskip("dask.dataframe")
    ddf = dd.from_pandas(frame.sample(frac=1.0, random_state=n_parts), npartitions=n_parts)
    with rw.engine(client):
        assert model_bytes(ranker().fit(ddf, y="label", qid="query")) == local
    features = ddf[[f"f{i}" for i in range(5)]]
    with rw.engine("local:2"):
        assert model_bytes(ranker().fit(features, ddf["label"], qid=ddf["query"])) == local


def test_a_second_fit_gives_the_file_of_the_first(frame, local, judged, model_bytes):
    """Attributes that an earlier fit left behind do not change the order in the file."""
    dd, model = pytest.importorskip("dask.dataframe"), ranker()
    ddf = dd.from_pandas(frame, npartitions=3)
    model.fit(judged.X, judged.y, qid=judged.qid)
    with rw.engine("local:2"):
        assert model_bytes(model.fit(ddf, y="label", qid="query")) == local
        assert model_bytes(model.fit(ddf, y="label", qid="query")) == local
    model.fit(judged.X, judged.y, qid=judged.qid)
    assert (
        model_bytes(model.fit(frame.filter(like="f"), frame["label"], qid=frame["query"])) == local
    )


def test_dask_arrays(judged, client, model_bytes):
    da = pytest.importorskip("dask.array")
    local = model_bytes(ranker().fit(judged.X, judged.y, qid=judged.qid))
    X, y = da.from_array(judged.X, chunks=(100, 3)), da.from_array(judged.y, chunks=250)
    with rw.engine(client):
        assert model_bytes(ranker().fit(X, y, qid=judged.qid)) == local


def test_weights_are_columns(frame, tmp_path, model_bytes):
    table = frame.assign(weight=1.0 + (frame["label"] > 2))
    rows = {"qid": table["query"], "sample_weight": table["weight"]}
    local = model_bytes(ranker().fit(frame.filter(like="f"), table["label"], **rows))
    table.to_csv(tmp_path / "data.csv", index=False)
    with rw.engine("local:2"):
        model = ranker().fit(tmp_path, "label", qid="query", sample_weight="weight")
    assert model_bytes(model) == local


def test_out_of_core_gives_the_same_bytes(frame, local, tmp_path, model_bytes, monkeypatch):
    monkeypatch.setattr("rankwright.distributed.engines.SMALL", 100)
    folder = write_parts(frame, tmp_path, 3, ".parquet")
    with rw.engine("local:2", memory="1MB") as engine:
        assert model_bytes(ranker().fit(folder, "label", qid="query")) == local
        assert engine.n_blocks == 2
        engine.expect(1_000_000)
        assert engine.n_blocks == 64


def test_what_cannot_be_read(frame, tmp_path):
    with rw.engine("local:2"), pytest.raises(DataError, match="no file matches"):
        ranker().fit(tmp_path / "none-*.csv", "label", qid="query")
    frame.iloc[:0].to_parquet(tmp_path / "none.parquet")
    with rw.engine("local:2"), pytest.raises(DataError, match=r"none\.parquet has no row"):
        ranker().fit(tmp_path / "none.parquet", "label", qid="query")
    (tmp_path / "none.parquet").unlink()
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.drop(columns="f0").to_csv(tmp_path / "b.csv", index=False)
    with rw.engine("local:2"), pytest.raises(DataError, match=r"b\.csv has different .*f0"):
        ranker().fit(tmp_path, "label", qid="query")
    with pytest.raises(ParameterError, match=r"rankwright\.engine"):
        ranker().fit(tmp_path, "label", qid="query")


def test_a_file_without_rows_beside_others_changes_nothing(frame, local, tmp_path, model_bytes):
    frame.iloc[:0].to_parquet(tmp_path / "a.parquet", index=False)
    frame.to_parquet(tmp_path / "b.parquet", index=False)
    with rw.engine("local:2"):
        assert model_bytes(ranker().fit(tmp_path, "label", qid="query")) == local


def test_columns_are_matched_by_name_in_any_order(frame, local, tmp_path, model_bytes):
    half = len(frame) // 2
    frame.iloc[:half].to_parquet(tmp_path / "a.parquet", index=False)
    shuffled = frame[["query", *(f"f{i}" for i in (3, 0, 4, 1, 2)), "label"]]
    shuffled.iloc[half:].to_parquet(tmp_path / "b.parquet", index=False)
    with rw.engine("local:2"):
        found = ranker().fit(tmp_path, "label", qid="query")
    assert model_bytes(found) == local


def test_lists_of_paths_and_hive_partitions(frame, local, tmp_path, model_bytes):
    thirds = np.array_split(np.arange(len(frame)), 3)
    for day, rows in enumerate(thirds):
        folder = tmp_path / f"day={day}"
        folder.mkdir()
        frame.iloc[rows].to_parquet(folder / "part.parquet", index=False)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("not data\n")
    with rw.engine("local:2"):
        assert model_bytes(ranker().fit(tmp_path, "label", qid="query")) == local
        paths = [tmp_path / f"day={day}" for day in range(3)]
        assert model_bytes(rw.fit_files(ranker(), paths, "label", qid="query")) == local


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_urls_are_read_by_fsspec(frame, local, suffix, tmp_path, model_bytes):
    fsspec = pytest.importorskip("fsspec")
    write_parts(frame, tmp_path, 3, suffix)
    memory = fsspec.filesystem("memory")
    name = f"bucket-{suffix[1:]}"
    memory.put(str(tmp_path), f"/{name}", recursive=True)
    with rw.engine("local:2"):
        for url in (f"memory://{name}", f"memory://{name}/part-*{suffix}"):
            found = rw.fit_files(ranker(), url, "label", qid="query", storage_options={})
            assert model_bytes(found) == local
        with pytest.raises(DataError, match="no file matches"):
            rw.fit_files(ranker(), f"memory://{name}/none-*", "label", qid="query")
        with pytest.raises(ParameterError, match="nosuch"):
            rw.fit_files(ranker(), "nosuch://bucket/a.parquet", "label", qid="query")


def test_small_files_are_read_together(frame, local, tmp_path, model_bytes):
    folder = write_parts(frame, tmp_path, 40, ".csv")
    assert len(inputs.list_sources(folder)) == 1
    with rw.engine("local:2"):
        assert model_bytes(ranker().fit(folder, "label", qid="query")) == local


def test_a_broken_parquet_file_is_named(frame, tmp_path):
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    with rw.engine("local:2"), pytest.raises(DataError, match=r"b\.parquet: this Parquet file"):
        ranker().fit(tmp_path, "label", qid="query")


def with_cells(frame, column, values):
    """The frame with other values in its last rows."""
    changed, before = frame.copy(), frame[column].tolist()[: -len(values)]
    if isinstance(values[0], str):
        before = list(map(str, before))
    changed[column] = [*before, *values] if before else values
    return changed


FAULTS = {
    "text": ("f1", ["a secret"], 600, "wrong cell"),
    "infinity": ("f2", [np.inf, 1.0], 599, "wrong cell"),
    "text grade": ("label", ["a secret"] * 600, 1, "text grades"),
    "category grade": ("label", pd.Categorical(["a secret"] * 600), 1, "text grades"),
}


@pytest.mark.parametrize("column, values, row, kind", FAULTS.values(), ids=FAULTS)
def test_a_cell_that_is_no_number_is_named(column, values, row, kind, frame, tmp_path):
    with_cells(frame, column, values).to_parquet(tmp_path / "a.parquet", index=False)
    with rw.engine("local:2"), pytest.raises(DataError) as error:
        ranker().fit(tmp_path, "label", qid="query")
    assert (error.value.file, error.value.line) == (str(tmp_path / "a.parquet"), row)
    assert error.value.kind == kind
    assert column in error.value.message
    assert "numbers" in error.value.fix  # not an argument of read_items, which fit has not


def test_rows_of_later_row_groups_are_counted_from_where_the_group_starts(frame, tmp_path):
    bad = with_cells(frame, "f1", ["a secret"])
    bad.to_parquet(tmp_path / "a.parquet", index=False, row_group_size=250)
    with rw.engine("local:2"), pytest.raises(DataError, match=r"from row 501\): row 100: f1"):
        ranker().fit(tmp_path, "label", qid="query")


def test_workers_log_no_values_of_a_file_that_they_refuse(frame, tmp_path, client, caplog):
    caplog.set_level("DEBUG", "distributed.worker")
    logging.getLogger("distributed.worker").addHandler(caplog.handler)
    with_cells(frame, "f1", ["a secret"]).to_parquet(tmp_path / "a.parquet", index=False)
    with rw.engine(client), pytest.raises(DataError, match="a secret") as error:
        ranker().fit(tmp_path, "label", qid="query")
    assert any(entry.name == "items_from_piece" for entry in error.traceback)  # of the worker
    logging.getLogger("distributed.worker").removeHandler(caplog.handler)
    assert "Compute Failed" in caplog.text
    assert "a secret" not in caplog.text


@pytest.mark.filterwarnings("ignore")  # boto's own
def test_a_bucket_is_read_by_workers(frame, local, tmp_path, model_bytes, clients):
    pytest.importorskip("s3fs", reason="s3fs reads s3:// and is not installed")
    server_module = pytest.importorskip("moto.server", reason="moto serves a bucket")
    fsspec = pytest.importorskip("fsspec")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        options = {"endpoint_url": f"http://{host}:{port}", "key": "k", "secret": "s"}
        bucket = fsspec.filesystem("s3", **options)
        bucket.mkdir("bucket")
        write_parts(frame, tmp_path, 3, ".parquet")
        for day, path in enumerate(sorted(tmp_path.glob("*.parquet"))):
            bucket.put(str(path), f"bucket/train/day={day}/{path.name}")
        with rw.engine(clients[2]):
            where = {"qid": "query", "storage_options": options}
            found = rw.fit_files(ranker(), "s3://bucket/train", "label", **where)
        assert model_bytes(found) == local
    finally:
        server.stop()
