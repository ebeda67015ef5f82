"""Files made to do harm, every checksum in them right: each is refused."""

from __future__ import annotations

import io
import json
import pickle
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import ModelFileError
from rankwright.rankers.boosting.weak_learners.estimators import TreeRanking

Edit = Callable[[Any], Any]  # changes a Forgery; may give the manifest's text back instead


class Bomb:
    """Says so when it runs."""

    went_off = False

    def __reduce__(self) -> Any:
        return (_set_off, ())


def _set_off() -> str:
    Bomb.went_off = True
    return "boom"


def at(*path: Any) -> Callable[[Any], Edit]:
    """``at("model", "kind")("X")`` sets manifest["model"]["kind"] to "X"."""

    def to(value: Any) -> Edit:
        def edit(file: Any) -> None:
            target = file.manifest
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = value

        return edit

    return to


def drop(*path: Any) -> Edit:
    def edit(file: Any) -> None:
        target = file.manifest
        for key in path[:-1]:
            target = target[key]
        del target[path[-1]]

    return edit


def values(name: str, number: int, value: float) -> Edit:
    def edit(file: Any) -> None:
        file.array(name)[number] = value

    return edit


def header(name: str, key: str, value: Any) -> Edit:
    def edit(file: Any) -> None:
        file.header[name][key] = value

    return edit


def in_both(key: str, value: Any) -> Edit:
    """The same lie about coef_ in the header and in the manifest."""

    def edit(file: Any) -> None:
        file.header["model.coef_"][key] = value
        file.manifest["arrays"]["model.coef_"][key] = value

    return edit


def extra_array(file: Any) -> None:
    end = len(file.data)
    file.header["hidden"] = {"dtype": "U8", "shape": [4], "data_offsets": [end, end + 4]}
    file.data += b"evil"


def overlap(file: Any) -> None:
    file.manifest["arrays"]["again"] = dict(file.manifest["arrays"]["model.coef_"])
    file.header["again"] = dict(file.header["model.coef_"])


def hole(file: Any) -> None:
    file.header["model.coef_"]["data_offsets"] = [8, 40]
    file.data = bytearray(8) + file.data


def twice(text: str) -> Edit:
    """A key twice in the manifest: two readers could see two different models."""
    return lambda file: json.dumps(file.manifest).replace(text, f"{text}, {text}", 1)


def in_place_of_alpha(text: str) -> Edit:
    return lambda file: json.dumps(file.manifest).replace('"alpha": 0.5', f'"alpha": {text}')


def nested_tags(file: Any) -> None:
    value: Any = 1
    for _ in range(200):
        value = {"tuple": [value]}
    file.manifest["model"]["params"]["alpha"] = value


def short_coef(file: Any) -> None:
    """coef_ of two values for four features."""
    in_both("shape", [2])(file)
    file.header["model.coef_"]["data_offsets"] = [0, 16]
    file.data = file.data[:16]


def zero_divisor(file: Any) -> None:
    file.array("model.coef_")[1] = 0.0
    step = {"kind": "affine", "values": {"divisor": {"array": "model.coef_"}}}
    file.manifest["served"]["transforms"] = [step]


def big_endian(file: Any) -> None:
    file.array("model.coef_")[:] = file.array("model.coef_").byteswap()
    file.array("model.coef_")[0] = np.frombuffer(np.float64(np.nan).byteswap().tobytes())[0]
    file.manifest["arrays"]["model.coef_"]["dtype"] = ">f8"


LINEAR = {"kind": "linear", "values": {"coef": {"array": "model.coef_"}, "intercept": 0.0}}

