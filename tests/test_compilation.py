"""The first use of compiled loops is said once; `rankwright compile` does it ahead of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright import _first_use
from rankwright.compilation import FAMILIES
from rankwright.exceptions import ParameterError
from rankwright.rankers.base import rankers


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    _first_use.announce_compilation.cache_clear()
    yield tmp_path
    _first_use.announce_compilation.cache_clear()


def test_a_first_training_says_once_that_it_compiles(empty_cache: Path, caplog: Any) -> None:
    class Mine(rw.PRank):  # a ranker of the user's is one of its family
        pass

    for cls in (rw.PRank, Mine, rw.PRank):
        cls(max_iter=1).fit(np.eye(3), [0, 1, 2])
    assert len(caplog.records) == 1
    assert "compiling the loops of online rankers once, about" in caplog.text


def test_nothing_is_said_when_the_code_is_on_the_disk(empty_cache: Path, caplog: Any) -> None:
    assert not _first_use.is_compiled("online")
    places = list(_first_use._caches(Path(_first_use.__file__).parent / "rankers" / "online"))
    places[0].mkdir()
    (places[0] / "prank.prank_pass-98.py311.nbi").touch()
    assert _first_use.is_compiled("online")
    _first_use.announce_compilation("online")
    assert not caplog.records


def test_the_cache_is_looked_for_where_numba_keeps_it(tmp_path: Path, monkeypatch: Any) -> None:
    from numba.core.caching import _CacheLocator

    source = tmp_path / "_kernels" / "prank.py"
    expected = _CacheLocator.get_suitable_cache_subpath(str(source))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert tmp_path / expected in list(_first_use._caches(tmp_path))


def test_every_family_of_rankers_can_be_compiled() -> None:
    families = {cls._family() for cls in rankers().values()}
    assert families <= FAMILIES.keys()
    assert families | {"recommend"} == _first_use.SECONDS.keys()
    with pytest.raises(ParameterError, match="family 'trees' is unknown: there are boosting"):
        rw.compile_kernels(["trees"])


def test_compiling_writes_the_code_to_the_cache(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    said: list[str] = []
    seconds = rw.compile_kernels(["magnitude"], n_processes=1, note=said.append)
    assert seconds.keys() == {"magnitude"}
    assert said[0].startswith("[1 of 1] magnitude: ")
    assert _first_use.is_compiled("magnitude")
