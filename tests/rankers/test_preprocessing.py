"""The polynomial map as a transformer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankwright import KernelPRank, PolynomialMap, PRank, load, load_scorer, save
from rankwright.data.synthetic import make_ordinal


@parametrize_with_checks([PolynomialMap()])
def test_it_keeps_the_contract_of_a_scikit_learn_transformer(estimator: Any, check: Any) -> None:
    check(estimator)


def test_before_prank_it_is_the_kernel_and_it_can_be_saved(tmp_path: Path) -> None:
    sample = make_ordinal(400, random_state=0)
    pipeline = make_pipeline(PolynomialMap(degree=2), PRank()).fit(sample.X, sample.y)
    kernel = KernelPRank(kernel="poly", degree=2, gamma=1.0).fit(sample.X, sample.y)
    wanted = kernel.predict(sample.X)
    np.testing.assert_array_equal(pipeline.predict(sample.X), wanted)
    save(pipeline, tmp_path / "model.rw")
    np.testing.assert_array_equal(load(tmp_path / "model.rw").predict(sample.X), wanted)
    np.testing.assert_array_equal(load_scorer(tmp_path / "model.rw").predict(sample.X), wanted)
