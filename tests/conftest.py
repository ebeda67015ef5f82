"""What every test gets: settings of libraries, and the real data where this machine has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

# Two workers already keep two cores busy. Threads of BLAS and OpenMP that wait for each other spin,
# which made tests of small matrices up to 50 times slower. Set before NumPy is imported.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let two workers compile different kernels, so that each finds those of the other on the disk.

    Of two workers one starts at the first test and the other in the middle. The contract of every
    ranker needs most kernels: the families of one half come first, the others in the middle.
    """
    first, second, rest = [], [], []
    for item in items:
        values = item.callspec.params if hasattr(item, "callspec") else {}
        ranker = values.get("ranker", values.get("estimator"))
        if item.path.parent.name != "contract" or not hasattr(ranker, "_family"):
            rest.append(item)
        elif ranker._family in ("boosting", "gradient", "neighbors"):
            first.append(item)
        else:
            second.append(item)
    middle = len(items) // 2 - len(first)
    if middle > 0:  # else it is a part of the suite, in one process
        items[:] = first + rest[:middle] + second + rest[middle:]


@pytest.fixture(autouse=True)
def _seeded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed what ``random_state=None`` draws from, so that a test that passes once passes always.

    The seed comes from the name of the test; ``RANKWRIGHT_TEST_SEED`` makes other draws, to find
    tests that pass by luck.
    """
    import numpy as np

    name = os.environ.get("RANKWRIGHT_TEST_SEED", "") + request.node.nodeid
    np.random.seed(crc32(name.encode()))  # noqa: NPY002  (what check_random_state(None) gives)
    make = np.random.default_rng

    def default_rng(seed: Any = None) -> np.random.Generator:
        return make(np.random.randint(2**31) if seed is None else seed)  # noqa: NPY002

    monkeypatch.setattr(np.random, "default_rng", default_rng)


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """``real_data("movielens-1m/ratings.dat.gz")`` is the path, or the test is skipped."""

    def find(name: str) -> Path:
        root = os.environ.get("RANKWRIGHT_DATA")
        if not root:
            pytest.skip("RANKWRIGHT_DATA is not set: the real data sets are not on this machine")
        path = Path(root) / name
        if not path.exists():
            pytest.skip(f"RANKWRIGHT_DATA has no {name}")
        return path

    return find


@pytest.fixture
def two_blas_threads() -> Iterator[None]:
    """For tests of limits: a limit shows only where there is more than one thread."""
    import scipy.linalg  # noqa: F401  (brings a BLAS of its own)
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers

    def use(n_threads: int) -> None:
        for library in libraries:
            library.set_num_threads(n_threads)

    # threadpoolctl lets no other thread set a number while the thread that set the last one lives.
    for n_threads in (2, 1):
        setter = Thread(target=use, args=(n_threads,))
        setter.start()
        setter.join()
        if n_threads == 2:
            assert {library.get_num_threads() for library in libraries} == {2}
            yield


@pytest.fixture
def model_bytes(tmp_path_factory: Any) -> Any:
    """A function that gives the bytes of the file of a model."""
    import rankwright as rw

    path = tmp_path_factory.mktemp("model") / "model.rw"

    def read(model: Any) -> bytes:
        rw.save(model, path)
        return bytes(path.read_bytes())

    return read
