"""Base class of boosted rankers: initial scores, and training that continues."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray
from rankwright.exceptions import DataError
from rankwright.rankers.base import Ranker
from rankwright.rankers.early_stopping import Validation


class BoostedRanker(Ranker):
    """A ranker whose scores are a sum over rounds; training may start from given scores."""

    _multiplies: ClassVar = False

    _initial: tuple[Any, Any] = None, None  # init_score and eval_init_score, during fit

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        qid: Any = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        init_score: ArrayLike | None = None,
        eval_init_score: ArrayLike | None = None,
    ) -> Self:
        """Fit the ranker to grades, which are compared within each query.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades; higher is better
        qid : (n_items,) query ids of any hashable type, in any order; None treats all rows as one
            query
        sample_weight : (n_items,) a weight of 2 counts as two copies of the row
        query_weight : a weight per query (in order of first appearance), per row, or {id: weight}
        eval_set : (X, y) of validation queries: ``validation_`` is the validation curve,
            and ``early_stopping`` keeps the rounds up to the best one
        eval_qid : query ids of the validation rows; None treats all rows as one query
        init_score : (n_items,) initial scores, such as those of another model. The ranker learns a
            correction: rank rows by their sum with ``decision_function``
        eval_init_score : initial scores of the validation rows
        """
        self._initial = init_score, eval_init_score
        try:
            return super().fit(
                X,
                y,
                qid=qid,
                sample_weight=sample_weight,
                query_weight=query_weight,
                eval_set=eval_set,
                eval_qid=eval_qid,
            )
        finally:
            del self._initial

    def _start(self, n_items: int, validation: Validation | None) -> FloatArray:
        """The scores to start from; those of the validation rows go to ``validation``."""
        given, held_out = self._initial
        start = self._checked_scores(given, n_items, "init_score", "X")
        if validation is None:
            if held_out is not None:
                raise DataError("eval_init_score was given without eval_set.")
            return start
        if validation.rows is not None:
            validation.start = start[validation.rows]
        else:
            n_rows = validation.X.shape[0]
            validation.start = self._checked_scores(held_out, n_rows, "eval_init_score", "eval_set")
            if given is not None and held_out is None:
                raise DataError(
                    "init_score and eval_set were given without eval_init_score: the validation "
                    "rows need initial scores too. Pass eval_init_score."
                )
        return start

    def _checked_scores(self, scores: Any, n_rows: int, name: str, rows: str) -> FloatArray:
        if scores is None:
            return np.zeros(n_rows)
        start = np.array(scores, dtype=np.float64)
        if start.shape != (n_rows,):
            raise DataError(
                f"{name} has shape {start.shape} and {rows} has {n_rows} rows: give one score per "
                "row."
            )
        if n_bad := int((~np.isfinite(start)).sum()):
            raise DataError(f"{name}: {n_bad} of {n_rows} values are NaN or infinite.")
        return start
