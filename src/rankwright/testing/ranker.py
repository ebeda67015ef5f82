"""Checks of rankers: extreme values, and integration with the rest of the library."""

from __future__ import annotations

import inspect
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwright._typing import Matrix
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    FeedbackError,
    ParameterError,
    RankwrightWarning,
)
from rankwright.feedback.base import Grades, Mixture
from rankwright.feedback.pairs import Bipartite, Pairs
from rankwright.persist.codec import KINDS
from rankwright.rankers.base import Ranker, rankers
from rankwright.testing import inputs
from rankwright.testing.inputs import Problem, fitted, make_problem, refused, scores_of


def ranker_checks() -> list[Callable[[Any], None]]:
    """Return the checks: functions that take an unfitted ranker and raise AssertionError.

    For pytest: ``@pytest.mark.parametrize("check", ranker_checks())``.
    """
    here = {name: check for name, check in globals().items() if check is not check_ranker}
    return [
        check
        for names, module in ((vars(inputs), inputs.__name__), (here, __name__))
        for name, check in names.items()
        if name.startswith("check_") and check.__module__ == module
    ]


def check_ranker(ranker: BaseEstimator) -> None:
    """Run all checks on a ranker; an AssertionError names the first check that fails.

    A ranker without a seed is checked with ``random_state=0``. Run scikit-learn's
    ``sklearn.utils.estimator_checks.check_estimator`` as well.
    """
    if not isinstance(ranker, Ranker):
        kind = ranker.__name__ if isinstance(ranker, type) else type(ranker).__name__
        hint = f"give an instance, {kind}()" if isinstance(ranker, type) else "subclass Ranker"
        raise TypeError(f"check_ranker({kind}): a rankwright.Ranker is needed; {hint}.")
    if "random_state" in ranker.get_params() and ranker.get_params()["random_state"] is None:
        ranker = clone(ranker).set_params(random_state=0)
    for check in ranker_checks():
        try:
            check(ranker)
        except Exception as error:
            failed = f"{type(ranker).__name__} does not pass {check.__name__}"
            promise = (check.__doc__ or "").strip().split("\n")[0]
            failure = AssertionError(f"{failed}: {promise}\n{_reason(error)}")
            failure.add_note(f"{failed}.")
            raise failure from error


def _reason(error: Exception) -> str:
    """What went wrong; of an assertion without a message, the line that failed."""
    if isinstance(error, AssertionError) and not str(error):
        *_, frame = traceback.extract_tb(error.__traceback__)
        return f"{frame.line} (line {frame.lineno} of {frame.filename})"
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return f"{kind}{str(error).strip()}"


def damaged_matrices(X: Matrix) -> Iterator[tuple[str, Any]]:
    """Sparse matrices with one fault each, as a damaged file may hold them."""

    def set_value(array: str, index: int, value: int) -> Callable[[Any], None]:
        return lambda matrix: getattr(matrix, array).__setitem__(index, value)

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


def check_damaged_sparse_matrices_are_refused(ranker: BaseEstimator) -> None:
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


def check_scores_are_finite_at_any_scale(ranker: BaseEstimator) -> None:
    """Features times 1e-200 to 1e200: finite scores, or a DataError of ``fit`` names the column.

    Scores that are all equal come with a warning.
    """
    problem = make_problem(n_queries=4, n_items=7)
    for scale in (1e-200, 1e-150, 1e-6, 1e6, 1e20, 1e60, 1e155, 1e200):
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


def check_extreme_weights_and_grades_are_refused_or_learned(ranker: BaseEstimator) -> None:
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


def _fitted_or_refused(ranker: BaseEstimator, problem: Problem, text: str) -> Any:
    """The fitted ranker; None after a DataError with this text."""
    message = None
    try:
        return fitted(ranker, problem)
    except DataError as error:
        message = str(error)
    assert text in message, f"the error does not say {text!r}: {message}"
    return None


def check_same_seed_same_bits(ranker: BaseEstimator) -> None:
    problem, seeded = make_problem(), _seeded(ranker)
    np.testing.assert_array_equal(scores_of(seeded, problem), scores_of(seeded, problem))


def check_fit_twice_equals_fit_once(ranker: BaseEstimator) -> None:
    """A refit starts from scratch, even with another number of features."""
    problem, seeded = make_problem(), _seeded(ranker)
    model = fitted(seeded, make_problem(n_features=6, seed=3))
    model.fit(problem.X, problem.y, qid=problem.qid)
    scores = model.decision_function(problem.X)
    np.testing.assert_array_equal(scores, scores_of(seeded, problem))