EDITS: dict[str, Edit] = {
    # names that would reach code
    "kind is a path": at("model", "kind")("os.system"),
    "kind is a builtin": at("model", "kind")("eval"),
    "kind is a dunder": at("model", "kind")("__import__"),
    "kind is a class of the same package": at("model", "kind")("Ranker"),
    "kind is an unlisted estimator": at("model", "kind")("RandomForestRegressor"),
    "scorer kind unknown": at("served", "scorer", "kind")("pickle"),
    "scorer kind is a transform": at("served", "scorer")(
        {"kind": "query_scale", "values": {"n_columns": 4, "method": "max"}}
    ),
    "transform is a scorer": at("served", "transforms")([LINEAR]),
    "method name reaches a private method": at("served", "transforms")(
        [{"kind": "query_scale", "values": {"n_columns": 4, "method": "_init__"}}]
    ),
    "unknown parameter": at("model", "params", "__class__")("x"),
    "unknown learned attribute": at("model", "learned", "fit_")(1),
    "learned attribute shadows a method": at("model", "learned", "predict")(1.0),
    "learned dunder": at("model", "learned", "__dict__")({"dict": {}}),
    "unknown tag": at("model", "params", "alpha")({"py/object": "os.system"}),
    "two tags": at("model", "params", "alpha")({"array": "model.coef_", "float": "nan"}),
    "part unknown": at("model", "params", "alpha")({"part": {"kind": "Popen", "values": {}}}),
    # values that training could not have produced
    "NaN weight": values("model.coef_", 0, np.nan),
    "infinite weight": values("model.coef_", 3, np.inf),
    "infinite intercept": at("model", "learned", "intercept_")({"float": "inf"}),
    "intercept is an array": at("model", "learned", "intercept_")({"array": "model.coef_"}),
    "scorer intercept is an array": at("served", "scorer", "values", "intercept")(
        {"array": "model.coef_"}
    ),
    "scorer coef is text": at("served", "scorer", "values", "coef")("1,2,3,4"),
    "scorer coef is a list": at("served", "scorer", "values", "coef")([1.0, 2.0, 3.0, 4.0]),
    "negative rank": at("model", "learned", "rank_")(-1),
    "rank is a float": at("model", "learned", "rank_")(1.5),
    "n_features zero": at("model", "learned", "n_features_in_")(0),
    "n_features huge": at("model", "learned", "n_features_in_")(2**62),
    "n_features true": at("model", "learned", "n_features_in_")(True),
    "learned is missing": drop("model", "learned", "coef_"),
    "nothing learned": at("model", "learned")({}),
    "coef shorter than the features": short_coef,
    "alpha negative": at("model", "params", "alpha")(-1.0),
    "alpha NaN": at("model", "params", "alpha")({"float": "nan"}),
    "alpha text": at("model", "params", "alpha")("0"),
    "alpha is a model": at("model", "params", "alpha")(
        {"model": {"kind": "RidgeRanker", "params": {}, "learned": {}}}
    ),
    "transform of other width": at("served", "transforms")(
        [{"kind": "query_scale", "values": {"n_columns": 10**9, "method": "max"}}]
    ),
    "division by zero": zero_divisor,
    "too few feature names": at("feature_names")(["../../etc/passwd"]),
    "feature names are numbers": at("feature_names")([1, 2, 3, 4]),
    # the form of the file
    "format 3": at("format")(3),
    "format 0": at("format")(0),
    "format true": at("format")(True),
    "format text": at("format")("1"),
    "no format": drop("format"),
    "unknown field": at("plugins")(["evil"]),
    "unknown field in a node": at("model", "module")("os"),
    "no scorer field": drop("served", "scorer"),
    "allow_nan is a word": at("served", "allow_nan")("yes"),
    "key twice": twice('"kind": "RidgeRanker"'),
    "array key twice": twice('"order": "C"'),
    "nested 100,000 deep": in_place_of_alpha("[" * 100_000 + "]" * 100_000),
    "tags nested 200 deep": nested_tags,
    "NaN as a word": in_place_of_alpha("NaN"),
    "number of 10,000 digits": in_place_of_alpha("9" * 10_000),
    "number beyond all floats": in_place_of_alpha("1e999"),
    "not an object": lambda file: "[]",
    "not JSON": lambda file: "import os",
    # arrays that are not what they say
    "10^18 values declared": in_both("shape", [10**18]),
    "negative shape": in_both("shape", [-4]),
    "shape of 10^6 axes": in_both("shape", [1] * 1000 + [4]),
    "empty but endless": in_both("shape", [0, 2**62]),
    "object array": in_both("dtype", "O"),
    "other width": in_both("dtype", "F32"),
    "complex": in_both("dtype", "C64"),
    "big endian": big_endian,
    "integers for floats": in_both("dtype", "I64"),
    "offsets beyond the end": header("model.coef_", "data_offsets", [0, 2**40]),
    "offsets backwards": header("model.coef_", "data_offsets", [32, 0]),
    "offsets negative": header("model.coef_", "data_offsets", [-32, 0]),
    "offsets are text": header("model.coef_", "data_offsets", "0-32"),
    "hidden array": extra_array,
    "overlapping arrays": overlap,
    "hole before the data": hole,
    "array in the manifest only": at("arrays", "ghost")(
        {"dtype": "F64", "shape": [0], "order": "C", "sha256": ""}
    ),
    "order unknown": at("arrays", "model.coef_", "order")("Z"),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_hostile_file_with_right_checksums_is_refused(
    edit: Edit, forge: Callable[[], Any], tmp_path: Path
) -> None:
    file = forge()
    text = edit(file)
    path = file.write(tmp_path / "evil.rw", text=text if isinstance(text, str) else None)
    with pytest.raises(ModelFileError, match=r"evil\.rw: .+\. .+\.$"):
        rw.load(path)


def test_the_scorer_refuses_what_concerns_scores(forge: Callable[[], Any], tmp_path: Path) -> None:
    """Everything but the estimator's own part, which load_scorer does not build."""
    for name, edit in EDITS.items():
        file = forge()
        text = edit(file)
        path = file.write(tmp_path / "evil.rw", text=text if isinstance(text, str) else None)
        same_scorer = file.manifest.get("served") == forge().manifest["served"]
        try:
            rw.load_scorer(path)
        except ModelFileError:
            continue
        assert same_scorer, name


def test_the_error_names_the_file_the_array_and_the_fault(
    forge: Callable[[], Any], tmp_path: Path
) -> None:
    file = forge()
    file.array("model.coef_")[:2] = np.nan
    path = file.write(tmp_path / "evil.rw")
    with pytest.raises(ModelFileError) as caught:
        rw.load_scorer(path)
    fault = "linear: coef: 2 of 4 values are NaN; a model holds finite values only"
    assert str(caught.value).startswith(f"{path}: {fault}. Copy the file again")
    with pytest.raises(ModelFileError, match=r"evil\.rw: .*coef_"):
        rw.load(path)


TREES: dict[str, tuple[str, int, float]] = {
    "child is its parent": ("low", 0, 0),
    "child before its parent": ("high", 2, 0),
    "child -1": ("low", 0, -1),
    "child -2^63": ("high", 0, -(2**63)),
    "child beyond the nodes": ("low", 0, 2**31 - 1),
    "two parents": ("low", 0, 2),
    "root beyond the nodes": ("root", 0, 2**40),
    "root inside another tree": ("root", 1, 1),
    "feature 2^31 - 1": ("feature", 0, 2**31 - 1),
    "feature -2": ("feature", 0, -2),
    "NaN threshold": ("threshold", 0, np.nan),
    "infinite leaf": ("value", 3, np.inf),
    "NaN weight": ("weight", 0, np.nan),
    "default 2": ("default", 0, 2),
}


@pytest.mark.parametrize("field, place, value", TREES.values(), ids=TREES.keys())
def test_trees_that_are_no_trees_are_refused(
    field: str, place: int, value: float, forgery: Any, rows: Any, grades: Any, tmp_path: Path
) -> None:
    weak = TreeRanking(max_leaf_nodes=4, min_samples_leaf=2)
    rw.save(rw.RankBoost(estimator=weak, n_estimators=3).fit(rows, grades), tmp_path / "trees.rw")
    file = forgery(tmp_path / "trees.rw")
    assert file.manifest["served"]["scorer"]["kind"] == "trees"
    name = file.manifest["served"]["scorer"]["values"][field]["array"]
    dtype = {"F64": "<f8", "I64": "<i8"}[file.header[name]["dtype"]]
    file.array(name, dtype)[place] = value
    with pytest.raises(ModelFileError, match=r"evil\.rw"):
        rw.load_scorer(file.write(tmp_path / "evil.rw"))


def test_an_unedited_forgery_is_accepted(
    forge: Callable[[], Any], tmp_path: Path, attempt: Callable[[Path], list[Any]]
) -> None:
    assert len(attempt(forge().write(tmp_path / "copy.rw"))) == 2


def _npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def _joblib(value: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    joblib.dump(value, stream, **options)
    return stream.getvalue()


def _zip(name: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, b"x" * 50)
    return stream.getvalue()


FOREIGN: dict[str, tuple[bytes, str]] = {
    "pickle": (pickle.dumps(Bomb()), "a pickle"),
    "pickle 0": (pickle.dumps(Bomb(), protocol=0), "a pickle"),
    "pickle 0 of a dict": (pickle.dumps({"a": Bomb()}, protocol=0), "a pickle"),
    "pickle 1": (pickle.dumps([Bomb()], protocol=1), "a pickle"),
    "pickle 2": (pickle.dumps(Bomb(), protocol=2), "a pickle"),
    "joblib": (_joblib({"a": np.zeros(3)}), "a pickle"),
    "joblib zlib": (_joblib(Bomb(), compress=("zlib", 3)), "a compressed file"),
    "joblib gzip": (_joblib(Bomb(), compress=("gzip", 3)), "a compressed file"),
    "npz": (_npz(a=np.array([Bomb()], dtype=object)), "a zip archive"),
    "zip": (_zip("a.txt"), "a zip archive"),
    "LightGBM": (b"tree\nversion=v4\nnum_class=1\n" * 9, "a LightGBM model"),
    "XGBoost JSON": (b'{"learner":{"attributes":{}}}', "an XGBoost model"),
    "XGBoost UBJSON": (b"{L\x00\x00\x00\x00\x00\x00\x00\x07learner{L", "an XGBoost model"),
    "HTML": (b"<!DOCTYPE html><html>404</html>", "failed download"),
    "JSON": (b'  {"a": 1}', "a text file"),
    "LETOR": (b"2 qid:1 1:0.5 # doc-\xc3\xa9\n" * 99, "a text file"),
    "empty": (b"", "empty"),
    "seven bytes": (b"1\x00\x00\x00\x00\x00\x00", "not a model file"),
    "zeros": (bytes(4096), "not a model file"),
    "noise": (np.random.default_rng(0).bytes(4096), "not a model file"),
    "other safetensors": (b'\x02\0\0\0\0\0\0\0{}', "not one that rankwright wrote"),
    "endless header": (b"\xff" * 7 + b"\x7f{}", "not a model file"),
}  # fmt: skip


@pytest.mark.parametrize("reader", [rw.load, rw.load_scorer], ids=["load", "load_scorer"])
@pytest.mark.parametrize("content, words", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_file_of_another_program_is_called_by_its_name(
    content: bytes, words: str, reader: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "model.rw"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=words):
        reader(path)
    assert not Bomb.went_off


def test_a_newer_format_says_to_upgrade(forge: Callable[[], Any], tmp_path: Path) -> None:
    file = forge()
    file.manifest.update(format=7, library="9.1", brand_new={"field": 1})
    with pytest.raises(ModelFileError, match=r"format 7, written by rankwright 9\.1.*Upgrade"):
        rw.load(file.write(tmp_path / "new.rw"))


@pytest.mark.parametrize("filler", [b"[]", b"1", b'"a":{}', b"[[[[]]]]"], ids=repr)
def test_a_header_stuffed_with_values_cannot_take_the_memory(filler: bytes, tmp_path: Path) -> None:
    inside = b",".join([filler] * ((2**24 - 100) // (len(filler) + 1)))
    raw = b'{"a":[' + inside + b"]}"
    path = tmp_path / "stuffed.rw"
    path.write_bytes(len(raw).to_bytes(8, "little") + raw)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError):
            rw.load(path)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def test_a_header_beyond_its_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "long.rw"
    with path.open("wb") as file:
        file.write((2**25).to_bytes(8, "little") + b"{")
        file.truncate(2**26)
    with pytest.raises(ModelFileError, match="its header has 33,554,432 bytes"):
        rw.load(path)
