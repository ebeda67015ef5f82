"""The digest of a model is that of its parameters and of what it has learned."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankwright as rw
from rankwright.exceptions import ModelFileError
from rankwright.rankers.boosting import grower

TREES = rw.LambdaMART(n_estimators=5, min_samples_leaf=1)
MODELS = [
    rw.RidgeRanker(),
    rw.PRank(),
    rw.RankBoost(n_estimators=5),
    TREES,
    rw.RankSVM(kernel="rbf"),
    make_pipeline(StandardScaler(), rw.RidgeRanker()),
    rw.RankEnsemble([TREES, rw.RidgeRanker()]),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_its_file_and_the_model_of_its_file_have_one_digest(
    model: Any, rows: np.ndarray, grades: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "model.rw"
    model = clone(model).fit(rows, grades)
    rw.save(model, path)
    digests = {rw.model_digest(one) for one in (model, path, str(path), rw.load(path))}
    digests.add(rw.model_digest(clone(model).fit(rows, grades)))
    assert len(digests) == 1
    assert len(digests.pop()) == 64


@pytest.mark.parametrize("other", [{"n_jobs": 2}, {"verbose": 1}, {"callbacks": [print]}], ids=str)
def test_parameters_that_change_no_model_change_no_digest(
    other: dict[str, Any], rows: np.ndarray, grades: np.ndarray
) -> None:
    model = clone(TREES).fit(rows, grades)
    digest, alike = rw.model_digest(model), model.set_params(**other)
    assert rw.model_digest(alike) == digest
    several = rw.RankEnsemble.from_fitted([alike])
    assert rw.model_digest(several) == rw.model_digest(
        rw.RankEnsemble.from_fitted([clone(TREES).fit(rows, grades)])
    )


def test_the_number_of_threads_changes_no_digest() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20))
    assert X.size > grower.SERIAL  # fewer codes are left to one thread
    y = X[:, 0] + rng.normal(size=3000) > 0
    models = [rw.LambdaMART(n_estimators=5, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)]
    assert len(set(map(rw.model_digest, models))) == 1


def test_any_learned_bit_changes_the_digest(rows: np.ndarray, grades: np.ndarray) -> None:
    model = clone(TREES).fit(rows, grades)
    digests = {rw.model_digest(model)}
    names = ("alpha_", "node_threshold_", "node_value_", "node_gain_", "node_cover_")
    for name in names:
        array = getattr(model, name)
        changed = array.copy()
        changed.view(np.uint8)[0] ^= 1  # the lowest bit of the first number
        setattr(model, name, changed)
        digests.add(rw.model_digest(model))
        setattr(model, name, array)
    assert len(digests) == 1 + len(names)
    assert rw.model_digest(model) in digests


def test_parameters_and_names_of_features_change_the_digest(
    rows: np.ndarray, grades: np.ndarray
) -> None:
    pd = pytest.importorskip("pandas")
    model = rw.RidgeRanker().fit(rows, grades)
    named = rw.RidgeRanker().fit(pd.DataFrame(rows, columns=list("abcd")), grades)
    other = rw.RidgeRanker().fit(pd.DataFrame(rows, columns=list("abce")), grades)
    digests = {rw.model_digest(one) for one in (model, named, other)}
    digests.add(rw.model_digest(model.set_params(alpha=2.0)))
    assert len(digests) == 4


def test_a_damaged_file_has_no_digest(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-1])
    with pytest.raises(ModelFileError):
        rw.model_digest(saved)


def test_the_shell_prints_the_digest(saved: Path) -> None:
    command = [sys.executable, "-m", "rankwright", "info", str(saved), "--digest"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{rw.model_digest(saved)}\n"


def test_another_version_gives_the_same_digest(forge: Callable[[], Any], tmp_path: Path) -> None:
    path = forge().write(tmp_path / "one.rw")
    file = forge()
    file.manifest["library"] = "99.0"
    assert rw.model_digest(file.write(tmp_path / "other.rw")) == rw.model_digest(path)
