"""Simulated logs with known truth."""

from __future__ import annotations

import numpy as np
import pytest

from rankwright.data import ClickSimulator, Items, make_queries


@pytest.fixture(scope="session")
def items() -> Items:
    sample = make_queries(30, docs_per_query=8, n_grades=3, random_state=0)
    docid = [f"d{row}" for row in range(len(sample.y))]
    return Items(sample.X, sample.y, sample.qid, docid)


@pytest.fixture(scope="session")
def users(items: Items) -> ClickSimulator:
    return ClickSimulator(items, examination=[1.0, 0.6, 0.4, 0.3, 0.2])


@pytest.fixture(scope="session")
def scores(items: Items) -> np.ndarray:
    """A logging ranker that is better than chance."""
    return items.y + np.random.default_rng(1).normal(0, 1.5, items.n_items)
