"""load_scorer: scores without the training libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import rankwright as rw
from persist import small_install

HEAVY = ("sklearn", "numba", "scipy", "safetensors", "pandas", "narwhals")


@pytest.fixture
def named(tmp_path: Path, rows: np.ndarray, grades: np.ndarray) -> Any:
    path = tmp_path / "named.rw"
    rw.save(rw.RidgeRanker().fit(pd.DataFrame(rows, columns=list("abcd")), grades), path)
    return rw.load_scorer(path)


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_scoring_imports_no_training_library(saved: Path) -> None:
    found = run(
        "import sys, rankwright as rw\n"
        "scorer = rw.load_scorer(sys.argv[1])\n"
        "scorer.decision_function([[1.0, 2.0, 3.0, 4.0]]), scorer.predict([[0, 0, 0, 0]])\n"
        "scorer.rank([[1.0, 2.0, 3.0, 4.0]], ['q'])\n"
        f"print([name for name in {HEAVY} if name in sys.modules])",
        str(saved),
    )
    assert found == "[]"


def test_a_small_install_serves_every_kind_of_model() -> None:
    done = subprocess.run(
        [sys.executable, small_install.__file__, "--blocked"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 failed" in done.stdout


def test_the_command_line_of_a_small_install_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['cyclopts'] = None\nfrom rankwright.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 5
    assert "pip install 'rankwright[train]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_light_install_names_what_a_data_frame_needs(saved: Path) -> None:
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({small_install.OTHERS}))\n"
        "import rankwright as rw\n"
        "class Frame:\n"
        "    columns = ['a']\n"
        "try:\n"
        "    rw.load_scorer(sys.argv[1]).predict(Frame())\n"
        "except ImportError as error:\n"
        "    print(error)"
    )
    assert "narwhals" in run(code, str(saved))


@pytest.mark.parametrize(
    "code",
    [
        "import rankwright",
        "import sys; sys.argv = ['rankwright', '--version']\n"
        "try:\n    from rankwright.cli.app import main; main()\nexcept SystemExit: pass",
    ],
    ids=["import rankwright", "rankwright --version"],
)
def test_starting_up_imports_no_training_library(code: str) -> None:
    found = run(f"{code}\nimport sys; print([name for name in {HEAVY} if name in sys.modules])")
    assert found.splitlines()[-1] == "[]"


def test_lists_arrays_frames_and_sparse_rows_score_alike(
    named: Any, rows: np.ndarray, regression: Any
) -> None:
    expected = named.decision_function(rows)
    assert np.array_equal(named.decision_function(rows.tolist()), expected)
    assert np.array_equal(named.decision_function(np.asfortranarray(rows)), expected)
    data = dict(zip("abcd", rows.T, strict=True))
    for frame in (pd.DataFrame(data), pl.DataFrame(data), pa.table(data)):
        assert np.array_equal(named.decision_function(frame), expected)
    for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        assert np.allclose(named.decision_function(kind(rows)), expected, rtol=1e-14, atol=1e-14)


def test_words_are_encoded_inside_the_model(tmp_path: Path) -> None:
    data, new, path = tmp_path / "shop.csv", tmp_path / "new.csv", tmp_path / "shop.rw"
    data.write_text("query,price,color,size,grade\n1,9.5,red,7,1\n1,3,blue,8,0\n1,4,red,8,2\n")
    new.write_text("query,color,size,price\n1,red,7,1.5\n1,green,9,2\n1,blue,8,7\n")
    items = rw.read_items(data, one_hot=["color", "size"])
    model = rw.RidgeRanker().fit(pd.DataFrame(items.X, columns=items.feature_names), items.y)
    rw.save(model, path)
    scorer = rw.load_scorer(path)
    read = rw.read_items(new, like=scorer, graded=False)
    expected = scorer.decision_function(read.X)
    frame = pd.read_csv(new)
    rows = frame.to_dict("records")
    forms = [frame, frame.astype({"size": float}), pl.DataFrame(frame), pl.DataFrame(frame).lazy(),
             rows, [{**row, "size": str(row["size"])} for row in rows], frame.to_dict("list"),
             frame.astype({"color": "category", "price": str})]  # fmt: skip
    loaded = rw.load(path)
    for form in forms:
        assert scorer.decision_function(form).tolist() == expected.tolist()
        assert np.allclose(loaded.decision_function(form), expected, rtol=1e-14, atol=1e-14)
    for model in (scorer, loaded):
        with pytest.raises(
            rw.exceptions.DataError, match=r"Give a single row as a list of one dict"
        ):
            model.decision_function(rows[0])
        with pytest.raises(rw.exceptions.DataError, match="'color' has 1 values and 'price' 2"):
            model.decision_function({"price": [1.0, 2.0], "color": ["red"], "size": [7]})
    with pytest.raises(rw.exceptions.DataError, match="fitted to named columns"):
        rw.RidgeRanker().fit(rows, [0, 1, 2])
    with pytest.raises(rw.exceptions.DataError, match="lacks the column 'color=blue' and 1 more"):
        scorer.decision_function(frame.drop(columns="color"))
    with pytest.raises(rw.exceptions.DataError, match="row 1 lacks 'price': give None"):
        scorer.decision_function([rows[0], {"color": "red", "query": 1, "size": 7}])
    with pytest.raises(rw.exceptions.DataError, match="price is 'cheap' in row 0"):
        scorer.decision_function([{**rows[0], "price": "cheap"}])


def test_columns_of_a_frame_are_found_by_name(named: Any, rows: np.ndarray) -> None:
    frame = pd.DataFrame(rows, columns=list("abcd"))[["d", "b", "a", "c"]].assign(docid="x")
    assert np.array_equal(named.decision_function(frame), named.decision_function(rows))


def test_integers_and_float32_are_widened(named: Any) -> None:
    whole = np.array([[1, 2, 3, 4], [0, 1, 0, 1]])
    expected = named.decision_function(whole.astype(np.float64))
    for kind in (np.int8, np.uint32, np.float32, np.float16, object):
        assert np.array_equal(named.decision_function(whole.astype(kind)), expected)


def test_sparse_pipelines_score_as_scikit_learn_does(
    rows: np.ndarray, grades: np.ndarray, tmp_path: Path
) -> None:
    X = sparse.csr_matrix(np.where(rows > 0, rows, 0.0))
    for scaler in (StandardScaler(with_mean=False), MaxAbsScaler()):
        model = make_pipeline(scaler, rw.RidgeRanker()).fit(X, grades)
        rw.save(model, tmp_path / "sparse.rw")
        scorer = rw.load_scorer(tmp_path / "sparse.rw")
        assert np.array_equal(scorer.decision_function(X), model.decision_function(X))


def test_places_are_those_of_the_ranker(
    saved: Path, regression: Any, rows: np.ndarray, qid: np.ndarray
) -> None:
    scorer = rw.load_scorer(saved)
    shuffled = np.random.default_rng(1).permutation(qid)
    assert np.array_equal(scorer.rank(rows, shuffled), regression.rank(rows, shuffled))


def test_no_rows_give_no_scores(named: Any) -> None:
    for nothing in ([], np.empty((0, 4)), pd.DataFrame(columns=list("abcd"), dtype=float)):
        assert named.decision_function(nothing).shape == (0,)
        assert named.predict(nothing).shape == (0,)
        assert named.rank(nothing, []).shape == (0,)


def test_it_says_what_it_is(named: Any, saved: Path) -> None:
    assert repr(named) == "SavedScorer('RidgeRanker', n_features=4)"
    assert (named.kind, named.n_features, named.feature_names) == ("RidgeRanker", 4, tuple("abcd"))
    assert rw.load_scorer(saved).feature_names is None


def test_ragged_rows_are_refused(named: Any) -> None:
    with pytest.raises(rw.DataError):
        named.decision_function([[1.0], [1.0, 2.0]])


def test_a_transform_that_overflows_is_noticed(
    rows: np.ndarray, grades: np.ndarray, tmp_path: Path
) -> None:
    rw.save(
        make_pipeline(StandardScaler(), rw.RidgeRanker()).fit(rows * 1e-3, grades), tmp_path / "m"
    )
    scorer = rw.load_scorer(tmp_path / "m")
    with pytest.raises(rw.DataError, match="infinite"):
        scorer.decision_function(np.full((1, 4), 1e308))


def test_a_score_that_overflows_is_an_error_and_not_a_score(named: Any) -> None:
    row = np.sign(named.scorer.coef) * 1.7e308
    with pytest.raises(rw.DataError, match="score of row 1 overflows"):
        named.decision_function([np.zeros(4), row])
