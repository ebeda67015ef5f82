"""Small ranking problems, and checks of the data a ranker is given."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from rankwright._typing import IntArray
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    MissingQueryWarning,
    ParameterError,
)


@dataclass(frozen=True)
class Problem:
    """Rows, grades and query ids."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    qid: NDArray[Any]

    def take(self, rows: IntArray | slice) -> Problem:
        return Problem(self.X[rows], self.y[rows], self.qid[rows])


def make_problem(
    n_queries: int = 6, n_items: int = 9, n_features: int = 4, noise: float = 0.3, seed: int = 0
) -> Problem:
    """Graded queries (grades 0 .. 2) ordered by their first two features, plus noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_items, n_features))
    signal = X[:, 0] + 0.5 * X[:, 1] + noise * rng.normal(size=len(X))
    grades = np.digitize(signal, [-0.5, 0.5]).astype(float)
    return Problem(X, grades, np.repeat(np.arange(n_queries), n_items))


def fitted(ranker: BaseEstimator, problem: Problem, **arguments: Any) -> Any:
    """A clone of the ranker, fitted to the problem with its queries."""
    return clone(ranker).fit(problem.X, problem.y, **{"qid": problem.qid, **arguments})


def scores_of(ranker: BaseEstimator, problem: Problem, **arguments: Any) -> Any:
    """The scores of the problem's own rows after training on them."""
    return fitted(ranker, problem, **arguments).decision_function(problem.X)


@contextmanager
def refused(kind: type[Exception], text: str) -> Iterator[None]:
    """Assert that the block raises this kind of error, with this text in its message."""
    message = None
    try:
        yield
    except kind as error:
        message = str(error)
    assert message is not None, f"no {kind.__name__} was raised (about {text!r})"
    assert text in message, f"the error does not say {text!r}: {message}"


def check_array_types_are_equal(ranker: BaseEstimator) -> None:
    """Lists, Fortran order, float32 numbers, read-only and CSR give the scores of plain arrays."""
    problem = make_problem()
    problem = Problem(problem.X.astype(np.float32).astype(float), problem.y, problem.qid)
    expected = fitted(ranker, problem).decision_function(problem.X)
    frozen = problem.X.copy()
    frozen.setflags(write=False)
    forms = {
        "list": problem.X.tolist(),
        "Fortran order": np.asfortranarray(problem.X),
        "float32": problem.X.astype(np.float32),
        "read-only": frozen,
        "CSR": sparse.csr_matrix(problem.X),
        "CSR array": sparse.csr_array(problem.X),
        "CSC": sparse.csc_matrix(problem.X),
    }
    for name, X in forms.items():
        other = clone(ranker).fit(X, problem.y.tolist(), qid=problem.qid.tolist())
        np.testing.assert_allclose(
            other.decision_function(X), expected, rtol=1e-7, atol=1e-9, err_msg=name
        )


def check_data_frames_equal_arrays_and_keep_names(ranker: BaseEstimator) -> None:
    """Data frames of the libraries installed here: same scores, names kept."""
    problem = make_problem()
    expected = scores_of(ranker, problem)
    names = [f"feature {i}" for i in range(problem.X.shape[1])]
    for frame in _frames(dict(zip(names, problem.X.T, strict=True))):
        other = clone(ranker).fit(frame, problem.y, qid=problem.qid)
        np.testing.assert_allclose(other.decision_function(frame), expected, rtol=1e-7, atol=1e-9)
        assert list(other.feature_names_in_) == names, f"names lost from {type(frame)}"


def _frames(columns: dict[str, Any]) -> Iterator[Any]:
    for library in ("pandas", "polars"):
        with suppress(ImportError):
            yield import_module(library).DataFrame(columns)


def check_columns_must_be_as_in_training(ranker: BaseEstimator) -> None:
    problem = make_problem()
    model = fitted(ranker, problem)
    for X in (problem.X[:, :-1], np.hstack([problem.X, problem.X])):
        with refused(ValueError, "features"):
            model.decision_function(X)


