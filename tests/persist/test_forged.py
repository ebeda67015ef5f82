"""Files with recomputed checksums that would take memory or time, or be two models at once."""

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
        node = {"model": {"kind": "Regression", "params": {}, "learned": {}}}
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


def takes_nan(file: Any) -> None:
    file.manifest["served"]["allow_nan"] = True


def no_scorer(file: Any) -> None:
    file.manifest["served"] = None


def feature_names(file: Any) -> None:
    file.manifest["feature_names"] = list("abcd")


EDITS = [
    other_intercept, other_scorer, other_coef, a_transform, takes_nan, no_scorer, feature_names,
]  # fmt: skip


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_a_model_and_a_scorer_that_disagree_are_refused(
    edit: Callable[[Any], None], forge: Callable[[], Any], tmp_path: Path
) -> None:
    file = forge()
    edit(file)
    path = file.write(tmp_path / "forged.rw")
    with pytest.raises(ModelFileError, match=r"disagree|without a model"):
        rw.load(path)
    with pytest.raises(ModelFileError):
        rw.load_scorer(path, verify=True)
    if edit is not takes_nan:  # NumPy alone sees the others too
        with pytest.raises(ModelFileError, match=r"disagree|no scores for rows"):
            rw.load_scorer(path)


@pytest.mark.parametrize("model", [rw.RankBoost(n_estimators=5), rw.PRank(), rw.MPRank()])
def test_numpy_alone_sees_a_learned_array_that_the_scorer_does_not_repeat(
    model: Any, rows: np.ndarray, grades: np.ndarray, forgery: Any, tmp_path: Path
) -> None:
    path = tmp_path / "model.rw"
    rw.save(model.fit(rows, grades), path)
    name = "alpha_" if isinstance(model, rw.RankBoost) else "coef_"
    file = forgery(path)
    entry = dict(file.manifest["arrays"][f"model.{name}"])
    start, size = len(file.data), 8 * entry["shape"][0]
    file.manifest["arrays"]["other"] = entry
    offsets = [start, start + size]
    file.header["other"] = {"dtype": "F64", "shape": entry["shape"], "data_offsets": offsets}
    file.data += np.arange(entry["shape"][0], dtype=np.float64).tobytes()
    file.manifest["model"]["learned"][name] = {"array": "other"}
    with pytest.raises(ModelFileError, match="disagree"):
        rw.load_scorer(file.write(path))


def test_a_pipeline_and_its_scorer_that_disagree_are_refused(
    rows: np.ndarray, grades: np.ndarray, forgery: Any, tmp_path: Path
) -> None:
    path = tmp_path / "pipeline.rw"
    rw.save(make_pipeline(StandardScaler(), rw.Regression()).fit(rows, grades), path)
    assert rw.load_scorer(path, verify=True).n_features == 4
    file = forgery(path)
    file.manifest["served"]["transforms"] = []
    with pytest.raises(ModelFileError, match="disagree"):
        rw.load(file.write(path))


def swap_terms(model: Any, scorer: Any) -> None:
    scorer["values"]["terms"]["tuple"].reverse()


def drop_term(model: Any, scorer: Any) -> None:
    scorer["values"]["terms"]["tuple"].pop()


def no_terms(model: Any, scorer: Any) -> None:
    scorer["values"]["terms"] = [1, 2]


def a_text_as_term(model: Any, scorer: Any) -> None:
    scorer["values"]["terms"]["tuple"][0] = "linear"


def another_kind(model: Any, scorer: Any) -> None:
    scorer.update(scorer["values"]["terms"]["tuple"][0]["state"])


def swap_factors(model: Any, scorer: Any) -> None:
    model["learned"]["weights_"] = model["learned"]["scale_"]


def a_text_as_member(model: Any, scorer: Any) -> None:
    model["learned"]["members_"][0] = "Regression"


def a_number_as_members(model: Any, scorer: Any) -> None:
    model["learned"]["members_"] = 2


def one_name_less(model: Any, scorer: Any) -> None:
    model["params"]["members"].pop()


def another_intercept(model: Any, scorer: Any) -> None:
    scorer["values"]["terms"]["tuple"][0]["state"]["values"]["intercept"] += 1.0


def intercept_in_a_pipeline(model: Any, scorer: Any) -> None:
    mapped = scorer["values"]["terms"]["tuple"][1]["state"]["values"]["score"]["state"]
    mapped["values"]["intercept"] += 1.0


ENSEMBLE_EDITS = [
    swap_terms, drop_term, no_terms, a_text_as_term, another_kind, swap_factors, a_text_as_member,
    a_number_as_members, one_name_less, another_intercept, intercept_in_a_pipeline,
]  # fmt: skip


@pytest.mark.parametrize("edit", ENSEMBLE_EDITS, ids=lambda edit: edit.__name__)
def test_an_ensemble_and_a_scorer_that_disagree_are_refused(
    edit: Any, rows: np.ndarray, grades: np.ndarray, forgery: Any, tmp_path: Path
) -> None:
    path = tmp_path / "ensemble.rw"
    members = [rw.Regression(), make_pipeline(StandardScaler(), rw.Regression(alpha=1.0))]
    rw.save(rw.RankEnsemble(members, weights=[1, 3]).fit(rows, grades), path)
    file = forgery(path)
    edit(file.manifest["model"], file.manifest["served"]["scorer"])
    path = file.write(path)
    with pytest.raises(ModelFileError):
        rw.load(path)
    if edit is not one_name_less:  # names are not scored
        with pytest.raises(ModelFileError):
            rw.load_scorer(path)


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
