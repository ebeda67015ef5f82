"""Same seed, same bits: again, in a copy, after a refit, on any number of threads."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwright.testing.problem import Problem, fitted, make_problem

__all__ = [
    "check_chunks_equal_one_fit",
    "check_fit_twice_equals_fit_once",
    "check_predicting_changes_nothing",
    "check_same_seed_same_bits",
    "check_threads_have_no_effect",
]


def check_same_seed_same_bits(ranker: Any) -> None:
    problem, seeded = make_problem(), clone(ranker)
    if "random_state" in ranker.get_params():
        seeded.set_params(random_state=7)
    first, second = fitted(seeded, problem), fitted(seeded, problem)
    np.testing.assert_array_equal(
        first.decision_function(problem.X), second.decision_function(problem.X)
    )


def check_fit_twice_equals_fit_once(ranker: Any) -> None:
    """A refit forgets everything, even another number of features."""
    problem = make_problem()
    wider = make_problem(n_features=6, seed=3)
    seeded = clone(ranker)
    if "random_state" in ranker.get_params():
        seeded.set_params(random_state=7)
    model = clone(seeded).fit(wider.X, wider.y, qid=wider.qid)
    model.fit(problem.X, problem.y, qid=problem.qid)
    wanted = fitted(seeded, problem).decision_function(problem.X)
    np.testing.assert_array_equal(model.decision_function(problem.X), wanted)


def check_predicting_changes_nothing(ranker: Any) -> None:
    problem = make_problem()
    model = fitted(ranker, problem)
    first = model.decision_function(problem.X)
    model.predict(problem.X[::-1]), model.rank(problem.X)
    np.testing.assert_array_equal(model.decision_function(problem.X), first)


def check_threads_have_no_effect(ranker: Any) -> None:
    problem, seeded, scores = make_problem(n_queries=20), clone(ranker), []
    if "random_state" in ranker.get_params():
        seeded.set_params(random_state=7)
    for threads in (1, 2, 8):
        with _threads(threads):
            scores.append(fitted(seeded, problem).decision_function(problem.X))
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])


def check_chunks_equal_one_fit(ranker: Any) -> None:
    """partial_fit row by row, in sevens and at once gives the model of one fit."""
    if not hasattr(ranker, "partial_fit"):
        return
    problem = make_problem(n_queries=1, n_items=45)
    wanted = clone(ranker).fit(problem.X, problem.y).decision_function(problem.X)
    compare = np.testing.assert_array_equal if ranker._chunks_exact else _assert_close
    for size in (1, 7, len(problem.y)):
        compare(in_chunks(ranker, problem, size).decision_function(problem.X), wanted)


def in_chunks(ranker: Any, problem: Problem, size: int) -> Any:
    """A fresh copy of the ranker, shown the problem in chunks of this size."""
    model = clone(ranker)
    needs_classes = "classes" in inspect.signature(model.partial_fit).parameters
    for start in range(0, len(problem.y), size):
        rows = slice(start, start + size)
        extra = {"classes": np.unique(problem.y)} if needs_classes and start == 0 else {}
        model.partial_fit(problem.X[rows], problem.y[rows], **extra)
    return model


def _assert_close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = os.environ.get("RANKWRIGHT_THREADS")
    os.environ["RANKWRIGHT_THREADS"] = str(number)
    try:
        yield
    finally:
        del os.environ["RANKWRIGHT_THREADS"]
        if before is not None:
            os.environ["RANKWRIGHT_THREADS"] = before