def check_missing_values(ranker: BaseEstimator) -> None:
    """NaN is refused by name, or is an abstention and leaves every score finite; inf is refused."""
    problem = make_problem()
    holes, infinite, grades = problem.X.copy(), problem.X.copy(), problem.y.copy()
    holes[::5, 0], infinite[0, 0], grades[3] = np.nan, np.inf, np.nan
    bad = [(infinite, problem.y, "infinity"), (problem.X, grades, "NaN")]
    if ranker._abstains:
        scores = scores_of(ranker, Problem(holes, problem.y, problem.qid))
        assert np.isfinite(scores).all(), "an abstention became a NaN score"
    else:
        bad.append((holes, problem.y, "NaN"))
    for X, y, text in bad:
        with refused(ValueError, text):
            clone(ranker).fit(X, y, qid=problem.qid)


def check_text_is_no_grade(ranker: BaseEstimator) -> None:
    """Grades that are words are refused by name; numbers written as text are numbers."""
    problem = make_problem()
    text = np.where(problem.y > 0, "good", "bad")
    for y in (text, text.astype(object), text.tolist()):
        with refused(DataError, f"y holds '{text[0]}'"):
            clone(ranker).fit(problem.X, y, qid=problem.qid)
    with refused(DataError, "y holds"):
        fitted(ranker, problem).score(problem.X, text, qid=problem.qid)
    as_text = clone(ranker).fit(problem.X, problem.y.astype(str), qid=problem.qid)
    scores = as_text.decision_function(problem.X)
    np.testing.assert_array_equal(scores, scores_of(ranker, problem))


def check_wrong_lengths_are_refused(ranker: BaseEstimator) -> None:
    problem = make_problem()
    with refused(DataError, "qid"):
        fitted(ranker, problem, qid=problem.qid[:-1])
    with refused(ValueError, "inconsistent"):
        clone(ranker).fit(problem.X, problem.y[:-1], qid=problem.qid)


def check_bad_parameters_are_refused_by_name(ranker: BaseEstimator) -> None:
    """Every parameter has a constraint, and the error names the parameter."""
    problem = make_problem()
    names = set(ranker.get_params(deep=False))
    unchecked = names ^ set(ranker._constraints)
    assert not unchecked, f"parameters without a constraint: {unchecked}"
    for name in sorted(names):
        broken = clone(ranker)
        setattr(broken, name, {"not": "allowed"})
        with refused(ParameterError, f"{name} must be"):
            broken.fit(problem.X, problem.y)


def check_inputs_stay_unchanged(ranker: BaseEstimator) -> None:
    problem, before = make_problem(), make_problem()
    model = fitted(ranker, problem)
    model.decision_function(problem.X), model.predict(problem.X)
    model.score(problem.X, problem.y, qid=problem.qid)
    for name, array in vars(before).items():
        np.testing.assert_array_equal(getattr(problem, name), array)


def check_unfitted_is_refused(ranker: BaseEstimator) -> None:
    X = make_problem().X
    for method in ("decision_function", "predict", "rank"):
        with refused(NotFittedError, ""):
            getattr(clone(ranker), method)(X)


def check_query_ids_may_be_of_any_type(ranker: BaseEstimator) -> None:
    problem = make_problem()
    expected = scores_of(ranker, problem)
    forms = {
        "text": [f"query {i}" for i in problem.qid],
        "tuples": [("q", int(i)) for i in problem.qid],
        "large numbers": problem.qid + 2**62,
        "negative": -problem.qid - 1,
        "mixed": [int(i) if i % 2 else str(i) for i in problem.qid],
    }
    for name, qid in forms.items():
        scores = scores_of(ranker, problem, qid=qid)
        np.testing.assert_array_equal(scores, expected, err_msg=f"qid as {name}")


