"""Files with recomputed checksums that would take memory or time, or contradict themselves."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankwright as rw
from rankwright.exceptions import ModelFileError
from rankwright.persist import codec
from rankwright.rankers.neighbors.vsim import VSIMFeature
from rankwright.rankers.schema import floats, integers

READERS = [rw.load, rw.load_scorer]


def grow(file: Any, n_values: int) -> None:
    """Append an array of zeros to the file."""
    start, entry = len(file.data), dict(file.manifest["arrays"]["model.coef_"], shape=[n_values])
    file.manifest["arrays"]["large"] = entry
    offsets = [start, start + 8 * n_values]
    file.header["large"] = {"dtype": "F64", "shape": [n_values], "data_offsets": offsets}
    file.data += bytes(8 * n_values)


@pytest.mark.parametrize("reader", READERS, ids=["load", "load_scorer"])
@pytest.mark.parametrize("where", ["parameter", "learned", "scorer", "text", "objects"])
def test_many_references_to_one_array_take_neither_memory_nor_time(
    where: str,
    reader: Callable[[Path], Any],
    forge: Callable[[], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, one = forge(), {"array": "large"}
    grow(file, 2**17)
    model, scorer = file.manifest["model"], file.manifest["served"]["scorer"]
    if where == "parameter":
        model["params"]["alpha"] = [one] * 20_000
    elif where == "learned":
        model["learned"]["coef_"] = [one] * 20_000
    elif where == "text":
        text = {"text": {"bytes": {"array": "model.coef_"}, "ends": one, "shape": [2**17]}}
        model["params"]["alpha"] = scorer["values"]["coef"] = [text] * 20_000
    elif where == "objects":
        monkeypatch.setattr(codec, "MAX_NODES", 1000)
        node = {"model": {"kind": "RidgeRanker", "params": {}, "learned": {}}}
        model["params"]["alpha"] = scorer["values"]["coef"] = [node] * 20_000
    if where in ("parameter", "learned", "scorer"):
        part = {"state": {"kind": "linear", "values": {"coef": one}}}
        scorer["values"]["coef"] = [part] * 20_000
    path = file.write(tmp_path / "forged.rw")
    start = time.process_time()
    with pytest.raises(ModelFileError):  # not a MemoryError: 20,000 copies of it have 20 GB
        reader(path)
    assert time.process_time() - start < 10


def test_a_model_that_repeats_large_arrays_stores_them_again(
    regression: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "MAX_REPEATED", 2**11)
    packer = codec.Packer()
    packed = packer.pack([np.ones(100)] * 5, "model")
    assert [value["array"] for value in packed] == ["model.0"] * 3 + ["model.3", "model.4"]
    unpacked = codec.Unpacker(packer.arrays, {}, own=True).unpack(packed)
    assert len({id(array) for array in unpacked}) == 5
    with pytest.raises(codec.Refused, match="again and again"):
        codec.Unpacker(packer.arrays, {}, own=False).unpack([packed[0]] * 4)


def other_intercept(file: Any) -> None:
    file.manifest["model"]["learned"]["intercept_"] += 1.0


def other_scorer(file: Any) -> None:
    file.manifest["served"]["scorer"]["values"]["intercept"] += 1e-6


def other_coef(file: Any) -> None:
    grow(file, 4)
    file.manifest["served"]["scorer"]["values"]["coef"] = {"array": "large"}


def a_transform(file: Any) -> None:
    values = {"n_columns": 4, "method": "max"}
    file.manifest["served"]["transforms"] = [{"kind": "query_scale", "values": values}]


def another_alpha(file: Any) -> None:
    file.manifest["model"]["params"]["alpha"] = 7.0


EDITS = [other_intercept, other_scorer, other_coef, another_alpha]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_a_model_scores_with_the_scorer_of_its_file_whatever_else_was_edited(
    edit: Callable[[Any], None], forge: Callable[[], Any], rows: np.ndarray, tmp_path: Path
) -> None:
    file = forge()
    edit(file)
    path = file.write(tmp_path / "forged.rw")
    scores = [reader(path).decision_function(rows) for reader in READERS]
    np.testing.assert_array_equal(*scores)


def wide_scorer(file: Any) -> None:
    grow(file, 5)
    file.manifest["served"]["scorer"]["values"]["coef"] = {"array": "large"}


def other_width(file: Any) -> None:
    file.manifest["model"]["learned"]["n_features_in_"] = 5


def not_a_ranker(file: Any) -> None:
    file.manifest["model"] = {"kind": "QueryNormalizer", "params": {}, "learned": {}}
    file.manifest["model"]["learned"]["n_features_in_"] = 4


@pytest.mark.parametrize("edit", [wide_scorer, other_width, not_a_ranker])
def test_a_scorer_that_does_not_fit_the_columns_of_its_model_is_refused(
    edit: Callable[[Any], None], forge: Callable[[], Any], tmp_path: Path
) -> None:
    file = forge()
    edit(file)
    with pytest.raises(ModelFileError):
        rw.load(file.write(tmp_path / "forged.rw"))


def test_a_pipeline_whose_ranker_takes_fewer_columns_than_its_scorer_is_refused(
    rows: np.ndarray, grades: np.ndarray, forgery: Any, tmp_path: Path
) -> None:
    path = tmp_path / "pipeline.rw"
    rw.save(make_pipeline(VSIMFeature(), rw.RidgeRanker()).fit(rows, grades), path)
    file = forgery(path)
    file.manifest["served"]["transforms"] = []
    with pytest.raises(ModelFileError):
        rw.load(file.write(path))


def no_terms(model: Any, scorer: Any) -> None:
    scorer["values"]["terms"] = [1, 2]


def a_text_as_term(model: Any, scorer: Any) -> None:
    scorer["values"]["terms"]["tuple"][0] = "linear"


def drop_term(model: Any, scorer: Any) -> None:
    scorer["values"]["terms"]["tuple"].pop()


def a_text_as_member(model: Any, scorer: Any) -> None:
    model["learned"]["members_"][0] = "RidgeRanker"


def a_number_as_members(model: Any, scorer: Any) -> None:
    model["learned"]["members_"] = 2


def one_name_less(model: Any, scorer: Any) -> None:
    model["params"]["members"].pop()


ENSEMBLE_EDITS = [
    no_terms, a_text_as_term, drop_term, a_text_as_member, a_number_as_members, one_name_less,
]  # fmt: skip


@pytest.mark.parametrize("edit", ENSEMBLE_EDITS, ids=lambda edit: edit.__name__)
def test_an_ensemble_of_something_else_is_refused(
    edit: Any, rows: np.ndarray, grades: np.ndarray, forgery: Any, tmp_path: Path
) -> None:
    path = tmp_path / "ensemble.rw"
    members = [rw.RidgeRanker(), make_pipeline(StandardScaler(), rw.RidgeRanker(alpha=1.0))]
    rw.save(rw.RankEnsemble(members, weights=[1, 3]).fit(rows, grades), path)
    file = forgery(path)
    edit(file.manifest["model"], file.manifest["served"]["scorer"])
    with pytest.raises(ModelFileError):
        rw.load(file.write(path))


@pytest.mark.parametrize(
    "model", [rw.LambdaMART(n_estimators=5, min_samples_leaf=1), rw.RidgeRanker(), rw.RankNet()]
)
def test_arrays_of_the_scorer_are_in_the_file_once(
    model: Any, rows: np.ndarray, grades: np.ndarray, forgery: Any, tmp_path: Path
) -> None:
    path = tmp_path / "model.rw"
    rw.save(model.fit(rows, grades), path)
    assert not [name for name in forgery(path).manifest["arrays"] if name.startswith("served")]
    loaded = rw.load(path)
    shared = [getattr(loaded, name) for name in vars(loaded) if name.endswith("_")]
    for field in loaded._fitted_scorer().values().values():
        assert not isinstance(field, np.ndarray) or any(field is array for array in shared)


@pytest.mark.parametrize("reader", READERS, ids=["load", "load_scorer"])
def test_format_1_is_refused_with_advice(
    reader: Callable[[Path], Any], forge: Callable[[], Any], tmp_path: Path
) -> None:
    file = forge()
    file.manifest["format"] = 1
    with pytest.raises(ModelFileError, match=r"format 1.* Train the model again"):
        reader(file.write(tmp_path / "old.rw"))


def test_learned_arrays_of_another_type_are_refused(
    forge: Callable[[], Any], tmp_path: Path
) -> None:
    file = forge()
    for place in (file.header["model.coef_"], file.manifest["arrays"]["model.coef_"]):
        place["dtype"] = "F32"
    file.header["model.coef_"]["data_offsets"] = [0, 16]
    file.data = bytearray(np.ones(4, np.float32).tobytes())
    with pytest.raises(ModelFileError, match=r"float32; it must be float64|wrong type"):
        rw.load(file.write(tmp_path / "forged.rw"))


@pytest.mark.parametrize("declared, dtype", [(floats(2), "f4"), (integers(2), "i4")])
def test_a_declared_type_is_the_exact_type(declared: Any, dtype: str) -> None:
    with pytest.raises(ValueError, match="it must be"):
        declared.check("x_", np.ones(2, dtype), {})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system")
@pytest.mark.parametrize("reader", READERS, ids=["load", "load_scorer"])
def test_a_pipe_in_place_of_the_file_does_not_hang(
    reader: Callable[[Path], Any], saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that takes the file's place after its path was examined."""
    regular = os.stat(saved)
    pipe = tmp_path / "pipe.rw"
    os.mkfifo(pipe)
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda p, **k: regular if p == pipe else real(p, **k))
    errors: list[BaseException] = []

    def run() -> None:
        try:
            reader(pipe)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    assert "not a regular file" in str(errors)