def check_predicting_changes_nothing(ranker: BaseEstimator) -> None:
    problem = make_problem()
    model = fitted(ranker, problem)
    first = model.decision_function(problem.X)
    model.predict(problem.X[::-1]), model.rank(problem.X)
    np.testing.assert_array_equal(model.decision_function(problem.X), first)


def check_threads_have_no_effect(ranker: BaseEstimator) -> None:
    problem, seeded, scores = make_problem(n_queries=20), _seeded(ranker), []
    for threads in (1, 2, 8):
        with patch.dict(os.environ, RANKWRIGHT_THREADS=str(threads)):
            scores.append(scores_of(seeded, problem))
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])


def check_chunks_equal_one_fit(ranker: BaseEstimator) -> None:
    """partial_fit row by row, in sevens and at once gives the model of one fit."""
    if not hasattr(ranker, "partial_fit") or not ranker._streams_as_fit:
        return
    problem = make_problem(n_queries=1, n_items=45)
    expected = clone(ranker).fit(problem.X, problem.y).decision_function(problem.X)
    rtol, atol = (0, 0) if ranker._chunks_exact else (1e-8, 1e-10)
    for size in (1, 7, len(problem.y)):
        scores = in_chunks(ranker, problem, size).decision_function(problem.X)
        np.testing.assert_allclose(scores, expected, rtol=rtol, atol=atol)


def in_chunks(ranker: BaseEstimator, problem: Problem, size: int) -> Any:
    """A clone of the ranker, fitted to the problem in chunks of this size."""
    model = clone(ranker)
    needs_classes = "classes" in inspect.signature(model.partial_fit).parameters
    for start in range(0, len(problem.y), size):
        rows = slice(start, start + size)
        extra = {"classes": np.unique(problem.y)} if needs_classes and start == 0 else {}
        model.partial_fit(problem.X[rows], problem.y[rows], **extra)
    return model


def _seeded(ranker: BaseEstimator) -> Any:
    seeded = clone(ranker)
    return seeded.set_params(random_state=7) if "random_state" in ranker.get_params() else seeded


def check_learned_attributes_are_declared(ranker: BaseEstimator) -> None:
    """Learned attributes are declared, so that model files can keep and check them."""
    model = fitted(ranker, make_problem())
    learned = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    undeclared = sorted(learned - set(model.learned()))
    hidden = sorted(set(model.__getstate__()) - learned - set(model.get_params(deep=False)))
    assert not undeclared, f"not declared: {undeclared}"
    assert not hidden, f"state that is neither parameter nor learned attribute: {hidden}"


def check_grades_as_feedback_equal_fit(ranker: BaseEstimator) -> None:
    problem = make_problem()
    other = clone(ranker).fit_feedback(problem.X, Grades(problem.y, problem.qid))
    scores = other.decision_function(problem.X)
    np.testing.assert_array_equal(scores, scores_of(ranker, problem))


def check_feedback(ranker: BaseEstimator) -> None:
    """Every feedback is accepted or refused by name; rows that X does not have are refused."""
    problem = make_problem(n_queries=1, n_items=100)
    low, high = np.flatnonzero(problem.y == 0), np.flatnonzero(problem.y == 2)
    pairs = Pairs(np.resize(low, 40), np.resize(high, 40)).merge()
    kinds = ranker._kinds()
    if Grades in kinds:
        kinds = (*kinds, Bipartite)  # two sets are two grades
    mixture = pairs + 0.5 * Bipartite(low, high)
    assert isinstance(mixture, Mixture)
    for feedback in (Bipartite(low, high), pairs, mixture):
        terms = [term for _, term in feedback.terms()]
        if all(isinstance(part, kinds) for part in [feedback, *terms]):
            model = clone(ranker).fit_feedback(problem.X, feedback)
            scores = model.decision_function(problem.X)
            name = type(feedback).__name__
            assert scores[high].mean() > scores[low].mean(), f"{name} was learned in reverse"
        else:
            with refused(FeedbackError, "learns from"):
                clone(ranker).fit_feedback(problem.X, feedback)
    with refused(FeedbackError, "rows"):
        clone(ranker).fit_feedback(problem.X, Bipartite([0], [1000]))