def check_row_order_has_no_effect(ranker: BaseEstimator) -> None:
    """For rankers that learn from the set, not from the sequence, of rows."""
    if ranker._order_matters:
        return
    problem = make_problem()
    shuffled = problem.take(np.random.default_rng(1).permutation(len(problem.y)))
    scores = fitted(ranker, shuffled).decision_function(problem.X)
    np.testing.assert_allclose(scores, scores_of(ranker, problem), rtol=1e-5, atol=1e-7)


def check_ranks_follow_scores(ranker: BaseEstimator) -> None:
    """rank() gives 1 .. n inside every query, from the highest score to the lowest."""
    problem = make_problem()
    model = fitted(ranker, problem)
    scores, ranks = model.decision_function(problem.X), model.rank(problem.X, problem.qid)
    for query in np.unique(problem.qid):
        rows = np.flatnonzero(problem.qid == query)
        np.testing.assert_array_equal(np.sort(ranks[rows]), np.arange(len(rows)) + 1)
        ranked = rows[np.argsort(ranks[rows])]
        assert (np.diff(scores[ranked]) <= 0).all(), "a lower score is ranked above a higher one"


def check_score_is_pairwise_accuracy(ranker: BaseEstimator) -> None:
    problem = make_problem()
    model = fitted(ranker, problem)
    scores, accuracies = model.decision_function(problem.X), []
    for query in np.unique(problem.qid):
        rows = problem.qid == query
        gap = np.subtract.outer(scores[rows], scores[rows])
        pairs = np.subtract.outer(problem.y[rows], problem.y[rows]) > 0
        accuracies.append(((gap[pairs] > 0) + 0.5 * (gap[pairs] == 0)).mean())
    value = model.score(problem.X, problem.y, qid=problem.qid)
    np.testing.assert_allclose(value, np.mean(accuracies), rtol=1e-12)


def check_score_without_queries_warns(ranker: BaseEstimator) -> None:
    problem = make_problem()
    model = fitted(ranker, problem)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.score(problem.X, problem.y)
    assert any(issubclass(w.category, MissingQueryWarning) for w in caught), "no warning"
    with warnings.catch_warnings():
        warnings.simplefilter("error", MissingQueryWarning)
        clone(ranker).fit(problem.X, problem.y).score(problem.X, problem.y)


def check_a_row_of_weight_two_is_two_rows(ranker: BaseEstimator) -> None:
    """Weights 0, 1, 2 equal dropping, keeping and repeating the row where it is."""
    if not _has(ranker, "sample_weight"):
        return
    problem = make_problem()
    weight = np.random.default_rng(2).integers(0, 3, len(problem.y))
    copies = problem.take(np.repeat(np.arange(len(problem.y)), weight))
    expected = fitted(ranker, copies).decision_function(problem.X)
    scores = scores_of(ranker, problem, sample_weight=weight)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-7)


def check_a_query_of_weight_two_is_two_queries(ranker: BaseEstimator) -> None:
    if not _has(ranker, "query_weight"):
        return
    problem = make_problem()
    rows = np.concatenate([np.arange(len(problem.y)), np.flatnonzero(problem.qid == 1)])
    copies = problem.take(rows)
    copies.qid[len(problem.y) :] += 100
    expected = fitted(ranker, copies).decision_function(problem.X)
    scores = scores_of(ranker, problem, query_weight=[1, 2, 1, 1, 1, 1])
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-7)


def check_query_weights_in_any_form(ranker: BaseEstimator) -> None:
    """Weights per query, per row, or in a dictionary by id give the same scores."""
    if not _has(ranker, "query_weight"):
        return
    problem, per_query = make_problem(), np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    forms = [per_query, per_query[problem.qid], dict(enumerate(per_query))]
    first, *others = [scores_of(ranker, problem, query_weight=form) for form in forms]
    for other in others:
        np.testing.assert_array_equal(other, first)


