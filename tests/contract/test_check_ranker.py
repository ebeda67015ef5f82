"""check_ranker tells the author of a ranker what is wrong with it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwright import (
    Ranker,
    RankSVM,
    RidgeRanker,
    load,
    load_scorer,
    save,
)
from rankwright.exceptions import DataError, ParameterError
from rankwright.rankers.schema import floats
from rankwright.scoring.linear import Linear
from rankwright.testing.inputs import make_problem
from rankwright.testing.ranker import check_ranker


class FirstRow(Ranker):
    """Looks at the first row only: the order of rows changes what it learns."""

    _learned: ClassVar = {"coef_": floats("n_features")}

    def _fit(self, X: Any, feedback: Any) -> None:
        self.coef_ = np.ravel(X[:1].toarray() if hasattr(X, "toarray") else X[:1])

    def _scorer(self) -> Linear:
        return Linear(self.coef_, 0.0)


def test_the_check_that_failed_is_named() -> None:
    with pytest.raises(AssertionError) as caught:
        check_ranker(FirstRow())
    (note,) = caught.value.__notes__
    assert note.startswith("FirstRow does not pass check_")
    assert str(caught.value).startswith(note.rstrip("."))
    assert len(str(caught.value).split("\n")[1]) > 10  # and says why


class Broken(RidgeRanker):
    def _fit(self, X: Any, feedback: Any) -> None:
        raise KeyError("a fault")


def test_an_error_of_the_ranker_names_the_check_too() -> None:
    with pytest.raises(AssertionError, match=r"Broken does not pass check_\w+: .*\nKeyError"):
        check_ranker(Broken())


class Mean(Ranker):
    """Orders by the sum of the features that go up with the grade."""

    _learned: ClassVar = {"coef_": floats("n_features")}

    def _fit(self, X: Any, feedback: Any) -> None:
        self.coef_ = np.asarray(X.T @ (feedback.y - feedback.y.mean())).ravel()

    def _scorer(self) -> Any:
        return Linear(self.coef_, 0.0)


class Unknown(Linear):
    """A scorer whose class no model file knows."""


class Stranger(Mean):
    def _scorer(self) -> Any:
        return Unknown(self.coef_, 0.0)


def test_a_ranker_of_the_users_is_saved_as_its_scorer(tmp_path: Any) -> None:
    problem, path = make_problem(), tmp_path / "own.rw"
    for model in (Mean(), make_pipeline(StandardScaler(), Mean())):
        model.fit(problem.X, problem.y)
        save(model, path)
        for loaded in (load(path), load_scorer(path)):
            assert repr(loaded) == "SavedScorer('Mean', n_features=4)"
            found = loaded.decision_function(problem.X)
            assert found.tolist() == model.decision_function(problem.X).tolist()
    with pytest.raises(ParameterError, match="Mean is not fitted"):
        save(Mean(), path)
    with pytest.raises(ParameterError, match=r"its scorer \(Unknown\) is not one of"):
        save(Stranger().fit(problem.X, problem.y), path)
    with pytest.raises(ParameterError, match="the step PCA cannot be saved"):
        save(make_pipeline(PCA(2), Mean()).fit(problem.X, problem.y), path)


@pytest.mark.parametrize(
    "given, words", [(RidgeRanker, r"instance, RidgeRanker\(\)"), (Ridge(), "subclass")]
)
def test_only_rankers_are_checked(given: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        check_ranker(given)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_column_of_text_is_called_by_its_name(library: str) -> None:
    frames = pytest.importorskip(library)
    make = frames.table if library == "pyarrow" else frames.DataFrame
    table = make({"length": [1.0, 2.0], "document": ["d1", "d2"]})
    with pytest.raises(DataError, match="the column 'document' of X is not numeric"):
        RankSVM().fit(table, [0, 1])