def check_confidence_of_pairs(ranker: BaseEstimator) -> None:
    """Confidence is fitted, such that 0 reverses a preference, or refused."""
    if Pairs not in ranker._kinds():
        return
    problem = make_problem(n_queries=1, n_items=100)
    low, high = np.flatnonzero(problem.y == 0), np.flatnonzero(problem.y == 2)
    rows = np.resize(low, 40), np.resize(high, 40)
    reversed_pairs = Pairs(*rows, confidence=np.zeros(40))
    if not ranker._uses_confidence:
        with refused(FeedbackError, "confidence"):
            clone(ranker).fit_feedback(problem.X, reversed_pairs)
        return
    scores = clone(ranker).fit_feedback(problem.X, reversed_pairs).decision_function(problem.X)
    assert scores[high].mean() < scores[low].mean(), "confidence 0 was not learned in reverse"


def check_queries_are_routed(ranker: BaseEstimator) -> None:
    """qid reaches fit and score through a pipeline, a grid search and a cross-validation."""
    problem = make_problem(n_queries=12)
    X, y, qid = problem.X, problem.y, problem.qid
    with config_context(enable_metadata_routing=True):
        options = {"cv": GroupKFold(2).set_split_request(groups="qid"), "error_score": "raise"}
        GridSearchCV(clone(ranker), {}, **options).fit(X, y, qid=qid)
        pipeline = make_pipeline(StandardScaler(), clone(ranker))
        (_, _), (step, _) = pipeline.steps
        grid = {f"{step}__{name}": [v] for name, v in ranker.get_params(deep=False).items()}
        search = GridSearchCV(pipeline, grid, **options).fit(X, y, qid=qid)
        table = cross_validate(pipeline, X, y, params={"qid": qid}, **options)
        expected = []
        for train, test in GroupKFold(2).split(X, groups=qid):
            model = fitted(pipeline, problem.take(train))
            expected.append(model.score(X[test], y[test], qid=qid[test]))
    np.testing.assert_allclose(table["test_score"], expected, rtol=1e-9)
    np.testing.assert_allclose(search.best_score_, np.mean(expected), rtol=1e-9)


def check_model_files(ranker: BaseEstimator) -> None:
    """save -> load gives the same parameters and scores; load_scorer the same scores.

    A ranker whose class is not ours is loaded as a scorer, without parameters. ``save`` refuses
    what model files cannot hold: functions, and scorers that are not in ``rankwright.scoring``.
    """
    from rankwright import load, load_scorer, save

    problem = make_problem()
    model = fitted(ranker, problem)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.rw"
        reason = _why_not_saved(ranker, model)
        if reason:
            with refused(ParameterError, reason):
                save(model, path)
            return
        save(model, path)
        again, scorer = load(path), load_scorer(path)
    if _is_ours(ranker):
        assert again.get_params().keys() == model.get_params().keys()
    for method in ("decision_function", "predict"):
        expected = getattr(model, method)(problem.X)
        for other in (again, scorer):
            np.testing.assert_array_equal(getattr(other, method)(problem.X), expected)


def check_learning_goes_on_after_loading(ranker: BaseEstimator) -> None:
    """partial_fit on a model from a file equals partial_fit on the model itself."""
    from rankwright import load, save

    if not hasattr(ranker, "partial_fit") or not _is_ours(ranker):
        return
    problem = make_problem(n_queries=1, n_items=40)
    first, second = problem.take(slice(0, 25)), problem.take(slice(25, 40))
    assert set(first.y) == set(problem.y)
    model = in_chunks(ranker, first, len(first.y))
    if _why_not_saved(ranker, model):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.rw"
        save(model, path)
        again = load(path)
    scores = [
        other.partial_fit(second.X, second.y).decision_function(problem.X)
        for other in (model, again)
    ]
    np.testing.assert_array_equal(*scores)


def _is_ours(ranker: BaseEstimator) -> bool:
    return rankers().get(type(ranker).__name__) is type(ranker)


def _why_not_saved(ranker: BaseEstimator, model: BaseEstimator) -> str:
    """What the error says if a model file cannot hold this ranker."""
    if _is_ours(ranker):
        functions = map(callable, ranker.get_params(deep=False).values())
        return "function" if any(functions) else ""
    saved = type(model._scorer()) in KINDS.values()
    return "" if saved else "not a class that model files support"
