"""Small fitted models and rows to score, for every test of model files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw


@pytest.fixture(scope="session")
def rows() -> np.ndarray:
    return np.random.default_rng(7).normal(size=(30, 4))


@pytest.fixture(scope="session")
def qid() -> np.ndarray:
    return np.repeat(np.arange(6), 5)


@pytest.fixture(scope="session")
def grades(rows: np.ndarray) -> np.ndarray:
    return np.clip(np.round(rows @ [1.0, -0.5, 0.25, 0.0] + 1.0), 0, 3)


@pytest.fixture
def regression(rows: np.ndarray, grades: np.ndarray, qid: np.ndarray) -> Any:
    return rw.Regression(alpha=0.5).fit(rows, grades, qid=qid)


@pytest.fixture
def saved(regression: Any, tmp_path: Path) -> Path:
    path = tmp_path / "model.rw"
    rw.save(regression, path)
    return path


@pytest.fixture
def round_trip(tmp_path: Path) -> Callable[[Any], tuple[Any, Any]]:
    """save, then load and load_scorer."""

    def run(model: Any) -> tuple[Any, Any]:
        path = tmp_path / "trip.rw"
        rw.save(model, path)
        return rw.load(path), rw.load_scorer(path)

    return run
