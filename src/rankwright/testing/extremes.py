"""Checks of a ranker with damaged matrices and with numbers at the limits of float64."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from rankwright.exceptions import DataError, DegenerateDataWarning, RankwrightWarning
from rankwright.testing.inputs import Problem, fitted, make_problem, refused


def damaged_matrices(X: Any) -> Iterator[tuple[str, Any]]:
    """Sparse matrices with one fault each, as a damaged file may hold them."""

    def set_value(array: str, place: int, value: int) -> Callable[[Any], None]:
        return lambda matrix: getattr(matrix, array).__setitem__(place, value)

    def cut(array: str) -> Callable[[Any], None]:
        return lambda matrix: setattr(matrix, array, getattr(matrix, array)[:-2])

    faults: dict[str, Callable[[Any], None]] = {
        "column too large": set_value("indices", 5, 10**6),
        "column negative": set_value("indices", 5, -(2**31)),
        "row starts after its end": set_value("indptr", 2, 10**6),
        "rows do not start at 0": set_value("indptr", 0, -3),
        "rows end after the values": set_value("indptr", -1, 10**6),
        "rows are missing": cut("indptr"),
        "values are missing": cut("data"),
        "columns are missing": cut("indices"),
        "columns are not integers": lambda m: setattr(m, "indices", m.indices.astype(float)),
    }
    for form in ("csr", "csc"):
        for name, damage in faults.items():
            matrix = sparse.csr_array(X).asformat(form)
            assert matrix.has_canonical_format  # which SciPy remembers
            damage(matrix)
            yield f"{form}: {name}", matrix
    coordinates = sparse.coo_array(X)
    coordinates.coords[1][3] = 10**6
    yield "coo: column too large", coordinates


def check_damaged_sparse_matrices_are_refused(ranker: Any) -> None:
    """No index outside of a sparse matrix is followed: not in training, not in scoring."""
    problem = make_problem()
    model = fitted(ranker, problem)
    for name, X in damaged_matrices(problem.X):
        calls: list[tuple[Any, ...]] = [(clone(ranker).fit, X, problem.y)]
        calls += [(model.decision_function, X), (model.predict, X)]
        if hasattr(ranker, "partial_fit"):
            calls.append((model.partial_fit, X, problem.y))
        for method, *arguments in calls:
            try:
                with refused(DataError, "X"):
                    method(*arguments)
            except AssertionError as error:
                error.add_note(name)
                raise


def check_scores_are_finite_at_any_scale(ranker: Any) -> None:
    """Features times 1e-200 to 1e200: finite scores, or a DataError of ``fit`` names the column.

    Scores that are all equal come with a warning.
    """
    problem = make_problem(n_queries=4, n_items=7)
    for scale in (1e-200, 1e-150, 1e-6, 1e6, 1e60, 1e155, 1e200):
        X = problem.X * scale
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = _fitted_or_refused(ranker, Problem(X, problem.y, problem.qid), "column")
        if model is None:
            assert not 1e-199 < scale < 1e20, f"features times {scale:g} were refused"
            continue
        foreign = [w for w in caught if not issubclass(w.category, RankwrightWarning)]
        assert not foreign, f"features times {scale:g}: {foreign[0].message}"
        for scores in (model.decision_function(X), model.predict(X)):
            assert np.isfinite(scores).all(), f"features times {scale:g}: a score is not finite"
        equal = np.ptp(model.decision_function(X)) == 0
        warned = any(issubclass(w.category, DegenerateDataWarning) for w in caught)
        assert warned or not equal, f"features times {scale:g}: equal scores without a warning"


def check_extreme_weights_and_grades_are_refused_or_learned(ranker: Any) -> None:
    """Weights of 1e-300 and 1e300 are refused by name; large and small grades never crash."""
    problem = make_problem(n_queries=4, n_items=7)
    n = len(problem.y)
    if "sample_weight" in inspect.signature(ranker.fit).parameters:
        spread = 10.0 ** np.random.default_rng(0).uniform(-300, 300, n)
        for weight in (np.full(n, 1e-300), np.full(n, 1e300), spread):
            with refused(DataError, "weight"):
                fitted(ranker, problem, sample_weight=weight)
    for y in (problem.y + 2.0**53, problem.y * 1e-300, problem.y * 1e200):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RankwrightWarning)
            model = _fitted_or_refused(ranker, Problem(problem.X, y, problem.qid), "grades")
        if model is not None:
            scores = model.decision_function(problem.X)
            assert np.isfinite(scores).all(), f"grades up to {y.max():g}: a score is not finite"


def _fitted_or_refused(ranker: Any, problem: Problem, text: str) -> Any:
    """The fitted ranker; None after a DataError with this text."""
    message = None
    try:
        return fitted(ranker, problem)
    except DataError as error:
        message = str(error)
    assert text in message, f"the error does not say {text!r}: {message}"
    return None
