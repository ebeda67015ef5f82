"""What every test may ask for: the real data, where this machine has them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("default")


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
