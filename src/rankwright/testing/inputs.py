"""Whatever holds the same numbers gives the same model; whatever is wrong is refused by name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from rankwright.exceptions import DataError, ParameterError
from rankwright.testing.problems import Problem, fitted, make_problem


def check_kinds_of_arrays_are_equal(ranker: Any) -> None:
    """Lists, Fortran order, float32 numbers, read-only and CSR give the scores of plain arrays."""
    problem = make_problem()
    problem = Problem(problem.X.astype(np.float32).astype(float), problem.y, problem.qid)
    wanted = fitted(ranker, problem).decision_function(problem.X)
    frozen = problem.X.copy()
    frozen.setflags(write=False)
    kinds = {
        "list": problem.X.tolist(),
        "Fortran order": np.asfortranarray(problem.X),
        "float32": problem.X.astype(np.float32),
        "read-only": frozen,
        "CSR": sparse.csr_matrix(problem.X),
        "CSR array": sparse.csr_array(problem.X),
        "CSC": sparse.csc_matrix(problem.X),
    }
    for name, X in kinds.items():
        other = clone(ranker).fit(X, problem.y.tolist(), qid=problem.qid.tolist())
        found = other.decision_function(X)
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9, err_msg=name)


def check_data_frames_equal_arrays_and_keep_names(ranker: Any) -> None:
    """Data frames of the libraries installed here: same scores, names kept."""
    problem = make_problem()
    wanted = fitted(ranker, problem).decision_function(problem.X)
    names = [f"feature {i}" for i in range(problem.X.shape[1])]
    for frame in _frames(dict(zip(names, problem.X.T, strict=True))):
        other = clone(ranker).fit(frame, problem.y, qid=problem.qid)
        np.testing.assert_allclose(other.decision_function(frame), wanted, rtol=1e-7, atol=1e-9)
        assert list(other.feature_names_in_) == names, f"names lost from {type(frame)}"


def _frames(columns: dict[str, Any]) -> Iterator[Any]:
    with contextlib.suppress(ImportError):
        import pandas

        yield pandas.DataFrame(columns)
    with contextlib.suppress(ImportError):
        import polars

        yield polars.DataFrame(columns)


def check_columns_must_be_as_in_training(ranker: Any) -> None:
    problem = make_problem()
    model = fitted(ranker, problem)
    for X in (problem.X[:, :-1], np.hstack([problem.X, problem.X])):
        with refused(ValueError, "features"):
            model.decision_function(X)


def check_missing_values(ranker: Any) -> None:
    """NaN is refused by name, or is an abstention and leaves every score finite; inf is refused."""
    problem = make_problem()
    holes = problem.X.copy()
    holes[::5, 0] = np.nan
    if ranker._abstains:
        model = clone(ranker).fit(holes, problem.y, qid=problem.qid)
        assert np.isfinite(model.decision_function(holes)).all(), "an abstention became a NaN score"
    else:
        with refused(ValueError, "NaN"):
            clone(ranker).fit(holes, problem.y, qid=problem.qid)
    infinite = problem.X.copy()
    infinite[0, 0] = np.inf
    with refused(ValueError, "infinity"):
        clone(ranker).fit(infinite, problem.y, qid=problem.qid)
    grades = problem.y.copy()
    grades[3] = np.nan
    with refused(ValueError, "NaN"):
        clone(ranker).fit(problem.X, grades, qid=problem.qid)


def check_words_are_no_grades(ranker: Any) -> None:
    """Grades as words are refused, by the word; numbers written as text are numbers."""
    problem = make_problem()
    words = np.where(problem.y > 0, "good", "bad")
    for given in (words, words.astype(object), words.tolist()):
        with refused(DataError, f"y holds '{words[0]}'"):
            clone(ranker).fit(problem.X, given, qid=problem.qid)
    with refused(DataError, "y holds"):
        fitted(ranker, problem).score(problem.X, words, qid=problem.qid)
    as_text = clone(ranker).fit(problem.X, problem.y.astype(str), qid=problem.qid)
    np.testing.assert_array_equal(
        as_text.decision_function(problem.X),
        fitted(ranker, problem).decision_function(problem.X),
    )


def check_wrong_lengths_are_refused(ranker: Any) -> None:
    problem = make_problem()
    with refused(DataError, "qid"):
        clone(ranker).fit(problem.X, problem.y, qid=problem.qid[:-1])
    with refused(ValueError, "inconsistent"):
        clone(ranker).fit(problem.X, problem.y[:-1], qid=problem.qid)


def check_bad_parameters_are_refused_by_name(ranker: Any) -> None:
    """Every parameter has a rule, and the error names the ranker and the parameter."""
    problem = make_problem()
    names = set(ranker.get_params(deep=False))
    assert names == set(ranker._constraints), (
        f"parameters without a rule: {names ^ set(ranker._constraints)}"
    )
    for name in sorted(names):
        broken = clone(ranker)
        setattr(broken, name, {"not": "allowed"})
        with refused(ParameterError, f"{name} must be"):
            broken.fit(problem.X, problem.y)


def check_inputs_stay_unchanged(ranker: Any) -> None:
    problem = make_problem()
    given = [problem.X.copy(), problem.y.copy(), problem.qid.copy()]
    model = fitted(ranker, problem)
    model.decision_function(problem.X), model.predict(problem.X)
    model.score(problem.X, problem.y, qid=problem.qid)
    for before, after in zip(given, [problem.X, problem.y, problem.qid], strict=True):
        np.testing.assert_array_equal(before, after)


def check_unfitted_is_refused(ranker: Any) -> None:
    X = make_problem().X
    for method in ("decision_function", "predict", "rank"):
        with refused(NotFittedError, ""):
            getattr(clone(ranker), method)(X)


@contextlib.contextmanager
def refused(kind: type[Exception], words: str) -> Iterator[None]:
    """The block raises this kind of error, and the error says these words."""
    said = None
    try:
        yield
    except kind as error:
        said = str(error)
    assert said is not None, f"no {kind.__name__} was raised (about {words!r})"
    assert words in said, f"the error does not say {words!r}: {said}"