def check_bad_weights_are_refused(ranker: BaseEstimator) -> None:
    problem = make_problem()
    cases: list[tuple[str, Any]] = []
    if _has(ranker, "sample_weight"):
        negative = np.ones(len(problem.y))
        negative[2] = -1.0
        cases += [("sample_weight", negative), ("sample_weight", np.ones(3))]
    if _has(ranker, "query_weight"):
        cases += [("query_weight", np.full(6, np.nan)), ("query_weight", np.ones(4))]
    for name, value in cases:
        with refused(ValueError, name.split("_")[1]):
            fitted(ranker, problem, **{name: value})


def _has(ranker: BaseEstimator, argument: str) -> bool:
    return argument in inspect.signature(ranker.fit).parameters


def _degenerate() -> dict[str, Problem]:
    base = make_problem()
    n = len(base.y)
    return {
        "one row": base.take(slice(0, 1)),
        "two rows": Problem(base.X[:2], np.array([0.0, 1.0]), base.qid[:2]),
        "one row per query": Problem(base.X, base.y, np.arange(n)),
        "one grade": Problem(base.X, np.ones(n), base.qid),
        "constant features": Problem(np.full_like(base.X, 2.5), base.y, base.qid),
        "zero features": Problem(np.zeros_like(base.X), base.y, base.qid),
        "one feature": Problem(base.X[:, :1].copy(), base.y, base.qid),
        "equal rows, different grades": Problem(np.tile(base.X[:1], (n, 1)), base.y, base.qid),
        "more features than rows": Problem(base.X[:3].repeat(4, axis=1), base.y[:3], base.qid[:3]),
        "doubled columns": Problem(np.hstack([base.X, base.X]), base.y, base.qid),
    }


def check_degenerate_data_give_finite_scores(ranker: BaseEstimator) -> None:
    """Finite scores; if all of them are equal, ``fit`` gives a DegenerateDataWarning."""
    for name, problem in _degenerate().items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DegenerateDataWarning)
            model = fitted(ranker, problem)
        warned = any(issubclass(w.category, DegenerateDataWarning) for w in caught)
        equal = len(problem.y) > 1 and np.ptp(model.decision_function(problem.X)) == 0
        assert warned or not equal, f"{name}: equal scores without a warning"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateDataWarning)
            for scores in (model.decision_function(problem.X), model.predict(problem.X)):
                assert scores.shape == problem.y.shape, f"{name}: shape {scores.shape}"
                assert np.isfinite(scores).all(), f"{name}: a score is not finite"
            assert 0.0 <= model.score(problem.X, problem.y, qid=problem.qid) <= 1.0, name


def check_nothing_to_learn_is_warned_of(ranker: BaseEstimator) -> None:
    """One grade only: a warning at training, and a score of 1/2 with a warning."""
    problem = _degenerate()["one grade"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fitted(ranker, problem)
        value = model.score(problem.X, problem.y, qid=problem.qid)
    n_warnings = sum(issubclass(w.category, DegenerateDataWarning) for w in caught)
    assert n_warnings >= 2, "no warning about data with one grade"
    assert value == 0.5, f"the score without pairs must be 0.5, not {value}"


def check_a_separable_set_is_ordered(ranker: BaseEstimator) -> None:
    """Without noise the ranker must learn the order almost perfectly."""
    problem = make_problem(n_queries=12, n_items=20, n_features=2, noise=0.0, seed=5)
    if ranker.get_params().get("categorical_features") is not None:  # levels have to recur
        X = problem.X.round().clip(-1.0, 1.0)
        y = np.digitize(X[:, 0] + 0.5 * X[:, 1], [-0.5, 0.5]).astype(float)
        problem = Problem(X, y, problem.qid)
    model = fitted(ranker, problem)
    value = model.score(problem.X, problem.y, qid=problem.qid)
    assert value >= 0.9, f"a separable set was ordered with an accuracy of only {value:.3f}"
