"""Small fitted models and rows to score, for every test of model files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import ModelFileError


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
    return rw.RidgeRanker(alpha=0.5).fit(rows, grades, qid=qid)


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


class Forgery:
    """A model file taken apart: edit it, then write it with every checksum right again."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        self.header: dict[str, Any] = json.loads(raw[8 : 8 + length])
        self.manifest: dict[str, Any] = json.loads(self.header["__metadata__"]["rankwright"])
        self.data = bytearray(raw[8 + length :])

    def array(self, name: str, dtype: str = "<f8") -> np.ndarray:
        """A view of an array's bytes: writing to it changes the file to be."""
        start, end = self.header[name]["data_offsets"]
        return np.frombuffer(self.data, dtype, (end - start) // np.dtype(dtype).itemsize, start)

    def write(self, path: Path, *, text: str | None = None, rehash: bool = True) -> Path:
        """``text`` replaces the manifest, for content that JSON cannot express."""
        if rehash:
            for name, entry in self.manifest.get("arrays", {}).items():
                offsets = self.header.get(name, {}).get("data_offsets")
                if isinstance(offsets, list):
                    entry["sha256"] = hashlib.sha256(self.data[slice(*offsets)]).hexdigest()
        text = json.dumps(self.manifest) if text is None else text
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.header["__metadata__"] = {"rankwright": text, "sha256": digest}
        raw = json.dumps(self.header).encode()
        path.write_bytes(len(raw).to_bytes(8, "little") + raw + self.data)
        return path


@pytest.fixture
def forgery() -> type[Forgery]:
    return Forgery


@pytest.fixture
def forge(saved: Path) -> Callable[[], Forgery]:
    return lambda: Forgery(saved)


@pytest.fixture
def attempt(rows: np.ndarray) -> Callable[[Path], list[np.ndarray]]:
    """Open a file in both ways; the scores of the ways that worked.

    Any error but a ModelFileError that names the file fails the test, and so does a score that is
    not finite.
    """

    def run(path: Path) -> list[np.ndarray]:
        scores = []
        for reader in (rw.load, rw.load_scorer):
            try:
                found = reader(path).decision_function(rows)
            except ModelFileError as error:
                named = str(path) in str(error)
            else:
                named = bool(np.isfinite(found).all())
                scores.append(found)
            assert named
        return scores

    return run
