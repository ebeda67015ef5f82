"""Checks of a ranker with damaged matrices and with numbers at the limits of float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from rankwright.exceptions import DataError
from rankwright.testing.inputs import Problem, fitted, make_problem, refused


def damaged_matrices(X: Any) -> Iterator[tuple[str, Any]]:
    """Sparse matrices with one fault each, as a damaged file may hold them."""

    def set_value(array: str, place: int, value: int) -> Callable[[Any], None]:
        return lambda matrix: getattr(matrix, array).__setitem__(place, value)

    def cut(array: str) -> Callable[[Any], None]:
        return lambda matrix: setattr(matrix, array, getattr(matrix, array)[:-2])

    faults = {
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
        calls = [lambda X=X: clone(ranker).fit(X, problem.y, qid=problem.qid)]
        calls += [lambda X=X: model.decision_function(X), lambda X=X: model.predict(X)]
        if hasattr(ranker, "partial_fit"):
            calls.append(lambda X=X: model.partial_fit(X, problem.y))
        for call in calls:
            try:
                with refused(DataError, "X"):
                    call()
            except AssertionError as error:
                error.add_note(name)
                raise
